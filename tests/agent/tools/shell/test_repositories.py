"""Everyday git in a sandbox: in projects with configuration, worktrees and submodules."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.files.git_layout import find_outer_store
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.shell.exec import Exec
from tests.ordinary_user import USERS, require_sandbox, run_as, shared_place

PROGRAM = Path("tests", "agent", "tools", "shell", "git_in_worktree.py")

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
COMMIT = f"git {' '.join(IDENTITY)} commit -qm"


def git(folder: Path, *arguments: str) -> str:
    """Run the person's own git, outside of the sandbox."""
    command = ["git", *IDENTITY, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(workspace: Path) -> Path:
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "first")
    return workspace


async def run_exec(
    box: Bubblewrap, call: CallContext, command: str, settings: ToolSettings | None = None
) -> str:
    tool = Exec(replace(settings or ToolSettings(), sandbox=box))
    return (await tool.run({"command": command}, call)).for_model


async def test_policy_file_in_the_project_is_readable_but_fixed(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    policy = repository / "conf" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("rules: []\n")
    settings = replace(ToolSettings(), fixed_files=(policy,))
    line = f"cat conf/policy.yaml && git add conf && {COMMIT} policy && git log --format=%s"
    shown = await run_exec(box, call, line, settings)
    assert shown.splitlines()[:3] == ["rules: []", "policy", "first"]
    for attempt in (
        "echo x >conf/policy.yaml",
        "rm -f conf/policy.yaml",
        "mv conf old; mkdir conf; echo x >conf/policy.yaml",
        "git rm -q conf/policy.yaml",
        "echo x >new; mv new conf/policy.yaml",
    ):
        await run_exec(box, call, attempt, settings)
        assert policy.read_text() == "rules: []\n", attempt
    with pytest.raises(ToolError, match="part of Kore"):
        WorkspaceScope(settings).find("conf/policy.yaml", call)


@pytest.mark.skipif(os.geteuid() != 0, reason="runs as another user for a while")
def test_landlock_refuses_commands_that_could_change_the_policy_file(workspace: Path) -> None:
    policy = workspace / "policy.yaml"
    job = SandboxCommand("true", workspace, workspace, locked_paths=(policy,))
    os.seteuid(65534)
    try:
        with pytest.raises(ToolError, match=r"policy\.yaml"), Landlock(5).prepare(job):
            pass
    finally:
        os.seteuid(0)


async def test_worktree_inside_the_workspace_works_from_add_to_remove(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    for line in (
        "git worktree add -q -b side trees/side",
        f"cd trees/side && echo x >a && git add a && {COMMIT} second",
        f"echo y >b && git add b && {COMMIT} third",
        "git worktree add -q -b other trees/other && cd trees/other && git status --short",
        "git worktree move trees/other trees/moved",
        "git gc -q && git worktree prune",
        "git worktree remove trees/side && git worktree remove trees/moved",
    ):
        shown = await run_exec(box, call, line)
        assert shown.endswith("[exit code 0]"), (line, shown)
    assert git(repository, "log", "--format=%s", "side").split() == ["second", "first"]
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_commits_in_a_submodule_work(
    box: Bubblewrap, call: CallContext, repository: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-q", "--allow-empty", "-m", "of the library")
    git(repository, "submodule", "--quiet", "add", str(library), "parts/lib")
    git(repository, "commit", "-qm", "add the library")
    line = f"cd parts/lib && echo x >a && git add a && {COMMIT} change && cd ../.."
    shown = await run_exec(box, call, f"{line} && git add parts && {COMMIT} update")
    assert shown.endswith("[exit code 0]"), shown
    assert git(repository / "parts/lib", "log", "--format=%s").splitlines()[0] == "change"
    store = repository / ".git/modules/parts/lib"
    before = (store / "config").read_text()
    for attempt in (
        f"cd parts/lib && git config core.fsmonitor ./x; echo x >>{store}/config",
        f"echo x >{store}/new; mv {store}/new {store}/config",
        f"echo x >{store}/hooks/pre-commit",
        f"mv {store} {store}.old; mv .git/modules/parts .git/modules/old",
    ):
        await run_exec(box, call, attempt)
        assert (store / "config").read_text() == before, attempt
        assert not (store / "hooks/pre-commit").exists()
        assert not (repository / "parts/lib/.git").read_text().startswith("x")


async def test_worktrees_of_a_tainted_conversation_keep_their_pointers(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    """Git in a worktree reads the configuration of the store that its `commondir` names."""
    git(repository, "worktree", "add", "-q", "-b", "side", "side")
    exposed = replace(call, taint=frozenset({"untrusted"}))
    line = f"cd side && echo x >a && git add a && {COMMIT} second"
    assert (await run_exec(box, exposed, line)).endswith("[exit code 0]")
    entry = repository / ".git/worktrees/side"
    for attempt in (
        f"echo ../../../evil >{entry}/commondir",
        f"rm -f {entry}/commondir; echo ../../../evil >{entry}/commondir",
        f"mv {entry} {entry}.old; mkdir {entry}; echo ../../../evil >{entry}/commondir",
        "mv .git/worktrees .git/old; mkdir -p .git/worktrees/side",
        f"printf '[core]\\n\\tfsmonitor = ./x\\n' >{entry}/config.worktree",
    ):
        await run_exec(box, exposed, attempt)
        assert (entry / "commondir").read_text() == "../..\n", attempt
        assert not (entry / "config.worktree").exists(), attempt


async def test_new_worktrees_of_a_tainted_conversation_are_judged(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    exposed = replace(call, taint=frozenset({"untrusted"}))
    line = "git worktree add -q -b side side && echo ../../../evil >.git/worktrees/side/commondir"
    assert "set-aside" in await run_exec(box, exposed, line)
    assert not (repository / "side/.git").exists()
    line = "git worktree add -q -b good good"
    assert "set-aside" not in await run_exec(box, exposed, line)
    line = (
        "git worktree add -q -b bad bad && "
        "printf '[core]\\n\\tfsmonitor = ./x\\n' >.git/worktrees/bad/config.worktree"
    )
    assert "set-aside" in await run_exec(box, exposed, line)
    assert not (repository / ".git/worktrees/bad/config.worktree").exists()


@pytest.fixture
def in_worktree(call: CallContext, tmp_path: Path) -> CallContext:
    """Return the context of a call in a linked worktree of a repository elsewhere."""
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    folder = tmp_path / "side"
    git(main, "worktree", "add", "-q", "-b", "side", str(folder))
    return replace(call, environment=replace(call.environment, workspace=folder))


async def test_git_works_in_a_worktree_with_its_store_elsewhere(
    box: Bubblewrap, in_worktree: CallContext
) -> None:
    folder = in_worktree.workspace
    for line in (
        f"git status && echo x >a && git add a && {COMMIT} second",
        f"git checkout -q -b more && git branch extra && {COMMIT} third --allow-empty",
        "git stash list && git gc -q && git log --oneline main",
    ):
        shown = await run_exec(box, in_worktree, line)
        assert shown.endswith("[exit code 0]"), (line, shown)
    assert git(folder.parent / "main", "log", "--format=%s", "more").split() == [
        *("third", "second", "first")
    ]


async def test_worktrees_inside_a_worktree_work_from_add_to_remove(
    box: Bubblewrap, in_worktree: CallContext
) -> None:
    main = in_worktree.workspace.parent / "main"
    for line in (
        "git worktree add -q -b hotfix trees/hotfix",
        f"cd trees/hotfix && {COMMIT} x --allow-empty",
        f"cd trees/hotfix && {COMMIT} y --allow-empty && git reset -q --hard HEAD~1",
        "git gc -q && git worktree list",
        "git worktree move trees/hotfix trees/moved && git worktree remove trees/moved",
        "git worktree add -q -b gone gone && rm -rf gone",
        "git worktree prune && git gc -q",
    ):
        shown = await run_exec(box, in_worktree, line)
        assert shown.endswith("[exit code 0]"), (line, shown)
    assert git(main, "log", "-1", "--format=%s", "hotfix") == "x\n"
    assert git(main, "worktree", "list").count("\n") == 2


async def test_tainted_conversation_plants_nothing_in_worktrees_of_an_outer_store(
    box: Bubblewrap, in_worktree: CallContext
) -> None:
    store = in_worktree.workspace.parent / "main/.git"
    git(in_worktree.workspace, "config", "extensions.worktreeConfig", "true")
    git(in_worktree.workspace, "worktree", "add", "-q", "-b", "inner", "inner")
    exposed = replace(in_worktree, taint=frozenset({"untrusted"}))
    entry = store / "worktrees/inner"
    before = {name: (entry / name).read_bytes() for name in ("gitdir", "commondir")}
    for attempt in (
        f"printf '[core]\\n\\tfsmonitor = touch ran\\n' >{entry}/config.worktree",
        f"echo /tmp >{entry}/commondir; rm -f {entry}/gitdir; mv {entry} {entry}.old",
    ):
        await run_exec(box, exposed, attempt)
        assert not (entry / "config.worktree").exists(), attempt
        assert {name: (entry / name).read_bytes() for name in before} == before, attempt
    git(in_worktree.workspace / "inner", "status")
    assert not list(in_worktree.workspace.rglob("ran"))


@pytest.mark.parametrize("layout", [".bare", "repository.git", ".git"])
async def test_worktrees_of_a_bare_repository_work(
    box: Bubblewrap, call: CallContext, repository: Path, tmp_path: Path, layout: str
) -> None:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "clone", "-q", "--bare", str(repository), layout)
    if layout == ".bare":
        (top / ".git").write_text("gitdir: ./.bare\n")
    git(top / layout, "worktree", "add", "-q", str(top / "main"), "main")
    git(top / layout, "worktree", "add", "-q", "-b", "other", str(top / "other"))
    inside = replace(call, environment=replace(call.environment, workspace=top / "main"))
    for line in (
        f"echo x >a && git add a && {COMMIT} second && git stash list && git checkout -qb topic",
        f"{COMMIT} third --allow-empty && git rebase -q main && git worktree list",
    ):
        shown = await run_exec(box, inside, line)
        assert shown.endswith("[exit code 0]"), (line, shown)
    assert git(top / layout, "log", "--format=%s", "topic").split() == ["third", "second", "first"]


async def test_bare_store_is_as_writable_as_an_inner_one(
    box: Bubblewrap, call: CallContext, repository: Path, tmp_path: Path
) -> None:
    store = tmp_path / "project"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(store))
    git(store, "worktree", "add", "-q", str(store / "main"), "main")
    git(store, "worktree", "add", "-q", "-b", "other", str(store / "lfs"))
    git(store, "worktree", "add", "-q", "-b", "second", str(store / "second"))
    (store / "rr-cache").mkdir()
    inside = replace(call, environment=replace(call.environment, workspace=store / "main"))
    shown = await run_exec(box, inside, f"touch {store}/rr-cache/x && git update-server-info")
    assert shown.endswith("[exit code 0]"), shown
    assert (store / "rr-cache/x").exists()
    assert (store / "info/refs").exists()
    for worktree in ("lfs", "second"):
        await run_exec(box, inside, f"touch {store}/{worktree}/x")
        assert not (store / worktree / "x").exists(), worktree
    git(store, "worktree", "remove", "lfs")
    await run_exec(box, inside, f"mkdir {store}/lfs && touch {store}/lfs/first")
    await run_exec(box, inside, f"touch {store}/lfs/second")
    assert sorted(path.name for path in (store / "lfs").iterdir()) == ["first", "second"]


async def test_only_the_needed_parts_of_an_outer_store_can_be_changed(
    box: Bubblewrap, in_worktree: CallContext
) -> None:
    main = in_worktree.workspace.parent / "main"
    store, source = main / ".git", main / "source.py"
    git(main, "worktree", "add", "-q", "-b", "other", "../other")
    source.write_text("old\n")
    fixed = ("config", "HEAD", "worktrees/other/HEAD", "worktrees/side/commondir")
    before = {name: (store / name).read_bytes() for name in fixed}
    for attempt in (
        f"for f in {' '.join(fixed)}; do echo x >{store}/$f; rm -f {store}/$f; done",
        f"mv {store}/worktrees {store}/old; mv {store} {store}.old",
        f"echo x >{store}/hooks/pre-commit; echo x >{store}/config.worktree",
        f"echo x >{source}; ls {main}/source.py",
        "git config core.fsmonitor ./x",
    ):
        shown = await run_exec(box, in_worktree, attempt)
        assert {name: (store / name).read_bytes() for name in fixed} == before, attempt
        assert not (store / "hooks/pre-commit").exists(), attempt
    assert source.read_text() == "old\n"
    exposed = replace(in_worktree, taint=frozenset({"untrusted"}))
    attempt = f"printf '[core]\\n\\tfsmonitor = ./x\\n' >{store}/worktrees/side/config.worktree"
    assert "set-aside" in await run_exec(box, exposed, attempt)
    assert not (store / "worktrees/side/config.worktree").exists()
    read_only = replace(in_worktree, may_write=False)
    shown = await run_exec(box, read_only, f"git log --format=%s; touch {store}/objects/x")
    assert shown.startswith("first\n")
    assert not (store / "objects/x").exists()


async def test_deleted_outer_history_is_put_back(box: Bubblewrap, in_worktree: CallContext) -> None:
    main = in_worktree.workspace.parent / "main"
    shown = await run_exec(box, in_worktree, f"d={main}/.git; rm -rf $d/objects/* $d/refs/heads")
    assert "put back" in shown
    assert git(main, "log", "--format=%s").split() == ["first"]


async def test_git_works_in_a_submodule_with_its_store_elsewhere(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    library, main = tmp_path / "library", tmp_path / "main"
    for folder in (library, main):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "submodule", "--quiet", "add", str(library), "lib")
    folder = main / "lib"
    inside = replace(call, environment=replace(call.environment, workspace=folder))
    shown = await run_exec(box, inside, f"echo x >a && git add a && {COMMIT} second && git gc -q")
    assert shown.endswith("[exit code 0]"), shown
    assert git(folder, "log", "--format=%s").split() == ["second", "first"]


async def test_pointer_to_a_store_that_does_not_point_back_opens_nothing(
    box: Bubblewrap, call: CallContext, in_worktree: CallContext
) -> None:
    main, entry = (in_worktree.workspace.parent / name for name in ("main", "main/.git/worktrees"))
    for target in (main / ".git", entry / "side"):
        (call.workspace / ".git").write_text(f"gitdir: {target}\n")
        shown = await run_exec(box, call, f"git log; touch {main}/.git/x; ls {main}/.git")
        assert "first" not in shown
        assert not (main / ".git/x").exists()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_place(PROGRAM) as folder:
        yield folder


@pytest.mark.parametrize(
    ("user", "name"),
    [*((user, "bwrap") for user in USERS), *((user, "landlock") for user in USERS[-1:])],
)
def test_worktrees_work_for_every_user_and_sandbox(place: Path, user: str, name: str) -> None:
    require_sandbox(name)
    lines = [
        f"echo x >a && git add a && {COMMIT} second && git checkout -q -b more",
        "git log --format=%s more main",
        "for f in config HEAD hooks/pre-commit; do echo x >{store}/$f; done; "
        "git config core.fsmonitor ./x",
    ]
    report = run_as(user, place, PROGRAM, {"name": name, "lines": lines})
    committed, log, attacked = report["results"]
    assert committed[0] == 0, committed
    assert log == [0, "second\nfirst\n"]
    assert attacked[0] != 0
    assert report["after"] == report["before"]


async def test_worktrees_outside_the_workspace_are_not_registered_by_a_tainted_conversation(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    """A worktree counts as the owner's if its repository does."""
    exposed = replace(call, taint=frozenset({"untrusted"}))
    line = "mkdir -p .git/worktrees/x && cd .git/worktrees/x && echo ../.. >commondir"
    shown = await run_exec(box, exposed, f"{line} && echo /srv/downloads/.git >gitdir")
    assert "gitdir.set-aside" in shown
    assert not (repository / ".git/worktrees/x/gitdir").exists()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_folder_that_only_resembles_a_store_is_not_opened(tmp_path: Path) -> None:
    """An archive may contain the files of both sides."""
    top = tmp_path.resolve()
    sibling, entry = top / "x/p/ws", top / "x/worktrees/n"
    write(sibling / ".git", f"gitdir: {entry}\n")
    for name, text in {"commondir": "../..", "gitdir": f"{sibling}/.git", "HEAD": ""}.items():
        write(entry / name, f"{text}\n")
    assert find_outer_store(sibling) is None
    store, folder = top / "b/store", top / "b/sub"
    write(store / "config", "[core]\n\tworktree = ../sub\n")
    write(store / "HEAD", "ref: refs/heads/main\n")
    write(folder / ".git", "gitdir: ../store\n")
    for name in ("objects", "refs"):
        (store / name).mkdir()
    assert find_outer_store(folder) is not None
    (store / "objects").rmdir()
    (top / "secret").mkdir()
    (store / "objects").symlink_to(top / "secret")
    assert find_outer_store(folder) is None


def bare_with(folder: Path, *names: str) -> Path:
    """Return a bare repository with worktrees inside it."""
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main")
    tree = git(folder, "commit-tree", "-m", "first", git(folder, "mktree").strip()).strip()
    git(folder, "update-ref", "refs/heads/main", tree)
    for name in names:
        git(folder, "worktree", "add", "-q", "-b", name.replace("/", "-"), name, "main")
    return folder


def test_store_far_around_its_worktree_is_not_opened(tmp_path: Path) -> None:
    bare = bare_with(tmp_path.resolve() / "project.git", "near", "deep/inside")
    assert find_outer_store(bare / "near") is not None
    assert find_outer_store(bare / "deep" / "inside") is None


async def test_git_works_in_a_worktree_inside_its_bare_repository(
    box: Bubblewrap, call: CallContext, tmp_path: Path
) -> None:
    bare = bare_with(tmp_path.resolve() / "project.git", "own", "other")
    inside = replace(call, environment=replace(call.environment, workspace=bare / "own"))
    line = f"echo x >a && git add a && {COMMIT} second && git status -s && git worktree add -q w"
    shown = await run_exec(box, inside, line)
    assert shown.endswith("[exit code 0]"), shown
    assert git(bare / "own", "log", "--format=%s").split() == ["second", "first"]
    assert (bare / "own" / "w" / "a").exists()
    before = (bare / "config").read_text()
    attack = "for f in config hooks/x other/x worktrees/other/HEAD; do echo x >../$f; done; "
    await run_exec(box, inside, f"{attack} git config core.fsmonitor ./x; mv ../other ../gone")
    assert (bare / "config").read_text() == before
    assert not (bare / "hooks" / "x").exists()
    assert not (bare / "other" / "x").exists()
    assert git(bare / "other", "status", "--porcelain") == ""


async def test_submodules_of_worktrees_are_protected(
    box: Bubblewrap, call: CallContext, repository: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-q", "--allow-empty", "-m", "first")
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-qm", "add the library")
    git(repository, "worktree", "add", "-q", "-b", "side", "side")
    git(repository / "side", "submodule", "--quiet", "update", "--init")
    store = repository / ".git/worktrees/side/modules/lib"
    before = (store / "config").read_text()
    line = f"cd side/lib && {COMMIT} change --allow-empty; echo x >>{store}/config"
    await run_exec(box, call, f"{line}; echo x >{store}/hooks/pre-commit")
    assert (store / "config").read_text() == before
    assert not (store / "hooks/pre-commit").exists()
    assert git(repository / "side/lib", "log", "--format=%s").splitlines()[0] == "change"


async def test_submodule_with_a_dangling_head_stays_protected(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    store = repository / ".git/modules/sub"
    git(repository, "clone", "-q", "--bare", ".", str(store))
    before = (store / "config").read_text()
    await run_exec(box, call, f"cd {store} && ln -s refs/heads/none H && mv H HEAD")
    await run_exec(box, call, f"echo x >>{store}/config")
    assert (store / "config").read_text() == before
