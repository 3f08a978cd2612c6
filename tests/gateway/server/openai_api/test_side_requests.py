"""Requests that clients send on their own about an exchange: titles, tags, suggestions."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.types import assistant, user
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.side_requests import RecentExchanges
from tests.gateway.server.openai_api.clients import client_of, says
from tests.gateway.server.served import Served, served

QUESTION = "what is the largest planet?"
LONG = "The answer is long: " + "Jupiter is a planet. " * 100
# Formats of Open WebUI, its newer versions, LobeChat, its newer versions, and LibreChat.
FORMATS = (
    "### Task:\nGenerate a title.\n### Chat History:\n<chat_history>\n"
    "USER: {question}\nASSISTANT: {answer}\n</chat_history>",
    "### Task:\nSuggest questions.\n<chat_history>\n"
    "USER: {question}\n\nASSISTANT: {short}\n</chat_history>",
    "user: {question}\nassistant: {answer}\n\nSummarize the above conversation into a title.",
    "<user>\n{question}\n</user>\n<assistant>\n{cut}\n</assistant>",
    "Provide a title.\n\nConversation:\nUser: {question}\nAI: {answer}",
)


def conversation(*texts: str, system: str = "") -> ClientConversation:
    return ClientConversation(system, tuple(user(text) for text in texts))


def quoting(template: str, question: str, answer: str) -> str:
    short = answer if len(answer) <= 500 else f"{answer[:250]}...{answer[-250:]}"
    return template.format(question=question, answer=answer, short=short, cut=answer[:2000])


@pytest.mark.parametrize("template", FORMATS)
@pytest.mark.parametrize("answer", ["Jupiter.", LONG])
def test_formats_of_clients_are_recognized(template: str, answer: str) -> None:
    exchanges = RecentExchanges()
    exchanges.add("t", conversation(QUESTION), answer)
    request = conversation(quoting(template, QUESTION, answer), system="You make titles.")
    assert exchanges.is_quoted_in("t", request)
    assert not exchanges.is_quoted_in("another token", request)


@pytest.mark.parametrize(
    "text",
    [
        QUESTION,
        f"you said: {LONG}",
        f"{LONG}\n{QUESTION}",
        f"USER: {QUESTION}\nASSISTANT: Saturn.",
        f"I asked you in another chat, namely {QUESTION} and you said, if I am right, that {LONG}",
    ],
)
def test_messages_of_people_are_not_side_requests(text: str) -> None:
    exchanges = RecentExchanges()
    exchanges.add("t", conversation(QUESTION), LONG)
    assert not exchanges.is_quoted_in("t", conversation(text))


def test_short_words_inside_lines_are_not_quotes() -> None:
    exchanges = RecentExchanges()
    exchanges.add("t", conversation("ok"), "OK.")
    assert not exchanges.is_quoted_in("t", conversation("look here\nOK. Now do it"))
    assert exchanges.is_quoted_in("t", conversation("USER: ok\nASSISTANT: OK."))


def test_late_quote_is_a_message_of_a_person() -> None:
    now = 0.0
    exchanges = RecentExchanges(lambda: now)
    exchanges.add("t", conversation(QUESTION), LONG)
    request = conversation(quoting(FORMATS[0], QUESTION, LONG))
    now = 119.0
    assert exchanges.is_quoted_in("t", request)
    now = 121.0
    assert not exchanges.is_quoted_in("t", request)


TITLE = "### Task:\nGenerate a title.\n<chat_history>\nUSER: {question}\n</chat_history>"


@pytest.mark.parametrize("question", [QUESTION, "hi", LONG])
def test_title_requested_before_the_answer_is_recognized(question: str) -> None:
    now = 0.0
    exchanges = RecentExchanges(lambda: now)
    exchanges.begin("t", conversation(question))
    request = conversation(TITLE.format(question=question))
    assert exchanges.is_quoted_in("t", request)
    assert not exchanges.is_quoted_in("another token", request)
    now = 31.0
    assert not exchanges.is_quoted_in("t", request)


@pytest.mark.parametrize(
    "text", [QUESTION, f"USER: {QUESTION}", f"Once more:\n{QUESTION}", f"About {QUESTION} again\n"]
)
def test_repeated_question_is_not_a_side_request(text: str) -> None:
    exchanges = RecentExchanges()
    exchanges.begin("t", conversation(QUESTION))
    assert not exchanges.is_quoted_in("t", conversation(text))


def test_later_message_of_a_conversation_begins_nothing() -> None:
    exchanges = RecentExchanges()
    later = ClientConversation("", (user("hi"), assistant("Hello."), user(QUESTION)))
    exchanges.begin("t", later)
    assert not exchanges.is_quoted_in("t", conversation(TITLE.format(question=QUESTION)))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def sessions_of(server: Served) -> list[str]:
    _, sessions = await server.call("list_sessions")
    return [session["id"] for session in sessions]


async def test_side_request_starts_no_session(server: Served) -> None:
    async with client_of(server) as client:
        create = client.chat.completions.with_raw_response.create
        first = await create(model="kore", messages=says(QUESTION), user="ann")
        session = first.headers["X-Kore-Session"]
        text = quoting(FORMATS[0], QUESTION, f"re: {QUESTION}")
        side = await create(model="kore", messages=says(text), user="ann")
        answer = side.parse()
        response = await client.responses.create(model="kore", input=text)
        # The conversation continues where it was.
        said: list[Any] = [*says(QUESTION), {"role": "assistant", "content": f"re: {QUESTION}"}]
        after = await create(model="kore", messages=[*said, *says("and now?")])
    assert answer.model == "kore"
    assert answer.choices[0].message.content == f"re: {text}"
    assert response.output_text == f"re: {text}"
    assert "X-Kore-Session" not in side.headers
    assert after.headers["X-Kore-Session"] == session
    assert await sessions_of(server) == [session]
    _, messages = await server.call("load_messages", session=session)
    assert len(messages) == 4


async def test_title_requested_with_the_first_message_starts_no_session(server: Served) -> None:
    async with client_of(server) as client:
        create = client.chat.completions.create
        stream = await create(model="kore", messages=says(QUESTION), stream=True)
        text = TITLE.format(question=QUESTION)
        title = await create(model="kore", messages=says(text))
        async for _ in stream:
            pass
    assert title.choices[0].message.content == f"re: {text}"
    assert len(await sessions_of(server)) == 1


async def test_named_session_gets_every_message(server: Served) -> None:
    async with client_of(server) as client:
        create = client.chat.completions.with_raw_response.create
        first = await create(model="kore", messages=says(QUESTION))
        named = {"X-Kore-Session": first.headers["X-Kore-Session"]}
        text = quoting(FORMATS[0], QUESTION, f"re: {QUESTION}")
        second = await create(model="kore", messages=says(text), extra_headers=named)
    assert second.headers["X-Kore-Session"] == named["X-Kore-Session"]
