"""`asset_export` tool: pack files and folders into a zip file for the person."""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.security.taint.file_marks import is_marked
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.creative.delivery import delivered, plain_name, unused_path, way_out
from agent.tools.files.search_backend import SearchBackend, ripgrep
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

FOLDER = "exports"
_MAX_PATHS = 50
_MAX_FILES = 2_000
_MAX_BYTES = 50_000_000
_PACKED = re.compile(r"\APacked [\d,]+ files into (.+\.zip)\.")


class AssetExport:
    """Tool that packs the current files, except files that the call could not read."""

    name: ClassVar[str] = "asset_export"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Packing {paths}"),
        delivered=lambda arguments, result: _PACKED.findall(result)[:1],
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = NOTHING
    parameters: ClassVar[JsonSchema] = {
        "type": "object",
        "properties": {
            "paths": {"type": "array", "items": {"type": "string"}},
            "name": {"type": "string"},
        },
        "required": ["paths"],
    }

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = WorkspaceScope(settings)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/asset_export")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """List the packed files and the archive, and declare that the archive leaves."""
        paths = self._paths(args, call)
        target = await file_io.in_thread(lambda: self._target(args, call))
        return EffectPlan(
            reads=paths, creates=(target,), hosts=way_out(call), sends="\n".join(map(str, paths))
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        paths = self._paths(args, call)

        def work() -> tuple[Path, int, bool]:
            target = self._target(args, call)
            files = list(self._files(paths, call))
            data = _packed(files)
            marked = any(is_marked(path) for path, _ in files)
            taint = call.taint | (UNTRUSTED if marked else NOTHING)
            with exclusive_file(target), call.changes.file(target, data):
                write_marked(target, data, call.workspace, taint)
            return target, len(files), marked

        target, count, _ = await file_io.in_thread(work)
        return await delivered(target, f"Packed {count:,} files into {target}.", call)

    def _paths(self, args: Mapping[str, Any], call: CallContext) -> tuple[Path, ...]:
        names = args["paths"]
        if not 0 < len(names) <= _MAX_PATHS:
            raise ToolError(f"Give 1 to {_MAX_PATHS} paths; found {len(names)}.")
        return tuple(dict.fromkeys(self._scope.find(name, call) for name in names))

    def _target(self, args: Mapping[str, Any], call: CallContext) -> Path:
        name = plain_name(args.get("name") or Path(args["paths"][0]).stem, "export")
        return self._scope.find(unused_path(FOLDER, name, ".zip", call.workspace), call)

    def _files(self, paths: tuple[Path, ...], call: CallContext) -> Iterator[tuple[Path, str]]:
        """Yield each file and its name in the archive. Raises `ToolError`."""
        for path in paths:
            kind = file_io.kind(path)
            if kind is None:
                raise self._scope.missing(path, call)
            sight = VisibleFiles(self._scope, call, path if kind == "folder" else path.parent)
            if kind == "file":
                if sight.find_named(path.name) is None:
                    raise ToolError(f"{path} is not a file that can be shown here.")
                yield path, path.name
                continue
            backend = SearchBackend(path, sight.root, ripgrep(sight.root))
            with closing(backend.files()) as names:
                for name in names:
                    if (file := sight.find(name, None)) is not None:
                        yield file, f"{path.name}/{name}"


def _packed(files: list[tuple[Path, str]]) -> bytes:
    """Return the archive. Raises `ToolError` if it would be too large."""
    import zipfile

    if not files:
        raise ToolError("There is nothing to pack: no file there can be shown.")
    if len(files) > _MAX_FILES:
        raise ToolError(f"{len(files):,} files are too many; pack {_MAX_FILES:,} at most.")
    buffer, remaining = io.BytesIO(), _MAX_BYTES
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in files:
            data = file_io.read(path, remaining)
            remaining -= len(data)
            archive.writestr(name, data)
    return buffer.getvalue()
