"""Answers over the OpenAI-compatible API, as stored by each engine."""

import json
from dataclasses import replace
from pathlib import Path

from agent.types import user
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.store.cipher import Cipher
from gateway.store.repositories import api_answers
from gateway.store.repositories.api_answers import AnswerLimits
from gateway.store.repositories.user_data import erasure, export
from tests.gateway.store.transactions import open_transaction

ME = "cli:0"
REQUEST = ApiRequest("one@1", "k", "digest", "resp_1")
ANSWER = ApiAnswer(
    "one@1", "resp_1", 5, "k", answer={"text": "secret words"}, conversation=(user("a secret"),)
)


def test_key_has_one_request_and_one_answer(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db") as tx:
        begun = api_answers.begin(tx, REQUEST, ME, 5)
        assert begun == ApiAnswer("one@1", "resp_1", 5, "k")
        # The process was killed before the answer was stored: the same request keeps its id.
        assert api_answers.begin(tx, replace(REQUEST, id="resp_2"), ME, 6) == begun
        assert api_answers.begin(tx, replace(REQUEST, digest="other"), ME, 6) is None
        assert api_answers.begin(tx, replace(REQUEST, token="two@1"), ME, 6) is not None
        assert api_answers.keep(tx, ANSWER, ME, 7)
        assert not api_answers.keep(tx, replace(ANSWER, answer={"text": "other"}), ME, 8)
        assert not api_answers.keep(tx, replace(ANSWER, id="resp_3"), ME, 8)
        answer = api_answers.begin(tx, REQUEST, ME, 9)
        assert answer is not None
        assert (answer.is_complete, answer.answer) == (True, {"text": "secret words"})


def test_conversation_is_found_by_its_own_token_until_it_expires(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db") as tx:
        assert api_answers.keep(tx, replace(ANSWER, key=""), ME, 5)
        answer = api_answers.find(tx, "one@1", "resp_1", 6)
        assert answer is not None
        assert answer.conversation == (user("a secret"),)
        assert api_answers.find(tx, "two@1", "resp_1", 6) is None
        late = 6 + api_answers.KEEP_S
        assert api_answers.find(tx, "one@1", "resp_1", late) is None
        api_answers.begin(tx, replace(REQUEST, token="two@1"), ME, late)
        assert tx.all("SELECT token FROM api_answer") == [("two@1",)]


def test_only_the_newest_answers_of_a_token_are_retained(tmp_path: Path) -> None:
    limits = AnswerLimits(answers=3, chars=500)
    with open_transaction(tmp_path / "kore.db") as tx:
        for token in ("one@1", "two@1"):
            for number in range(5):
                small = ApiAnswer(token, f"resp_{number}", number, conversation=(user("x"),))
                assert api_answers.keep(tx, small, ME, number, limits)
        rows = tx.all("SELECT token, id FROM api_answer ORDER BY token, id")
        assert rows == [
            (token, f"resp_{number}") for token in ("one@1", "two@1") for number in (2, 3, 4)
        ]
        large = ApiAnswer("one@1", "resp_9", 9, conversation=(user("x" * 600),))
        assert api_answers.keep(tx, large, ME, 9, limits)
        assert tx.all("SELECT id FROM api_answer WHERE token = 'one@1'") == [("resp_9",)]


def test_answers_are_sealed_exported_and_deleted(tmp_path: Path) -> None:
    cipher = Cipher(bytes(range(32)), "KEY")
    with open_transaction(tmp_path / "kore.db", cipher=cipher) as tx:
        api_answers.begin(tx, REQUEST, ME, 5)
        assert api_answers.keep(tx, ANSWER, ME, 5)
        assert b"secret" not in tx.content()
        assert b"digest" not in repr(tx.all("SELECT * FROM api_answer")).encode()
        assert erasure.traces(tx, ME).api_answers == 1
        (line,) = export.export_rows(tx, ME)["api_answers.jsonl"].splitlines()
        stored = json.loads(line)["stored"]
        assert stored["answer"] == {"text": "secret words"}
        assert stored["conversation"][0]["content"][0]["text"] == "a secret"
        erasure.erase(tx, "telegram:1", 6)
        assert erasure.traces(tx, ME).has_data
        erasure.erase(tx, ME, 6)
        assert not erasure.traces(tx, ME).has_data
