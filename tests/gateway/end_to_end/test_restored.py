"""A restored backup with unfinished work that was finished after the backup was made."""

from tests.fakes.faults import status
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

BUILD = {"access": {"owner": f"telegram:{OWNER}", "roles": {"telegram": "build"}}}


async def test_restored_backup_repeats_no_effect_and_marks_repeated_answers(
    alone: GatewayProcess,
) -> None:
    alone.configure(BUILD)
    await alone.start()
    effect = Call("append_file", {"path": "effect.txt", "content": "once\n"})
    alone.api.fail("sendMessage", status(409), times=50)
    await alone.api.user_says(8, "hello")
    await alone.until(lambda: "sendMessage" in alone.api.calls)
    alone.model.script(ReplyScript(text="I do it.", tool_calls=(effect,), waits_at=0), "Done.")
    await alone.api.user_says(7, "do it")
    await alone.until(lambda: len(alone.model.requests) == 2)
    ran = await alone.kore("backup", alone.home.parent / "copy.db")
    assert ran.code == 0, ran.err
    alone.model.let_go()
    alone.api.heal()
    await alone.idle()
    assert alone.api.answers(8) == ["echo: hello"]
    assert "Done." in alone.api.answers(7)[-1]
    await alone.stop()

    alone.use_empty_database()
    ran = await alone.kore("restore", alone.home.parent / "copy.db", "--yes")
    assert ran.code == 0, ran.err
    count = len(alone.model.requests)
    await alone.start()
    await alone.idle()
    assert len(alone.model.requests) == count
    assert (alone.workspace / "effect.txt").read_text() == "once\n"
    first, again = alone.api.answers(8)
    assert (first, again[0]) == ("echo: hello", "↻")
    text = alone.api.answers(7)[-1]
    assert text.startswith("⚠️ A backup was restored")
    assert "kore replay 2" in text
    await alone.stop()
    # The notice appears only once.
    before = len(alone.api.sends)
    await alone.start()
    assert await alone.answers_to(7, "and now?") == [*alone.api.answers(7)[:-1], "echo: and now?"]
    assert len(alone.api.sends) == before + 1
