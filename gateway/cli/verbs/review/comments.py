"""Comments on GitHub pull requests and GitLab merge requests, using `gh` and `glab`."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.sandbox.trusted_programs import find_trusted_program
from agent.text.visible import escape_invisible
from gateway.cli.output import tell
from gateway.cli.verbs.review.changes import Changes
from gateway.cli.verbs.review.findings import Review, ReviewFinding, comment_of, summary_of
from gateway.config.json_files.document import parse

_TIMEOUT_S = 120.0
_MAX_ERROR_CHARS = 500
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_QUERY = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      baseRefOid
      headRefOid
      reviews(last: 100) { nodes { body viewerDidAuthor } }
    }
  }
}
"""


class _RejectedCall(KoreError):
    """The program of a code host ran and reported a failure."""


@frozen
class RequestState:
    """Commits of a merge request, and whether this user has commented on the newest one."""

    base: str
    head: str
    is_reviewed: bool


class MergeRequest(Protocol):
    """Pull request of GitHub or merge request of GitLab. Both methods raise `KoreError`."""

    def load(self) -> RequestState: ...

    def post(self, review: Review, changes: Changes) -> int:
        """Post the review and return the number of comments on lines."""
        ...


def find_request(folder: Path, clean: Callable[[str], str]) -> MergeRequest:
    """Return the request of this CI job, or of the current branch.

    `clean` removes secrets from errors. Raises `KoreError`.
    """
    environ = os.environ
    if environ.get("GITLAB_CI"):
        program = _HostProgram.find("glab", folder, clean)
        return _GitLab(program, _variable("CI_PROJECT_ID"), _variable("CI_MERGE_REQUEST_IID"))
    if environ.get("GITHUB_ACTIONS"):
        owner, _, name = _variable("GITHUB_REPOSITORY").partition("/")
        return _GitHub(_HostProgram.find("gh", folder, clean), owner, name, _number_of_event())
    try:
        gh = _HostProgram.find("gh", folder, clean)
        number = _field(gh.read("pr", "view", "--json", "number"), "number")
        return _GitHub(gh, "{owner}", "{repo}", number)
    except KoreError as exc:
        try:
            glab = _HostProgram.find("glab", folder, clean)
            request = glab.read("mr", "view", "--output", "json")
        except KoreError as other:
            raise KoreError(
                t("no pull or merge request found: {first}; {second}", first=exc, second=other)
            ) from other
        return _GitLab(glab, str(_field(request, "project_id")), str(_field(request, "iid")))


def marker_of(head: str) -> str:
    """Return the invisible last line of comments on a commit."""
    return f"<!-- kore-review {head} -->"


def _has_marker(body: str, head: str) -> bool:
    # Quoted text of the author of the changes is never at the end.
    return body.rstrip().endswith(marker_of(head))


@frozen
class _GitHub:
    gh: "_HostProgram"
    owner: str
    name: str
    number: int

    def load(self) -> RequestState:
        # With -F, gh replaces {owner} and {repo}, but it also takes a name of digits for a number.
        names = {"owner": self.owner, "name": self.name}
        fields = ["-f", f"query={_QUERY}", "-F", f"number={self.number}"]
        for name, value in names.items():
            fields += ["-F" if value.startswith("{") else "-f", f"{name}={value}"]
        answer = self.gh.read("api", "graphql", *fields)
        request = _field(answer, "data", "repository", "pullRequest")
        head = _commit(_field(request, "headRefOid"))
        # Anyone can write the marker.
        own = [
            _field(review, "body")
            for review in _field(request, "reviews", "nodes")
            if _field(review, "viewerDidAuthor")
        ]
        is_reviewed = any(_has_marker(body, head) for body in own)
        return RequestState(_commit(_field(request, "baseRefOid")), head, is_reviewed)

    def post(self, review: Review, changes: Changes) -> int:
        assert changes.head is not None
        placed, others = _by_place(review, changes)
        # A single request, so that either everything or nothing is posted.
        body = {
            "commit_id": changes.head,
            "event": "COMMENT",
            "body": summary_of(review, others, changes, marker_of(changes.head)),
            "comments": [
                {
                    "path": finding.file,
                    "line": finding.line,
                    "side": "RIGHT",
                    "body": comment_of(finding),
                }
                for finding in placed
            ],
        }
        path = f"repos/{self.owner}/{self.name}/pulls/{self.number}/reviews"
        self.gh.send(path, body)
        return len(placed)


