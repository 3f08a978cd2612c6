"""Undo in Telegram, across kills of the gateway."""

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_change_before_a_kill_can_be_undone(alone: GatewayProcess) -> None:
    await alone.start()
    write = Call("write_file", {"path": "a.txt", "content": "one\n"})
    alone.model.script(ReplyScript(tool_calls=(write,)), "Done.")
    assert await alone.answers_to(OWNER, "write") == ["Done."]
    await alone.kill()
    await alone.start()
    assert (await alone.answers_to(OWNER, "/diff"))[-1].startswith("1 file changed: a.txt")
    assert (await alone.answers_to(OWNER, "/undo"))[-1] == "Removed a.txt."
    assert not (alone.workspace / "a.txt").exists()


async def test_undo_interrupted_by_a_kill_happens_once(alone: GatewayProcess) -> None:
    await alone.start()
    for text in ("one", "two", "three"):
        append = Call("append_file", {"path": "a.txt", "content": f"{text}\n"})
        alone.model.script(ReplyScript(tool_calls=(append,)), "Done.")
        await alone.answers_to(OWNER, "append")
    file = alone.workspace / "a.txt"
    assert file.read_text() == "one\ntwo\nthree\n"
    await alone.api.user_says(OWNER, "/undo")
    # Kill as soon as the file has changed; the answer may or may not be stored yet.
    await alone.until(lambda: file.read_text() != "one\ntwo\nthree\n")
    await alone.kill()
    await alone.start()
    await alone.idle()
    assert file.read_text() == "one\ntwo\n"
    assert any("Restored a.txt." in answer for answer in alone.api.answers(OWNER))
