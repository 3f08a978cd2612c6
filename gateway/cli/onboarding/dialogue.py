"""Line-based dialogue in a terminal, which also works on dumb terminals."""

import os
import sys
from collections.abc import Callable, Sequence
from getpass import getpass

from agent.errors import KoreError
from agent.i18n import t
from agent.text.display_width import wrap_paragraphs

BACK, SKIP = "<", "-"
# Returns the problem with an answer, or None.
Judge = Callable[[str], str | None]


class Back(Exception):
    """Raised when the person returns to the previous step."""


class Skip(Exception):
    """Raised when the person skips the current step."""


class Dialogue:
    """Dialogue on stdin and stdout; every question may raise `Back`, `Skip` or `KeyboardInterrupt`.

    `answers` counts the answered questions.
    """

    def __init__(self) -> None:
        self.answers = 0

    def say(self, text: str = "") -> None:
        if sys.stdout.isatty():
            text = wrap_paragraphs(text, os.get_terminal_size(sys.stdout.fileno()).columns or 80)
        print(text, flush=True)

    def ask(self, question: str, default: str = "", judge: Judge | None = None) -> str:
        """Ask for a line, repeatedly while `judge` objects; an empty line means `default`."""
        text = f"{question} [{default}]" if default else question
        prompt = text + (" " if text.endswith(("?", "？")) else ": ")
        while True:
            answer = self._read(lambda: input(prompt)) or default
            objection = judge(answer) if judge else None
            if objection is None:
                return answer
            self.say(objection)

    def secret(self, question: str) -> str:
        """Ask for a line without echo."""
        return self._read(lambda: getpass(f"{question}: ", stream=None))

    def choose(self, question: str, options: Sequence[str], default: int = 0) -> int:
        """Ask for one of `options` and return its index.

        The options are numbered from 1. A unique prefix of a name is accepted as well.
        """
        for n, option in enumerate(options, 1):
            self.say(f"  {n:>2}  {option}")

        def judge(answer: str) -> str | None:
            if _option_number(answer, options) is not None:
                return None
            return t("Type a number from 1 to {last}.", last=len(options))

        number = _option_number(self.ask(question, str(default + 1), judge), options)
        assert number is not None
        return number

    def confirm(self, question: str, *, default: bool = True) -> bool:
        yes, no = ("Y", "n") if default else ("y", "N")

        def judge(answer: str) -> str | None:
            return None if answer.lower() in ("", "y", "yes", "n", "no") else t("Type y or n.")

        answer = self.ask(f"{question} [{yes}/{no}]", "", judge).lower()
        return answer.startswith("y") if answer else default

    def _read(self, read: Callable[[], str]) -> str:
        try:
            answer = read().strip()
        except EOFError:
            raise KoreError(t("the input ended early; nothing was written")) from None
        except UnicodeDecodeError:
            self.say(t("That is not valid text in this terminal's encoding."))
            return self._read(read)
        if answer == BACK:
            raise Back
        if answer == SKIP:
            raise Skip
        self.answers += 1
        # A paste may contain characters that do not belong in a file: unpaired surrogates or
        # control characters.
        return "".join(c for c in answer if c.isprintable())


def _option_number(answer: str, options: Sequence[str]) -> int | None:
    """Return the index of the chosen option, or None if the answer is ambiguous."""
    if answer.isdecimal():
        return int(answer) - 1 if 1 <= int(answer) <= len(options) else None
    prefix = answer.casefold()
    begin = [n for n, option in enumerate(options) if option.casefold().startswith(prefix)]
    return begin[0] if prefix and len(begin) == 1 else None


def is_interactive() -> bool:
    """Return whether a person is at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
