from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.history_validation import is_valid
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, accept_messages, chat_message, running, wait_until

CHATS = [str(n) for n in range(1, 13)]


@asynccontextmanager
async def life(folder: Path, model: Gated, *, asked: int) -> AsyncIterator[Parts]:
    """A process that is killed when the model has been asked so often."""
    async with running(folder, model) as parts:
        yield parts
        await wait_until(lambda: len(model.texts) >= asked)


async def test_kills_in_a_row_give_up_none_of_several_turns(tmp_path: Path) -> None:
    async with life(tmp_path, Gated(), asked=12) as parts:
        await accept_messages(parts, *(chat_message(f"job {chat}", chat) for chat in CHATS))
    for _ in range(6):
        async with life(tmp_path, Gated(), asked=1):
            pass
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        for chat in CHATS:
            assert await parts.platform.answers(chat, 1) == [f"re: job {chat}"]


async def test_the_turn_that_ends_the_process_is_found_and_the_others_are_answered(
    tmp_path: Path,
) -> None:
    async with life(tmp_path, Gated(), asked=12) as parts:
        await accept_messages(
            parts, *(chat_message("job" if chat != "5" else "bad", chat) for chat in CHATS)
        )
    answers: dict[str, str] = {}
    for _ in range(6):
        # Whatever is asked is answered, but for the one that ends the process.
        model = Gated(is_open=lambda text: text == "job")
        async with running(tmp_path, model) as parts:
            platform = parts.platform
            await wait_until(lambda: "bad" in model.texts or platform.chats["5"])  # noqa: B023
            answers |= {chat: shown[-1].text for chat, shown in platform.chats.items() if shown}
        if "5" in answers:
            break
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await parts.until_count(0, "turn", state="running")
        assert (await parts.stored("turn", "lane", state="dead")) == [("chat:bot:5",)]
    assert answers["5"].startswith("⚠️ I gave up on this message")


async def test_suspects_go_on_one_at_a_time_and_before_anything_new(tmp_path: Path) -> None:
    async with life(tmp_path, Gated(), asked=2) as parts:
        await accept_messages(parts, chat_message("one"), chat_message("two", "2"))
    async with life(tmp_path, Gated(), asked=2):
        pass
    async with running(tmp_path, alone := Gated()) as parts:
        await wait_until(lambda: alone.texts)
        await accept_messages(parts, chat_message("new", "3"))
        (first,) = alone.texts
        second = "two" if first == "one" else "one"
        alone.let_go(first)
        await alone.wait_for_text(second)
        assert alone.texts == [first, second]
        alone.let_go()
        for chat in ("1", "2", "3"):
            await parts.platform.answers(chat, 1)


async def test_what_was_given_up_is_closed_in_the_conversation(tmp_path: Path) -> None:
    async with life(tmp_path, Gated(), asked=1) as parts:
        await accept_messages(parts, chat_message("bad"))
    for _ in range(2):
        async with life(tmp_path, Gated(), asked=1):
            pass
    async with running(tmp_path, Gated()) as parts:
        await parts.platform.answers("1", 1)
        (session,) = await parts.service.list_sessions()
        messages = await parts.service.load_messages(session.id)
        assert is_valid(messages)
        assert [message.role for message in messages] == ["user", "assistant"]
        assert "check the actual state" in messages[-1].text
