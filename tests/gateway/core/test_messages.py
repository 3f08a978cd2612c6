import json
import time

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
