"""Protection of repositories during commands: deletions are reverted, git's own work is not."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from agent.tools.repositories.history import GitHistoryGuard, own_stores
from agent.tools.repositories.store_files import HistoryCache, HistoryLimits

git_is_installed = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
pytestmark = git_is_installed


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def shell(line: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        subprocess.run(["sh", "-c", line], cwd=folder, check=True, capture_output=True)

    return run


def steps(*lines: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        for line in lines:
            git(folder, *line.split())

    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with packed and loose objects.

    The branch `side` and a large object are packed.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "large.bin").write_bytes(Random(1).randbytes(256_000))
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "branch", "side")
    git(folder, "gc", "-q")
    (folder / "a.txt").write_text("two\n")
    git(folder, "commit", "-q", "-a", "-m", "two")
    return folder


@pytest.fixture
def guard(repository: Path) -> Iterator[GitHistoryGuard]:
    guard = GitHistoryGuard(repository)
    guard.begin([repository / ".git"])
    yield guard
    guard.end(is_restored=False)


@pytest.mark.parametrize(
    "deletion",
    [
        shell("rm -rf .git"),
        shell("rm -rf .git/*"),
        shell("rm -rf .git/HEAD"),
        shell("rm -rf .git/objects"),
        shell("rm -rf .git/refs"),
        shell("rm -rf .git/objects/*"),
        shell("rm -f .git/objects/pack/*"),
        shell("rm -rf .git/objects/??"),
        shell("rm -rf .git/refs/*"),
        shell("rm -rf .git/refs/heads/main"),
        shell("rm -f .git/packed-refs"),
        shell("rm -rf .git/refs/heads/* .git/logs .git/packed-refs"),
        shell("rm -rf .git/refs/heads .git/refs/tags .git/logs .git/packed-refs"),
        shell("find .git/refs .git/logs -type f -delete; rm .git/packed-refs"),
        shell("find .git/refs .git/logs -type f -delete"),
        shell("rm .git/refs/heads/main .git/logs/refs/heads/main"),
        shell("rm -rf .git/logs/refs .git/refs/heads/main"),
        shell("D=.git; rm -rf $D"),
        shell("mv .git ../moved"),
        shell("mkdir build; mv .git build; rm -rf build"),
        shell("mv .git/objects ../moved"),
        shell("find .git -type f -delete"),
        shell("python3 -c 'import shutil; shutil.rmtree(\".git\")'"),
    ],
)
def test_deletion_is_reversed(
    repository: Path, guard: GitHistoryGuard, deletion: Callable[[Path], None]
) -> None:
    log = git(repository, "log", "--all", "--format=%H %D")
    deletion(repository)
    assert list(guard.end()) == [".git"]
    assert git(repository, "log", "--all", "--format=%H %D") == log
    git(repository, "fsck", "--full", "--strict")
    git(repository, "checkout", "-q", "-f", "side")


def _pretend_to_pack(folder: Path, *, with_index: bool) -> None:
    """Replace all objects with a pack that contains none of them."""
    objects = folder / ".git" / "objects"
    shutil.rmtree(objects)
    (objects / "pack").mkdir(parents=True)
    (objects / "pack" / "x.pack").write_bytes(b"PACK" if with_index else b"")
    if with_index:
        (objects / "pack" / "x.idx").write_bytes(b"\xfftOc\0\0\0\2" + bytes(1024))


def _pack_the_newest_commit_only(folder: Path) -> None:
    """Replace all objects with a pack of one commit, and another object with an empty file."""
    tip, earlier = git(folder, "rev-parse", "main", "side").split()
    objects = folder / ".git" / "objects"
    pack = subprocess.run(
        ["git", "pack-objects", "-q", "--stdout"],
        cwd=folder,
        check=True,
        input=tip.encode(),
        capture_output=True,
    ).stdout
    shutil.rmtree(objects)
    (objects / "pack").mkdir(parents=True)
    (objects / "pack" / "x.pack").write_bytes(pack)
    git(folder, "index-pack", str(objects / "pack" / "x.pack"))
    (objects / earlier[:2]).mkdir()
    (objects / earlier[:2] / earlier[2:]).touch()


@pytest.mark.parametrize(
    "deletion",
    [
        partial(_pretend_to_pack, with_index=False),
        partial(_pretend_to_pack, with_index=True),
        _pack_the_newest_commit_only,
    ],
)
def test_pack_counts_only_if_it_contains_the_deleted_objects(
    repository: Path, guard: GitHistoryGuard, deletion: Callable[[Path], None]
) -> None:
    deletion(repository)
    assert list(guard.end()) == [".git"]
    for path in (repository / ".git" / "objects").rglob("*"):
        if path.is_file() and path.stat().st_size == 0:
            path.unlink()
    git(repository, "cat-file", "-e", "main~1:large.bin")


@pytest.mark.parametrize(
    "work",
    [
        steps("commit -q --allow-empty -m three"),
        steps("gc -q --prune=now"),
        steps("gc -q", "gc -q"),
        steps("repack -q -a -d", "prune-packed"),
        steps("branch new", "branch -q -D side"),
        steps("branch -m main trunk"),
        steps("pack-refs --all", "branch -q -D side"),
        steps("checkout -q side", "branch -q -D main", "prune --expire=now"),
        steps("update-ref -d HEAD"),
        shell("echo x >> a.txt; git -c user.name=A -c user.email=a@b stash -q; git stash drop -q"),
        steps("commit -q --allow-empty -m three", "pack-refs --all"),
        steps("tag v1", "tag -d v1"),
        steps("reset -q --hard HEAD~1", "reflog expire --expire=now --all", "gc -q --prune=now"),
        shell("cd .. && mv project moved && mkdir project"),
        steps("init -q --separate-git-dir=../moved"),
        steps("checkout -q --orphan new", "branch -q -D main side"),
        steps("checkout -q --detach", "branch -q -D main side", "pack-refs --all --prune"),
        steps("symbolic-ref HEAD refs/heads/other", "branch -q -D main"),
        steps("branch a/b/c", "branch -q -D a/b/c", "reflog delete HEAD@{0}"),
        steps("remote add o .", "fetch -q o", "remote remove o"),
        steps("worktree add -q tree side", "worktree remove tree"),
        shell("git bisect start HEAD HEAD~1 && git bisect reset"),
    ],
)
def test_changes_by_git_are_not_reversed(
    repository: Path, guard: GitHistoryGuard, work: Callable[[Path], None]
) -> None:
    work(repository)
    before = _files(repository)
    assert list(guard.end()) == []
    assert _files(repository) == before


def test_repository_moved_by_name_stays_moved(repository: Path) -> None:
    """Moving a repository by its name requires approval."""
    guard = GitHistoryGuard(repository)
    guard.begin([repository / ".git"], [repository / ".git"])
    (repository / ".git").rename(repository / "moved")
    assert list(guard.end()) == []
    assert not (repository / ".git").exists()


def test_new_repository_is_not_mixed_with_the_old_one(
    repository: Path, guard: GitHistoryGuard
) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    shutil.rmtree(repository / ".git")
    git(repository, "init", "-q", "-b", "main")
    before = _files(repository)
    assert list(guard.end()) == [".git.kept"]
    assert before <= _files(repository)
    assert git(repository, "--git-dir=.git.kept", "rev-parse", "HEAD") == commit


def test_link_in_place_of_a_folder_is_not_followed(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (repository / ".git" / "refs" / "link").symlink_to(outside)
    guard = GitHistoryGuard(repository)
    guard.begin([repository / ".git"])
    shutil.rmtree(repository / ".git")
    (repository / ".git").symlink_to(outside)
    assert list(guard.end()) == []
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


def test_too_large_repository_is_named(repository: Path) -> None:
    guard = GitHistoryGuard(repository, limits=HistoryLimits(files=3))
    guard.begin([repository / ".git"])
    shutil.rmtree(repository / ".git")
    assert list(guard.end()) == []
    assert guard.unprotected == [".git"]


@pytest.mark.parametrize("name", ["zz", "hooks", "lfs/objects", "objects/zzz"])
def test_unrelated_files_in_the_repository_are_ignored(repository: Path, name: str) -> None:
    flooded = repository / ".git" / name
    flooded.mkdir(parents=True, exist_ok=True)
    for number in range(200):
        (flooded / str(number)).touch()
    os.makedirs(repository / ".git" / ("a/" * 45))
    guard = GitHistoryGuard(repository, limits=HistoryLimits(files=100))
    guard.begin([repository / ".git"])
    shutil.rmtree(repository / ".git")
    assert list(guard.end()) == [".git"]
    assert guard.unprotected == []


def test_too_deep_history_is_named(repository: Path) -> None:
    os.makedirs(repository / ".git" / "refs" / ("a/" * 45))
    guard = GitHistoryGuard(repository)
    guard.begin([repository / ".git"])
    guard.end()
    assert guard.unprotected == [".git"]


def test_deep_folders_of_a_command_do_not_hide_its_deletions(
    repository: Path, guard: GitHistoryGuard
) -> None:
    os.makedirs(repository / ".git" / "refs" / ("a/" * 45))
    shutil.rmtree(repository / ".git" / "objects" / "pack")
    assert list(guard.end()) == [".git"]


def test_other_stores_are_protected_despite_an_oversized_one(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    stores = [repository / ".git", other / ".git"]
    guard = GitHistoryGuard(tmp_path, limits=HistoryLimits(files=20))
    for number in range(30):
        (stores[0] / "refs" / f"r{number}").write_text(f"{number:040}\n")
    guard.begin(stores)
    for store in stores:
        shutil.rmtree(store)
    assert list(guard.end()) == ["other/.git"]
    assert guard.unprotected == ["project/.git"]


def test_submodules_and_worktrees_are_protected(repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    git(tmp_path, "init", "-q", "-b", "main", str(library))
    git(library, "commit", "-q", "--allow-empty", "-m", "library")
    allowed = ["-c", "protocol.file.allow=always"]
    git(repository, *allowed, "submodule", "--quiet", "add", str(library), "libs/one")
    git(repository, "worktree", "add", "-q", "../tree", "side")
    inner = repository / "libs" / "one"
    git(inner, "commit", "-q", "--allow-empty", "-m", "unpublished")
    commit = git(inner, "rev-parse", "HEAD")
    guard = GitHistoryGuard(repository)
    guard.begin([repository / ".git"])
    shutil.rmtree(repository / ".git")
    assert list(guard.end()) == [".git", ".git/modules/libs/one"]
    assert git(inner, "rev-parse", "HEAD") == commit
    assert git(tmp_path / "tree", "rev-parse", "--abbrev-ref", "HEAD") == "side\n"


def test_own_stores_are_the_outermost_repositories(repository: Path) -> None:
    own, clone = repository / ".git", repository / "build" / "clone" / ".git"
    assert list(own_stores(repository, lambda: (own, clone))) == [own]
    above = repository.parent
    other = above / "other" / ".git"
    assert list(own_stores(above, lambda: (own, clone, other))) == [own, other]


def test_store_named_by_a_git_file_belongs_to_the_repository(repository: Path) -> None:
    git(repository, "init", "-q", "--separate-git-dir", "store")
    assert list(own_stores(repository, tuple)) == [repository / "store"]
    (repository / ".git").write_text("gitdir: /elsewhere\n")
    assert list(own_stores(repository, tuple)) == []


def test_small_part_of_a_too_large_repository_is_read_once(repository: Path) -> None:
    for number in range(30):
        (repository / ".git" / "refs" / f"r{number}").write_text(f"{number:040}\n")
    cache = HistoryCache()
    GitHistoryGuard(repository, cache, HistoryLimits(files=20)).begin([repository / ".git"])
    assert list(cache.folders) == [repository / ".git"]


def test_grown_files_are_restored_unchanged(repository: Path, guard: GitHistoryGuard) -> None:
    (pack,) = (repository / ".git" / "objects" / "pack").glob("*.pack")
    content = pack.read_bytes()
    pack.chmod(0o600)
    os.truncate(pack, 1 << 33)
    pack.unlink()
    assert list(guard.end()) == [".git"]
    assert pack.read_bytes() == content


def test_endless_refs_file_is_not_read_to_its_end(repository: Path, guard: GitHistoryGuard) -> None:
    os.truncate(repository / ".git" / "packed-refs", 1 << 40)
    assert list(guard.end()) == []


def test_commands_share_the_descriptors_of_large_files(repository: Path) -> None:
    cache, limits = HistoryCache(), HistoryLimits(open_files=1)
    guards = [GitHistoryGuard(repository, cache, limits) for _ in range(2)]
    for guard in guards:
        guard.begin([repository / ".git"])
    guards[0].end()
    shutil.rmtree(repository / ".git")
    assert list(guards[1].end()) == [".git"]
    git(repository, "fsck", "--full", "--strict")


def test_ended_command_keeps_no_descriptors_open(repository: Path) -> None:
    guard = GitHistoryGuard(repository)
    before = os.listdir("/proc/self/fd")
    guard.end()
    guard.begin([repository / ".git"])
    assert os.listdir("/proc/self/fd") == before


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.parent.rglob("*")}
