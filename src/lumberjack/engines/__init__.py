"""Where counts are added up: an engine sees rows and noise, never a budget."""
