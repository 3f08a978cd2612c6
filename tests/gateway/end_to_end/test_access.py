"""Who is answered, and what the owner's log says about it."""

from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_an_empty_allow_list_lets_nobody_in_and_says_how(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"allow_from": []}})
    async with alone:
        await alone.api.user_says(77, "let me in")
        await alone.until(lambda: "allow_from" in alone.written())
        await alone.api.user_says(77, "/start")
        assert await alone.told(OWNER, "it is me") == ["echo: it is me"]
    assert [effect for effect in alone.api.sent if effect.chat_id == 77] == []
    assert "add 77 to telegram.allow_from" in alone.written()
    assert "let me in" not in alone.written()
    assert len(alone.model.requests) == 1


async def test_a_listed_number_is_let_in_and_no_other(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"allow_from": [77, "78"]}})
    async with alone:
        assert await alone.told(77, "a") == ["echo: a"]
        assert await alone.told(78, "b") == ["echo: b"]
        assert await alone.told(79, "c") == []
        # A group is no way around the list.
        assert await alone.told(-100_1, "@kore_test_bot d", user_id=79) == []
