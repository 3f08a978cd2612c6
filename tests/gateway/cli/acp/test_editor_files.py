"""Tools read and change the unsaved text of the editor, and request no blocked file from it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.security.taint.file_marks import is_marked, mark_tainted
from tests.fakes.editor import KEY, EditorSetup, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

OFFER = {"fs": {"readTextFile": True, "writeTextFile": True}}
READ = ReplyScript(tool_calls=(Call("read_file", {"path": "a.py"}),))


def edit(old: str, new: str, path: str = "a.py") -> ReplyScript:
    arguments = {"path": path, "old_string": old, "new_string": new}
    return ReplyScript(tool_calls=(Call("edit_file", arguments),))


def write(text: str, path: str = "a.py") -> ReplyScript:
    return ReplyScript(tool_calls=(Call("write_file", {"path": path, "content": text}),))


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


async def session_of(setup: EditorSetup, connection: Any, folder: Path | None = None) -> str:
    opened = await connection.new_session(cwd=str(folder or setup.project), mcp_servers=[])
    return str(opened.session_id)


def last_result(setup: EditorSetup) -> str:
    """Return the newest tool result sent to the model."""
    results = [
        message
        for message in setup.model.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    return str(results[-1]["content"])


async def test_model_reads_the_unsaved_text_of_the_editor(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.buffers[str(file)] = "total = 7\n"
        setup.model.script(READ, "Seven.")
        await setup.ask(connection, session, words("what is total?"))
        assert "total = 7" in last_result(setup)
        assert "not saved" in last_result(setup)
        assert file.read_text() == "total = 1\n"
        # Once the editor has saved the file, its text is not reported as unsaved.
        del editor.buffers[str(file)]
        setup.model.script(READ, "One.")
        await setup.ask(connection, session, words("and now?"))
        assert "total = 1" in last_result(setup)
        assert "not saved" not in last_result(setup)


async def test_edit_and_undo_apply_to_the_unsaved_text(
    setup: EditorSetup,
) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.buffers[str(file)] = "total = 7\nmore = 1\n"
        setup.model.script(edit("total = 7", "total = 8"), "Done.")
        await setup.ask(connection, session, words("change it"))
        (question, _options) = editor.questions[-1]
        assert "-total = 7" in str(question.content)
        assert "+total = 8" in str(question.content)
        assert file.read_text() == "total = 8\nmore = 1\n"
        assert editor.file_requests[-1] == ("write", str(file))
        assert str(file) not in editor.buffers
        # The file is as the model wrote it, so the model may write again without reading it first.
        setup.model.script(write("total = 9\n"), "Done.")
        await setup.ask(connection, session, words("replace it"))
        assert file.read_text() == "total = 9\n"
        await setup.ask(connection, session, words("/undo"))
        assert file.read_text() == "total = 8\nmore = 1\n"
        await setup.ask(connection, session, words("/undo"))
        assert file.read_text() == "total = 7\nmore = 1\n"


async def test_text_that_the_model_has_not_seen_is_not_replaced(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        setup.model.script(READ, write("total = 2\n"), "I read it again.")
        editor.on_update = lambda update: editor.buffers.update(
            {str(file): "total = 7\n"} if getattr(update, "status", "") == "completed" else {}
        )
        await setup.ask(connection, session, words("replace it"))
        assert "has changed since you read" in last_result(setup)
        assert not editor.questions
        assert file.read_text() == "total = 1\n"
        setup.model.script(READ, write("total = 2\n"), "Done.")
        await setup.ask(connection, session, words("replace it"))
        assert file.read_text() == "total = 2\n"


async def test_denied_change_leaves_disk_and_editor_unchanged(
    setup: EditorSetup,
) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.answer = "deny"
        editor.buffers[str(file)] = "total = 7\n"
        setup.model.script(edit("7", "8"), "As you like.")
        await setup.ask(connection, session, words("change it"))
        assert file.read_text() == "total = 1\n"
        assert editor.buffers[str(file)] == "total = 7\n"
        assert ("write", str(file)) not in editor.file_requests


async def test_edit_keeps_line_endings_of_the_disk_and_creates_a_file(setup: EditorSetup) -> None:
    file = setup.project / "dos.txt"
    file.write_bytes(b"one\r\ntwo\r\n")
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        await connection.set_session_mode(session_id=session, mode_id="auto")
        editor.buffers[str(file)] = "one\ntwo\nthree\n"
        setup.model.script(edit("three", "3", "dos.txt"), write("new\n", "b/new.txt"), "Done.")
        await setup.ask(connection, session, words("change both"))
        assert file.read_bytes() == b"one\r\ntwo\r\n3\r\n"
        assert (setup.project / "b" / "new.txt").read_text() == "new\n"
        assert ("write", str(setup.project / "b" / "new.txt")) in editor.file_requests


async def test_patch_and_appended_line_keep_unsaved_text(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-total = 7\n+total = 8\n*** End Patch\n"
    append = Call("append_file", {"path": "a.py", "content": "end = 1\n"})
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        await connection.set_session_mode(session_id=session, mode_id="auto")
        editor.buffers[str(file)] = "total = 7\nmore = 1\n"
        setup.model.script(
            ReplyScript(tool_calls=(Call("apply_patch", {"input": patch}),)),
            ReplyScript(tool_calls=(append,)),
            "Done.",
        )
        await setup.ask(connection, session, words("change it"))
        assert file.read_text() == "total = 8\nmore = 1\nend = 1\n"
        assert editor.file_requests.count(("write", str(file))) == 2


async def test_reformatting_by_the_editor_is_reported(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.on_save = lambda text: text.replace("= ", "=  ")
        setup.model.script(edit("1", "2"), "Done.")
        await setup.ask(connection, session, words("change it"))
        assert "saved a different text" in last_result(setup)
        assert file.read_text() == "total =  2\n"


async def test_blocked_paths_are_not_requested_from_the_editor(
    setup: EditorSetup, tmp_path: Path
) -> None:
    (setup.project / ".env").write_text("SECRET=1\n")
    outside = tmp_path / "outside.txt"
    outside.write_text("outside\n")
    (setup.project / "link.txt").symlink_to(outside)
    reads = [
        ReplyScript(tool_calls=(Call("read_file", {"path": path}),))
        for path in (".env", str(outside), "link.txt", "../outside.txt")
    ]
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        setup.model.script(*reads, "No.")
        await setup.ask(connection, session, words("read them"))
        assert editor.file_requests == []


async def test_linked_folder_keeps_the_path_of_the_editor(
    setup: EditorSetup, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(setup.project)
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection, link)
        editor.buffers[str(link / "a.py")] = "total = 7\n"
        setup.model.script(READ, "Seven.")
        await setup.ask(connection, session, words("what is total?"))
        assert "total = 7" in last_result(setup)


async def test_untrusted_mark_survives_a_save_by_the_editor(
    setup: EditorSetup,
) -> None:
    file = setup.project / "a.py"
    mark_tainted(file, setup.project)
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.buffers[str(file)] = "total = 7\n"
        setup.model.script(READ, edit("7", "8"), "Eight.")
        await setup.ask(connection, session, words("change it"))
        assert file.read_text() == "total = 8\n"
        assert is_marked(file)


@pytest.mark.parametrize("text", ["nul \0", "x" * 1_000_001])
async def test_unusable_editor_text_falls_back_to_the_disk(setup: EditorSetup, text: str) -> None:
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.buffers[str(setup.project / "a.py")] = text
        setup.model.script(READ, "One.")
        await setup.ask(connection, session, words("what is total?"))
        assert "total = 1" in last_result(setup)
        assert "did not answer" in last_result(setup)


async def test_editor_without_file_support_is_not_asked(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        session = await session_of(setup, connection)
        setup.model.script(READ, edit("1", "2"), "Two.")
        await setup.ask(connection, session, words("change it"))
        assert editor.file_requests == []
        assert (setup.project / "a.py").read_text() == "total = 2\n"


async def test_gateway_in_another_process_asks_the_editor(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "gateway"),
        env=setup.environ(),
        stderr=asyncio.subprocess.PIPE,
    )
    assert gateway.stderr is not None
    try:
        while b"is running: model" not in (line := await gateway.stderr.readline()):
            assert line, "the gateway did not start"
        async with setup.open(capabilities=OFFER) as (editor, connection, _):
            session = await session_of(setup, connection)
            editor.buffers[str(file)] = "total = 7\n"
            setup.model.script(READ, edit("7", "8"), "Eight.")
            await setup.ask(connection, session, words("change it"))
            assert file.read_text() == "total = 8\n"
            assert editor.file_requests[-1] == ("write", str(file))
    finally:
        gateway.terminate()
        await gateway.communicate()


async def test_refused_new_file_is_not_left_on_the_disk(setup: EditorSetup) -> None:
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.refuses_writes = True
        setup.model.script(write("new = 1\n", "b.py"), "It was refused.")
        await setup.ask(connection, session, words("create b.py"))
        assert ("write", str(setup.project / "b.py")) in editor.file_requests
        assert not (setup.project / "b.py").exists()
        assert "refused to save" in last_result(setup)
        assert dict(editor.calls()).popitem()[1] == "failed"


@pytest.mark.parametrize("reply", ["edit", "write", "append"])
async def test_refused_change_is_undone(setup: EditorSetup, reply: str) -> None:
    file = setup.project / "a.py"
    file.chmod(0o755)
    append = ReplyScript(tool_calls=(Call("append_file", {"path": "a.py", "content": "x = 2"}),))
    replies = {"edit": edit("1", "2"), "write": write("total = 2\n"), "append": append}
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.refuses_writes = True
        setup.model.script(READ, replies[reply], "Refused.", READ, "One.")
        await setup.ask(connection, session, words("change it"))
        assert file.read_text() == "total = 1\n"
        assert file.stat().st_mode & 0o777 == 0o755
        assert "refused to save" in last_result(setup)
        await setup.ask(connection, session, words("and now?"))
        assert "changed on disk" not in str(setup.model.requests[-1].body["messages"])


async def test_refused_patch_keeps_deleted_files(setup: EditorSetup) -> None:
    (setup.project / "old.py").write_text("old = 1\n")
    patch = (
        "*** Begin Patch\n*** Update File: old.py\n*** Move to: new.py\n@@\n-old = 1\n+new = 1\n"
        "*** End Patch"
    )
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        editor.refuses_writes = True
        read = ReplyScript(tool_calls=(Call("read_file", {"path": "old.py"}),))
        move = ReplyScript(tool_calls=(Call("apply_patch", {"input": patch}),))
        setup.model.script(read, move, "Refused.")
        await setup.ask(connection, session, words("move it"))
        assert (setup.project / "old.py").read_text() == "old = 1\n"
        assert not (setup.project / "new.py").exists()
        assert "refused to save" in last_result(setup)


async def test_undo_skips_a_refused_change(setup: EditorSetup) -> None:
    file = setup.project / "a.py"
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection)
        setup.model.script(READ, edit("1", "2"), "Two.")
        await setup.ask(connection, session, words("change it"))
        editor.refuses_writes = True
        setup.model.script(edit("2", "3"), "Refused.")
        await setup.ask(connection, session, words("again"))
        editor.refuses_writes = False
        assert file.read_text() == "total = 2\n"
        await setup.ask(connection, session, words("/undo"))
        assert file.read_text() == "total = 1\n"


async def test_file_outside_the_folder_of_the_editor_is_changed_without_asking_it(
    setup: EditorSetup,
) -> None:
    (setup.project / ".git").mkdir()
    setup.set_config(security={"trusted_folders": [str(setup.project)]})
    app = setup.project / "app"
    app.mkdir()
    (app / "b.py").write_text("more = 1\n")
    replies = [edit("1", "2", "../a.py"), edit("1", "2", "b.py"), write("new\n", "../new.txt")]
    async with setup.open(capabilities=OFFER) as (editor, connection, _):
        session = await session_of(setup, connection, app)
        await connection.set_session_mode(session_id=session, mode_id="auto")
        setup.model.script(*replies, "Done.")
        await setup.ask(connection, session, words("change them"))
        writes = [path for action, path in editor.file_requests if action == "write"]
        assert writes == [str(app / "b.py")]
        assert "refused to save" not in str(setup.model.requests[-1].body["messages"])
        assert (setup.project / "a.py").read_text() == "total = 2\n"
        assert (setup.project / "new.txt").read_text() == "new\n"
