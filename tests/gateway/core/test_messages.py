import json
import time
from dataclasses import replace

from gateway.core.messages import InboundMessage, Media, Sender

PICTURE = Media("photo", None, "p.jpg", "image/jpeg", 12, remote="AgAC")
HERE = Media("document", "inbox/notes.txt", "notes.txt")


def test_a_message_is_stored_with_the_files_that_came_with_it() -> None:
    message = InboundMessage(
        *("telegram", "bot", "7", Sender("7", "Ann"), "7:1", "look", time.time()),
        media=(PICTURE, HERE),
        album="7:99",
    )
    assert InboundMessage.from_json(message.to_json()) == message


def test_a_message_of_an_older_or_newer_kore_is_read() -> None:
    message = InboundMessage("cli", "local", "x", Sender("7"), "1", "hi", 1.0, media=(HERE,))
    data = json.loads(message.to_json())
    newer = {**data, "colour": "red", "media": [{**data["media"][0], "depth": 3}]}
    older = {name: value for name, value in data.items() if name not in ("media", "album")}
    assert InboundMessage.from_json(json.dumps(newer)) == message
    assert InboundMessage.from_json(json.dumps(older)).media == ()


def test_a_file_is_awaited_until_it_is_there_or_known_to_be_out_of_reach() -> None:
    assert PICTURE.is_awaited
    assert not HERE.is_awaited
    assert not Media("photo", remote="AgAC", trouble="too large").is_awaited


def test_what_a_message_is_follows_from_what_is_stored_of_it() -> None:
    said = InboundMessage("chat", "bot", "1", Sender("7"), "1:1", "hi", 1.0)
    assert said.kind == "message"
    assert replace(said, pressed=True).kind == "button"
    assert replace(said, overheard=True).kind == "overheard"
    assert replace(said, job=3).kind == "job"
    # A sub-agent that a job has sent out works for the job, and is none.
    assert replace(said, job=3, task=5, lane="task:5").kind == "subagent_task"
    assert replace(said, job=3, task=5).kind == "subagent_report"
