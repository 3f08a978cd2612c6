"""Files that people send by Telegram: stored on disk, shown to the model, and never lost."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.faults import hang, reset, status, truncated
from tests.fakes.model_mind import echo
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.received_files import inbox, last_user_message, png

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_photo_is_stored_in_the_inbox_and_shown_to_the_model(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_sends(chat, "photo", png(1), caption="what is this?")
    await gateway.idle()
    (file,) = inbox(gateway, chat)
    assert file.read_bytes() == png(1)
    assert os.getxattr(file, "user.kore.untrusted") == b"1"
    assert file.stat().st_mode & 0o077 == 0
    text = last_user_message(gateway)
    assert "data:image/png;base64," in text
    assert "[photo] what is this?" in text
    assert f"inbox/telegram/{chat}/{file.name}" in text


async def test_document_keeps_its_name_without_a_path(gateway: GatewayProcess, chat: int) -> None:
    name = "../../../etc/pass wd\u202e.TXT"
    await gateway.api.user_sends(chat, "document", b"hello", name=name)
    await gateway.idle()
    (file,) = inbox(gateway, chat)
    assert file.name.startswith("pass wd_-")
    assert file.suffix == ".TXT"
    assert "image_url" not in last_user_message(gateway)


async def test_files_of_equal_name_are_stored_separately(
    gateway: GatewayProcess, chat: int
) -> None:
    for content in (b"one", b"two", b"one"):
        await gateway.api.user_sends(chat, "document", content, name="a.txt")
    await gateway.idle()
    assert sorted(file.read_bytes() for file in inbox(gateway, chat)) == [b"one", b"two"]


async def test_places_and_contacts_become_text(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_sends(chat, "location", field={"latitude": 48.1, "longitude": 11.5})
    contact = {"first_name": "Ann", "phone_number": "+49123"}
    await gateway.api.user_sends(chat, "contact", field=contact)
    options = [{"text": "red", "voter_count": 2}, {"text": "blue", "voter_count": 0}]
    await gateway.api.user_sends(chat, "poll", field={"question": "Which?", "options": options})
    await gateway.idle()
    text = json.dumps(gateway.model.requests[-1].body["messages"], ensure_ascii=False)
    assert "latitude 48.1, longitude 11.5" in text
    assert "Ann +49123" in text
    assert "Which? Options: red (2); blue (0)" in text
    assert not inbox(gateway, chat)


@pytest.mark.parametrize(
    ("kind", "field", "label"),
    [
        ("story", {"id": 1, "chat": {"id": 5, "first_name": "Ann"}}, "story: of Ann, which bots"),
        (
            "checklist",
            {"title": "To buy", "tasks": [{"text": "milk", "completion_date": 1}, {"text": "tea"}]},
            "checklist: To buy: milk (done); tea (open)",
        ),
        ("paid_media", {"star_count": 3, "paid_media": [{}]}, "paid media: 1 files for 3 stars"),
    ],
)
async def test_every_kind_of_message_is_answered(
    gateway: GatewayProcess, chat: int, kind: str, field: dict[str, object], label: str
) -> None:
    await gateway.api.user_sends(chat, kind, field=field)
    await gateway.idle()
    assert gateway.api.answers(chat) == [f"echo: [{kind}]"]
    assert label in last_user_message(gateway)


async def test_album_is_one_message(gateway: GatewayProcess, chat: int) -> None:
    await gateway.api.user_sends(chat, "photo", png(1), album="9", caption="my cats")
    # The other pictures must not arrive in the same poll as the first.
    await gateway.until(lambda: not gateway.api.pending_updates)
    for shade in (2, 3):
        await gateway.api.user_sends(chat, "photo", png(shade), album="9")
    await gateway.api.user_says(chat, "and?")
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: [album of 3] my cats", "echo: and?"]
    assert len(inbox(gateway, chat)) == 3
    first = gateway.model.requests[0].body["messages"][-1]
    assert [part["type"] for part in first["content"]] == ["image_url"] * 3 + ["text"]


@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
async def test_album_with_a_subagent_turn_does_not_block_its_chat(
    gateway: GatewayProcess, *, background: bool
) -> None:
    arguments = {"description": "look", "prompt": "look", "background": background}

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        last = body["messages"][-1]
        text = json.dumps(last["content"])
        if "not from the person" in text:
            return ReplyScript(text="The report came.")
        if last["role"] == "tool":
            return ReplyScript(text=f"Sent out, background {background}.")
        if "[album of 2]" in text:
            return ReplyScript(tool_calls=(Call("task", arguments),))
        return echo(body)

    gateway.model.mind = mind
    album = f"background {background}"
    await gateway.api.user_sends(OWNER, "photo", png(1), album=album, caption="look")
    await gateway.api.user_sends(OWNER, "photo", png(2), album=album)
    last = "The report came." if background else "Sent out, background False."
    await gateway.until(lambda: last in gateway.api.answers(OWNER))
    assert (await gateway.answers_to(OWNER, "and?"))[-1] == "echo: and?"
    (subagent,) = [
        request.body
        for request in gateway.model.requests
        if echo(request.body).text == "echo: look"
    ]
    assert "image_url" not in json.dumps(subagent)


async def test_album_in_a_group_is_addressed_by_one_part(gateway: GatewayProcess) -> None:
    group = -1009
    await gateway.api.user_sends(group, "photo", png(1), album="8", user_id=5)
    await gateway.api.user_sends(group, "photo", png(2), album="8", user_id=5)
    await gateway.idle()
    assert not gateway.api.answers(group)
    caption = "@kore_test_bot look"
    await gateway.api.user_sends(group, "photo", png(1), album="7", caption=caption, user_id=5)
    await gateway.api.user_sends(group, "photo", png(2), album="7", user_id=5)
    await gateway.idle()
    assert gateway.api.answers(group) == ["echo: [album of 2] look"]
    assert len(inbox(gateway, group)) == 2


async def test_parts_in_an_earlier_poll_belong_to_the_album(
    gateway: GatewayProcess,
) -> None:
    group = -1010
    await gateway.api.user_sends(group, "photo", png(1), album="6", user_id=5)
    await gateway.until(lambda: not gateway.api.pending_updates)
    caption = "@kore_test_bot look"
    await gateway.api.user_sends(group, "photo", png(2), album="6", caption=caption, user_id=5)
    await gateway.idle()
    assert gateway.api.answers(group) == ["echo: [album of 2] look"]
    assert len(inbox(gateway, group)) == 2


async def test_question_about_a_photo_includes_the_photo(
    gateway: GatewayProcess, chat: int
) -> None:
    sent = await gateway.api.user_sends(chat, "photo", png(1), caption="my cat")
    await gateway.idle()
    await gateway.api.user_says(chat, "how old?", reply_to=sent.message_id)
    await gateway.idle()
    text = last_user_message(gateway)
    assert "in the message replied to: photo in inbox/telegram/" in text
    assert "data:image/png;base64," in text
    assert gateway.api.calls.count("file") >= 1
    assert len(inbox(gateway, chat)) == 1


async def test_oversized_file_is_reported_to_person_and_model(
    gateway: GatewayProcess, chat: int
) -> None:
    size = 21 * 2**20
    await gateway.api.user_sends(chat, "video", b"x", name="long.mp4", size=size, caption="see?")
    await gateway.idle()
    notice, answer = gateway.api.answers(chat)
    assert notice == ("⚠️ I can't download long.mp4: it exceeds the limit of 20 MB.")
    assert answer == "echo: [video] see?"
    assert "it cannot be used: it exceeds the limit of 20 MB" in last_user_message(gateway)
    assert not inbox(gateway, chat)


async def test_download_stops_at_the_limit(gateway: GatewayProcess, chat: int) -> None:
    data = bytes(20 * 2**20 + 1)
    await gateway.api.user_sends(chat, "document", data, name="liar.bin", size=3)
    await gateway.idle()
    assert "limit of 20 MB" in gateway.api.answers(chat)[0]
    assert not inbox(gateway, chat)


@pytest.mark.parametrize("fault", [reset, truncated, status(502)])
async def test_failed_download_is_retried(
    gateway: GatewayProcess, chat: int, fault: object
) -> None:
    gateway.api.fail("file", fault)  # type: ignore[arg-type]
    await gateway.api.user_sends(chat, "photo", png(7), caption="again")
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: [photo] again"]
    assert [file.read_bytes() for file in inbox(gateway, chat)] == [png(7)]


async def test_hanging_file_does_not_delay_other_chats(gateway: GatewayProcess, chat: int) -> None:
    gateway.api.fail("file", hang)
    await gateway.api.user_sends(chat, "photo", png(1), caption="slow")
    await gateway.until(lambda: "file" in gateway.api.calls)
    assert not gateway.api.answers(chat)
    await gateway.api.user_says(chat + 100_000, "hi")
    await gateway.until(lambda: gateway.api.answers(chat + 100_000))
    assert not gateway.api.answers(chat)
    gateway.api.end_hangs()
    await gateway.idle()
    assert gateway.api.answers(chat) == ["echo: [photo] slow"]


async def test_files_of_a_person_are_readable_only_by_them_and_the_owner(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_sends(chat, "document", b"CANARY", name="diary.txt")
    await gateway.idle()
    (file,) = inbox(gateway, chat)
    path = f"inbox/telegram/{chat}/{file.name}"
    for person, sees in ((chat, True), (chat + 100_000, False), (OWNER, True)):
        gateway.model.script(
            ReplyScript(tool_calls=(Call("read_file", {"path": path}),)), ReplyScript(text="ok")
        )
        await gateway.answers_to(person, "read it")
        assert ("CANARY" in last_user_message(gateway)) is sees


async def test_untranscribed_voice_message_is_stored_and_reported(
    gateway: GatewayProcess, chat: int
) -> None:
    await gateway.api.user_sends(chat, "voice", b"OggS")
    await gateway.idle()
    notice, answer = gateway.api.answers(chat)
    assert notice == (
        "⚠️ I can't transcribe the voice message: no transcription service is configured "
        "(`transcription.api_base`)."
    )
    assert answer == "echo: [voice]"
    assert [file.read_bytes() for file in inbox(gateway, chat)] == [b"OggS"]
    assert "it cannot be heard: no transcription service is configured" in last_user_message(
        gateway
    )
