"""Git for worktrees, outside of the sandbox and without programs of the repository.

Hooks, filters, merge drivers, file system monitors, editors and network access are off, the
person's own configuration is reduced to harmless values, and git does not search for repositories:
the store and the folder are given.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.git_layout import find_outer_store, is_bare, is_store
from agent.security.files.instruction_files import GIT
from agent.security.sandbox.git_defaults import read_git_defaults
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program
from agent.security.shell.git_safety import is_plain_configuration
from agent.security.taint.file_marks import is_marked

# A large checkout on a slow disk.
_TIMEOUT_S = 600
_MAX_MESSAGE_CHARS = 500
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.quotePath=false"),
    *("submodule.recurse=false", "gc.auto=0", "maintenance.auto=false"),
    *("commit.gpgSign=false", "merge.autoStash=false", "protocol.allow=never"),
    "merge.verifySignatures=false",
)
_PROGRAM_KEYS = r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver)$"
_VARIABLES = {
    "PATH": SYSTEM_PATH,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "LC_ALL": "C",
}
# Variables that lead git to the patterns of files that the person always ignores.
_INHERITED = ("HOME", "XDG_CONFIG_HOME")
# For people whose git does not know their name.
_IDENTITY = {"NAME": "Kore", "EMAIL": "kore@localhost"}


class WorktreeError(KoreError):
    """Error: a worktree cannot be created, merged or removed; nothing was lost."""

    code = "worktree"


@frozen
class GitResult:
    """Result of a git command; `error` is its output on stderr."""

    code: int
    output: str
    error: str


@frozen
class Checkout:
    """Folder with files of a repository: the main checkout, or a linked worktree.

    `store` has the state of this folder (HEAD, index), `main` is the folder of the main checkout.
    `common` is the store of the repository; if it is bare, `main` is this folder. Git uses `index`
    instead of its own index, unless it is None. All are real paths.
    """

    folder: Path
    store: Path
    main: Path
    common: Path
    index: Path | None = None

    @property
    def is_main(self) -> bool:
        return self.store == self.common

    @property
    def is_bare(self) -> bool:
        """True if the repository has no main checkout."""
        return self.main != self.common.parent

    def run(self, *words: str, data: bytes = b"") -> GitResult:
        """Run git here, with `data` as its input.

        Raises `WorktreeError` if git is missing or times out.
        """
        program = find_trusted_program("git", path=SYSTEM_PATH)
        if program is None:
            raise WorktreeError(t("git is not installed"))
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        with tempfile.TemporaryDirectory() as folder:
            for path, defaults in read_git_defaults(None).files(folder).items():
                Path(path).write_bytes(defaults)
            home = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            places = {
                "GIT_DIR": str(self.store),
                # Commands may write the file in `store` that contains the same value.
                "GIT_COMMON_DIR": str(self.common),
                "GIT_WORK_TREE": str(self.folder),
            }
            if self.index is not None:
                places["GIT_INDEX_FILE"] = str(self.index)
            environ = {**_VARIABLES, **home, **places, "GIT_CONFIG_GLOBAL": f"{folder}/config"}
            if words[:1] in (("merge",), ("commit",)) and not _has_identity(
                program, self.folder, environ
            ):
                environ |= {
                    f"GIT_{role}_{part}": value
                    for role in ("AUTHOR", "COMMITTER")
                    for part, value in _IDENTITY.items()
                }
            environ |= _without_programs(program, self.folder, environ)
            return _run([program, *settings, *words], self.folder, environ, data)

    def ask(self, *words: str, data: bytes = b"") -> str:
        """Return the output of git without the last newline. Raises `WorktreeError`."""
        result = self.run(*words, data=data)
        if result.code != 0:
            raise WorktreeError(failure_of(words[0], result))
        return result.output.removesuffix("\n")

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a name refers to here."""
        result = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return result.output.strip() if result.code == 0 else None

    @property
    def branch(self) -> str | None:
        """Name of the branch that is checked out; None for a detached HEAD."""
        result = self.run("symbolic-ref", "--quiet", "--short", "HEAD")
        return result.output.strip() if result.code == 0 else None


def failure_of(command: str, result: GitResult) -> str:
    """Return a sentence about a git command that failed."""
    reason = " ".join((result.error or result.output).split())[:_MAX_MESSAGE_CHARS]
    return t("git {command} failed: {reason}", command=command, reason=reason)


def find_checkout(folder: Path, *, is_trusted: bool) -> Checkout:
    """Return the checkout whose top is `folder`, a real path.

    Raises `WorktreeError` for other folders, and for a repository whose configuration may name
    programs, unless it `is_trusted`.
    """
    store, git = folder / GIT, folder / GIT
    if git.is_symlink() or not os.path.lexists(git):
        raise WorktreeError(t("{folder} is not a git repository", folder=folder))
    if git.is_dir():
        main, common = folder, git
    else:
        outer = find_outer_store(folder)
        if outer is None or outer.own == outer.common:
            raise WorktreeError(
                t("{folder} is a submodule, or its git store lies elsewhere", folder=folder)
            )
        store, common = outer.own, outer.common
        main = folder if is_bare(common) else common.parent
    if not is_store(common):
        raise WorktreeError(t("{folder} is not a git repository", folder=folder))
    checkout = Checkout(folder, store, main, common)
    of_worktree = common / "config.worktree"
    if not is_trusted:
        _refuse_programs(common / "config", main)
    if not is_trusted or is_marked(of_worktree):
        _refuse_programs(of_worktree, main)
    if not checkout.is_main:
        check_state(checkout)
    return checkout


def check_state(checkout: Checkout) -> None:
    """Raise `WorktreeError` if the state of a worktree may name programs for git to run.

    Commands may write there, so the trust in a repository does not count.
    """
    _refuse_programs(checkout.store / "config.worktree", checkout.main)


def _refuse_programs(file: Path, main: Path) -> None:
    if not is_plain_configuration(file):
        raise WorktreeError(
            t("{file} may name programs, so git is not started there", file=file),
            hint=t("if you trust the repository: kore trust {folder}", folder=main),
        )


def _has_identity(program: str, folder: Path, environ: Mapping[str, str]) -> bool:
    result = _run([program, "config", "user.email"], folder, environ)
    return result.code == 0 and bool(result.output.strip())


def _without_programs(program: str, folder: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables that turn off filters and merge drivers of the configuration.

    The programs of a trusted repository are often files that commands can change, such as those of
    a virtual environment.
    """
    result = _run(
        [program, "config", "--null", "--name-only", "--get-regexp", _PROGRAM_KEYS], folder, environ
    )
    keys = dict.fromkeys(filter(None, result.output.split("\0")))
    variables = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        is_empty = key.endswith((".clean", ".smudge", ".process"))
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        # As a merge driver, `false` leaves a conflict.
        variables[f"GIT_CONFIG_VALUE_{number}"] = "" if is_empty else "false"
    return variables


def _run(
    command: list[str], folder: Path, environ: Mapping[str, str], data: bytes = b""
) -> GitResult:
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environ,
            input=data,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise WorktreeError(t("git failed: {reason}", reason=exc)) from exc
    output, error = (os.fsdecode(stream) for stream in (ran.stdout, ran.stderr))
    return GitResult(ran.returncode, output, error)
