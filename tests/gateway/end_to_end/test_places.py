"""Settings of individual chats, such as persona and model."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUIET, PIRATES, READERS = -500, -600, -700
CHATS = {
    str(QUIET): {"listen": True},
    str(PIRATES): {"persona": "Speak like a pirate.", "model": "other"},
    f"{PIRATES}/7": {"persona": "crew/cook.md"},
    str(READERS): {"role": "plan"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("kore")
    sections = {"telegram": {"chats": CHATS}, "access": {"roles": {}}}
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        GatewayProcess(folder, api, model, sections) as gateway,
    ):
        yield gateway


def last_request(gateway: GatewayProcess) -> str:
    return gateway.model.requests[-1].raw.decode()


async def test_group_context_is_included_once(
    gateway: GatewayProcess,
) -> None:
    await gateway.answers_to(QUIET, "the meeting is at five", user_id=8)
    await gateway.answers_to(QUIET, "/ban@some_other_bot", user_id=8)
    assert gateway.model.requests == []
    gateway.model.script("Soon.")
    await gateway.answers_to(QUIET, "@kore_test_bot when is it?", user_id=9)
    assert "Person 8: the meeting is at five" in last_request(gateway)
    assert "some_other_bot" not in last_request(gateway)
    await gateway.answers_to(QUIET, "@kore_test_bot and where?", user_id=9)
    assert last_request(gateway).count("at five") == 1


async def test_group_messages_are_not_stored_without_group_context(gateway: GatewayProcess) -> None:
    await gateway.answers_to(READERS, "between us", user_id=8)
    await gateway.answers_to(READERS, "@kore_test_bot hello", user_id=9)
    assert "between us" not in last_request(gateway)


async def test_group_context_survives_a_kill(gateway: GatewayProcess) -> None:
    await gateway.answers_to(QUIET, "bring an umbrella", user_id=8)
    await gateway.kill()
    await gateway.start()
    await gateway.answers_to(QUIET, "@kore_test_bot what now?", user_id=9)
    assert "bring an umbrella" in last_request(gateway)


async def test_chat_has_its_own_persona_and_model(gateway: GatewayProcess) -> None:
    await gateway.answers_to(PIRATES, "@kore_test_bot hi")
    assert "Speak like a pirate." in last_request(gateway)
    assert gateway.model.requests[-1].body["model"] == "other"
    await gateway.answers_to(QUIET, "@kore_test_bot hi")
    assert "pirate" not in last_request(gateway)
    assert gateway.model.requests[-1].body["model"] == "fake"
    answers = await gateway.answers_to(PIRATES, "/model")
    assert answers[-1].startswith("Model: other.")


async def test_topic_has_a_persona_from_a_file_and_the_model_of_its_chat(
    gateway: GatewayProcess,
) -> None:
    cook = gateway.workspace / "crew" / "cook.md"
    cook.parent.mkdir()
    cook.write_text("You are the cook.")
    await gateway.answers_to(PIRATES, "@kore_test_bot hi", thread_id=7)
    assert "You are the cook." in last_request(gateway)
    assert "pirate" not in last_request(gateway)
    assert gateway.model.requests[-1].body["model"] == "other"


async def test_chat_role_does_not_bind_the_owner(gateway: GatewayProcess) -> None:
    write = Call("write_file", {"path": "x.txt", "content": "x"})
    for person, allowed in ((9, False), (OWNER, True)):
        gateway.model.script(ReplyScript(tool_calls=(write,)), "Done.")
        await gateway.answers_to(READERS, "@kore_test_bot write", user_id=person)
        assert (gateway.workspace / "x.txt").exists() is allowed
