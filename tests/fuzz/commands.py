"""Run commands classified as read-only where they could write; the disk must not change.

Lines consist of programs in the table, their real options (from the local `--help`), wrappers and
shell syntax. Lines classified as read-only run in bubblewrap without the read-only mounts.
"""

import asyncio
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from agent.security.sandbox.base import Limits, SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap, features_of
from agent.security.shell.classifier import only_reads
from agent.security.shell.program_table import options, programs, wrappers
from agent.tools.shell.process_group import run
from tests.fuzz.run import Target

Judge = Callable[[str, Path, Path], bool]

LINES = 8
LINE_S = 0.5
BATCH_S = 15
LIMITS = Limits(processes=80, file_bytes=5_000_000, memory_bytes=500_000_000)
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z0-9][\w-]*)(\[?=)?")
_FILES = ("a", "b.txt", "data.csv", "dir", "dir/c", "dir/d.py", "x.json", "new", "dir/new", "out")
_SCRIPTS = (
    "1p", "s/a/b/", "s/a/b/w out", "1w out", "w new", "1e touch new", "s/.*/touch new/e", "$!N;p",
    "{print}", "{print > \"out\"}", "{print | \"tee out\"}", "BEGIN{system(\"touch new\")}", "/a/",
    ".", ".name", "keys", "%h %s", "+%s", "%(refname)", "*", "*.py", "[ab]*", "b*", "a\\|b", ".*",
)  # fmt: skip
_VALUES = ("1", "5", "-1", "+2", "0", "2k", "HEAD", "HEAD~1", "main", "master", "1,3", "always")
# Programs of the table that are too slow or need a terminal.
_LEFT_OUT = frozenset({"sleep", "wait", "cal", "hostname", "df", "readelf", "objdump", "trap"})
_OTHERS = ("rm", "tee", "cp", "mv", "touch", "sh", "python3", "split", "truncate", "true", "ln")
_WRAPPERS = (
    "{}", "{}", "{}", "{}", "env {}", "env A=1 {}", "env -S {q}", "env -S {q} new", "env -i {}",
    "env -vS{q} out", "env --split-string={q} b.txt", "timeout 1 {}", "timeout -k1 1 {}",
    "nice {}", "nice -n 5 {}", "nice --adjustment 5 {}", "stdbuf -oL {}", "time {}", "command {}",
    "builtin {}", "exec {}", "eval {}", "eval {q}", "sh -c {q}", "bash -c {q}", "nohup {}",
    "busybox {}", "setsid {}", "ionice -c3 {}", "flock a {}", "strace -o out {}",
    "script -c {q} out", "echo a | xargs -r {}",
    "echo a | xargs {}", "echo a b | xargs -n1 {}", "echo new | xargs --max-lines {}",
    "echo a | xargs -I% {}", "echo a | xargs -i {}", "echo a | xargs --replace {}",
    "echo a | xargs -d , {}", "echo a | xargs --max-args 1 {}", "echo a | xargs -l {}",
    "echo a | xargs -L 1 {}", "echo a | xargs --eof {}", "echo a | xargs -e {}", "xargs -a a {}",
    "find . -name a -exec {} \\;", "find dir -exec {} {{}} +", "find . -maxdepth 1 -execdir {} \\;",
    "echo $({})", "echo `{}`", "cat <({})", "[ -n \"$({})\" ]", "! {}", "( {} )", "{{ {}; }}",
    "if {}; then echo; fi", "for f in a new; do {} $f; done", "for f in a; do {} \"$f\" new; done",
    "while {}; do break; done", "cd dir && {}", "cd dir; {}", "{} > /dev/null", "{} 2>&1", "{} < a",
    "{} > out", "{} >> a", "{} >| out", "{} &> out", "{} <> new", "{} 2> out", "{} <<< x",
    "{} <<E\nx\nE\n", "{} &", "x=1 {}", "A=a; {} $A", "f() {{ {}; }}; f", "alias l={q}; l",
    "case a in a) {};; esac", "coproc {}", "{} | cat", "{} | tee out", "cat a | {}",
    "trap {q} EXIT", "{} --", "watch -n1 {}", "parallel {} ::: a",
)  # fmt: skip
_RUNNERS = (
    "env", "xargs", "xargs", "timeout", "nice", "stdbuf", "time", "command", "builtin", "exec",
    "nohup", "setsid", "ionice", "chrt", "setpriv", "flock", "unshare", "strace", "script",
)  # fmt: skip
_JOINTS = ("; ", " && ", " || ", " | ", "\n", " & ")


@cache
def _help_options(program: str) -> tuple[str, ...]:
    """Return every option in the program's help text."""
    words = program.split()
    if shutil.which(words[0]) is None:
        return ()
    texts = [*words, "-h"] if words[0] == "git" and len(words) > 1 else [words[0], "--help"]
    try:
        ran = subprocess.run(
            texts, capture_output=True, stdin=subprocess.DEVNULL, timeout=5, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    text = (ran.stdout + ran.stderr).decode("utf-8", "replace")[:40_000]
    return tuple(dict.fromkeys(match[1] for match in _OPTION.finditer(text)))


@cache
def _heads() -> tuple[str, ...]:
    """Return the installed programs of the table, and git's subcommands."""
    names = [
        name for name, spec in programs().items()
        if spec.get("class") == "reads" and "/" not in name and name not in _LEFT_OUT
        and shutil.which(name)
    ]  # fmt: skip
    git = [f"git {name}" for name in programs()["git"]["sub"] if name[0] != "-"]
    stash = [f"git stash {name}" for name in programs()["git"]["sub"]["stash"]["sub"]]
    # Weight these like all others together, because most bugs were found there.
    return (*names, *(git + stash) * 2, *_OTHERS)


@cache
def _table_options(head: str) -> tuple[str, ...]:
    """Return the options that the table lists for the program."""
    spec: Any = programs().get(head.split()[0], {})
    for word in head.split()[1:]:
        spec = spec.get("sub", {}).get(word, {})
    known = options(spec.get("known", ""))
    named = [*spec.get("text_options", ()), *spec.get("works", ()), *spec.get("forbid", ())]
    named += [*spec.get("options", ()), *(f"-{letter}" for letter in sorted(known.letters))]
    return (*named, *sorted(known.words))


def make(random: Random) -> list[str]:
    """Return a few lines."""
    return [_line(random) for _ in range(LINES)]


def _line(random: Random) -> str:
    line = _wrap_line(random)
    while random.random() < 0.2:
        line += random.choice(_JOINTS) + _wrap_line(random)
    return line


def _wrap_line(random: Random) -> str:
    line = _simple(random)
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        if random.random() < 0.3:
            line = _run_by(random) + line
            continue
        form = random.choice(_WRAPPERS)
        form = form.replace("{{", "\0").replace("}}", "\1")
        # The line may contain braces.
        before, mark, after = form.partition("{q}" if "{q}" in form else "{}")
        inner = shlex.quote(line) if mark == "{q}" else line
        outer = [text.replace("\0", "{").replace("\1", "}") for text in (before, after)]
        line = f"{outer[0]}{inner}{outer[1]}"
    return line


def _run_by(random: Random) -> str:
    """Return a wrapper program with options, sometimes with a writing program before the reader.

    A parser that takes the writing program for the value of an option classifies the line wrongly.
    """
    name = random.choice(_RUNNERS)
    pool = (*_help_options(name), *_of_wrapper(name))
    words = ["echo new | xargs" if name == "xargs" else name]
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        if pool:
            words.append(random.choice(pool))
        if random.random() < 0.3:
            words[-1] += random.choice((" ", "=", "")) + random.choice((*_VALUES, *_FILES))
    if random.random() < 0.4:
        words.append(random.choice(_OTHERS))
    return " ".join(words) + " "


@cache
def _of_wrapper(name: str) -> tuple[str, ...]:
    """Return the options that the table lists for a wrapper."""
    spec: Any = wrappers().get(name, {})
    short = [f"-{letter}" for key in ("flags", "values") for letter in spec.get(key, "")]
    return (*short, *spec.get("long_flags", ()), *spec.get("long_values", ()))


@cache
def _foreign() -> tuple[str, ...]:
    """Return options with which some program writes; other programs may support them, too."""
    texts = ["--output", "-o", "-w", "-i", "-u", "--in-place", "--delete", "--force"]
    for spec in programs().values():
        for entry in (spec, *spec.get("sub", {}).values()):
            texts += [*entry.get("works", ()), *entry.get("forbid", ())]
    return tuple(dict.fromkeys(texts))


def _simple(random: Random) -> str:
    head = random.choice(_heads())
    words = [head]
    for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))):
        words += _argument(head, random)
    return " ".join(words)


