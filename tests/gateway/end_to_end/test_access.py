"""Access of strangers, and its entries in the owner's log."""

from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_empty_allow_list_admits_only_the_owner(
    alone: GatewayProcess,
) -> None:
    alone.configure({"telegram": {"allow_from": []}})
    async with alone:
        (answer,) = await alone.answers_to(77, "let me in")
        assert await alone.answers_to(77, "/start") == [answer]
        assert (await alone.answers_to(OWNER, "it is me"))[-1] == "echo: it is me"
        assert await alone.answers_to(-100_1, "@kore_test_bot hi", user_id=78) == []
    assert "add 77 to telegram.allow_from" in alone.log_text()
    assert "let me in" not in alone.log_text()
    assert len(alone.model.requests) == 1


async def test_only_listed_ids_are_admitted(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"allow_from": [77, "78"]}})
    async with alone:
        assert await alone.answers_to(77, "a") == ["echo: a"]
        assert await alone.answers_to(78, "b") == ["echo: b"]
        (answer,) = await alone.answers_to(79, "c")
        assert "I don't recognize you yet" in answer
        # A group does not bypass the allow list.
        assert await alone.answers_to(-100_1, "@kore_test_bot d", user_id=79) == []
