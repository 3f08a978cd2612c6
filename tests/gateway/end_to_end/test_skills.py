"""Skills in Telegram: invoked by name, including through a kill."""

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.asking import (
    NOTES,
    button,
    notes,
    push,
    seed,
    wait_for_questions,
    write,
)
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


async def test_skill_of_a_chat_survives_a_kill(alone: GatewayProcess) -> None:
    seed(alone)
    skill = alone.workspace / "skills" / "tidy-notes" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: Tidies notes.\n---\nTidy $0 well.")
    await alone.start()
    alone.model.script(ReplyScript(tool_calls=write("new\n")), "Tidied.", "And again.")
    await alone.api.user_says(OWNER, f"/tidy_notes {NOTES}")
    (question,) = await wait_for_questions(alone)
    await alone.kill()
    await alone.start()
    await push(alone, question, button(question, "Allow once"))
    await alone.until(lambda: "Tidied." in "".join(alone.api.answers(OWNER)))
    assert notes(alone) == "new\n"
    first, second = (str(request.body["messages"]) for request in alone.model.requests)
    assert f"Tidy {NOTES} well." in first
    assert second.count(f"Tidy {NOTES} well.") == 1
    assert await alone.answers_to(OWNER, "/tidy-notes") != []
    assert "Tidy $0 well." in str(alone.model.requests[-1].body["messages"][-1])
