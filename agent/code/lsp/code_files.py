"""Search for the languages of a project by its files."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PurePath

from agent.tools.base import CallContext
from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope

_MAX_FILES = 20_000
_LIST_TIMEOUT_S = 5.0


async def find_code_files(
    root: Path, call: CallContext, scope: WorkspaceScope, is_code: Callable[[Path], bool]
) -> list[Path]:
    """Return one code file per suffix, starting with the most frequent suffix.

    Raises `ToolError` when the folder cannot be listed in time.
    """
    visible_files = VisibleFiles(scope, call, root)
    backend = SearchBackend(root, visible_files.root, ripgrep(visible_files.root))

    def find() -> list[Path]:
        counts: Counter[str] = Counter()
        names: dict[str, str] = {}
        with closing(backend.files()) as listed:
            for number, name in enumerate(listed):
                suffix = PurePath(name).suffix.lower()
                path = visible_files.find(name, None) if is_code(Path(name)) else None
                if path is not None and not path.is_symlink():
                    counts[suffix] += 1
                    # Independent of the order of the listing.
                    names[suffix] = min(name, names.get(suffix, name))
                if number == _MAX_FILES:
                    break
        order = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))
        return [root / names[suffix] for suffix in order]

    return await run_search(backend, find, _LIST_TIMEOUT_S)
