"""Third-party browser modules, copied as published; `make vendor` downloads them.

Bare imports are rewritten to the files of their packages: an import map would be an inline script,
which the page's policy forbids. xterm.js sets styles in ways that the policy forbids as well; those
places are rewritten too. vendor/vendored.json records the copied versions.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "gateway/server/web/static/vendor"
LANGUAGES = (
    *("bash", "c", "cpp", "css", "diff", "go", "java", "javascript", "json", "markdown"),
    *("python", "rust", "sql", "typescript", "xml", "yaml"),
)
# The editor and its languages, by version; each is a single module.
_EDITOR = {
    "@codemirror/autocomplete": "6.20.4",
    "@codemirror/commands": "6.11.1",
    "@codemirror/lang-cpp": "6.0.3",
    "@codemirror/lang-css": "6.3.1",
    "@codemirror/lang-go": "6.0.1",
    "@codemirror/lang-html": "6.4.12",
    "@codemirror/lang-javascript": "6.2.5",
    "@codemirror/lang-json": "6.0.2",
    "@codemirror/lang-markdown": "6.5.2",
    "@codemirror/lang-python": "6.2.1",
    "@codemirror/lang-rust": "6.0.2",
    "@codemirror/lang-sql": "6.10.0",
    "@codemirror/lang-yaml": "6.1.3",
    "@codemirror/language": "6.13.1",
    "@codemirror/search": "6.7.2",
    "@codemirror/state": "6.7.6",
    "@codemirror/streamparser": "6.0.0",
    "@codemirror/view": "6.43.15",
    "@lezer/common": "1.5.5",
    "@lezer/cpp": "1.1.6",
    "@lezer/css": "1.3.9",
    "@lezer/go": "1.0.1",
    "@lezer/highlight": "1.2.5",
    "@lezer/html": "1.3.13",
    "@lezer/javascript": "1.5.6",
    "@lezer/json": "1.0.3",
    "@lezer/lr": "1.4.12",
    "@lezer/markdown": "1.8.1",
    "@lezer/python": "1.1.19",
    "@lezer/rust": "1.0.3",
    "@lezer/yaml": "1.0.4",
    "@marijn/find-cluster-break": "1.0.4",
    "crelt": "1.0.7",
    "style-mod": "4.1.5",
    "w3c-keyname": "2.2.8",
}
# Default path of a package's module.
_SOURCE = "dist/index.js"
_SOURCES = {
    "@marijn/find-cluster-break": "src/index.js",
    "crelt": "index.js",
    "style-mod": "src/style-mod.js",
    "w3c-keyname": "index.js",
}
_MODES = ("clike", "dockerfile", "shell", "simple-mode", "toml")


def _editor_name(package: str) -> str:
    """Return a file name; `@lezer/css` and `@codemirror/lang-css` share a folder."""
    scope, _, name = package.rpartition("/")
    return f"codemirror/lezer-{name}" if scope == "@lezer" else f"codemirror/{name}"


# Package and version, then the files to copy and their names here.
PACKAGES: dict[str, dict[str, str]] = {
    "preact@11.2.0": {
        "dist/preact.mjs": "preact.mjs",
        "hooks/dist/hooks.mjs": "hooks.mjs",
        "LICENSE": "preact.LICENSE",
    },
    "htm@3.1.1": {"dist/htm.mjs": "htm.mjs", "LICENSE": "htm.LICENSE"},
    "marked@18.2.1": {"lib/marked.esm.js": "marked.mjs", "LICENSE": "marked.LICENSE"},
    "dompurify@3.4.18": {"dist/purify.es.mjs": "purify.mjs", "LICENSE": "dompurify.LICENSE"},
    "@highlightjs/cdn-assets@11.12.0": {
        "es/core.min.js": "highlight.mjs",
        "LICENSE": "highlight.LICENSE",
        **{f"es/languages/{name}.min.js": f"languages/{name}.mjs" for name in LANGUAGES},
    },
    **{
        f"{package}@{version}": {
            _SOURCES.get(package, _SOURCE): f"{_editor_name(package)}.mjs",
            "LICENSE": f"{_editor_name(package)}.LICENSE",
        }
        for package, version in _EDITOR.items()
    },
    "@codemirror/legacy-modes@6.5.5": {
        "LICENSE": "codemirror/modes/modes.LICENSE",
        **{f"mode/{name}.js": f"codemirror/modes/{name}.mjs" for name in _MODES},
    },
    "@xterm/xterm@6.0.0": {
        "lib/xterm.mjs": "xterm/xterm.mjs",
        "css/xterm.css": "xterm/xterm.css",
        "LICENSE": "xterm/xterm.LICENSE",
    },
    "@xterm/addon-fit@0.11.0": {
        "lib/addon-fit.mjs": "xterm/addon-fit.mjs",
        "LICENSE": "xterm/addon-fit.LICENSE",
    },
}
_IMPORTS = {"preact": "preact.mjs", **{item: f"{_editor_name(item)}.mjs" for item in _EDITOR}}
_IMPORT = re.compile(
    rb"""(\bfrom\s*|\bimport\s*)(["'])(%s)\2"""
    % b"|".join(map(re.escape, map(str.encode, _IMPORTS)))
)
_BARE_IMPORT = re.compile(rb"""^(?:import|export)\b[^"';]*\bfrom\s*["'][^.]""", re.MULTILINE)
# Number of places to rewrite in these files: a style element counts as inline style for the policy,
# and so does the attribute. `app/adopted-style.mjs` defines the element that replaces the style
# element.
_REWRITES = {
    "xterm/xterm.mjs": (
        (rb'createElement\("style"\)', rb'createElement("adopted-style")', 3),
        (rb't\.setAttribute\("style",(`[^`]*`|[^()]*)\)', rb"t.style.cssText=\1", 1),
    )
}


def main() -> None:
    files: dict[str, str] = {}
    for package, copies in PACKAGES.items():
        with tempfile.TemporaryDirectory() as work:
            packed = subprocess.run(
                ["npm", "pack", package, "--silent"], cwd=work, check=True, capture_output=True
            )
            with tarfile.open(Path(work) / packed.stdout.decode().split()[-1]) as archive:
                for source, name in copies.items():
                    file = archive.extractfile(f"package/{source}")
                    assert file is not None, source
                    files[name] = _put(name, file.read())
    facts = {"packages": sorted(PACKAGES), "sha256": dict(sorted(files.items()))}
    (FOLDER / "vendored.json").write_text(json.dumps(facts, indent=1) + "\n")


def _put(name: str, data: bytes) -> str:
    def relative(match: re.Match[bytes]) -> bytes:
        start, quote, package = match.groups()
        path = os.path.relpath(_IMPORTS[package.decode()], Path(name).parent)
        path = path if path.startswith(".") else f"./{path}"
        return start + quote + path.encode() + quote

    if name.endswith(".mjs"):
        data = _IMPORT.sub(relative, data)
        # Modules of a package import each other with the published file extension.
        data = re.sub(rb"""(\bfrom\s*["']\./[\w-]+)\.js(?=["'])""", rb"\1.mjs", data)
        assert _BARE_IMPORT.search(data) is None, name
    for pattern, new, count in _REWRITES.get(name, ()):
        data, result = re.subn(pattern, new, data)
        assert result == count, (name, pattern, result)
    data = re.sub(rb"\n?//# sourceMappingURL=\S*", b"", data)
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
