"""Reconfiguration of an agent between two turns."""

from agent.agent import Agent
from agent.providers.pool import ModelPool
from agent.security.redaction import MARK
from agent.settings import AgentSettings, ToolSettings


def agent_with(**tools: float) -> Agent:
    settings = AgentSettings(tools=ToolSettings(**tools), secrets=frozenset({"canary-1f7b3Q"}))  # type: ignore[arg-type]
    return Agent(ModelPool("offline/echo"), settings=settings)


async def test_reconfigured_tools_keep_their_state() -> None:
    agent = agent_with(exec_timeout_s=5)
    before = agent.toolbox
    assert agent.reconfigure(agent_with(exec_timeout_s=7)) is None
    after = agent.toolbox
    assert after is not before
    assert after.views is before.views
    assert agent.settings.tools.exec_timeout_s == 7
    await agent.aclose()


async def test_reconfigured_models_replace_and_return_the_old_ones() -> None:
    agent, other = agent_with(), Agent(ModelPool("other/one"))
    old = agent.models
    assert agent.reconfigure(other) is old
    assert agent.models.default == "other/one"
    await agent.aclose()


async def test_new_secret_is_redacted_like_the_old_ones() -> None:
    agent = agent_with()
    redactor = agent.redactor
    assert redactor.clean("canary-1f7b3Q canary-2d9e5Z") == f"{MARK} canary-2d9e5Z"
    agent.reconfigure(
        Agent(ModelPool("x/y"), settings=AgentSettings(secrets=frozenset({"canary-2d9e5Z"})))
    )
    assert redactor.clean("canary-1f7b3Q canary-2d9e5Z") == f"{MARK} {MARK}"
    await agent.aclose()
