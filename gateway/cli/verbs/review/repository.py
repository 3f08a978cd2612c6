"""Access to a repository with git, without the repository's own configuration.

A repository's configuration can name programs for git to run. Here, git works in a temporary store
that takes only references and objects from the repository, so that it runs none of these programs.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from agent.context.project.repository_state import MAIN_BRANCHES, REMOTE_HEAD, find_repository
from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.safe_open import read_regular
from agent.security.sandbox.git_defaults import read_git_defaults
from agent.security.sandbox.trusted_programs import find_trusted_program
from agent.text.visible import escape_line

_TIMEOUT_S = 120.0
_MAX_ERROR_CHARS = 300
_MAX_LIST_BYTES = 1_000_000
_MAX_DIFF_BYTES = 20_000_000
_MAX_HEAD_BYTES = 1_000
_MAX_INDEX_BYTES = 200_000_000
_MAX_EXCLUDES_BYTES = 65_536
_CONFIGURATION = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
_DIFF = (
    *("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--unified=5"),
    *("--ignore-submodules=dirty", "--src-prefix=a/", "--dst-prefix=b/"),
)


@frozen
class GitReader:
    """Reader of the repository with the top folder `top`, through the temporary `store`."""

    top: Path
    store: Path
    program: str

    def commit(self, name: str) -> str | None:
        """Return the id of a commit, or None for an unknown name."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        done = self._start(*words, limit_bytes=_MAX_HEAD_BYTES)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def main_branch(self) -> str | None:
        """Return a name of the main branch, preferably the remote's, or None."""
        names = [
            f"refs/{kind}/{name}" for kind in ("remotes/origin", "heads") for name in MAIN_BRANCHES
        ]
        return next((name for name in (REMOTE_HEAD, *names) if self.commit(name)), None)

    def merge_base(self, base: str, head: str) -> str | None:
        """Return the last common commit of two commits, or None."""
        done = self._start("merge-base", base, head, limit_bytes=_MAX_HEAD_BYTES)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def diff(self, base: str, head: str | None) -> bytes:
        """Return the diff to a commit, or to the folder with its new files.

        It ends before the file that exceeds the limit.
        """
        if head is None:
            self._add_new_files()
        diff = self._read(*_DIFF, base, *filter(None, [head]), limit_bytes=_MAX_DIFF_BYTES)
        return diff[: diff.rfind(b"\ndiff --git ") + 1] if len(diff) == _MAX_DIFF_BYTES else diff

    def changed_paths(self, base: str, head: str | None) -> list[str]:
        """Return the names of the changed files, in the order of the diff."""
        names = (*_DIFF, "--name-only", "-z", base, *filter(None, [head]))
        return _names(self._read(*names, limit_bytes=_MAX_LIST_BYTES))

    def export(self, commit: str, folder: Path) -> None:
        """Write the files of a commit into a new folder."""
        folder.mkdir()
        index = {"GIT_INDEX_FILE": str(self.store / "index-of-commit")}
        self._read("read-tree", commit, limit_bytes=0, variables=index)
        words = ("checkout-index", "--all", f"--prefix={folder}/")
        self._read(*words, limit_bytes=0, variables=index)

    def _add_new_files(self) -> None:
        """Make the diff contain untracked files; only the index of the temporary store changes."""
        words = ("ls-files", "--others", "--exclude-standard", "-z")
        # A name that ends with a slash is another repository.
        names = [
            name
            for name in _names(self._read(*words, limit_bytes=_MAX_LIST_BYTES))
            if name[-1] != "/"
        ]
        if names:
            listing = self.store / "new-files"
            listing.write_bytes("\0".join(names).encode("utf-8", "surrogateescape"))
            source = (f"--pathspec-from-file={listing}", "--pathspec-file-nul")
            self._read("--literal-pathspecs", "add", "--intent-to-add", *source, limit_bytes=0)

    def _read(
        self, *words: str, limit_bytes: int, variables: dict[str, str] | None = None
    ) -> bytes:
        done = self._start(*words, limit_bytes=limit_bytes, variables=variables)
        if done.returncode != 0:
            reason = escape_line(done.stderr.decode("utf-8", "replace").strip())
            raise KoreError(t("git failed: {reason}", reason=reason[:_MAX_ERROR_CHARS]))
        return done.stdout

    def _start(
        self, *words: str, limit_bytes: int, variables: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run git; if its output exceeds the limit, end it with the code 0.

        Raises `KoreError` if git cannot be started, takes too long or is killed.
        """
        environ = {
            **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            **(variables or {}),
        }
        place = (f"--git-dir={self.store}", f"--work-tree={self.top}")
        command = [self.program, *place, "-c", "core.quotePath=false", *words]
        errors = self.store / "errors"
        try:
            with (
                errors.open("wb") as stderr,
                subprocess.Popen(
                    command,
                    cwd=self.top,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                ) as process,
            ):
                output = _read_output(process, limit_bytes)
        except OSError as exc:
            raise KoreError(t("git failed: {reason}", reason=exc)) from exc
        message = read_regular(errors, _MAX_HEAD_BYTES)
        code = process.returncode
        if len(output) > limit_bytes:
            code = 0
        elif code < 0:
            reason = signal.strsignal(-code) or str(code)
            raise KoreError(t("git failed: {reason}", reason=reason))
        return subprocess.CompletedProcess(command, code, output[:limit_bytes], message)


@contextmanager
def git_reader(folder: Path) -> Iterator[GitReader]:
    """Yield a reader of the repository around a folder. Raises `ConfigError`."""
    repository = find_repository(folder)
    if repository is None:
        raise ConfigError(t("{folder}: not in a git repository", folder=escape_line(str(folder))))
    program = find_trusted_program("git", (repository.top,))
    if program is None:
        raise ConfigError(t("git is not installed"))
    with TemporaryDirectory(prefix="kore-git-") as name:
        store = Path(name).resolve()
        (store / "config").write_text(_CONFIGURATION, encoding="utf-8")
        (store / "objects" / "info").mkdir(parents=True)
        (store / "objects" / "info" / "alternates").write_bytes(
            os.fsencode(repository.common / "objects") + b"\n"
        )
        (store / "HEAD").write_bytes(read_regular(repository.own / "HEAD", _MAX_HEAD_BYTES))
        for part in ("refs", "packed-refs", "shallow"):
            if (repository.common / part).exists():
                (store / part).symlink_to(repository.common / part)
        (store / "info").mkdir()
        (store / "info" / "exclude").write_bytes(_excludes(repository.common))
        index = repository.own / "index"
        if index.exists():
            (store / "index").write_bytes(read_regular(index, _MAX_INDEX_BYTES))
        yield GitReader(repository.top, store, program)


def _excludes(common: Path) -> bytes:
    """Return the patterns of ignored files of this person and of the repository.

    The last matching pattern counts.
    """
    own = common / "info" / "exclude"
    patterns = read_regular(own, _MAX_EXCLUDES_BYTES) if own.exists() else b""
    return read_git_defaults(None).excludes + b"\n" + patterns


def _read_output(process: "subprocess.Popen[bytes]", limit_bytes: int) -> bytes:
    """Return the output, one byte longer than the limit if it exceeds it; the process has ended."""
    assert process.stdout is not None
    timer = Timer(_TIMEOUT_S, process.kill)
    timer.start()
    try:
        output = process.stdout.read(limit_bytes + 1)
        if len(output) > limit_bytes:
            process.kill()
        process.wait()
    finally:
        timer.cancel()
    return output


def _names(output: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in output.split(b"\0") if name]
