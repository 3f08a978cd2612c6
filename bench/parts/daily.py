"""Command lines of daily work in `kore serve`, mode accept-edits, compared with runs outside.

Each line of bench/daily/lines.toml runs in a main checkout, a linked worktree, a submodule and a
subfolder, on the machine's real tools and the person's own package caches. The person trusts the
projects, lists the database as a local service whose data may be lost and a virtual environment
outside of the project as readable, and answers each question with "once". A line works if it exits
with 0, prints the expected text, and has its effect afterwards. Lines that do not work outside of
Kore either are skipped and listed.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.daily.lines import Line, Project, missing_programs, read_lines, read_project
from bench.daily.places import forget_go_module, make_go_proxy, make_places, run_line
from bench.figure import Figure
from bench.process import ROOT, Running
from bench.stage import until
from kore.client import Client
from tests.postgres_server import PostgresServer, programs

# Shares of the lines, in percent: 39 and 40 of 40.
_GOAL_UNASKED, _GOAL_WORKS = 97.5, 100.0
_GIT_SETTINGS = """[user]
\tname = Ada Example
\temail = ada@example.org
[core]
\texcludesFile = ~/.kore-daily-ignore
[advice]
\tdetachedHead = false
"""
_EXIT_CODE = re.compile(r"^\[exit code (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a line; `question` is the reason of its approval request, or None."""

    works: bool
    output: str
    question: str | None = None


async def measure(command: Sequence[str]) -> list[Figure]:
    # Not below /tmp, because the sandbox has its own.
    with (
        tempfile.TemporaryDirectory(prefix="kore-bench-", dir="/var/tmp") as name,
        _database() as variables,
    ):
        folder = Path(name)
        project, env = read_project(), _environ(folder) | variables
        make_go_proxy(folder / "goproxy")
        try:
            inside, outside = (
                make_places(_make_folder(folder / side), project, env)
                for side in ("inside", "outside")
            )
            lines = _prepare_lines(project, [*inside.values(), *outside.values()], env)
            home = _make_folder(folder / "home")
            _configure(home, [*inside.values()], variables, _environment(env))
            outcomes: dict[str, list[tuple[Line, Outcome, Outcome]]] = {}
            async with _serving(command, home, env) as kore:
                for place in inside:
                    print(f"  {place} …", file=sys.stderr, flush=True)
                    bare = await asyncio.to_thread(_run_outside, lines, outside[place], env)
                    ours = await _run_inside(kore, lines, inside[place], env)
                    outcomes[place] = list(zip(lines, ours, bare, strict=True))
        finally:
            forget_go_module(Path.home())
    return [figure for place, results in outcomes.items() for figure in _figures(place, results)]


def _figures(place: str, results: Sequence[tuple[Line, Outcome, Outcome]]) -> Iterator[Figure]:
    possible = [(line, ours) for line, ours, bare in results if bare.works]
    left_out = [line.title for line, _, bare in results if not bare.works]
    failed = [
        f"{line.title!r}: {ours.output[-400:]!r}" for line, ours in possible if not ours.works
    ]
    approval_requests = [
        f"{line.title!r} ({ours.question})" for line, ours in possible if ours.question
    ]
    count, works = len(possible), len(possible) - len(failed)
    unasked_count = sum(ours.works and ours.question is None for _, ours in possible)
    if left_out:
        failed.append(f"left out, because they fail outside too: {left_out}")
    yield _share(
        f"daily lines unasked, {place}", unasked_count, count, _GOAL_UNASKED, approval_requests
    )
    yield _share(f"daily lines that work, {place}", works, count, _GOAL_WORKS, failed)


def _share(name: str, part: int, whole: int, goal: float, notes: Sequence[str]) -> Figure:
    note = "\n    ".join([f"{part} of {whole}", *notes])
    share = 100 * part / whole
    return Figure(name, "%", share, bare=100.0, goal=goal, at_least=True, note=note)


def _environ(folder: Path) -> dict[str, str]:
    """Return the environment of the person: their home, with git settings of the suite."""
    settings = _make_folder(folder / "settings/git") / "config"
    settings.write_text(_GIT_SETTINGS)
    programs = os.pathsep.join(
        path for path in os.environ["PATH"].split(os.pathsep) if not path.startswith(str(ROOT))
    )
    return {
        "PATH": programs,
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
        "XDG_CONFIG_HOME": str(folder / "settings"),
        "FIXTURES": str(folder),
    }


def _prepare_lines(project: Project, places: Sequence[Path], env: Mapping[str, str]) -> list[Line]:
    """Prepare the ecosystems in each place; return the lines that this machine can run."""
    ready = set()
    for name, ecosystem in project.ecosystems.items():
        reason = ", ".join(missing_programs(ecosystem.programs))
        for place in () if reason else places:
            code, output = run_line(ecosystem.prepare, place, env)
            if code:
                reason = f"{ecosystem.prepare}: {output[-300:]}"
                break
        if reason:
            print(f"  skipped: {name} ({reason})", file=sys.stderr, flush=True)
        else:
            ready.add(name)
    lines = []
    for line in read_lines(_environment(env)):
        missing = missing_programs(line.programs)
        if line.ecosystem in ready and missing:
            print(f"  skipped: {line.title} ({', '.join(missing)})", file=sys.stderr, flush=True)
        if line.ecosystem in ready and not missing:
            lines.append(line)
    counts = Counter(line.ecosystem for line in lines)
    print(f"  {len(lines)} lines: {dict(counts)}", file=sys.stderr, flush=True)
    return lines


