"""Predictions for instances of SWE-bench: one turn of Kore for each, and its changes as a patch.

    python evals/adapters/kore_swebench.py instances.jsonl predictions.jsonl --model openai/gpt-5

An instance has `instance_id`, `repo`, `base_commit` and `problem_statement`; a prediction has
`instance_id`, `model_name_or_path` and `model_patch`. Instances that already have a
prediction are skipped, so that a run can be resumed. Arguments after `--` go to `kore agent`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

REMOTE = "https://github.com/{repo}.git"
PROMPT = """\
{problem}

---
This is an issue of the repository in this folder. Resolve it: change the code so that what the
issue describes works, and keep to how the repository does things. Tests that you do not see will
check it. Nobody can be asked.
"""
# Exit code of `kore agent` for an invalid command line or configuration.
_INVALID = 2
# Let the server side of a fetch serve any commit by its hash.
_UPLOAD = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"


def main(words: Sequence[str] | None = None) -> int:
    words, agent_words = _split(sys.argv[1:] if words is None else words)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("instances", type=Path, help="JSON or JSON lines")
    add("predictions", type=Path, help="JSON lines; added to when it exists")
    add("--model", required=True, help="for `kore agent`")
    add("--name", help="what the predictions call the model (default: kore with the model)")
    add("--remote", default=REMOTE, help=f"where repositories come from (default: {REMOTE})")
    add("--repos", type=Path, help="folder for their clones (default: beside the predictions)")
    add("--logs", type=Path, help="folder for the events of each turn")
    add("--kore", default="kore", help="the program")
    add("--config", type=Path, help="Kore's configuration (default: KORE_CONFIG, ~/.kore)")
    add("--timeout-s", type=float, default=1800.0, help="for one instance (default: 1800)")
    add("-j", "--parallel", type=int, default=1, metavar="N")
    add("--only", action="append", metavar="ID", help="these instances only")
    arguments = parser.parse_args(words)
    arguments.agent_words = agent_words
    arguments.name = arguments.name or f"kore-{arguments.model}"
    arguments.repos = arguments.repos or arguments.predictions.parent / "repos"
    arguments.config = arguments.config or _config()
    done = {item["instance_id"] for item in _read(arguments.predictions, missing_ok=True)}
    left = [
        item
        for item in _read(arguments.instances)
        if item["instance_id"] not in done
        and (not arguments.only or item["instance_id"] in arguments.only)
    ]
    for repo in sorted({item["repo"] for item in left}):
        clone(repo, arguments)
    failures = 0
    with ThreadPoolExecutor(arguments.parallel) as pool:
        runs = {pool.submit(predict, item, arguments): item for item in left}
        for run in as_completed(runs):
            name = runs[run]["instance_id"]
            try:
                patch = run.result()
            except (OSError, subprocess.CalledProcessError) as exc:
                failures += 1
                print(f"{name}: {exc}", file=sys.stderr, flush=True)
                continue
            line = {
                "instance_id": name,
                "model_name_or_path": arguments.name,
                "model_patch": patch,
            }
            with arguments.predictions.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            print(f"{name}: {_lines(patch)} changed lines", flush=True)
    return 1 if failures else 0


def clone(repo: str, arguments: argparse.Namespace) -> None:
    """Make a bare clone to fetch from, once for all instances of a repository."""
    place = _place(repo, arguments)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["git", "clone", "-q", "--bare", arguments.remote.format(repo=repo), place], check=True
        )


def predict(instance: Mapping[str, Any], arguments: argparse.Namespace) -> str:
    """Return the patch that one turn makes of the instance's commit.

    The folder contains this commit and nothing later, so that the history does not reveal the
    answer.
    """
    base = instance["base_commit"]
    with tempfile.TemporaryDirectory(prefix="kore-swe-") as above:
        folder, home = Path(above, instance["repo"].rpartition("/")[2]), Path(above, "home")
        folder.mkdir()
        _git(folder, "init", "-q", "-b", "main")
        source = str(_place(instance["repo"], arguments).resolve())
        _git(folder, "fetch", "-q", "--depth=1", f"--upload-pack={_UPLOAD}", source, base)
        _git(folder, "reset", "-q", "--hard", base)
        _git(folder, "config", "user.name", "kore")
        _git(folder, "config", "user.email", "kore@localhost")
        prompt = PROMPT.format(problem=instance["problem_statement"].strip())
        with _log(instance["instance_id"], arguments.logs) as log:
            _turn(prompt, folder, home, log, arguments)
        _git(folder, "add", "-A")
        return _git(folder, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff", base)


def _turn(
    prompt: str, folder: Path, home: Path, log: BinaryIO, arguments: argparse.Namespace
) -> None:
    """Run one turn; if it is stopped, its changes until then count.

    Raise OSError for a turn that could not start. Its home is new, without memories of another
    instance.
    """
    command = [
        *(arguments.kore, "agent", "--home", str(home), "--cwd", str(folder)),
        *(["--config", str(arguments.config)] if arguments.config else []),
        *("--model", arguments.model, "--auto", "--output-format", "stream-json"),
        *(*arguments.agent_words, "--message", "-"),
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        process.communicate(prompt.encode(), timeout=arguments.timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return
    if process.returncode == _INVALID:
        log.seek(0)
        raise OSError(f"kore agent: {log.read().decode(errors='replace').strip()}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Terminate the process with all its children; kill them if they do not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return


def _log(name: str, folder: Path | None) -> BinaryIO:
    if folder is None:
        return cast(BinaryIO, tempfile.TemporaryFile())
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"{name.replace('/', '_')}.jsonl").open("wb+")


def _config() -> Path | None:
    place = Path(os.environ.get("KORE_CONFIG") or Path.home() / ".kore" / "config.json")
    return place.resolve() if place.is_file() else None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()
        raise OSError(f"git {words[0]} failed: {reason}")
    return done.stdout.decode("utf-8", errors="surrogateescape")


def _place(repo: str, arguments: argparse.Namespace) -> Path:
    place: Path = arguments.repos / f"{repo.replace('/', '__')}.git"
    return place


def _read(file: Path, *, missing_ok: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list or of JSON lines."""
    if missing_ok and not file.exists():
        return
    text = file.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        yield from json.loads(text)
    else:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())


def _lines(patch: str) -> int:
    changed = [line for line in patch.splitlines() if line[:1] in "+-"]
    return sum(not line.startswith(("+++", "---")) for line in changed)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at `--`: for this program, and for `kore agent`."""
    words = list(words)
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


if __name__ == "__main__":
    sys.exit(main())
