"""Asking a person about the columns of a table: one line each, which may be left empty.

In: names and types of columns, what is known already, and how to ask. Out: an answer for each column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lumberjack.declared import SKIP, Answer, parse_labels
from lumberjack.domain import Domain
from lumberjack.kinds import Categorical, Numeric, Open
from lumberjack.quoting import bare
from lumberjack.template import parse_bounds

__all__ = ["HELP", "Wizard"]

HELP = """For each column, from public knowledge and not by looking at the data:
  Enter           leave it open: what is needed is learned privately
  17:90           smallest and largest possible number, or dates like 2020-01-01:2026-12-31
  yes,no,unknown  all possible values (a single one: yes,)
  number, date, category   what it holds; the rest is learned
  same            as the column before
  skip            leave the column out
  undo            back to the column before
  rest            leave this and all other columns open"""


@dataclass
class Wizard:
    """Asks about columns.

    Attributes
    ----------
    ask : callable
        Shows a question and gives the answer.
    say : callable
        Shows a remark.
    keep : callable
        Called with all answers after each of them.
    date_format : str or None
    answers : dict of str to kind, SKIP or None
        In the order in which they were given.
    """

    ask: Callable[[str], str]
    say: Callable[[str], None]
    keep: Callable[[Mapping[str, Answer]], None]
    date_format: str | None = None
    answers: dict[str, Answer] = field(default_factory=dict)

    def run(self, types: Mapping[str, str]) -> Mapping[str, Answer]:
        """Ask about each column that has no answer yet."""
        self.say(HELP)
        text = "rest"
        while True:
            waiting = [name for name in types if name not in self.answers]
            if not waiting and text == "rest":
                return self.answers
            text = self.ask(_question(types, waiting)).strip()
            try:
                if waiting or text == "undo":
                    self._take(text, waiting)
                else:
                    text = "rest"
            except (TypeError, ValueError) as error:
                self.say(str(error))

    def _take(self, text: str, waiting: Sequence[str]) -> None:
        """Act on one answer."""
        before = next(reversed(self.answers), None)
        if text in ("undo", "same") and before is None:
            raise ValueError("there is no column before this one")
        if text == "?":
            self.say(HELP)
        elif text == "undo":
            self.answers.popitem()
        elif text == "rest":
            self.answers.update(dict.fromkeys(waiting))
        else:
            answer = self.answers[str(before)] if text == "same" else self._read(text)
            self.answers[waiting[0]] = answer
            self.say("  " + _words(answer))
        self.keep(self.answers)

    def _read(self, text: str) -> Answer:
        known: dict[str, Answer] = {
            "": None,
            SKIP: SKIP,
            "number": Numeric(),
            "date": Numeric(temporal=True, date_format=self.date_format),
            "category": Open(),
        }
        if text in known:
            return known[text]
        if "," in text:
            return Domain.categorical(parse_labels(text.split(",")), missing=True)
        if ":" in text:
            return parse_bounds(text, self.date_format)
        raise ValueError("give a range like 17:90 or values like yes,no; Enter leaves it open, ? helps")


def _question(types: Mapping[str, str], waiting: Sequence[str]) -> str:
    """The next column, and what the file says about it."""
    if not waiting:
        return "Enter to write the file, undo to go back"
    name, n = waiting[0], len(types)
    kind = f" ({types[name]})" if types[name] != "unknown" else ""
    return f"{n - len(waiting) + 1}/{n} {bare(name)}{kind}"


def _words(answer: Answer) -> str:
    """How an answer was understood."""
    if answer is None:
        return "left open"
    if isinstance(answer, Categorical):
        return "one of: " + " | ".join(map(str, answer.categories)) + ", or missing"
    if not isinstance(answer, Numeric):
        return "left out" if answer == SKIP else "categories, to be learned"
    if answer.temporal:
        return "dates in this range" if answer.is_bounded else "dates"
    return f"numbers from {answer.low:g} to {answer.high:g}" if answer.is_bounded else "numbers"