def _run_outside(lines: Sequence[Line], folder: Path, env: Mapping[str, str]) -> list[Outcome]:
    outcomes = []
    with ExitStack() as servers:
        for line in lines:
            if line.background:
                server = subprocess.Popen(
                    ["bash", "-c", f"exec {line.run}"],
                    cwd=folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                # Leaving the context of a process waits for its end, so terminate it before.
                servers.enter_context(server)
                servers.callback(server.terminate)
                outcomes.append(Outcome(True, ""))
                continue
            code, output = run_line(line.run, folder, env)
            outcomes.append(_judge(line, code, output, folder, env))
    return outcomes


async def _run_inside(
    kore: Client, lines: Sequence[Line], folder: Path, env: Mapping[str, str]
) -> list[Outcome]:
    """Run the lines in one conversation; questions are answered with "once"."""
    places = await kore.call("list_session_folders")
    place = next(
        place for place in places if (place["start_folder"] or place["workspace"]) == str(folder)
    )
    session = await kore.call("create_session", folder=place)
    events = kore.follow(session)
    outcomes = []
    for line in lines:
        more = {"background": True} if line.background else {}
        arguments = json.dumps({"command": line.run, **more})
        await kore.send(session, f"!tool exec {arguments}", mode="accept-edits")
        question, output = await _result(kore, events)
        codes = _EXIT_CODE.findall(output)
        code = int(codes[-1]) if codes else 0 if line.background else -1
        outcome = await asyncio.to_thread(_judge, line, code, output, folder, env)
        outcomes.append(replace(outcome, question=question))
    return outcomes


async def _result(kore: Client, events: AsyncIterator[Mapping[str, Any]]) -> tuple[str | None, str]:
    """Return the reason of the question, or None, and the output of a call."""
    question, output = None, ""
    async for event in events:
        if event["type"] == "approval_asked":
            request = event["request"]
            question = f"{request['rule']}: {request['reason']}"
            await kore.call("answer_approval", nonce=event["nonce"], answer="once", by="cli:0")
        elif event["type"] == "tool_result":
            output = event["content"]
        elif event["type"] == "turn_end":
            break
    return question, output


def _judge(line: Line, code: int, output: str, folder: Path, env: Mapping[str, str]) -> Outcome:
    works = code == 0 and line.output in output
    if works:
        checked, words = run_line(line.check, folder, env)
        works, output = checked == 0, f"{output}\n[check: {checked}] {words}"
    return Outcome(works, output)


def _environment(env: Mapping[str, str]) -> Path:
    """Return the virtual environment that the preparation creates outside of the project."""
    return Path(env["FIXTURES"], "environment")


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _configure(
    home: Path, places: Sequence[Path], variables: Mapping[str, str], environment: Path
) -> None:
    services = [f"unix:{variables['PGHOST']}/.s.PGSQL.5432"] if variables else []
    repositories = [
        subprocess.run(
            ["git", "-C", place, "rev-parse", "--show-toplevel"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
        for place in places
    ]  # fmt: skip
    settings = {
        "model_list": [{"model_name": "default", "model": "offline/echo"}],
        "security": {
            "trusted_folders": sorted({*repositories, *map(str, places)}),
            "exec_local": services,
            "exec_disposable": services,
            "sandbox_read": [str(environment / name) for name in ("bin", "lib", "pyvenv.cfg")],
            "exec_env": dict(variables),
        },
    }
    config = home / "config.json"
    config.write_text(json.dumps(settings))
    config.chmod(0o600)


@contextmanager
def _database() -> Iterator[dict[str, str]]:
    """Run a PostgreSQL server if the machine has one; yield the variables for connecting to it."""
    if programs() is None:
        yield {}
        return
    server = PostgresServer()
    try:
        yield {"PGHOST": str(server.folder), "PGUSER": "kore", "PGDATABASE": "postgres"}
    finally:
        server.close()


@asynccontextmanager
async def _serving(
    command: Sequence[str], home: Path, env: Mapping[str, str]
) -> AsyncIterator[Client]:
    words = [*command, "serve", "--home", str(home), "--listen-addr", "auto"]
    file = home / "server.json"
    with Running(words, {**env, "PYTHONPATH": str(ROOT)}, home) as running:

        async def is_serving() -> bool:
            if running.process.poll() is not None:
                raise RuntimeError(f"kore serve ended with {running.process.returncode}")
            return file.exists()

        await until(is_serving)
        async with Client.local(home) as kore:
            yield kore
