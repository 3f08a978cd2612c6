from agent.types import Context
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from gateway.turns.prompt import build_user_message, shown_taint
from tests.gateway.parts import chat_message


def facts(**more: object) -> str:
    parts = build_user_message([chat_message("x", **more)]).content
    (context,) = [part.text for part in parts if isinstance(part, Context)]
    return context


def test_what_was_said_is_the_text_and_nothing_else() -> None:
    assert build_user_message([chat_message("hello")]).text == "hello"


def test_joined_messages_stand_below_each_other() -> None:
    assert build_user_message([chat_message("one"), chat_message("two")]).text == "one\n\ntwo"


def test_the_moving_facts_stand_apart() -> None:
    assert "chat" in facts()
    assert "from Ann" in facts(private=False)
    assert "from 7" in facts(private=False, sender=Sender("7"))
    assert "edited after it was first sent" in facts(edited=True)
    assert 'in reply to "before"' in facts(quoted="before")
    assert len(facts(quoted="x" * 10_000)) < 1_000


def test_the_same_messages_read_the_same_after_a_restart() -> None:
    messages = [chat_message("one"), chat_message("two", edited=True)]
    stored = [type(message).from_json(message.to_json()) for message in messages]
    assert build_user_message(stored) == build_user_message(messages)


def test_what_the_person_ran_by_hand_is_told_and_is_nobodys_word() -> None:
    told = {"text": "[ran]\n$ ls", "taint": ["private", "untrusted"]}
    message = chat_message("why?", channel="cli", options={"run": [told]})
    assert build_user_message([message]).text == "why?"
    assert Context("[ran]\n$ ls") in build_user_message([message]).content
    assert shown_taint([message]) == {"private", "untrusted"}


def test_only_the_terminal_can_tell_what_was_run() -> None:
    message = chat_message("why?", options={"run": [{"text": "x", "taint": []}]})
    assert Context("x") not in build_user_message([message]).content


def test_the_mode_and_that_nobody_can_be_asked_are_facts_of_the_message() -> None:
    def facts(message: InboundMessage, mode: str | None = None) -> str:
        return str(build_user_message([message], mode).content)

    assert "permission mode plan" in facts(chat_message("x"), "plan")
    assert "permission mode" not in facts(chat_message("x"))
    alone = MessageOptions(unattended=True)
    assert "nobody can be asked" in facts(chat_message("x", channel="cli", options=alone))
    assert "nobody can be asked" not in facts(chat_message("x", channel="cli"))
