"""A reaction confirms that a message was received, and disappears with the answer."""

from tests.fakes.faults import status
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess


def reactions_in(gateway: GatewayProcess, chat: int) -> dict[int, list[str]]:
    reactions = gateway.api.chats.reactions
    return {number: emoji for (where, number), emoji in reactions.items() if where == chat}


async def test_reaction_stays_until_the_message_is_answered(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"reactions": "👀"}})
    await alone.start()
    alone.model.script(ReplyScript(text="Done.", waits_at=0))
    first = await alone.api.user_says(7, "go")
    second = await alone.api.user_says(7, "and this")
    await alone.until(lambda: reactions_in(alone, 7).get(second.message_id) == ["👀"])
    alone.model.let_go()
    await alone.idle()
    await alone.until(
        lambda: reactions_in(alone, 7) == {first.message_id: [], second.message_id: []}
    )
    await alone.answers_to(7, "/status")
    assert not any(reactions_in(alone, 7).values())


async def test_unanswered_message_keeps_its_reaction(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"reactions": "👀"}})
    await alone.start()
    alone.model.script(
        ReplyScript(text="One.", latency_s=1.0), ReplyScript(text="Two.", latency_s=60.0)
    )
    first = await alone.api.user_says(7, "go")
    second = await alone.api.user_says(7, "and this")
    await alone.until(lambda: reactions_in(alone, 7).get(second.message_id) == ["👀"])
    await alone.until(lambda: alone.api.answers(7) == ["One."])
    await alone.until(lambda: reactions_in(alone, 7)[first.message_id] == [])
    # "Typing" for the second message means that all work after the first answer is done.
    typing = alone.api.calls.count("sendChatAction")
    await alone.until(lambda: alone.api.calls.count("sendChatAction") > typing)
    assert reactions_in(alone, 7)[second.message_id] == ["👀"]


async def test_edit_without_a_change_gets_no_reaction(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"reactions": "👀"}})
    await alone.start()
    # Slow enough for a reaction to appear before it is removed.
    alone.model.latency_s = 1.0
    message = await alone.api.user_says(7, "go")
    await alone.until(lambda: reactions_in(alone, 7) == {message.message_id: ["👀"]})
    await alone.idle()
    await alone.until(lambda: reactions_in(alone, 7) == {message.message_id: []})
    await alone.api.user_says(7, "go", edit_of=message.message_id)
    other = await alone.api.user_says(7, "again")
    await alone.until(lambda: reactions_in(alone, 7).get(other.message_id) == ["👀"])
    await alone.idle()
    await alone.until(lambda: reactions_in(alone, 7).get(other.message_id) == [])
    put = [
        effect
        for effect in alone.effects(7)
        if effect.method == "setMessageReaction" and effect.text
    ]
    assert [item.message_id for item in put] == [message.message_id, other.message_id]


async def test_reaction_from_before_a_kill_is_removed_with_the_answer(
    alone: GatewayProcess,
) -> None:
    alone.configure({"telegram": {"reactions": "👀"}})
    await alone.start()
    alone.model.script(ReplyScript(text="late", latency_s=60.0))
    message = await alone.api.user_says(7, "go")
    await alone.until(lambda: reactions_in(alone, 7) == {message.message_id: ["👀"]})
    await alone.kill()
    alone.model.forget_script()
    await alone.start()
    await alone.idle()
    await alone.until(lambda: reactions_in(alone, 7) == {message.message_id: []})


async def test_no_reaction_is_set_without_the_setting(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(7, "hi")
    assert "setMessageReaction" not in alone.api.calls


async def test_chat_without_reactions_is_answered(
    alone: GatewayProcess,
) -> None:

    alone.configure({"telegram": {"reactions": "👀"}})
    await alone.start()
    alone.api.fail("setMessageReaction", status(400, description="REACTION_INVALID"), times=9)
    assert await alone.answers_to(7, "hi") == ["echo: hi"]
