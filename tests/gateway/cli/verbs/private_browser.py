"""Fake browser for `BROWSER` that records its command line and the page that it opens."""

import json
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python}
import json, sys
from pathlib import Path
page = Path(sys.argv[1].removeprefix("file://"))
note = {{"command": sys.argv, "mode": page.stat().st_mode & 0o777, "page": page.read_text(),
        "folder": page.parent.stat().st_mode & 0o777}}
Path({file!r} + ".new").write_text(json.dumps(note))
Path({file!r} + ".new").rename({file!r})
"""


class PrivateBrowser:
    """Program of the fake browser, and `environ` for a Kore that starts it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "browser.json"
        program = folder / "browser"
        program.write_text(_PROGRAM.format(python=sys.executable, file=str(self._file)))
        program.chmod(0o755)
        self.environ = {"DISPLAY": ":9", "BROWSER": f"{program} %s"}

    @property
    def is_started(self) -> bool:
        return self._file.exists()

    def check(self, secret: str) -> str:
        """Return the address of the page; fail unless the secret was only in the page.

        Other users cannot read the page.
        """
        note: dict[str, Any] = json.loads(self._file.read_text())
        assert not any(secret in word for word in note["command"])
        assert (note["mode"], note["folder"]) == (0o600, 0o700)
        assert secret in note["page"]
        return str(note["command"][1])
