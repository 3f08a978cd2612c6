"""The policy as people in a chat experience it."""

from tests.fakes.model_script import reply_with_call
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


def result(gateway: GatewayProcess) -> str:
    """Return the result of the last call, as the model received it."""
    return str(gateway.model.requests[-1].body["messages"][-1]["content"])


async def test_commands_without_a_sandbox_are_disabled_for_the_owner(alone: GatewayProcess) -> None:
    alone.configure({"security": {"sandbox": "none"}})
    async with alone:
        alone.model.script(reply_with_call("exec", command="touch ran"), "No.")
        assert await alone.answers_to(OWNER, "run it") == ["No."]
        assert not (alone.workspace / "ran").exists()
        assert "no sandbox" in result(alone)


async def test_changed_policy_file_applies_to_the_next_message(alone: GatewayProcess) -> None:
    policy = alone.home / "policy.yaml"
    policy.write_text("roles: {general: {tools: {list_dir: {}}}}")
    alone.configure({"security": {"policy_file": str(policy)}})
    async with alone:
        alone.model.script(reply_with_call("write_file", path="new.txt", content="x"), "No.")
        assert await alone.answers_to(77, "write it") == ["No."]
        assert "does not include" in result(alone)

        policy.write_text("roles: {general: {tools: {write_fil: {}}}}")
        alone.model.script(reply_with_call("write_file", path="new.txt", content="x"), "No.")
        assert (await alone.answers_to(77, "again"))[-1] == "No."
        assert "still using the last valid policy: " in alone.log_text()
        assert 'did you mean "write_file"?' in alone.log_text()

        policy.write_text("roles: {general: {tools: {write_file: {}}}}")
        alone.model.script(reply_with_call("write_file", path="new.txt", content="x"), "Done.")
        assert (await alone.answers_to(77, "and again"))[-1] == "Done."
        assert (alone.workspace / "new.txt").read_text() == "x"