def _argument(head: str, random: Random) -> list[str]:
    kind = random.random()
    if kind < 0.35:
        return [random.choice(_FILES)]
    if kind < 0.45:
        return [shlex.quote(random.choice(_SCRIPTS))]
    if kind < 0.5:
        return [random.choice(_VALUES)]
    pool = random.choice(
        (_table_options(head), _table_options(head), _help_options(head), _foreign())
    )
    if not pool:
        return [f"-{random.choice('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ')}"]
    option = random.choice(pool)
    if option[:2] == "--" and random.random() < 0.15:
        option = option[: random.randrange(3, len(option) + 1)]
    elif option[:2] != "--" and len(option) == 2 and random.random() < 0.3:
        option += random.choice(pool)[-1]
    if random.random() < 0.45:
        value = shlex.quote(random.choice((*_FILES, *_FILES, *_SCRIPTS, *_VALUES)))
        glue = "" if option[-1] == "=" else random.choice(("=", " ", " ", ""))
        return f"{option}{glue}{value}".split(" ", 1)
    return [option]


def plant(folder: Path) -> None:
    """Create the files that the lines refer to, in a repository with two commits."""
    (folder / "dir").mkdir(parents=True)
    for name, text in {
        "a": "alpha\nb b\n", "b.txt": "beta\n1 2 3\n", "data.csv": "x,1\ny,2\n", "dir/c": "gamma\n",
        "dir/d.py": "import os\n", "x.json": '{"name": "value"}\n',
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    named = ["-c", "user.name=n", "-c", "user.email=e@x"]
    for words in (
        ["init", "-q", "-b", "main"], ["add", "."], [*named, "commit", "-qm", "first"],
        [*named, "commit", "-qm", "second", "--allow-empty"], ["tag", "v1"], ["branch", "old"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, check=True, env=_GIT)
    (folder / "a").write_text("changed\n")
    (folder / "dir" / "untracked").write_text("u\n")


_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": os.defpath}


def folder_state(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return the state of everything below a folder, so that any change is detected."""
    result: dict[str, tuple[Any, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        info = path.lstat()
        text = os.readlink(path).encode() if path.is_symlink() else b""
        if path.is_file() and not path.is_symlink():
            text = path.read_bytes()
        # `git describe --dirty` takes and releases a lock there.
        when = 0 if path == folder / ".git" else info.st_mtime_ns
        facts = (info.st_mode, info.st_uid, info.st_nlink, info.st_size, when)
        result[str(path.relative_to(folder))] = (*facts, hashlib.sha256(text).hexdigest())
    return result


class DiskChanged(Exception):
    """A line that is classified as read-only has changed the disk."""


class Range:
    """A workspace and a sandbox without write protection; `ran` counts the executed lines."""

    def __init__(self, scratch: Path, box: Bubblewrap, judge: Judge = only_reads) -> None:
        self._box, self._judge = box, judge
        self._folder = Path(os.path.realpath(scratch)) / "workspace"
        self._seed = Path(os.path.realpath(scratch)) / "seed"
        plant(self._seed)
        self._before: dict[str, tuple[Any, ...]] = {}
        self._reset()
        self.ran = 0

    def check(self, lines: list[str]) -> None:
        """Run the lines. Raise `DiskChanged` if one of them changes the disk."""
        reading = [
            candidate for candidate in lines if self._judge(candidate, self._folder, self._folder)
        ]
        if not reading or not self._changed_by(reading):
            return
        for line in reading:
            self._reset()
            if changed := self._changed_by([line]):
                raise DiskChanged(f"{line!r} changed {changed}")
        raise DiskChanged(f"together, {reading} changed something")

    def _reset(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._seed, self._folder, symlinks=True)
        # `git diff` refreshes the index, which is harmless. Refresh it here, so that the lines have
        # nothing to refresh.
        for path in self._folder.rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
        # Run it in the sandbox, where the files have another user, which git also records.
        asyncio.run(self._run("git update-index -q --refresh"))
        self._before = folder_state(self._folder)

    def _changed_by(self, lines: list[str]) -> list[str]:
        parts = ["export GIT_OPTIONAL_LOCKS=0"]
        parts += [
            f"timeout -s KILL {LINE_S} sh -c {shlex.quote(line)} </dev/null" for line in lines
        ]
        asyncio.run(self._run("\n".join(parts)))
        self.ran += len(lines)
        after = folder_state(self._folder)
        changed = [name for name in after.keys() | self._before.keys()
                   if after.get(name) != self._before.get(name)]  # fmt: skip
        if changed:
            self._reset()
        return sorted(changed)

    async def _run(self, script: str) -> None:
        with self._box.prepare(SandboxCommand(script, self._folder, self._folder)) as spawn:
            await run(spawn, BATCH_S, lambda _: None)


def bubblewrap() -> Bubblewrap | None:
    program = shutil.which("bwrap")
    if program is None:
        return None
    process = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return Bubblewrap(program, features_of(process.stdout + process.stderr), LIMITS)


def open_judge(scratch: Path) -> Callable[[Any], None]:
    box = bubblewrap()
    if box is not None:
        return Range(scratch, box).check

    def judge(lines: list[str]) -> None:
        for line in lines:
            only_reads(line, scratch, scratch)

    return judge


READING = Target("reading", make, open_judge)
