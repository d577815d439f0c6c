"""Where counts are added up: an engine sees rows, never noise or a budget."""
