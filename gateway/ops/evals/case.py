"""Test case: a task, the initial files, and the expectations."""

import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent.errors import ConfigError
from agent.i18n import t
from agent.serialization import dumps
from agent.types import Message, ToolCall, assistant
from gateway.config.json_files.document import read_object
from gateway.ops.evals.repository import build_repository, repository_files

Count = Annotated[int, Field(ge=0)]


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as exc:
        raise ValueError(f"{text!r} is not a regular expression: {exc}") from exc
    return text


Pattern = Annotated[str, AfterValidator(_is_pattern)]
# Subjects of checks, and further fields that each allows.
_SUBJECTS = {
    "file": {"equals", "contains", "matches", "absent", "unchanged"},
    "command": {"exit_code"},
    "answer_contains": set[str](),
    "answer_matches": set[str](),
    "tool": {"at_least", "at_most"},
    "max_tokens": set[str](),
    "max_cost_usd": set[str](),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Expectation(_Strict):
    """Expectation about exactly one subject.

    The subject is a `file`, a `command`'s exit code, the `answer`, the calls of a `tool`, or the
    resources that the case has used.
    """

    file: str | None = None
    equals: str | None = None
    contains: str | None = None
    matches: Pattern | None = None
    absent: bool = False
    unchanged: bool = False
    command: str | None = None
    exit_code: int = 0
    answer_contains: str | None = None
    answer_matches: Pattern | None = None
    tool: str | None = None
    at_least: Count | None = None
    at_most: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_subject(self) -> "Expectation":
        subjects = [name for name in _SUBJECTS if getattr(self, name) is not None]
        if len(subjects) != 1:
            names = ", ".join(_SUBJECTS)
            raise ValueError(f"found {subjects or 'none'}, expected exactly one of {names}")
        if strange := self.model_fields_set - {*subjects, *_SUBJECTS[subjects[0]]}:
            raise ValueError(f"{', '.join(sorted(strange))} has no {subjects[0]}")
        texts = (self.equals, self.contains, self.matches)
        says_what = self.absent or self.unchanged or any(text is not None for text in texts)
        if self.file is not None and not says_what:
            raise ValueError("a file needs equals, contains, matches, absent or unchanged")
        if self.tool is not None and self.at_least is None and self.at_most is None:
            raise ValueError("a tool needs at_least or at_most")
        return self


class ScriptedCall(_Strict):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ScriptedReply(_Strict):
    text: str = ""
    calls: tuple[ScriptedCall, ...] = Field(default=(), strict=False)


class EvalCase(_Strict):
    """Case of an evaluation.

    `task` is the request, or a list of requests that are sent one after the other in the same
    session. `repository` is the initial folder, `workspace` maps further paths to contents, and
    `hidden` those that only the checks see. Without a program in `needs` the case is skipped.
    `script` contains the replies of the scripted model.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    about: str = ""
    kind: Literal["fix", "feature", "refactor", "answer"] | None = None
    task: str | Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    repository: Path | None = Field(default=None, strict=False)
    workspace: dict[str, str] = Field(default_factory=dict)
    hidden: dict[str, str] = Field(default_factory=dict)
    needs: Annotated[tuple[str, ...], Field(strict=False)] = ()
    checks: Annotated[tuple[Expectation, ...], Field(strict=False, min_length=1)]
    script: Annotated[tuple[str | ScriptedReply, ...], Field(strict=False)] = ()
    max_iterations: Annotated[int, Field(ge=1)] | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _knows_what_is_unchanged(self) -> "EvalCase":
        before = self.before if any(check.unchanged for check in self.checks) else {}
        for check in self.checks:
            if check.unchanged and check.file not in before:
                raise ValueError(f"{check.file} is to be unchanged, but workspace lacks it")
        return self

    @cached_property
    def before(self) -> dict[str, bytes]:
        """Return the initial files."""
        files = repository_files(self.repository) if self.repository else {}
        return files | {name: text.encode() for name, text in self.workspace.items()}

    @property
    def programs(self) -> tuple[str, ...]:
        return ("git", *self.needs) if self.repository else self.needs

    @property
    def tasks(self) -> tuple[str, ...]:
        return (self.task,) if isinstance(self.task, str) else self.task

    def replies(self) -> list[Message]:
        """Return the script as messages of the scripted model."""
        return [_message(n, step) for n, step in enumerate(self.script)]

    def lay_out(self, folder: Path) -> Path:
        """Write the initial files and return the folder's real path.

        Raises `ConfigError` for a file outside the folder.
        """
        folder = folder.resolve()
        if self.repository:
            build_repository(self.repository, folder)
        self._write(self.workspace, folder)
        return folder

    def lay_out_hidden(self, folder: Path) -> None:
        """Write the files that only the checks see. Raises `ConfigError` like `lay_out`."""
        self._write(self.hidden, folder)

    def _write(self, files: dict[str, str], folder: Path) -> None:
        for name, content in files.items():
            path = (folder / name).resolve()
            if not path.is_relative_to(folder):
                raise ConfigError(
                    t(
                        "case {name}: the file {file!r} is outside its workspace",
                        name=self.name,
                        file=name,
                    )
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="")


def load_cases(places: list[Path]) -> Iterator[EvalCase]:
    """Yield the cases of files and folders, ordered by name.

    Raises `ConfigError` with the file, the place and the expected value.
    """
    names: dict[str, Path] = {}
    for place in places:
        files = _files(place) if place.is_dir() else [place]
        if not files:
            raise ConfigError(t("{path}: no cases found (*.json, *.toml)", path=place))
        for file in files:
            case = _read(file)
            if (other := names.setdefault(case.name, file)) != file:
                raise ConfigError(
                    t(
                        "{file}: name: {name!r} is also used by {other}",
                        file=file,
                        other=other,
                        name=case.name,
                    )
                )
            yield case


def _files(folder: Path) -> list[Path]:
    """Return the case files of a folder and of its subfolders, each with a repository."""
    return sorted(
        path for pattern in ("*.json", "*.toml", "*/*.toml") for path in folder.glob(pattern)
    )


def _read(file: Path) -> EvalCase:
    data = _toml(file) if file.suffix == ".toml" else read_object(file)
    if data is None:
        raise ConfigError(
            t("{path}: no such file or folder", path=str(file)),
            hint=t(
                "Give a case file or a folder of cases; docs/evaluation.md describes the format."
            ),
        )
    if isinstance(name := data.get("repository"), str):
        data["repository"] = file.parent / name
    try:
        return EvalCase.model_validate(data)
    except ValidationError as exc:
        raise ConfigError(f"{file}: {_fault(exc)}") from None


def _toml(file: Path) -> dict[str, Any] | None:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise ConfigError(t("{path}: not valid TOML: {reason}", path=file, reason=exc)) from None


def _fault(error: ValidationError) -> str:
    """Describe the most specific of the errors: place, found and expected value."""
    details = max(error.errors(), key=lambda item: len(item["loc"]))
    loc, kind = details["loc"], details["type"]
    where = ".".join(map(str, loc)) or "the case"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        keys = ", ".join(_model_at(loc).model_fields)
        return f"{where}: there is no such key; expected one of {keys}"
    return f"{where}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _model_at(loc: tuple[int | str, ...]) -> type[_Strict]:
    """Return the model of the key at this place."""
    if "calls" in loc[:-1]:
        return ScriptedCall
    inner: dict[str | int, type[_Strict]] = {"checks": Expectation, "script": ScriptedReply}
    return inner.get(loc[0], EvalCase) if len(loc) > 1 else EvalCase


def _message(n: int, reply: str | ScriptedReply) -> Message:
    if isinstance(reply, str):
        return assistant(reply)
    calls = tuple(
        ToolCall(f"c{n}_{i}", call.name, call.arguments, dumps(call.arguments))
        for i, call in enumerate(reply.calls)
    )
    return assistant(reply.text, calls)
