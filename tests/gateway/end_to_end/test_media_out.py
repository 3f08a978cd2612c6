"""Files that the model sends by Telegram: once, even across a kill, and only permitted files."""

import json

import pytest

from tests.fakes.faults import hang, lost_response, status
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.received_files import last_user_message, png
from tests.gateway.end_to_end.sent_files import files, put, sends


async def ask(gateway: GatewayProcess, chat: int, *replies: ReplyScript | str) -> None:
    gateway.model.script(*replies)
    await gateway.api.user_says(chat, "send it")
    await gateway.idle()


@pytest.mark.asyncio(loop_scope="module")
class TestRunning:
    async def test_file_arrives_with_its_name_and_caption(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        data = bytes(range(256)) * 5000
        name = put(gateway, "bericht ä.pdf", data)
        await ask(gateway, chat, sends(name, caption="**the** report"), "Sent.")
        (sent,) = files(gateway, chat)
        assert (sent.method, sent.text) == ("sendDocument", "the report")
        assert [entity["type"] for entity in sent.entities] == ["bold"]
        assert [(file.name, file.data) for file in sent.files] == [(name, data)]
        assert gateway.api.answers(chat) == ["the report", "Sent."]
        assert "Queued for the person" in last_user_message(gateway)
        folder = gateway.home / "outgoing"
        assert list(folder.iterdir()) == []

    async def test_file_without_text_is_an_answer(self, gateway: GatewayProcess, chat: int) -> None:
        await ask(gateway, chat, sends(put(gateway, "plain.txt", b"plain")), "")
        assert gateway.api.answers(chat) == ["", "Done."]

    async def test_too_long_caption_follows_the_file(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        name, caption = put(gateway, "cats.txt", b"cats"), "🐱" * 600
        await ask(gateway, chat, sends(name, caption=caption), "Sent.")
        (sent,) = files(gateway, chat)
        assert sent.text == ""
        assert gateway.api.answers(chat) == ["", caption, "Sent."]

    async def test_files_of_a_kind_form_an_album(self, gateway: GatewayProcess, chat: int) -> None:
        pictures = [put(gateway, f"p{n}.png", png(n)) for n in range(3)]
        texts = [put(gateway, f"t{n}.txt", b"text") for n in range(2)]
        await ask(gateway, chat, sends(*pictures, *texts, caption="all"), "Sent.")
        first, second = files(gateway, chat)
        assert [first.method, second.method] == ["sendMediaGroup"] * 2
        assert [file.kind for file in first.files] == ["photo"] * 3
        assert [file.kind for file in second.files] == ["document"] * 2
        assert (first.text, second.text) == ("all", "")

    async def test_unsupported_picture_is_sent_as_a_document(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        name = put(gateway, "long.png", png(1))
        gateway.api.fail(
            "sendPhoto", status(400, description="Bad Request: PHOTO_INVALID_DIMENSIONS")
        )
        await ask(gateway, chat, sends(name), "Sent.")
        (sent,) = files(gateway, chat)
        assert sent.method == "sendDocument"

    async def test_lost_response_is_marked_in_the_caption(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        name = put(gateway, "a.txt", b"hello")
        gateway.api.fail("sendDocument", lost_response)
        await ask(gateway, chat, sends(name, caption="here"), "Sent.")
        await gateway.until(lambda: len(files(gateway, chat)) == 2)
        first, second = files(gateway, chat)
        assert first.text == "here"
        assert (second.text or "").startswith("↻")
        assert (second.text or "").endswith("here")

    async def test_file_changed_later_is_sent_unchanged(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        name = put(gateway, "a.txt", b"first")
        gateway.api.fail("sendDocument", status(429, retry_after=1))
        gateway.model.script(sends(name), "Sent.")
        before = gateway.api.calls.count("sendDocument")
        await gateway.api.user_says(chat, "send it")
        await gateway.until(lambda: gateway.api.calls.count("sendDocument") > before)
        put(gateway, name, b"second")
        await gateway.until(lambda: files(gateway, chat))
        assert files(gateway, chat)[0].files[0].data == b"first"
        await gateway.idle()

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("missing.txt", "does not exist"),
            ("memory", "belongs to someone else"),
            ("USER.md", "belongs to someone else"),
            (".env", "blocked"),
            ("/etc/passwd", "outside"),
            ("empty.txt", "is empty"),
        ],
    )
    async def test_unreadable_file_is_not_sent(
        self, gateway: GatewayProcess, chat: int, path: str, why: str
    ) -> None:
        put(gateway, "empty.txt", b"")
        put(gateway, ".env", b"SECRET")
        await ask(gateway, chat, sends(path), "Sorry.")
        assert why in last_user_message(gateway)
        assert files(gateway, chat) == []

    async def test_private_file_needs_approval_after_untrusted_text(
        self, gateway: GatewayProcess, chat: int
    ) -> None:
        """Applies to every recipient but the owner, because the model may have been manipulated."""
        name = put(gateway, "plan.txt", b"the plan")
        await gateway.answers_to(OWNER, "hi")
        gateway.model.script(
            ReplyScript(tool_calls=(Call("read_file", {"path": name}),)), sends(name), "Sorry."
        )
        await gateway.api.user_sends(chat, "document", b"evil", name="evil.txt", caption="do")
        await gateway.until(lambda: "🔐" in " ".join(gateway.api.answers(OWNER)))
        assert files(gateway, chat) == []

    async def test_owner_in_private_gets_every_file(self, gateway: GatewayProcess) -> None:
        name = put(gateway, "own.txt", b"mine")
        await gateway.api.user_sends(OWNER, "document", b"evil", name="evil.txt")
        await gateway.until(
            lambda: any("[document]" in answer for answer in gateway.api.answers(OWNER))
        )
        gateway.model.script(
            ReplyScript(tool_calls=(Call("read_file", {"path": name}),)), sends(name), "Sent."
        )
        await gateway.api.user_says(OWNER, "send it")
        await gateway.until(lambda: files(gateway, OWNER))


async def test_kill_before_the_file_arrives_sends_it_after_the_start(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    name = put(alone, "a.txt", b"hello")
    alone.api.fail("sendDocument", hang)
    alone.model.script(sends(name), "Sent.")
    await alone.api.user_says(7, "send it")
    await alone.until(lambda: "sendDocument" in alone.api.calls)
    await alone.kill()
    (alone.workspace / name).unlink()
    await alone.start()
    await alone.idle()
    (sent,) = files(alone, 7)
    assert sent.files[0].data == b"hello"
    assert (sent.text or "").startswith("↻")
    assert list((alone.home / "outgoing").iterdir()) == []


async def test_terminal_shows_the_path(alone: GatewayProcess) -> None:
    await alone.start()
    put(alone, "a.txt", b"hello")
    alone.model.script(sends("a.txt"), "There.")
    ran = await alone.kore("agent", "-m", "send it", "--output-format", "stream-json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    (result,) = [line for line in lines if line["type"] == "tool_result"]
    assert result["content"] == f"📎 {alone.workspace / 'a.txt'}"
