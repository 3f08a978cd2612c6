"""Tab completion for commands, their arguments, and files after an `@`."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, get_args

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.i18n import t
from agent.providers.effort import EFFORTS
from agent.security.policy.base import MODES
from agent.skills.commands import BUILT_IN
from gateway.cli.console.input.file_index import FileIndex
from gateway.control.service import Service
from gateway.core.messages import QueueMode
from gateway.core.records import Trace
from gateway.core.turn_choice import PLAN_CHOICES, SKILL_CHOICES, SKILL_REMINDER

_FILE = re.compile(r'(?:^|(?<=[\s(\[{,;:]))@("[^"\n]*|[^\s"]*)$')
_COMMAND = re.compile(r"/[\w:.-]*")
_ARGUMENT = re.compile(r"(/\w+) +(\S*)")
_MAX_FILES = 30
_MAX_SESSIONS = 200
_CHOICES: dict[str, Sequence[str]] = {
    "/mode": MODES,
    "/build": [choice.argument for choice in PLAN_CHOICES],
    "/learn": [choice.argument for choice in (*SKILL_CHOICES, SKILL_REMINDER)],
    "/queue": get_args(QueueMode),
    "/verbose": get_args(Trace),
    "/effort": (*EFFORTS, "default"),
    "/thinking": ("show", "hide"),
}
# Completion and its description.
Word = tuple[str, str]


class CompletionPlace(Protocol):
    """Working folder of the console: `gateway.cli.console.chat.workdir.ConsoleWorkdir`."""

    @property
    def folder(self) -> Path: ...
    @property
    def blocked_paths(self) -> Sequence[str]: ...
    @property
    def models(self) -> Callable[[], Sequence[str]]: ...
    def prompt_commands(self) -> Sequence[Word]: ...


class Completions(Completer):
    """Completer for commands and files.

    `commands` include their slash. `service` lists the sessions, once it is set.
    """

    def __init__(self, commands: Sequence[Word], place: CompletionPlace | None) -> None:
        self.commands = commands
        self.service: Service | None = None
        self._workdir = place
        self._files = FileIndex(place.folder, place.blocked_paths) if place is not None else None
        self._models: Sequence[str] | None = None

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        """Return no completions, because all of them may have to wait for I/O."""
        return ()

    def may_follow(self, document: Document) -> bool:
        """Return whether the text before the cursor may have completions."""
        before = document.text_before_cursor
        return any((_FILE.search(before), _COMMAND.fullmatch(before), _ARGUMENT.fullmatch(before)))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if (match := _FILE.search(before)) is not None and self._files is not None:
            letters = match[1].removeprefix('"')
            for path in await self._files.find(letters, _MAX_FILES):
                yield _as_file(path, -len(match[1]))
        elif _COMMAND.fullmatch(before):
            for name, summary in fitting(await self._commands(), before):
                yield Completion(name, -len(before), display_meta=t(summary))
        elif (match := _ARGUMENT.fullmatch(before)) is not None:
            words = await self._arguments(match[1])
            for word, description in fitting(words, match[2]):
                yield Completion(word, -len(match[2]), display_meta=description)

    async def close(self) -> None:
        if self._files is not None:
            await self._files.close()

    async def _commands(self) -> Sequence[Word]:
        if self._workdir is None:
            return [
                *self.commands,
                *((f"/{name}", each.summary) for name, each in BUILT_IN.items()),
            ]
        prompts = await asyncio.to_thread(self._workdir.prompt_commands)
        names = {name for name, _ in self.commands}
        return [*self.commands, *(word for word in prompts if word[0] not in names)]

    async def _arguments(self, command: str) -> Sequence[Word]:
        if command in _CHOICES:
            return [(word, "") for word in _CHOICES[command]]
        if command == "/model" and self._workdir is not None:
            if self._models is None:
                self._models = await asyncio.to_thread(self._workdir.models)
            return [(name, "") for name in self._models]
        if command == "/resume" and self.service is not None:
            sessions = await self.service.list_sessions(_MAX_SESSIONS)
            return [(info.id, " ".join(info.name.split())) for info in sessions]
        return ()


def fitting(words: Sequence[Word], letters: str) -> Iterator[Word]:
    """Yield the words with this prefix, then other matches at the beginning of a word.

    The latter may be in the word itself or in its description.
    """
    low = letters.casefold()
    first = [word for word in words if word[0].casefold().startswith(low)]
    yield from first
    if len(low) > 1:
        inside = re.compile(rf"\b{re.escape(low.lstrip('/'))}")
        for word in words:
            if word not in first and inside.search(" ".join(word).casefold()):
                yield word


def _as_file(path: str, start: int) -> Completion:
    ends = "" if path.endswith("/") else " "
    blank = any(letter.isspace() for letter in path)
    # Leave the quotes of a folder open, so that a file in it can be chosen next.
    text = f'"{path}' + ('"' if ends else "") if blank else path
    return Completion(text + ends, start, display=path)
