"""`/agent`: the agent that answers in a session, in any chat."""

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


def system(gateway: GatewayProcess) -> str:
    return str(gateway.model.requests[-1].body["messages"][0]["content"])


async def test_chat_selects_its_agent(alone: GatewayProcess) -> None:
    await alone.start()
    assert "main answers here" in (await alone.answers_to(OWNER, "/agent"))[-1]
    assert "no agent" in (await alone.answers_to(OWNER, "/agent nobody")).pop()
    assert "plan answers" in (await alone.answers_to(OWNER, "/agent plan"))[-1]
    await alone.answers_to(OWNER, "hi")
    assert "You plan work and change nothing." in system(alone)
    tools = [tool["function"]["name"] for tool in alone.model.requests[-1].body["tools"]]
    assert "write_file" not in tools
    await alone.kill()
    await alone.start()
    # The mode also applies to its sub-agents.
    result = {"description": "d", "prompt": "write it", "subagent_type": "general"}
    write = {"path": "made.txt", "content": "x"}
    alone.model.script(
        ReplyScript(tool_calls=(Call("task", result),)),
        ReplyScript(tool_calls=(Call("write_file", write),)),
        "I may not.",
        "It may not.",
    )
    assert (await alone.answers_to(OWNER, "do it"))[-1] == "It may not."
    assert not (alone.workspace / "made.txt").exists()
    # A file cannot replace the main agent, regardless of its author.
    other = alone.workspace / ".kore" / "agents" / "other.md"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("---\nname: Main\ndescription: d\n---\nYou are another.")
    assert "main answers" in (await alone.answers_to(OWNER, "/agent main"))[-1]
    await alone.answers_to(OWNER, "hi")
    assert "You plan work" not in system(alone)
    assert "You are another" not in system(alone)


async def test_configuration_selects_agents_for_chats(alone: GatewayProcess) -> None:
    chats = {str(OWNER): {"agent": "review"}}
    alone.configure({"agent": {"default_agent": "build"}, "telegram": {"chats": chats}})
    await alone.start()
    await alone.answers_to(OWNER, "hi")
    assert "You review work" in system(alone)
    await alone.kore("agent", "-m", "hi")
    assert "You build software" in system(alone)
    await alone.answers_to(OWNER, "/agent main")
    await alone.answers_to(OWNER, "hi")
    assert "You review work" not in system(alone)