@frozen
class _GitLab:
    glab: "_HostProgram"
    project: str
    number: str

    @property
    def _path(self) -> str:
        return f"projects/{self.project}/merge_requests/{self.number}"

    def load(self) -> RequestState:
        commits = self._commits()
        own = _field(self.glab.read("api", "user"), "id")
        notes = self.glab.read_pages("api", "--paginate", f"{self._path}/notes?per_page=100")
        is_reviewed = any(
            _field(note, "author", "id") == own
            and _has_marker(_field(note, "body"), commits["head_sha"])
            for note in notes
        )
        return RequestState(commits["base_sha"], commits["head_sha"], is_reviewed)

    def post(self, review: Review, changes: Changes) -> int:
        assert changes.head is not None
        placed, others = _by_place(review, changes)
        commits, marker = self._commits(), marker_of(changes.head)
        posted = 0
        for finding in placed:
            body = {
                "body": f"{comment_of(finding)}\n\n{marker}",
                "position": _position(finding, changes, commits),
            }
            try:
                self.glab.send(f"{self._path}/discussions", body)
                posted += 1
            except _RejectedCall as exc:
                # GitLab rejects comments on this line; the note has the finding.
                others.append(finding)
                tell(
                    t(
                        "{place} is in the note, because GitLab takes no comment there: {reason}",
                        place=f"{finding.file}:{finding.line}",
                        reason=exc,
                    )
                )
        note = {"body": summary_of(review, others, changes, marker)}
        self.glab.send(f"{self._path}/notes", note)
        return posted

    def _commits(self) -> dict[str, str]:
        # None until GitLab has prepared the diff.
        refs = _field(self.glab.read("api", self._path), "diff_refs") or {}
        return {name: _commit(refs.get(name)) for name in ("base_sha", "start_sha", "head_sha")}


def _position(
    finding: ReviewFinding, changes: Changes, commits: Mapping[str, str]
) -> dict[str, str | int | None]:
    file = changes.find(finding.file, finding.line)
    assert file is not None
    assert finding.line is not None
    return {
        "position_type": "text",
        **commits,
        "old_path": file.old_path,
        "new_path": file.path,
        "old_line": file.lines[finding.line],
        "new_line": finding.line,
    }


def _by_place(review: Review, changes: Changes) -> tuple[list[ReviewFinding], list[ReviewFinding]]:
    """Return the findings on lines of the diff, and all others."""
    placed: list[ReviewFinding] = []
    others: list[ReviewFinding] = []
    for finding in review.findings:
        is_placed = changes.find(finding.file, finding.line) is not None
        (placed if is_placed else others).append(finding)
    return placed, others


@frozen
class _HostProgram:
    """Command line of a code host, run in `folder`."""

    path: str
    folder: Path
    clean: Callable[[str], str]

    @classmethod
    def find(cls, name: str, folder: Path, clean: Callable[[str], str]) -> "_HostProgram":
        path = find_trusted_program(name, (folder,))
        if path is None:
            raise ConfigError(t("the program {name} was not found", name=name))
        return cls(path, folder, clean)

    def read(self, *words: str) -> Any:
        """Return the JSON that the program prints."""
        values = self.read_pages(*words, merges=False)
        return values[0] if values else None

    def read_pages(self, *words: str, merges: bool = True) -> list[Any]:
        """Return the items of all JSON lists that the program prints in sequence."""
        text = self._run(words).strip()
        values: list[Any] = []
        try:
            while text:
                value, end = json.JSONDecoder().raw_decode(text)
                values += value if merges else [value]
                text = text[end:].strip()
        except ValueError as exc:
            raise KoreError(t("{name} printed no JSON", name=self._name)) from exc
        return values

    def send(self, path: str, body: Mapping[str, Any]) -> None:
        header = "Content-Type: application/json"
        words = ("api", "--method", "POST", "--header", header, path, "--input", "-")
        self._run(words, json.dumps(body))

    @property
    def _name(self) -> str:
        return Path(self.path).name

    def _run(self, words: Sequence[str], text: str = "") -> str:
        try:
            done = subprocess.run(
                [self.path, *words],
                cwd=self.folder,
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise KoreError(t("{name} failed: {reason}", name=self._name, reason=exc)) from exc
        if done.returncode != 0:
            reason = escape_invisible(self.clean(done.stderr.strip()))[:_MAX_ERROR_CHARS]
            raise _RejectedCall(t("{name} failed: {reason}", name=self._name, reason=reason))
        return done.stdout


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise KoreError(
            t("--comment: this job belongs to no merge request: {name} is not set", name=name)
        )
    return value


def _number_of_event() -> int:
    """Return the number of the pull request that started this job. Raises `KoreError`."""
    path = Path(_variable("GITHUB_EVENT_PATH"))
    try:
        event = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise KoreError(
            t("--comment: {file} cannot be read: {reason}", file=path, reason=exc)
        ) from exc
    request = event.get("pull_request") if isinstance(event, dict) else None
    number = request.get("number") if isinstance(request, dict) else None
    if not isinstance(number, int):
        raise KoreError(t("--comment: this job belongs to no pull request"))
    return number


def _field(answer: Any, *names: str) -> Any:
    """Return a field of an answer of a code host. Raises `KoreError` if it is missing."""
    for name in names:
        if not isinstance(answer, dict) or name not in answer:
            raise KoreError(t("the answer of the code host has no {name}", name=".".join(names)))
        answer = answer[name]
    return answer


def _commit(value: object) -> str:
    if not isinstance(value, str) or not _COMMIT.fullmatch(value):
        raise KoreError(t("found {value!r}, expected the id of a commit", value=value))
    return value
