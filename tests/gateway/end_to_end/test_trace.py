"""The trace of a turn's actions stays below the answer, if enabled."""

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess


def work(gateway: GatewayProcess, path: str) -> None:
    gateway.model.script(
        ReplyScript(tool_calls=(Call("list_dir", {"path": "."}),)),
        ReplyScript(tool_calls=(Call("write_file", {"path": path, "content": "x"}),)),
        ReplyScript(text="Done."),
    )


async def test_chat_selects_its_trace_level_and_keeps_it(alone: GatewayProcess) -> None:
    await alone.start()
    work(alone, "a.txt")
    assert (await alone.answers_to(OWNER, "go"))[-1] == "Done."
    assert "/verbose" in (await alone.answers_to(OWNER, "/verbose"))[-1]
    assert "full" in (await alone.answers_to(OWNER, "/verbose full"))[-1]
    await alone.answers_to(OWNER, "/new")
    await alone.kill()
    await alone.start()
    work(alone, "b.txt")
    text, trace = (await alone.answers_to(OWNER, "go"))[-1].split("\n\n", 1)
    assert text == "Done."
    first, *steps = trace.splitlines()
    assert first.startswith("🔧 list_dir, write_file · 1 file changed · ")
    assert "tokens in" in first
    assert [step.lstrip("•◦- ") for step in steps] == ["Looking through .", "Editing b.txt"]
    await alone.answers_to(OWNER, "/verbose off")
    work(alone, "c.txt")
    assert (await alone.answers_to(OWNER, "go"))[-1] == "Done."
    # The trace is not sent to the model.
    assert all("🔧" not in request.raw.decode() for request in alone.model.requests)


async def test_configuration_sets_the_default_trace_level(
    alone: GatewayProcess,
) -> None:
    alone.configure({"telegram": {"trace": "summary"}})
    await alone.start()
    work(alone, "d.txt")
    text, trace = (await alone.answers_to(OWNER, "go"))[-1].split("\n\n")
    assert text == "Done."
    assert trace.startswith("🔧 list_dir, write_file · ")
    assert (await alone.answers_to(OWNER, "just talk"))[-1] == "echo: just talk"
