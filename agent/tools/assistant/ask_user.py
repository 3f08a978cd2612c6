"""`ask_user` tool: ask the person questions and end the turn.

The person's next message is the answer. Nothing waits meanwhile: the questions are the final text
of the turn, so they survive a restart and can be answered on every channel. This tool is not for
approvals, which allow a call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from string import ascii_lowercase
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.taint.taint import NOTHING
from agent.tools.base import CallContext
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

MAX_QUESTIONS = 10
MAX_OPTIONS = len(ascii_lowercase)
TEXT_LIMIT_CHARS = 1_000

_STRING = {"type": "string"}
_QUESTION = {
    "type": "object",
    "properties": {"question": _STRING, "options": {"type": "array", "items": _STRING}},
    "required": ["question"],
}


class AskUser:
    """Numbered options for one question, or numbered questions with lettered options."""

    name: ClassVar[str] = "ask_user"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "ask",
        label=mark_for_translation("Asking a question"),
        aliases=("askuserquestion", "askfollowupquestion"),
        claude_names=("AskUserQuestion",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {"questions": {"type": "array", "items": _QUESTION}},
        "required": ["questions"],
    }

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/ask_user")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        questions: list[Mapping[str, Any]] = args["questions"]
        if not 0 < len(questions) <= MAX_QUESTIONS:
            raise ToolError(
                f"ask_user takes 1 to {MAX_QUESTIONS} questions, found {len(questions)}."
            )
        options_by_question = [
            (_line(question["question"]), _options(question)) for question in questions
        ]
        text = (
            _single(*options_by_question[0])
            if len(options_by_question) == 1
            else "\n".join(_several(options_by_question))
        )
        return ToolResult(load_prompt("asked_person"), for_user="asked", ends_with=text)


def _single(question: str, options: Sequence[str]) -> str:
    numbered = "\n".join(f"{n}. {option}" for n, option in enumerate(options, 1))
    return f"{question}\n\n{numbered}".strip()


def _several(options_by_question: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    for n, (question, options) in enumerate(options_by_question, 1):
        yield f"{n}. {question}"
        for letter, option in zip(ascii_lowercase, options, strict=False):
            yield f"   - {letter}) {option}"


def _options(question: Mapping[str, Any]) -> list[str]:
    options = [_line(option) for option in question.get("options") or ()]
    if len(options) > MAX_OPTIONS:
        raise ToolError(f"A question takes {MAX_OPTIONS} options at most, found {len(options)}.")
    return options


def _line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ToolError("A question or an option is empty; write what the person should read.")
    if len(line) > TEXT_LIMIT_CHARS:
        raise ToolError(
            f"A question or an option has {len(line):,} characters; "
            f"keep each under {TEXT_LIMIT_CHARS:,}."
        )
    return line
