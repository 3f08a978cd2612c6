"""Files that a conversation edited last, read again when compaction drops their messages."""

import os
from collections.abc import Sequence

from agent.context.token_budget import level, middle_out
from agent.errors import ToolError
from agent.providers.token_estimate import estimate_text
from agent.records import frozen
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.runner import ToolRunner
from agent.tools.traits import traits_of
from agent.types import Message, Taint, ToolCall

MAX_FILES = 5
# Token limit for these files; in a small window, `1 / _GOAL_PART` of the goal applies.
_MAX_TOKENS = 20_000
_GOAL_PART = 8

# Prefix for skill names in place of a path.
SKILL = "skill: "


@frozen
class AttachedFile:
    """File in a summary; `text` is the output of reading it, without the middle of a long file."""

    path: str
    text: str


@frozen
class AttachedFiles:
    files: tuple[AttachedFile, ...] = ()
    taint: frozenset[Taint] = frozenset()


def attachment_limit(goal: int) -> int:
    """Return the token limit for files in a conversation of `goal` tokens."""
    return min(_MAX_TOKENS, goal // _GOAL_PART)


@frozen
class EditedFiles:
    """Reader for edited files, through the file tool and the turn's policy.

    Files that would require approval are left out, because `runner` has no approver.
    """

    runner: ToolRunner
    environment: ToolEnvironment

    def paths(self, messages: Sequence[Message], earlier: Sequence[AttachedFile]) -> list[str]:
        """Return the paths edited in `messages`, newest first, then the paths of `earlier`."""
        failed = {message.tool_call_id for message in messages if message.is_error}
        paths = [
            path
            for message in reversed(messages)
            for call in reversed(message.tool_calls)
            if call.id not in failed
            for path in self._paths_of(call)
        ]
        paths += [file.path for file in earlier if not file.path.startswith(SKILL)]
        return list(dict.fromkeys(map(os.path.normpath, paths)))[:MAX_FILES]

    async def attach(self, paths: Sequence[str], goal: int) -> AttachedFiles:
        """Return the current content, oldest first, shortened to the limit for `goal`."""
        reader = self.runner.toolbox.file_reader
        if reader is None:
            return AttachedFiles()
        texts: dict[str, str] = {}
        taint: frozenset[Taint] = frozenset()
        for path in reversed(paths):
            call = ToolCall("attached", reader.name, {"path": path}, "")
            exposed = self.runner.exposure.taint
            context = CallContext(call, self.environment, lambda *_: None, taint=exposed)
            result = await self.runner.run(context, _start)
            if not result.is_error and not result.images:
                texts[path] = result.for_model
                taint |= result.taint
        names = sum(estimate_text(path) + 4 for path in texts)
        cap = level(map(estimate_text, texts.values()), attachment_limit(goal) - names)
        files = (AttachedFile(path, middle_out(text, cap)) for path, text in texts.items())
        return AttachedFiles(tuple(files), taint)

    def _paths_of(self, call: ToolCall) -> list[str]:
        toolbox = self.runner.toolbox
        tool = toolbox.find(call.name)
        if tool is None or (traits := traits_of(tool)).kind != "edit":
            return []
        try:
            # Models may have used aliases of the arguments.
            arguments = toolbox.validate(tool, call.arguments or {})
        except ToolError:
            return []
        return list(traits.paths(arguments))


async def _start() -> None:
    """Do nothing: no screen shows these calls."""
