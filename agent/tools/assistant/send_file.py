"""`send_file` tool: send files to the person in the conversation."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.policy.roles import in_paths
from agent.security.taint.taint import NOTHING
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan, FileDelivery
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.traits import PATH_ALIASES, ToolTraits
from agent.types import Artifact, Effect, JsonSchema, Taint, ToolResult

MAX_FILES = 20
MAX_CAPTION_CHARS = 4_000


def _sent_paths(arguments: Mapping[str, Any]) -> Sequence[str]:
    paths = arguments.get("paths")
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else ()


class SendFile:
    """Tool that sends files; where files cannot be sent, it shows their paths.

    Everyone in a group can read the file, so the call counts as sending data out unless the owner
    is alone with Kore.
    """

    name: ClassVar[str] = "send_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "read",
        ("paths",),
        mark_for_translation("Sending {paths}"),
        _sent_paths,
        aliases=("sendfiles", "senddocument", "sendphoto"),
        argument_aliases={
            **dict.fromkeys(PATH_ALIASES, "paths"),
            "path": "paths",
            "files": "paths",
        },
        purpose="delivery",
        delivered=lambda arguments, result: _sent_paths(arguments),
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {
            "paths": {"type": "array", "items": {"type": "string"}},
            "caption": {"type": "string"},
        },
        "required": ["paths"],
    }

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/send_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """List the files, and declare that they leave."""
        paths = self._files(args, call)
        caption = args.get("caption") or ""
        content = "\n".join([*map(str, paths), *([caption] if caption else [])])
        return EffectPlan(reads=paths, hosts=() if call.owner else ("this chat",), sends=content)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        paths = self._files(args, call)
        caption = (args.get("caption") or "").strip()
        summary = "📎 " + ", ".join(map(str, paths))
        artifacts = tuple(Artifact("file", caption, str(path)) for path in paths)
        if call.send is None:
            return ToolResult(load_prompt("sent_nowhere"), for_user=summary, artifacts=artifacts)
        result = await call.send(FileDelivery(paths, caption), call)
        return ToolResult(result, for_user=summary, artifacts=artifacts)

    def _files(self, args: Mapping[str, Any], call: CallContext) -> tuple[Path, ...]:
        """Return the real paths of regular files that may be shown. Raises ToolError."""
        if not 0 < len(args["paths"]) <= MAX_FILES:
            raise ToolError(f"Give 1 to {MAX_FILES} paths; found {len(args['paths'])}.")
        if len(args.get("caption") or "") > MAX_CAPTION_CHARS:
            raise ToolError(
                f"A caption has at most {MAX_CAPTION_CHARS:,} characters; "
                "put the rest in your reply."
            )
        root = call.workspace
        files = []
        for name in args["paths"]:
            path = self._scope.find(name, call)
            if not all(in_paths(path, root, scope) for scope in call.paths):
                raise ToolError(f"{name} is not a file that can be shown here.")
            kind = file_io.kind(path)
            if kind != "file":
                raise ToolError(
                    f"{name} does not exist."
                    if kind is None
                    else f"{name} is a folder; pack it into one file first."
                )
            files.append(path)
        return tuple(dict.fromkeys(files))
