"""Media across restarts: a kill loses nothing, and no file is received twice."""

import base64
import json
import os

from tests.fakes.faults import hang, status
from tests.fakes.listener import Listener
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.received_files import inbox, last_user_message, png


async def test_kill_during_a_download_restarts_it(alone: GatewayProcess) -> None:
    await alone.start()
    alone.api.fail("file", hang)
    await alone.api.user_sends(7, "photo", png(1), caption="look")
    await alone.api.user_says(7, "and?")
    await alone.until(lambda: "file" in alone.api.calls and not alone.api.pending_updates)
    await alone.kill()
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["echo: [photo] look", "echo: and?"]
    assert [file.read_bytes() for file in inbox(alone, 7)] == [png(1)]


async def test_album_interrupted_by_a_kill_is_one_message(alone: GatewayProcess) -> None:
    await alone.start()
    alone.api.fail("file", hang, 3)
    await alone.api.user_sends(7, "photo", png(1), album="9", caption="both")
    await alone.until(lambda: not alone.api.pending_updates)
    await alone.kill()
    alone.api.heal()
    await alone.api.user_sends(7, "photo", png(2), album="9")
    await alone.start()
    await alone.idle()
    assert alone.api.answers(7) == ["echo: [album of 2] both"]
    assert len(inbox(alone, 7)) == 2


async def test_picture_keeps_its_place_after_a_restart(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.api.user_sends(7, "photo", png(1), caption="look")
    await alone.idle()
    await alone.stop()
    await alone.start()
    await alone.answers_to(7, "again")
    before, after = (request.raw for request in alone.model.requests[-2:])
    assert after.startswith(before[: before.rindex(b"]")])
    (file,) = inbox(alone, 7)
    file.write_bytes(png(2))
    await alone.answers_to(7, "and now?")
    newest = alone.model.requests[-1].raw
    assert base64.b64encode(png(1)) not in newest
    assert base64.b64encode(png(2)) not in newest
    assert b"no longer the one that was sent" in newest


async def test_failed_download_is_reported_once_across_a_kill(alone: GatewayProcess) -> None:
    await alone.start()
    refusal = status(400, description="Bad Request: file is temporarily unavailable")
    alone.api.fail("getFile", refusal)
    alone.model.latency_s = 30.0
    await alone.api.user_sends(7, "document", b"x", name="a.bin")
    await alone.until(lambda: alone.model.requests and alone.api.answers(7))
    await alone.posted()
    await alone.kill()
    alone.model.latency_s = 0.0
    await alone.start()
    await alone.idle()
    notice, answer = alone.api.answers(7)
    assert notice.startswith("⚠️ I can't download a.bin: Telegram refused the download")
    assert answer == "echo: [document]"
    assert "it cannot be used: Telegram refused the download" in last_user_message(alone)


async def test_voice_message_is_transcribed_after_a_failed_attempt(
    alone: GatewayProcess,
) -> None:
    async with Listener("buy milk") as listener:
        listener.answers.append((503, "busy"))
        alone.configure({"transcription": {"api_base": listener.base_url, "api_key": "sk-voice"}})
        await alone.start()
        await alone.api.user_sends(7, "voice", b"OggS")
        await alone.idle()
        assert alone.api.answers(7) == ["echo: [voice]"]
        assert 'transcription: \\"buy milk\\"' in last_user_message(alone)
        assert [request.data for request in listener.requests] == [b"OggS"] * 2
        # The file was fetched once; only the transcription was retried.
        assert alone.api.calls.count("file") == 1
    assert "sk-voice" not in alone.log_text()


async def test_transcription_cost_is_counted_once_across_a_kill(alone: GatewayProcess) -> None:
    async with Listener("buy milk") as listener:
        section = {"api_base": listener.base_url, "price_per_minute_usd": 0.2}
        models = json.loads(alone.config.read_text())["model_list"]
        free = [{**model, "price_input_usd": 0, "price_output_usd": 0} for model in models]
        alone.configure({"transcription": section})
        config = json.loads(alone.config.read_text())
        alone.config.write_text(json.dumps({**config, "model_list": free}))
        await alone.start()
        alone.model.latency_s = 60.0
        # The fake server reports a length of three seconds.
        await alone.api.user_sends(7, "voice", b"OggS")
        await alone.until(lambda: alone.model.requests)
        await alone.kill()
        alone.model.latency_s = 0.0
        await alone.start()
        await alone.idle()
        assert alone.api.answers(7) == ["echo: [voice]"]
        assert (await alone.status())["spent_today"]["cost_usd"] == 0.01
        assert "Last answer: $0.0100" in (await alone.answers_to(7, "/cost"))[-1]


async def test_old_inbox_files_are_deleted(alone: GatewayProcess) -> None:
    folder = alone.workspace / "inbox" / "telegram" / "7"
    folder.mkdir(parents=True)
    old, own = folder / f"a-{'0' * 16}.txt", folder / "notes.txt"
    for path in (old, own):
        path.write_text("x")
        os.utime(path, (0, 0))
    await alone.start()
    await alone.api.user_sends(7, "document", b"new", name="b.txt")
    await alone.until(lambda: not old.exists())
    await alone.idle()
    (new,) = set(folder.iterdir()) - {own}
    assert new.read_bytes() == b"new"
    assert own.exists()


async def test_answer_notes_omitted_pictures(alone: GatewayProcess) -> None:
    config = json.loads(alone.config.read_text())
    config["model_list"] = [{**model, "images": False} for model in config["model_list"]]
    alone.config.write_text(json.dumps(config))
    async with alone:
        for shade in range(2):
            await alone.api.user_sends(OWNER, "photo", png(shade), caption="what is this?")
            await alone.idle()
        note = "⚠️ Pictures were left out, because the model does not take them."
        answers = alone.api.answers(OWNER)
        assert [answer.endswith(f"\n\n{note}") for answer in answers] == [True, True]
