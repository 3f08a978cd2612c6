"""Pictures and voice messages that a running gateway generates, as they arrive in a chat."""

from tests.fakes.bot_chats import Effect
from tests.fakes.listener import Listener
from tests.fakes.model_script import Call, ReplyScript
from tests.fakes.studio import OGG, PNG, Studio
from tests.gateway.end_to_end.asking import button, push, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


def files(gateway: GatewayProcess, chat: int) -> list[Effect]:
    return [effect for effect in gateway.effects(chat) if effect.files]


async def test_picture_is_sent_as_a_photo(alone: GatewayProcess) -> None:
    async with Studio() as studio:
        alone.configure({"images": {"api_base": studio.base_url, "api_key": "sk-paint"}})
        await alone.start()
        paint = Call("image_generate", {"prompt": "A fox"})
        alone.model.script(ReplyScript(tool_calls=(paint,)), "There it is.")
        await alone.api.user_says(OWNER, "paint a fox")
        (question,) = await wait_for_questions(alone)
        assert "costs money" in question.text
        assert studio.requests == []
        await push(alone, question, button(question, "Allow once"))
        await alone.until(lambda: files(alone, OWNER))
        await alone.idle()
        (sent,) = files(alone, OWNER)
        assert [(file.kind, file.data) for file in sent.files] == [("photo", PNG)]
        assert len(studio.requests) == 1
    assert "sk-paint" not in alone.log_text()


async def test_voice_message_is_answered_in_text_and_voice(alone: GatewayProcess) -> None:
    async with Studio() as studio, Listener("what is up?") as listener:
        alone.configure(
            {
                "transcription": {"api_base": listener.base_url},
                "tts": {"api_base": studio.base_url, "api_key": "sk-speak", "voice": "coral"},
            }
        )
        await alone.start()
        alone.model.script("All is **well**.")
        await alone.api.user_sends(OWNER, "voice", b"OggS")
        await alone.until(lambda: files(alone, OWNER))
        await alone.idle()
        assert alone.api.answers(OWNER)[0] == "All is well."
        (sent,) = files(alone, OWNER)
        assert (sent.method, sent.files[0].data) == ("sendVoice", OGG)
        (request,) = studio.requests
        assert request["input"] == "All is well."
        assert (request["voice"], request["response_format"]) == ("coral", "opus")
        # A written message gets only a written answer.
        assert await alone.answers_to(OWNER, "thanks")
        await alone.idle()
        assert len(studio.requests) == 1
        # A failing service costs only the voice.
        studio.answers.append((500, {"error": "busy"}))
        alone.model.script("Second.")
        await alone.api.user_sends(OWNER, "voice", b"OggS")
        await alone.until(lambda: "rejected it (HTTP status 500)" in alone.log_text())
        assert alone.api.answers(OWNER)[-1] == "Second."
        assert len(files(alone, OWNER)) == 1
    assert "sk-speak" not in alone.log_text()
