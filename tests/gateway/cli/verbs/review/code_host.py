"""Stand-ins for `gh` and `glab` on PATH, which record their calls."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
state = json.loads((folder / "state.json").read_text())
words = sys.argv[1:]
posts = "POST" in words
with (folder / "calls.jsonl").open("a") as calls:
    body = json.load(sys.stdin) if posts else None
    print(json.dumps({{"program": {name!r}, "words": words, "body": body}}), file=calls)
for part, answer in state.items():
    if any(part in word for word in words):
        if answer is None:
            sys.exit(f"{{os.environ.get('GH_TOKEN')}}: not allowed")
        if not posts:
            print(json.dumps(answer))
        sys.exit()
sys.exit(f"unexpected call: {{words}}")
"""


@dataclass(frozen=True)
class CodeHost:
    """Programs in `folder`. `answer` sets the answers by a part of a call; None is a failure."""

    folder: Path

    @classmethod
    def install(cls, folder: Path, *names: str) -> "CodeHost":
        folder.mkdir()
        for name in names:
            program = folder / name
            program.write_text(
                _PROGRAM.format(python=sys.executable, folder=str(folder), name=name)
            )
            program.chmod(0o755)
        return cls(folder)

    def answer(self, answers: dict[str, Any]) -> None:
        (self.folder / "state.json").write_text(json.dumps(answers))

    @property
    def posts(self) -> list[dict[str, Any]]:
        """The calls that post something, in their order."""
        file = self.folder / "calls.jsonl"
        calls = (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )
        return [call for call in calls if call["body"] is not None]
