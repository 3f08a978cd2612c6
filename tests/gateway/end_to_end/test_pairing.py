"""Pairing of a stranger over Telegram, the command line and the chat."""

import pytest

from agent.errors import KoreError
from gateway.control.client import ControlClient
from tests.gateway.end_to_end.asking import button, press, push, questions, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.pairing_codes import code_for
from tests.gateway.store.transactions import database_content

NOBODY = {"telegram": {"allow_from": []}, "access": {"owner": None}}
OWNED = {"telegram": {"allow_from": []}}


def database_text(gateway: GatewayProcess) -> str:
    """Return all text in the database, read while it has no owner."""
    assert not gateway.runs
    return database_content(gateway.database).decode("latin-1")


async def test_first_approved_stranger_becomes_the_owner_and_is_answered(
    alone: GatewayProcess,
) -> None:
    alone.configure(NOBODY)
    async with alone:
        assert "kore pair approve CODE" in alone.log_text()
        code = await code_for(alone, 77)
        listed = await alone.kore("pair", "list")
        assert "telegram:77" in listed.out
        assert "first person" in listed.out
        assert code not in listed.out
        wrong = await alone.kore("pair", "approve", "ABCD-EFGH")
        assert (wrong.code, wrong.out) == (1, "")
        approved = await alone.kore("pair", "approve", code.lower())
        assert (approved.code, "is approved and is my owner now" in approved.out) == (0, True)
        assert "my owner" in (await alone.answers_to(77, "thanks"))[-2]
        assert alone.api.answers(77)[-1] == "echo: thanks"
        assert "telegram:77" in (await alone.kore("pair", "list", "--json")).out

        # The second person asks the owner, who gets a message and needs no terminal.
        other = await code_for(alone, 78)
        await alone.until(lambda: any(other in text for text in alone.api.answers(77)))
        assert "78" in (await alone.answers_to(77, f"/pair approve {other}"))[-1]
        assert (await alone.answers_to(78, "hi"))[-1] == "echo: hi"
        assert (await alone.answers_to(78, f"/pair approve {other}"))[
            -1
        ] == "Only my owner can do that."
    assert code not in alone.log_text()
    assert other not in alone.log_text()

    # Both still have access after a restart, and a revocation takes effect at once.
    async with alone:
        assert (await alone.answers_to(78, "again"))[-1] == "echo: again"
        assert (await alone.kore("pair", "revoke", "telegram:78")).code == 0
        answers = alone.api.answers(78)
        assert await alone.answers_to(78, "still there?") == answers
        assert (await alone.answers_to(77, "and I?"))[-1] == "echo: and I?"


async def test_pairing_verbs_work_without_a_gateway(alone: GatewayProcess) -> None:
    alone.configure(NOBODY)
    async with alone:
        code = await code_for(alone, 77)
    assert code not in database_text(alone)
    assert code.replace("-", "") not in database_text(alone)
    assert (await alone.kore("pair", "approve", code)).code == 0
    async with alone:
        assert (await alone.answers_to(77, "hi"))[-1] == "echo: hi"
        await alone.until(lambda: any("my owner" in text for text in alone.api.answers(77)))
    gone = await alone.kore("pair", "revoke", "77")
    assert "There is no owner now; the next person approved becomes the owner" in gone.out
    async with alone:
        answers = alone.api.answers(77)
        assert await alone.answers_to(77, "hi") == answers


async def test_owner_is_notified_once_of_a_stranger_in_a_group(
    alone: GatewayProcess,
) -> None:
    alone.configure(OWNED)
    async with alone:
        await alone.answers_to(OWNER, "I am here")
        for person in (77, 78):
            await alone.answers_to(-100_5, "@kore_test_bot hi", user_id=person)
        await alone.answers_to(OWNER, "still here")
        texts = [text for text in alone.api.answers(OWNER) if "wrote to me in a group" in text]
        assert [("(telegram:77)" in text, "-1005" in text) for text in texts] == [(True, True)]
        assert alone.api.answers(-100_5) == []


async def test_owner_approves_a_stranger_with_one_tap(alone: GatewayProcess) -> None:
    alone.configure(OWNED)
    async with alone:
        await alone.answers_to(OWNER, "I am here")
        code = await code_for(alone, 77)
        (reply,) = await wait_for_questions(alone)
        assert code in reply.text
        approve = button(reply, "Approve")
        # A press by another person or in another chat does not count.
        assert await push(alone, reply, approve, user_id=77) == "Only my owner can do that."
        await alone.answers_to(-100_5, "@kore_test_bot hi", user_id=OWNER)
        (group,) = [shown for shown in alone.api.chat(-100_5) if shown.from_bot]
        text = await push(alone, group, approve, user_id=OWNER)
        assert text == "This request belongs to another chat."
        assert await alone.answers_to(77, "hello?") == alone.api.answers(77)
        assert "echo: hello?" not in alone.api.answers(77)

        text = await press(alone, reply, "Approve")
        assert text == "Person 77 (telegram:77) is approved."
        assert (await alone.answers_to(77, "hi"))[-1] == "echo: hi"
        assert "You're approved. Send me a message anytime." in alone.api.answers(77)
        assert not questions(alone)
        after = alone.api.chats.get(OWNER, reply.message_id)
        assert after is not None
        assert after.text.endswith("✅ Approved by telegram:1.")
        assert code not in after.text
        assert (await push(alone, reply, approve)).startswith("Too late")
    assert code not in database_text(alone)
    assert code.replace("-", "") not in database_text(alone)


