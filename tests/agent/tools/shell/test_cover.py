"""Workspace paths that are hidden from commands or read-only, at any depth."""

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan, ToolEnvironment
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.shell.exec import Exec
from agent.tools.shell.mount_restrictions import mount_restrictions
from agent.types import ToolCall


@pytest.fixture
def call(workspace: Path) -> CallContext:
    memory = workspace / "memory" / "telegram" / "8" / "MEMORY.md"
    nothing = ToolCall("c1", "exec", {}, "{}")
    return CallContext(
        nothing, ToolEnvironment("s1", workspace, memory, owner=True), lambda text, stream: None
    )


def write(path: Path, text: str = "old\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def run_exec(box: Bubblewrap, call: CallContext, command: str, **settings: object) -> str:
    tool = Exec(replace(ToolSettings(), sandbox=box, **settings))  # type: ignore[arg-type]
    return (await tool.run({"command": command}, call)).for_model


CONFIGURATIONS = (
    ".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".idea/workspace.xml", ".envrc",
    ".bashrc", ".zshenv", ".claude/settings.json", ".kode/x", ".kore/config.json", ".mcp.json",
    ".kode.json", ".husky/pre-commit",
)  # fmt: skip


@pytest.mark.parametrize("below", ["", "project/", "a/b/c/"])
@pytest.mark.parametrize("blocked", [(".git", ".env"), (".env",)])
async def test_configurations_of_other_programs_cannot_be_written(
    box: Bubblewrap, call: CallContext, below: str, blocked: tuple[str, ...]
) -> None:
    files = [write(call.workspace / below / name) for name in CONFIGURATIONS]
    write(call.workspace / below / "source.py")
    tries = "; ".join(
        f"echo x >{file}; rm -f {file}; mv {file} {file}.old; echo x >{file}.new;"
        f"mv {file}.new {file}"
        for file in files
    )
    folder = call.workspace / below
    tries += (
        f"; mv {folder}/.git {folder}/g; mv {folder}/.vscode {folder}/v; rm -rf {folder}/.git"
        f"; echo new >{folder}/source.py; mv {folder}/source.py {folder}/moved.py"
    )
    if below:
        top = call.workspace / below.split("/")[0]
        tries += f"; mv {top} {top}.old; mkdir -p {folder}/.git/hooks; mv {folder} {folder}.old"
    await run_exec(box, call, tries, blocked_paths=blocked)
    assert [file.read_text() for file in files] == ["old\n"] * len(files)
    assert (folder / "moved.py").read_text() == "new\n"


async def test_env_files_are_hidden_at_any_depth(box: Bubblewrap, call: CallContext) -> None:
    for name in (".env", "a/.env", "a/b/.ENV", "a/.vscode/.env"):
        write(call.workspace / name, "canary")
    write(call.workspace / "a" / "code.py", "shown")
    shown = await run_exec(
        box, call, "cat a/code.py; grep -rh canary . ; mv a c; cat c/.env c/b/.ENV"
    )
    assert "shown" in shown
    assert "canary" not in shown
    assert "canary" not in await run_exec(
        box, replace(call, plan=EffectPlan(read_only=True)), "cat .env a/.env a/b/.ENV"
    )


@pytest.mark.parametrize("store", [".git", "backup.git", "deep/er/store"])
async def test_guest_cannot_read_memory_through_git(
    box: Bubblewrap, call: CallContext, store: str
) -> None:
    write(call.workspace / "memory" / "MEMORY.md", "canary")
    git = ["git", f"--git-dir={call.workspace / store}", f"--work-tree={call.workspace}"]
    (call.workspace / store).parent.mkdir(parents=True, exist_ok=True)
    named = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "memory"], [*named, "commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    line = f"git --git-dir={store} show HEAD:memory/MEMORY.md; ls -A {store}"
    assert "canary" in await run_exec(box, call, line)
    guest = replace(call, environment=replace(call.environment, owner=False))
    shown = await run_exec(box, guest, line)
    assert "canary" not in shown
    assert "objects" not in shown
    assert "canary" not in await run_exec(
        box, replace(guest, plan=EffectPlan(read_only=True)), line
    )
    with pytest.raises(ToolError):
        WorkspaceScope(replace(ToolSettings(), blocked_paths=())).find(".git/HEAD", guest)


async def test_packages_can_be_renamed_and_their_cache_is_hidden(
    box: Bubblewrap, call: CallContext
) -> None:
    write(call.workspace / "node_modules" / "a" / ".vscode" / "x")
    write(call.workspace / "node_modules" / ".cache" / "x", "canary")
    shown = await run_exec(box, call, "mv node_modules/a node_modules/b; cat node_modules/.cache/x")
    assert (call.workspace / "node_modules" / "b").exists()
    assert "canary" not in shown


async def test_parent_folder_is_frozen_if_too_many_paths_are_covered(
    box: Bubblewrap, call: CallContext
) -> None:
    for n in range(250):
        write(call.workspace / "crowd" / str(n) / ".envrc")
    await run_exec(
        box, call, "echo x >crowd/7/.envrc; mv crowd/7 crowd/8; echo x >crowd/new; echo x >y"
    )
    assert (call.workspace / "crowd" / "7" / ".envrc").read_text() == "old\n"
    assert not (call.workspace / "crowd" / "new").exists()
    assert (call.workspace / "y").exists()


def test_too_many_hidden_paths_are_reported(box: Bubblewrap, workspace: Path) -> None:
    many = tuple(workspace / str(n) for n in range(1001))
    with (
        pytest.raises(ToolError, match="1001 files that commands must not read"),
        box.prepare(SandboxCommand("true", workspace, workspace, masked_paths=many)),
    ):
        pass


def test_links_are_not_followed(call: CallContext, tmp_path: Path) -> None:
    write(tmp_path / "outside" / ".env")
    (call.workspace / "link").symlink_to(tmp_path / "outside")
    (call.workspace / "loop").symlink_to(call.workspace)
    restrictions = mount_restrictions(ToolSettings(), call)
    assert (
        restrictions.forbidden_paths,
        restrictions.masked_paths,
        restrictions.read_only_paths,
    ) == ((), (), ())


async def test_flood_of_files_does_not_expose_protected_paths(
    box: Bubblewrap, call: CallContext, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.tools.shell.mount_restrictions.MAX_ENTRIES", 500)
    write(workspace / "services" / "api" / ".env", "secret\n")
    (workspace / "services" / "api" / ".git" / "hooks").mkdir(parents=True)
    tool = Exec(replace(ToolSettings(), sandbox=box))
    line = "mkdir x && cd x && seq 600 | xargs touch; cat ../services/api/.env"
    assert "secret" not in (await tool.run({"command": line}, call)).for_model
    with pytest.raises(ToolError, match="more than 500"):
        await tool.run({"command": "cat services/api/.env; touch services/api/.git/hooks/x"}, call)
    assert not (workspace / "services" / "api" / ".git" / "hooks" / "x").exists()
    # Without protected paths there is nothing to search for.
    result = await Exec(ToolSettings()).run({"command": "echo done"}, call)
    assert result.for_model.startswith("done")


@pytest.mark.skipif(os.geteuid() != 0, reason="goes on as another user for a while")
def test_folder_closed_to_kore_is_hidden(call: CallContext) -> None:
    with tempfile.TemporaryDirectory(prefix="kore-cover-", dir="/var/tmp") as name:
        root, closed = Path(name), Path(name) / "services" / "api"
        write(closed / ".env", "secret\n")
        root.chmod(0o755)
        closed.chmod(0)
        os.seteuid(65534)
        try:
            restrictions = mount_restrictions(
                ToolSettings(), replace(call, environment=replace(call.environment, workspace=root))
            )
        finally:
            os.seteuid(0)
        # A command could open the folder again.
        assert restrictions.masked_paths == (closed,)


async def test_fake_repository_does_not_expose_protected_paths(
    box: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    for name in (".env", ".envrc", ".git/hooks/old"):
        write(workspace / "services" / "api" / name, "secret\n")
    tool = Exec(replace(ToolSettings(), sandbox=box))
    await tool.run({"command": "cd services/api; mkdir objects; touch HEAD"}, call)
    line = "cd services/api; cat .env; touch .git/hooks/new; echo x >>.envrc; touch ordinary"
    assert "secret" not in (await tool.run({"command": line}, call)).for_model
    assert not (workspace / "services" / "api" / ".git" / "hooks" / "new").exists()
    assert (workspace / "services" / "api" / ".envrc").read_text() == "secret\n"
    assert (workspace / "services" / "api" / "ordinary").exists()
    write(workspace / "memory" / "MEMORY.md", "secret\n")
    line = "cat services/api/.env memory/MEMORY.md; ls services/api; echo done"
    text = (
        await tool.run(
            {"command": line}, replace(call, environment=replace(call.environment, owner=False))
        )
    ).for_model
    assert "secret" not in text
    assert "done" in text


async def test_hook_cannot_be_planted_in_a_repository_of_another_name(
    box: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    for store in (workspace, workspace / "deep" / "bare"):
        for name in ("HEAD", "config", "hooks/sample", "objects/x"):
            write(store / name)
    write(workspace / "tree" / ".git", "gitdir: ../deep/bare\n")
    tool = Exec(replace(ToolSettings(), sandbox=box))
    line = "echo x >$d/hooks/new; echo x >>$d/config; touch $d/objects/y"
    line = f"for d in . deep/bare; do {line}; done"
    await tool.run({"command": line}, call)
    for store in (workspace, workspace / "deep" / "bare"):
        assert not (store / "hooks" / "new").exists()
        assert (store / "config").read_text() == "old\n"
        assert (store / "objects" / "y").exists(), "work goes on"


async def test_covered_link_protects_its_target(
    box: Bubblewrap, call: CallContext, workspace: Path
) -> None:
    for name in ("editor/tasks.json", "dotfiles/bashrc", "shared/skills/a.md", "kept/env/a"):
        write(workspace / name, "secret\n")
    for name, target in {
        ".vscode": "editor", "sub/.bashrc": "../dotfiles/bashrc", "skills": "shared/skills",
        ".env": "kept/env", "b/.env": "/etc/passwd", "c/.env": "gone", "d/.vscode": "..",
    }.items():  # fmt: skip
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).symlink_to(target)
    tool = Exec(replace(ToolSettings(), sandbox=box))
    line = "for f in editor/tasks.json dotfiles/bashrc skills/a.md; do echo x >>$f; done"
    result = await tool.run({"command": f"{line}; cat kept/env/a; touch d/new; echo done"}, call)
    assert "secret" not in result.for_model
    assert "done" in result.for_model
    for name in ("editor/tasks.json", "dotfiles/bashrc", "shared/skills/a.md"):
        assert (workspace / name).read_text() == "secret\n"
    assert (workspace / "d" / "new").exists()
