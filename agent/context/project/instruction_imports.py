"""Imports in project instructions: `@path` is replaced by the text of a file."""

import re
from collections.abc import Callable
from pathlib import Path

# At the beginning of a word, as in other programs: not an email address or a decorator call.
_IMPORT = re.compile(r"(?<![\w`@./])@((?:\./)?[\w.-]+(?:/[\w.-]+)*\.\w+)")
_CODE = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_DEPTH_MOST = 5
_FILES_MOST = 50
# Folders in which programs store rules; other hidden names, such as .env, are not instructions.
_OPEN_FOLDERS = frozenset({".agents", ".claude", ".cursor", ".github", ".kore"})


def with_imports(text: str, folder: Path, read: Callable[[Path], str]) -> str:
    """Return the text with the content of its imports, which are relative to `folder`.

    `read` returns '' for a file that may not be read; the import then remains as written. Code is
    unchanged. A file is imported once, the limit is 50 files, and nested imports are followed five
    levels deep.
    """
    return _expand(text, folder, read, set(), _DEPTH_MOST)


def _expand(
    text: str, folder: Path, read: Callable[[Path], str], taken: set[Path], depth: int
) -> str:
    def put_in(match: "re.Match[str]") -> str:
        path = Path(folder, match[1])
        if depth == 0 or len(taken) >= _FILES_MOST or path in taken or _is_hidden(Path(match[1])):
            return match[0]
        taken.add(path)
        imported = read(path)
        if not imported:
            return match[0]
        inner = _expand(imported, path.parent, read, taken, depth - 1)
        return f"[{match[1]}:]\n{inner}\n"

    parts = _CODE.split(text)
    return "".join(part if n % 2 else _IMPORT.sub(put_in, part) for n, part in enumerate(parts))


def _is_hidden(name: Path) -> bool:
    return any(part[0] == "." and part not in _OPEN_FOLDERS for part in name.parts)
