"""Which languages a project is written in, by the files of its tree."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PurePath

from agent.tools.base import CallContext
from agent.tools.files.search_backend import SearchBackend, ripgrep, run_search
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope

_MOST_FILES = 20_000
_LIST_S = 5.0


async def find_code_files(
    root: Path, call: CallContext, scope: WorkspaceScope, is_code: Callable[[Path], bool]
) -> list[Path]:
    """A file of each kind that counts as code, of the most frequent kind first. Raises
    `ToolError` where the folder cannot be listed in time."""
    sight = VisibleFiles(scope, call, root)
    seeker = SearchBackend(root, sight.root, ripgrep(sight.root))

    def find() -> list[Path]:
        counts: Counter[str] = Counter()
        names: dict[str, str] = {}
        with closing(seeker.files()) as listed:
            for number, name in enumerate(listed):
                suffix = PurePath(name).suffix.lower()
                path = sight.find(name, None) if is_code(Path(name)) else None
                if path is not None and not path.is_symlink():
                    counts[suffix] += 1
                    # The same one whatever order they are listed in.
                    names[suffix] = min(name, names.get(suffix, name))
                if number == _MOST_FILES:
                    break
        order = sorted(counts, key=lambda suffix: (-counts[suffix], suffix))
        return [root / names[suffix] for suffix in order]

    return await run_search(seeker, find, _LIST_S)