async def test_invitation_survives_a_kill_and_makes_its_user_the_owner(
    alone: GatewayProcess,
) -> None:
    alone.configure(NOBODY)
    async with alone:
        bot = alone.api.token.partition(":")[0]
        client = await ControlClient.connect(alone.home / "kore.sock")
        assert client is not None
        code = await client.invite_owner("telegram", bot)
        await alone.kill()
        await alone.start()
        await alone.answers_to(66, "/start guessed")
        assert "I don't recognize you yet" in alone.api.answers(66)[-1]
        await alone.answers_to(77, f"/start {code}")
        await alone.until(lambda: alone.api.answers(77))
        (welcome,) = alone.api.answers(77)
        assert "You're approved, and you are my owner. /help lists the commands" in welcome
        assert (await alone.answers_to(77, "hi"))[-1] == "echo: hi"
        await alone.answers_to(66, f"/start {code}")
        assert not any("You're approved" in text for text in alone.api.answers(66))
        with pytest.raises(KoreError, match="already has an owner: telegram:77"):
            await client.invite_owner("telegram", bot)


async def test_owner_rejects_a_stranger_and_buttons_reflect_commands(
    alone: GatewayProcess,
) -> None:
    alone.configure(OWNED)
    async with alone:
        await alone.answers_to(OWNER, "I am here")
        await code_for(alone, 77)
        (reply,) = await wait_for_questions(alone)
        text = await press(alone, reply, "Deny")
        assert text == "Person 77 (telegram:77) was denied."
        await alone.until(lambda: not questions(alone))
        assert await alone.answers_to(77, "hi") == alone.api.answers(77)
        typed = await code_for(alone, 78)
        await wait_for_questions(alone)
        assert (await alone.kore("pair", "approve", typed)).code == 0
        await alone.until(lambda: not questions(alone))
        await alone.until(lambda: any("Approved by cli:" in t for t in alone.api.answers(OWNER)))
        assert (await push(alone, reply, "pair:y:77:1")).startswith("This button no longer works")


async def test_lockout_survives_a_restart(alone: GatewayProcess) -> None:
    alone.configure(OWNED)
    async with alone:
        code = await code_for(alone, 77)
        for _ in range(5):
            assert (
                "This code is wrong, already used, or expired (codes are valid for one hour"
                in (await alone.answers_to(OWNER, "/pair ABCD-EFGH"))[-1]
            )
        assert "Too many wrong codes" in (await alone.answers_to(OWNER, f"/pair {code}"))[-1]
    async with alone:
        assert "Too many wrong codes" in (await alone.answers_to(OWNER, f"/pair {code}"))[-1]
        assert await alone.answers_to(77, "hi") == alone.api.answers(77)
        # Only the owner's chat is locked; the machine's user made no wrong guess.
        assert (await alone.kore("pair", "approve", code)).code == 0


async def test_names_and_usernames_grant_no_access(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"allow_from": []}, "access": {"roles": {"telegram": "build"}}})
    async with alone:
        assert (await alone.answers_to(OWNER, "it is me"))[-1] == "echo: it is me"
        (message,) = [said for said in alone.api.chat(OWNER) if not said.from_bot]
        forged = {
            "message": {
                "message_id": 1,
                "date": 1,
                "chat": {"id": 66, "type": "private", "first_name": f"User {OWNER}"},
                "from": {
                    "id": 66,
                    "is_bot": False,
                    "first_name": f"User {OWNER}",
                    "last_name": f"telegram:{OWNER}",
                    "username": f"{OWNER}",
                },
                "text": message.text,
            }
        }
        await alone.api.user_says(66, "", raw=forged)
        await alone.idle()
        await alone.until(lambda: alone.api.answers(66))
        assert "I don't recognize you yet" in alone.api.answers(66)[-1]
        # The notice to the owner contains the stranger's id, regardless of the name.
        assert any("(telegram:66)" in text for text in alone.api.answers(OWNER))
        assert (await alone.answers_to(66, "/pair list"))[1:] == []
        assert len(alone.model.requests) == 1


async def test_pairing_requests_are_not_listed_in_a_group(alone: GatewayProcess) -> None:
    alone.configure(OWNED)
    async with alone:
        await code_for(alone, 77)
        (answer,) = await alone.answers_to(-100_5, "/pair@kore_test_bot list", user_id=OWNER)
        assert "private" in answer
        assert "77" not in answer
