"""Small repository as data: a folder of files and a message for each commit."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t

_BEGIN = datetime(2024, 3, 4, 9, 30, tzinfo=UTC)
_BETWEEN = timedelta(days=5, hours=3)
_AUTHOR = "Robin Vale <robin@example.org>"
_USER = "[user]\n\tname = Robin Vale\n\temail = robin@example.org\n"


def repository_files(source: Path) -> dict[str, bytes]:
    """Return the files of the last commit; each commit adds or replaces files."""
    return {
        path.relative_to(source / str(number)).as_posix(): path.read_bytes()
        for number in _numbers(source)
        for path in _files(source / str(number))
    }


def build_repository(source: Path, folder: Path) -> None:
    """Create the repository with its history in `folder`, always with the same hashes.

    `source` contains `1.txt` (the message) and `1/` (the files) for the first commit, and so on.
    Raises `ConfigError` when git refuses.
    """
    stream = b"".join(_commits(source)) + b"done\n"
    for words, script in (
        (("init", "-q", "-b", "main", "."), b""),
        (("fast-import", "--quiet", "--done"), stream),
        (("reset", "-q", "--hard", "main"), b""),
    ):
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull},
            input=script,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip()
            raise ConfigError(t("{path}: git failed: {reason}", path=source, reason=reason))
    with (folder / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(_USER)


def missing_programs(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if shutil.which(name) is None]


def _commits(source: Path) -> Iterator[bytes]:
    for number in _numbers(source):
        message = source.joinpath(f"{number}.txt").read_bytes()
        seconds = int((_BEGIN + number * _BETWEEN).timestamp())
        yield f"commit refs/heads/main\ncommitter {_AUTHOR} {seconds} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)
        for path in _files(source / str(number)):
            mode = "100755" if path.stat().st_mode & stat.S_IXUSR else "100644"
            name = path.relative_to(source / str(number)).as_posix()
            content = path.read_bytes()
            yield f'M {mode} inline "{name}"\n'.encode()
            yield b"data %d\n%s\n" % (len(content), content)


def _numbers(source: Path) -> list[int]:
    """Return the numbers of the commits in order. Raises `ConfigError` if there are none."""
    numbers: list[int] = []
    while source.joinpath(f"{len(numbers) + 1}.txt").is_file():
        numbers.append(len(numbers) + 1)
    if not numbers:
        raise ConfigError(t("{path}: no commits found (1.txt with 1/, …)", path=source))
    return numbers


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
