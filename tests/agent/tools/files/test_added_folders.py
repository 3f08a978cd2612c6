"""Folders outside the workspace: a person is asked, and adds them for a call or for longer."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.approvals import Answer, ApprovalRequest, FolderAccess
from agent.security.policy.base import Callback, PermissionMode, options_for
from agent.security.policy.engine import DefaultPolicy, PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.taint.file_marks import is_marked
from agent.security.taint.origin import TrustedOrigins
from agent.settings import ToolSettings
from agent.tools.base import AddedFolders, CallContext
from agent.tools.built_in import default_tools
from agent.tools.files.undo import change_check
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.types import ToolCall, ToolResult
from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.file_ledger import FileLedger
from agent.undo.ledger import ReversalResult
from agent.undo.recorder import RecorderFactory
from agent.undo.reversal import Reversal, UndoRequest


class Person:
    """Answers and records questions."""

    def __init__(self) -> None:
        self.answer: Answer = "deny"
        self.questions: list[ApprovalRequest] = []
        self.before_answer: Callable[[], None] = lambda: None

    def __call__(self, request: ApprovalRequest) -> Answer:
        self.questions.append(request)
        self.before_answer()
        return self.answer


class Turn:
    """Calls of one conversation, as the agent's loop makes them."""

    def __init__(self, call: CallContext, settings: ToolSettings, mode: PermissionMode) -> None:
        self.person = Person()
        self.call = call
        self._numbers = count(1)
        principal = PrincipalContext(
            built_in_roles()["build"], mode, is_confined=settings.sandbox is not None
        )
        permissions = Permissions(RolePolicy(principal), Callback(self.person))
        self.runner = ToolRunner(ToolRegistry(default_tools(settings)), permissions, timeout_s=60)

    async def run(self, name: str, **args: object) -> ToolResult:
        async def on_start() -> None:
            pass

        here, call = self.call.environment, ToolCall(f"c{next(self._numbers)}", name, args, "{}")
        changes = here.recording.recorder(here.session, call.id, name, here.workspace)
        context = replace(self.call, call=call, changes=changes)
        return await self.runner.run(context, on_start)

    def add(self, path: Path, *, is_writable: bool = False) -> None:
        self.call.environment.folders.add(FolderAccess(path, is_writable))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    (folder / "src").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".env").write_text("TOKEN=hidden-token")
    (folder / "src" / "a.py").write_text("value = 1\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> ToolSettings:
    return ToolSettings(off_limits=(tmp_path / "kore",))


@pytest.fixture
def turn(call: CallContext, settings: ToolSettings) -> Turn:
    return Turn(call, settings, "ask")


async def test_question_names_the_repository_around_a_file(turn: Turn, outside: Path) -> None:
    result = await turn.run("read_file", path=str(outside / "src" / "a.py"))
    assert result.is_error
    (question,) = turn.person.questions
    assert question.folder_access == FolderAccess(outside)
    assert question.reason == f"Reads files in {outside}, outside the workspace."
    assert [option.scope for option in options_for(question)] == [
        "call",
        "folder",
        "folder",
        "call",
    ]


async def test_once_covers_one_call(turn: Turn, outside: Path) -> None:
    turn.person.answer = "once"
    result = await turn.run("read_file", path=str(outside / "src" / "a.py"))
    assert "value = 1" in result.for_model
    await turn.run("read_file", path=str(outside / "src" / "a.py"))
    assert len(turn.person.questions) == 2


async def test_session_covers_the_folder_for_reading(turn: Turn, outside: Path) -> None:
    turn.person.answer = "session"
    await turn.run("read_file", path=str(outside / "src" / "a.py"))
    for tool, args in {
        "list_dir": {"path": str(outside)},
        "glob": {"pattern": "*.py", "path": str(outside)},
        "grep": {"pattern": "value", "path": str(outside)},
    }.items():
        result = await turn.run(tool, **args)
        assert not result.is_error, result.for_model
        assert "src" in result.for_model
    assert len(turn.person.questions) == 1


async def test_reading_does_not_cover_writing(turn: Turn, outside: Path) -> None:
    turn.add(outside)
    await turn.run("write_file", path=str(outside / "new.txt"), content="x")
    (question,) = turn.person.questions
    assert question.folder_access == FolderAccess(outside, is_writable=True)
    assert question.diff is not None
    assert not (outside / "new.txt").exists()


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_writing_asks_in_every_mode(
    call: CallContext, settings: ToolSettings, outside: Path, mode: PermissionMode
) -> None:
    turn = Turn(call, settings, mode)
    turn.person.answer = "session"
    result = await turn.run("write_file", path=str(outside / "new.txt"), content="x")
    assert not result.is_error, result.for_model
    assert len(turn.person.questions) == 1


async def test_mode_plan_reads_outside_and_writes_nothing(
    call: CallContext, settings: ToolSettings, outside: Path
) -> None:
    turn = Turn(call, settings, "plan")
    turn.person.answer = "once"
    assert "value" in (await turn.run("read_file", path=str(outside / "src/a.py"))).for_model
    assert (await turn.run("write_file", path=str(outside / "new"), content="x")).is_error
    assert len(turn.person.questions) == 1


async def test_added_folder_counts_as_workspace_for_the_mode(
    call: CallContext, settings: ToolSettings, outside: Path
) -> None:
    turn = Turn(call, settings, "accept-edits")
    turn.add(outside, is_writable=True)
    await turn.run("read_file", path=str(outside / "src/a.py"))
    result = await turn.run(
        "edit_file", path=str(outside / "src/a.py"), old_string="1", new_string="2"
    )
    assert not result.is_error, result.for_model
    assert not turn.person.questions
    assert (outside / "src" / "a.py").read_text() == "value = 2\n"


async def test_instructions_in_an_added_folder_ask(
    call: CallContext, settings: ToolSettings, outside: Path
) -> None:
    turn = Turn(call, settings, "accept-edits")
    turn.add(outside, is_writable=True)
    await turn.run("write_file", path=str(outside / "CLAUDE.md"), content="x")
    (question,) = turn.person.questions
    assert "instructions" in question.reason


async def test_patch_asks_about_its_folder(turn: Turn, outside: Path) -> None:
    turn.person.answer = "once"
    patch = (
        f"*** Begin Patch\n*** Update File: {outside}/src/a.py\n@@\n-value = 1\n+value = 3\n"
        f"*** Add File: {outside}/b.py\n+b\n*** End Patch\n"
    )
    result = await turn.run("apply_patch", input=patch)
    assert not result.is_error, result.for_model
    assert (outside / "src" / "a.py").read_text() == "value = 3\n"
    (question,) = turn.person.questions
    assert question.folder_access == FolderAccess(outside, is_writable=True)


async def test_plan_of_a_refused_edit_tells_nothing_of_the_file(turn: Turn, outside: Path) -> None:
    result = await turn.run(
        "edit_file", path=str(outside / "src/a.py"), old_string="valu = 1", new_string="x"
    )
    assert "value = 1" not in result.for_model
    assert "Read it first" in result.for_model
    missing = await turn.run(
        "edit_file", path=str(outside / "src/b.py"), old_string="valu = 1", new_string="x"
    )
    assert "a.py" not in missing.for_model


async def test_file_in_the_home_folder_is_asked_about_alone(
    turn: Turn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "notes.txt"
    file.write_text("note")
    await turn.run("read_file", path=str(file))
    assert turn.person.questions[0].folder_access == FolderAccess(file)


@pytest.mark.parametrize(
    "name", [".env", ".git/config", ".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml"]
)
async def test_hidden_places_in_an_added_folder_stay_hidden(
    turn: Turn, outside: Path, name: str
) -> None:
    turn.add(outside, is_writable=True)
    file = outside / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("hidden-token")
    for tool, args in {
        "read_file": {"path": str(file)},
        "grep": {"pattern": "hidden-token", "path": str(outside)},
        "write_file": {"path": str(file), "content": "x"},
    }.items():
        result = await turn.run(tool, **args)
        assert "hidden-token" not in result.for_model.replace("'hidden-token'", "")
    assert (
        name.split("/")[-1]
        not in (await turn.run("list_dir", path=str(outside), depth=4)).for_model
    )
    assert file.read_text() == "hidden-token"
    assert not turn.person.questions


@pytest.mark.parametrize("name", [".ssh", ".aws", "kore"])
async def test_hidden_places_are_never_asked_about(turn: Turn, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "key").write_text("hidden-token")
    turn.person.answer = "always"
    turn.add(tmp_path)
    turn.add(folder)
    for tool, args in {
        "read_file": {"path": str(folder / "key")},
        "list_dir": {"path": str(folder)},
        "grep": {"pattern": "token", "path": str(folder)},
    }.items():
        result = await turn.run(tool, **args)
        assert result.is_error
        assert "hidden-token" not in result.for_model
    assert not turn.person.questions


async def test_link_swapped_during_the_question_leads_nowhere(
    turn: Turn, outside: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.py").write_text("hidden-token")

    def swap() -> None:
        (outside / "src").rename(outside / "old")
        os.symlink(elsewhere, outside / "src")

    turn.person.answer, turn.person.before_answer = "session", swap
    result = await turn.run("read_file", path=str(outside / "src" / "a.py"))
    assert result.is_error
    assert "hidden-token" not in result.for_model


async def test_added_folder_that_became_a_link_is_not_followed(
    turn: Turn, outside: Path, tmp_path: Path
) -> None:
    turn.add(outside)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.py").write_text("hidden-token")
    outside.rename(tmp_path / "moved")
    os.symlink(elsewhere, outside)
    result = await turn.run("read_file", path=str(outside / "a.py"))
    assert result.is_error
    # Its target requires a question like any other folder.
    assert turn.person.questions[0].folder_access == FolderAccess(elsewhere)


async def test_link_out_of_an_added_folder_is_judged_by_its_target(
    turn: Turn, outside: Path, tmp_path: Path
) -> None:
    turn.add(outside)
    (tmp_path / "secret.txt").write_text("hidden-token")
    os.symlink(tmp_path / "secret.txt", outside / "link.txt")
    for path in (outside / "link.txt", f"{outside}/src/../../secret.txt"):
        result = await turn.run("read_file", path=str(path))
        assert result.is_error
    assert len(turn.person.questions) == 2
    assert (
        "hidden" not in (await turn.run("grep", pattern="hidden", path=str(outside))).for_model[20:]
    )


async def test_guest_is_refused_without_a_question(
    guest: CallContext, settings: ToolSettings, outside: Path
) -> None:
    turn = Turn(guest, settings, "auto")
    turn.person.answer = "always"
    turn.add(outside, is_writable=True)
    for tool, args in {
        "read_file": {"path": str(outside / "src" / "a.py")},
        "list_dir": {"path": str(outside)},
        "write_file": {"path": str(outside / "x"), "content": "x"},
    }.items():
        result = await turn.run(tool, **args)
        assert "leads outside the workspace" in result.for_model
    assert not turn.person.questions


async def test_call_is_refused_when_nobody_can_be_asked(
    call: CallContext, settings: ToolSettings, outside: Path
) -> None:
    turn = Turn(call, settings, "auto")
    runner = ToolRunner(turn.runner.toolbox, Permissions(DefaultPolicy("auto")), timeout_s=60)

    async def on_start() -> None:
        pass

    args = {"path": str(outside / "src" / "a.py")}
    result = await runner.run(replace(call, call=ToolCall("c", "read_file", args, "{}")), on_start)
    assert result.is_error
    assert "nobody can be asked" in result.for_model


async def test_whole_file_system_is_not_asked_about(turn: Turn) -> None:
    assert (await turn.run("list_dir", path="/")).is_error
    assert not turn.person.questions


def in_sandbox(turn: Turn, settings: ToolSettings, sandbox: Sandbox) -> Turn:
    return Turn(turn.call, replace(settings, sandbox=sandbox), "auto")


async def test_commands_read_an_added_folder_from_the_next_one_on(
    turn: Turn, settings: ToolSettings, box: Bubblewrap, outside: Path
) -> None:
    turn = in_sandbox(turn, settings, box)
    before = await turn.run("exec", command=f"cat {outside}/src/a.py")
    assert "No such file" in before.for_model
    turn.add(outside)
    after = await turn.run("exec", command=f"cat {outside}/src/a.py; echo x > {outside}/src/new")
    assert "value = 1" in after.for_model
    assert not (outside / "src" / "new").exists()


@pytest.fixture
def repository(outside: Path) -> Path:
    """A folder with a commit, a hook and files that steer other programs."""
    shutil.rmtree(outside / ".git")
    (outside / "AGENTS.md").write_text("Be brief.\n")
    (outside / ".mcp.json").write_text("{}\n")
    git = ["git", "-C", str(outside), "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "src", "AGENTS.md"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)
    (outside / ".git" / "hooks" / "post-commit").write_text("#!/bin/sh\n")
    return outside


@pytest.fixture
def writing(turn: Turn, settings: ToolSettings, box: Bubblewrap, repository: Path) -> Turn:
    """A conversation in which commands may change the repository."""
    turn = in_sandbox(turn, settings, box)
    turn.add(repository, is_writable=True)
    return turn


async def run_in(turn: Turn, folder: Path, command: str) -> str:
    return (await turn.run("exec", command=f"cd {folder} && {{ {command}; }}")).for_model


async def test_commands_change_a_folder_that_was_added_for_changes(
    writing: Turn, repository: Path
) -> None:
    name = "-c user.name=Ann -c user.email=ann@example.org"
    text = await run_in(
        writing, repository, f"echo new > src/b.py && git add src && git {name} commit -qm Add"
    )
    assert "[exit code 0]" in text
    assert (repository / "src" / "b.py").read_text() == "new\n"
    log = ["git", "-C", str(repository), "log", "--format=%s"]
    assert subprocess.run(log, capture_output=True, text=True).stdout == "Add\nBegin\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo run > .git/hooks/post-commit",
        "git config core.fsmonitor ./x",
        "echo obey > AGENTS.md",
        "echo run > .mcp.json",
        "mv .git old",
        "rm -f AGENTS.md",
    ],
)
async def test_files_that_steer_other_programs_stay_unchanged_there(
    writing: Turn, repository: Path, command: str
) -> None:
    before = snapshot(repository)
    assert "[exit code 0]" not in await run_in(writing, repository, command)
    assert snapshot(repository) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for name in ("AGENTS.md", ".mcp.json", ".git/config", ".git/hooks/post-commit")
        if (path := folder / name).exists()
    }


async def test_hidden_place_in_a_renamed_folder_stays_hidden(
    writing: Turn, repository: Path
) -> None:
    (repository / "src" / "deep").mkdir()
    (repository / "src" / "deep" / ".env").write_text("TOKEN=hidden-token")
    text = await run_in(writing, repository, "mv src moved; cat moved/deep/.env src/deep/.env")
    assert "hidden-token" not in text
    assert (repository / "src" / "deep" / ".env").exists()


async def test_deleted_history_of_an_added_folder_is_restored(
    writing: Turn, repository: Path
) -> None:
    objects = sorted(path for path in (repository / ".git" / "objects").rglob("*/*"))
    program = "import shutil; shutil.rmtree('.git/objects')"
    text = await run_in(writing, repository, f'/usr/bin/python3 -c "{program}"')
    assert f"{repository}/.git" in text
    assert sorted((repository / ".git" / "objects").rglob("*/*")) == objects


async def test_instructions_planted_in_an_added_folder_are_set_aside(
    writing: Turn, repository: Path
) -> None:
    writing.call = replace(writing.call, taint=frozenset({"untrusted"}))
    text = await run_in(writing, repository, "echo obey > CLAUDE.md; mkdir x && git init -q x/y")
    assert f"{repository}/CLAUDE.md" in text
    assert not (repository / "CLAUDE.md").exists()


async def test_changes_in_a_trusted_added_folder_are_marked(
    writing: Turn, repository: Path
) -> None:
    places = TrustedOrigins((writing.call.workspace, repository))
    environment = replace(writing.call.environment, places=places)
    writing.call = replace(writing.call, environment=environment, taint=frozenset({"untrusted"}))
    await run_in(writing, repository, "echo obey > src/b.py")
    assert is_marked(repository / "src" / "b.py")


async def test_deletion_that_undo_does_not_cover_there_asks(
    writing: Turn, repository: Path
) -> None:
    await writing.run("exec", command=f"find {repository} -name a.py -delete")
    (question,) = writing.person.questions
    assert str(repository) in question.reason
    assert (repository / "src" / "a.py").exists()


@pytest.mark.parametrize("place", ["cd {}; ", "", "git -C {} status && "])
async def test_lines_that_name_only_such_folders_run_in_accept_edits(
    writing: Turn, settings: ToolSettings, box: Bubblewrap, repository: Path, place: str
) -> None:
    editing = Turn(writing.call, replace(settings, sandbox=box), "accept-edits")
    own = writing.call.workspace / "own.py"
    command = f"{place}touch {repository}/src/n && cp {repository}/src/a.py {own}"
    result = await editing.run("exec", command=command.replace("{}", str(repository)))
    assert editing.person.questions == []
    assert (repository / "src" / "n").exists(), result.for_model
    assert own.exists()


@pytest.mark.parametrize(
    "command",
    [
        "cat {}/src/a.py",
        "touch {}/../elsewhere",
        "cat {}/.env",
        "cp x {}/AGENTS.md",
        "cp x {}/.mcp.json",
        "cd {} && cp x AGENTS.md",
        "echo x > {}/CLAUDE.md",
    ],
)
async def test_other_lines_ask_in_accept_edits(
    turn: Turn, settings: ToolSettings, box: Bubblewrap, repository: Path, command: str
) -> None:
    turn.add(repository, is_writable="src" not in command)
    editing = Turn(turn.call, replace(settings, sandbox=box), "accept-edits")
    await editing.run("exec", command=command.replace("{}", str(repository)))
    assert editing.person.questions


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("command", ["ls", "cd {} && ls", "/usr/bin/python3 read.py"])
async def test_commands_that_may_read_a_strangers_folder_are_untrusted(
    writing: Turn, repository: Path, command: str, is_trusted: bool
) -> None:
    workspace = writing.call.workspace
    (workspace / "read.py").write_text(f"print(open('{repository}/AGENTS.md').read())")
    places = TrustedOrigins((workspace, repository) if is_trusted else (workspace,))
    environment = replace(writing.call.environment, places=places)
    writing.call = replace(writing.call, environment=environment)
    result = await writing.run("exec", command=command.replace("{}", str(repository)))
    assert ("untrusted" in result.taint) == (not is_trusted and command != "ls")


async def test_copies_from_a_strangers_folder_are_marked(writing: Turn, repository: Path) -> None:
    workspace = writing.call.workspace
    places = TrustedOrigins((workspace,))
    environment = replace(writing.call.environment, places=places)
    writing.call = replace(writing.call, environment=environment)
    await writing.run("exec", command=f"cp {repository}/src/a.py own.py; cp own.py AGENTS.md")
    assert is_marked(workspace / "own.py")
    assert not (workspace / "AGENTS.md").exists()


@pytest.fixture
def log(turn: Turn, tmp_path: Path) -> ChangeLog:
    """The record of changes of the conversation."""
    log = ChangeLog(FileLedger(tmp_path / "kore"), BlobStore(tmp_path / "kore"))
    environment = replace(turn.call.environment, recording=RecorderFactory(lambda: log))
    turn.call = replace(turn.call, environment=environment)
    return log


def undo(log: ChangeLog, turn: Turn, settings: ToolSettings) -> ReversalResult:
    """Undo the last step, as a person's command does."""
    check = change_check(WorkspaceScope(settings), turn.call)
    reversal = Reversal(log, turn.call.session, check)
    return reversal.carry_out(os.urandom(4).hex(), "undo", reversal.plan(UndoRequest()))


async def test_changes_by_a_command_there_are_undone_in_one_step(
    log: ChangeLog, writing: Turn, settings: ToolSettings, repository: Path
) -> None:
    workspace = writing.call.workspace
    (workspace / "own.txt").write_text("old\n")
    await writing.run(
        "exec",
        command=f"cd {repository} && echo 2 > src/a.py && touch n && echo > {workspace}/own.txt",
    )
    assert (repository / "n").exists()
    assert undo(log, writing, settings).paths("undone")
    assert (repository / "src" / "a.py").read_text() == "value = 1\n"
    assert not (repository / "n").exists()
    assert (workspace / "own.txt").read_text() == "old\n"


async def test_deletion_that_undo_covers_there_does_not_ask(
    log: ChangeLog, writing: Turn, settings: ToolSettings, repository: Path
) -> None:
    await run_in(writing, repository, "find src -name a.py -delete")
    assert writing.person.questions == []
    assert not (repository / "src" / "a.py").exists()
    undo(log, writing, settings)
    assert (repository / "src" / "a.py").read_text() == "value = 1\n"


async def test_hidden_files_there_are_not_recorded(
    log: ChangeLog, writing: Turn, repository: Path, tmp_path: Path
) -> None:
    await run_in(writing, repository, "touch n")
    assert log.blobs.get(log.blobs.name(b"value = 1\n")) is not None
    assert log.blobs.get(log.blobs.name(b"TOKEN=hidden-token")) is None


@pytest.mark.parametrize("tool", ["move_file", "apply_patch"])
async def test_files_there_are_moved_and_deleted(
    log: ChangeLog, turn: Turn, settings: ToolSettings, outside: Path, tool: str
) -> None:
    turn.add(outside, is_writable=True)
    turn.person.answer = "once"
    source, target = outside / "src" / "a.py", outside / "lib" / "b.py"
    move = f"*** Update File: {source}\n*** Move to: {target}\n@@\n-value = 1\n+value = 2\n"
    delete = f"*** Delete File: {target}\n"
    if tool == "apply_patch":
        patches = [f"*** Begin Patch\n{step}*** End Patch\n" for step in (move, delete)]
        steps = [{"input": patch} for patch in patches]
    else:
        steps = [{"path": str(source), "to": str(target)}, {"path": str(target)}]
    for number, arguments in enumerate(steps):
        result = await turn.run(tool, **arguments)
        assert not result.is_error, result.for_model
        assert not source.exists()
        assert target.exists() == (number == 0)
    for _ in steps:
        undo(log, turn, settings)
    assert source.read_text() == "value = 1\n"
    assert not target.exists()


@pytest.mark.parametrize("is_deletion", [False, True])
async def test_moving_and_deleting_outside_asks_about_the_folder(
    turn: Turn, outside: Path, is_deletion: bool
) -> None:
    source = outside / "src" / "a.py"
    more = {} if is_deletion else {"to": str(outside / "b.py")}
    result = await turn.run("move_file", path=str(source), **more)
    assert result.is_error
    assert source.exists()
    (question,) = turn.person.questions
    assert question.folder_access == FolderAccess(outside, is_writable=True)


async def test_folder_around_the_workspace_is_not_changed_by_commands(
    turn: Turn, settings: ToolSettings, box: Bubblewrap, tmp_path: Path
) -> None:
    turn = in_sandbox(turn, settings, box)
    turn.add(tmp_path, is_writable=True)
    await turn.run("exec", command=f"echo x > {tmp_path}/made; echo x > made")
    assert not (tmp_path / "made").exists()
    assert (turn.call.workspace / "made").exists()


async def test_commands_do_not_see_hidden_places_of_an_added_folder(
    turn: Turn, settings: ToolSettings, box: Bubblewrap, outside: Path, tmp_path: Path
) -> None:
    (outside / ".ssh").mkdir()
    (outside / ".ssh" / "id").write_text("hidden-token")
    (tmp_path / "kore").mkdir()
    (tmp_path / "kore" / "config.json").write_text("hidden-token")
    turn = in_sandbox(turn, settings, box)
    turn.add(tmp_path)
    turn.add(outside)
    result = await turn.run(
        "exec", command=f"cat {outside}/.env {outside}/.ssh/* {tmp_path}/kore/*; ls {outside}"
    )
    assert "src" in result.for_model
    assert "hidden-token" not in result.for_model


async def test_workspace_in_an_added_folder_stays_writable(
    turn: Turn, settings: ToolSettings, box: Bubblewrap, tmp_path: Path
) -> None:
    turn = in_sandbox(turn, settings, box)
    turn.add(tmp_path)
    result = await turn.run("exec", command="echo x > made && ls ../other; ls ..")
    assert (turn.call.workspace / "made").exists(), result.for_model
    assert "workspace" in result.for_model


async def test_added_folders_are_iterated_once() -> None:
    folders = AddedFolders()
    folders.add(FolderAccess(Path("/a"), is_writable=True))
    folders.add(FolderAccess(Path("/a/b")))
    assert list(folders) == [FolderAccess(Path("/a"), is_writable=True)]


async def test_new_file_in_a_folder_added_under_tmp_is_created_there(
    turn: Turn, settings: ToolSettings, box: Bubblewrap
) -> None:
    turn = in_sandbox(turn, settings, box)
    with TemporaryDirectory(dir="/tmp") as name:
        path = Path(name) / "new.txt"
        turn.add(Path(name), is_writable=True)
        written = await turn.run("write_file", path=str(path), content="new\n")
        assert not written.is_error, written.for_model
        assert path.read_text() == "new\n"
        assert "new" in (await turn.run("exec", command=f"cat {path}")).for_model
        # A folder that nobody has added is the conversation's own.
        await turn.run("write_file", path=f"{name}-not-added.txt", content="own\n")
        assert not Path(f"{name}-not-added.txt").exists()
