"""File contents seen in a session are remembered after a restart."""

from tests.fakes.model_script import reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_changes_while_kore_was_down_are_reported(
    alone: GatewayProcess,
) -> None:
    alone.workspace.mkdir(parents=True, exist_ok=True)
    (alone.workspace / "seen.md").write_text("as it was\n")
    (alone.workspace / "other.md").write_text("as it was\n")
    await alone.start()
    for name in ("seen.md", "other.md"):
        alone.model.script(reply_with_call("read_file", path=name), "Read.")
        await alone.answers_to(OWNER, f"read {name}")
    await alone.kill()
    (alone.workspace / "seen.md").write_text("changed while nobody looked\n")
    await alone.start()
    await alone.answers_to(OWNER, "what is new?")
    question = str(alone.model.requests[-1].body["messages"][-1]["content"])
    assert "changed since you read or wrote it" in question
    assert "seen.md" in question
    assert "other.md" not in question
    await alone.answers_to(OWNER, "/mode auto")
    alone.model.script(reply_with_call("write_file", path="other.md", content="new\n"), "Written.")
    await alone.answers_to(OWNER, "write it")
    assert (alone.workspace / "other.md").read_text() == "new\n"
    alone.model.script(reply_with_call("write_file", path="seen.md", content="new\n"), "Not so.")
    await alone.answers_to(OWNER, "and the other one")
    assert (alone.workspace / "seen.md").read_text() == "changed while nobody looked\n"
