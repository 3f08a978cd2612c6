"""`kore acp` driven by the client side of the official library."""

import asyncio
import base64
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import fork_server
from tests.fakes.editor import KEY, PNG, EditorSetup, acp, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


async def test_prompt_is_answered_with_the_session_folder(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        setup.model.script("Hello **there**")
        assert await setup.ask(connection, session, words("hi")) == "end_turn"
        assert editor.text() == "Hello **there**"
        assert "a.py (10 B)" in setup.question()
        # Kore's own messages arrive too.
        editor.updates.clear()
        assert await setup.ask(connection, session, words("/status")) == "end_turn"
        assert "openai/fake" in editor.text()


async def test_edit_is_approved_and_shown_as_a_diff(setup: EditorSetup) -> None:
    edit = Call("edit_file", {"path": "a.py", "old_string": "1", "new_string": "2"})
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        for answer, text in (("deny", "total = 1\n"), ("", "total = 1\n"), ("once", "total = 2\n")):
            editor.answer = answer
            editor.updates.clear()
            setup.model.script(ReplyScript(tool_calls=(edit,)), "So be it.")
            assert await setup.ask(connection, session, words("change it")) == "end_turn"
            assert (setup.project / "a.py").read_text() == text
        (result, options) = editor.questions[-1]
        assert "+total = 2" in str(result.content)
        assert options == ["once", "session", "always", "deny"]
        # The question, the call and its result refer to the same call.
        states = editor.calls()
        assert {outcome for outcome, _ in states} == {result.tool_call_id}
        assert [state for _, state in states] == ["pending", "in_progress", "completed"]
        changes = [
            part
            for update in editor.updates
            for part in getattr(update, "content", None) or ()
            if getattr(part, "type", "") == "diff"
        ]
        (change,) = changes
        assert (change.path, change.old_text, change.new_text) == (
            str(setup.project / "a.py"),
            "1",
            "2",
        )
        # The vendor may reuse an id for the three calls, but the editor gets three different ids.
        assert len({question.tool_call_id for question, _ in editor.questions}) == 3


async def test_plan_is_sent_as_a_plan_update(setup: EditorSetup) -> None:
    items = [{"content": "one", "status": "completed"}, {"content": "two"}]
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        setup.model.script(ReplyScript(tool_calls=(Call("todo", {"items": items}),)), "Planned.")
        await setup.ask(connection, session, words("plan it"))
        (plan,) = (update for update in editor.updates if update.session_update == "plan")
        assert [(entry.content, entry.status) for entry in plan.entries] == [
            ("one", "completed"),
            ("two", "pending"),
        ]


async def test_cancelled_turn_is_followed_by_the_next(setup: EditorSetup) -> None:
    command = "sleep 600"
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        await connection.set_session_mode(session_id=session, mode_id="auto")
        setup.model.script(ReplyScript(tool_calls=(Call("exec", {"command": command}),)))
        started = asyncio.Event()
        editor.on_update = lambda update: started.set() if editor.calls() else None
        task = asyncio.create_task(setup.ask(connection, session, words("wait")))
        await asyncio.wait_for(started.wait(), 60)
        await connection.cancel(session_id=session)
        assert await asyncio.wait_for(task, 60) == "cancelled"
        assert editor.unended_calls() == []
        setup.model.script("Here I am.")
        assert await setup.ask(connection, session, words("and now?")) == "end_turn"
        assert editor.text().endswith("Here I am.")


async def test_files_and_pictures_are_sent_with_a_prompt(setup: EditorSetup) -> None:
    path = setup.project / "a.py"
    embedded = acp.resource_block(acp.embedded_text_resource(path.as_uri(), "unsaved = True\n"))
    async with setup.open() as (_, connection, _process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        link = acp.resource_link_block("a.py", path.as_uri())
        picture = acp.image_block(base64.b64encode(PNG).decode(), "image/png")
        await setup.ask(connection, session, words("look"), link, embedded, picture)
        body = setup.model.requests[-1].raw.decode()
        assert "unsaved = True" in body
        assert "The person refers to the file" in body
        assert base64.b64encode(PNG).decode() in body
        # Blocks with invalid base64, or with sound, are rejected.
        for wrong in (acp.image_block("no base64!", "image/png"), acp.audio_block("AAAA", "a/b")):
            with pytest.raises(acp.RequestError, match=r"base64|audio"):
                await setup.ask(connection, session, wrong)


async def test_session_is_listed_and_loaded_in_another_process(setup: EditorSetup) -> None:
    read = Call("read_file", {"path": "a.py"})
    async with setup.open() as (_, connection, _process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        setup.model.script(ReplyScript(tool_calls=(read,)), "It is one.")
        await setup.ask(connection, session, words("what is total?"))
    async with setup.open() as (editor, connection, _process):
        listed = (await connection.list_sessions()).sessions
        assert session in [item.session_id for item in listed]
        await connection.load_session(cwd=str(setup.project), session_id=session, mcp_servers=[])
        kinds = [update.session_update for update in editor.updates]
        assert kinds == [
            "user_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
        ]
        setup.model.script("Still one.")
        await setup.ask(connection, session, words("and now?"))
        assert "what is total?" in setup.model.requests[-1].raw.decode()
        await connection.close_session(session_id=session)
        with pytest.raises(acp.RequestError, match="load it first"):
            await setup.ask(connection, session, words("x"))


async def test_sessions_of_a_folder_are_listed(setup: EditorSetup, tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    other.mkdir()
    link.symlink_to(setup.project)
    async with setup.open() as (_, connection, _process):
        ids = []
        for folder in (setup.project, other):
            opened = await connection.new_session(cwd=str(folder), mcp_servers=[])
            setup.model.script("Hello.")
            await setup.ask(connection, opened.session_id, words("hi"))
            ids.append(opened.session_id)
        for folder, expected in (
            (setup.project, ids[:1]),
            (other, ids[1:]),
            (link, ids[:1]),
        ):
            listed = (await connection.list_sessions(cwd=str(folder))).sessions
            assert [(item.session_id, item.cwd) for item in listed] == [(expected[0], str(folder))]
        everything = (await connection.list_sessions()).sessions
        assert {item.session_id: item.cwd for item in everything} == dict(
            zip(ids, map(str, (setup.project, other)), strict=True)
        )


def repository_part(setup: EditorSetup) -> Path:
    """Return a folder of a repository around the project."""
    (setup.project / ".git").mkdir()
    part = setup.project / "part"
    part.mkdir()
    return part


async def test_work_starts_in_the_folder_inside_a_trusted_repository(setup: EditorSetup) -> None:
    part = repository_part(setup)
    setup.set_config(security={"trusted_folders": [str(setup.project)]})
    async with setup.open() as (_, connection, _process):
        opened = await connection.new_session(cwd=str(part), mcp_servers=[])
        setup.model.script("Hello.")
        await setup.ask(connection, opened.session_id, words("hi"))
        system = str(setup.model.requests[-1].body["messages"][0]["content"])
        assert f"The person is in `{part}`, part of the project `{setup.project}`" in system
        listed = (await connection.list_sessions(cwd=str(setup.project))).sessions
        assert [item.session_id for item in listed] == [opened.session_id]
        (listed_anywhere,) = (await connection.list_sessions()).sessions
        assert listed_anywhere.cwd == str(part)


async def test_loaded_session_starts_in_the_folder_of_the_editor(setup: EditorSetup) -> None:
    part = repository_part(setup)
    setup.set_config(security={"trusted_folders": [str(setup.project)]})
    async with setup.open() as (_, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        setup.model.script("Hello.", "Again.")
        await setup.ask(connection, opened.session_id, words("hi"))
        session = opened.session_id
        await connection.load_session(cwd=str(part), session_id=session, mcp_servers=[])
        await setup.ask(connection, session, words("again"))
        system = str(setup.model.requests[-1].body["messages"][0]["content"])
        assert f"The person is in `{part}`, part of the project `{setup.project}`" in system


async def test_untrusted_repository_around_the_folder_is_not_the_workspace(
    setup: EditorSetup,
) -> None:
    part = repository_part(setup)
    async with setup.open() as (_, connection, _process):
        opened = await connection.new_session(cwd=str(part), mcp_servers=[])
        setup.model.script("Hello.")
        await setup.ask(connection, opened.session_id, words("hi"))
        system = str(setup.model.requests[-1].body["messages"][0]["content"])
        assert f"Relative paths start at `{part}`." in system


async def test_killed_agent_loses_nothing(setup: EditorSetup) -> None:
    async with setup.open() as (_, connection, process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        setup.model.script(ReplyScript(text="Never seen.", waits_at=1))
        task = asyncio.create_task(setup.ask(connection, session, words("do it")))
        async with asyncio.timeout(60):
            while not setup.model.requests:
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(Exception, match=r".*"):
            await task
    setup.model.script("Done after all.", "And this.")
    async with setup.open() as (_, connection, _process):
        await connection.load_session(cwd=str(setup.project), session_id=session, mcp_servers=[])
        assert await setup.ask(connection, session, words("go on")) == "end_turn"
        assert "do it" in setup.model.requests[-1].raw.decode()


async def test_prompt_continues_after_a_starting_gateway_takes_over(
    setup: EditorSetup,
) -> None:
    wait = Call("exec", {"command": "while [ ! -e go ]; do sleep 0.1; done; echo gone"})
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        await connection.set_session_mode(session_id=session, mode_id="auto")
        setup.model.script(ReplyScript(tool_calls=(wait,)), "It has gone.")
        started = asyncio.Event()
        editor.on_update = lambda update: started.set() if editor.calls() else None
        task = asyncio.create_task(setup.ask(connection, session, words("wait for it")))
        await asyncio.wait_for(started.wait(), 60)
        gateway = await fork_server.start_piped(["gateway"], cwd=setup.home, env=setup.environ())
        try:
            assert b"requesting the data" in await gateway.stderr.readline()
            (setup.project / "go").touch()
            assert await asyncio.wait_for(task, 60) == "end_turn"
            assert editor.text().endswith("It has gone.")
            setup.model.script("In the gateway.")
            assert await setup.ask(connection, session, words("where are you?")) == "end_turn"
            assert editor.text().endswith("In the gateway.")
        finally:
            gateway.terminate()
            await gateway.communicate()


async def test_idle_editor_does_not_block_a_gateway(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        async with setup.gateway():
            setup.model.script("In the gateway.")
            assert await setup.ask(connection, session, words("where are you?")) == "end_turn"
            assert editor.text() == "In the gateway."


async def test_bad_input_is_reported_in_one_sentence(setup: EditorSetup) -> None:
    async with setup.open() as (_, connection, _process):
        with pytest.raises(acp.RequestError, match="is not a folder; expected its full path"):
            await connection.new_session(cwd="nowhere", mcp_servers=[])
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        with pytest.raises(acp.RequestError, match="expected one of plan, ask"):
            await connection.set_session_mode(session_id=session, mode_id="yolo")
        with pytest.raises(acp.RequestError, match="the prompt is empty"):
            await setup.ask(connection, session, words("  "))
        with pytest.raises(acp.RequestError):
            await connection.load_session(
                cwd=str(setup.project), session_id="20990101_000000", mcp_servers=[]
            )


async def test_process_ends_with_the_editor(setup: EditorSetup) -> None:
    async with setup.open() as (_, connection, process):
        await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        assert process.returncode is None
    await process.wait()
    assert process.returncode == 0


async def test_file_instead_of_an_editor_is_rejected(setup: EditorSetup, tmp_path: Path) -> None:
    process = await fork_server.start_piped(["acp"], cwd=tmp_path, env=setup.environ())
    _, err = await process.communicate()
    assert process.returncode == 2
    assert "speaks with an editor over pipes" in err.decode()


async def test_invalid_lines_do_not_end_the_connection(setup: EditorSetup, tmp_path: Path) -> None:
    log = tmp_path / "errors"
    with log.open("wb") as stderr:
        process = await fork_server.start_talking(
            ["acp"], cwd=setup.home, env=setup.environ(), stderr=stderr, limit=2**16
        )
    call = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
    unknown = {"jsonrpc": "2.0", "id": 8, "method": "session/dance", "params": {}}
    lines = ["garbage", json.dumps({"id": []}), json.dumps(unknown), json.dumps(call)]
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    answers = {}
    while 7 not in answers:
        answer = json.loads(await process.stdout.readline())
        answers[answer.get("id")] = answer
    process.stdin.close()
    assert await process.wait() == 0
    assert answers[7]["result"]["agentInfo"]["name"] == "kore"
    assert answers[8]["error"]["code"] == -32601
    assert "Traceback" not in log.read_text()


async def test_goal_is_one_prompt_until_it_is_met(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        unmet, met = ({"met": met, "evidence": "seen", "missing": "more"} for met in (False, True))
        setup.model.script("Begun.", json.dumps(unmet), "Done.", json.dumps(met))
        assert await setup.ask(connection, session, words("/goal take all steps")) == "end_turn"
        text = editor.text()
        assert text.count("Begun.") == 1
        assert text.count("Done.") == 1
        assert "The goal is met: seen" in text


async def test_goal_at_a_limit_ends_its_prompt(setup: EditorSetup) -> None:
    async with setup.open() as (_, connection, _process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        setup.model.script("Begun.", json.dumps({"met": False, "evidence": "", "missing": "more"}))
        prompt = words("/goal take all steps --turns 1")
        assert await setup.ask(connection, session, prompt) == "max_turn_requests"
