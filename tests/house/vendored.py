"""The browser modules of others, copied as they are published: `make vendor` fetches them anew.

Bare imports are rewritten to files beside them: an import map would be an inline script, which the
page's policy forbids. What was copied is written down in vendor/vendored.json.
"""

import hashlib
import json
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
}
_IMPORTS = {b'"preact"': b'"./preact.mjs"'}


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
    for bare, relative in _IMPORTS.items():
        data = data.replace(bare, relative)
    data = re.sub(rb"\n?//# sourceMappingURL=\S*", b"", data)
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
