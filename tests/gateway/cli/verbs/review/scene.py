"""Repository, code hosts and model of a review."""

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fork_server import start_piped
from tests.gateway.cli.verbs.review.code_host import CodeHost

TOKEN = "ghp_q8Zx2Lw0vT4nYk7RbJ1sHd9cMfUe3aPo6iGV"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass
class Scene:
    """Repository with a branch that changes line 5 of a.py, and the programs on PATH."""

    folder: Path
    home: Path
    host: CodeHost
    base: str
    head: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def marker(self) -> str:
        return f"<!-- kore-review {self.head} -->"

    async def review(self, *words: str) -> Outcome:
        path = f"{self.host.folder}:{os.environ['PATH']}"
        own = {"PATH": path, "HOME": str(self.home), "KORE_HOME": str(self.home)}
        process = await start_piped(
            ("review", *words), cwd=self.folder, env=own | {"GH_TOKEN": TOKEN} | self.environ
        )
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Outcome(process.returncode, out.decode(), err.decode())

    def use_github(self, *reviews: dict[str, Any]) -> None:
        """Make this a job for a pull request with these reviews."""
        event = self.host.folder / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 7}}))
        self.environ |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_EVENT_PATH": str(event),
        }
        commits = {"baseRefOid": self.base, "headRefOid": self.head}
        request = {**commits, "reviews": {"nodes": reviews}}
        answer = {"data": {"repository": {"pullRequest": request}}}
        self.host.answer({"graphql": answer, "pulls/7/reviews": {}})

    def use_gitlab(self, *, takes_discussions: bool = True) -> None:
        """Make this a job for a merge request without notes."""
        ids = {"CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "9"}
        self.environ |= {"GITLAB_CI": "true", **ids}
        refs = {"base_sha": self.base, "start_sha": self.base, "head_sha": self.head}
        answers: dict[str, Any] = {
            "/discussions": {} if takes_discussions else None,
            "/notes": [],
            "user": {"id": 1},
            "merge_requests/9": {"diff_refs": refs},
        }
        self.host.answer(answers)
