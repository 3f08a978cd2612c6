"""Output of commands as a terminal shows it."""

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from tests.agent.tools.conftest import Listener


async def test_progress_bar_does_not_hide_the_error(
    call: CallContext, listener: Listener, box: Bubblewrap
) -> None:
    script = (
        "printf 'Building\\n'; for i in $(seq 1600); do "
        "printf '\\r\\033[2K\\033[1m[%04d/1600]\\033[0m compiling a file with a long name' $i; "
        "done; printf '\\n\\033[31mBUILD FAILED\\033[0m\\n'; exit 2"
    )
    result = await Exec(ToolSettings(sandbox=box)).run({"command": script}, call)
    shown = "Building\n[1600/1600] compiling a file with a long name\nBUILD FAILED\n"
    assert result.for_model == f"{shown}[exit code 2]"
    assert listener.text == shown
    assert result.file is None


async def test_prompt_of_a_background_command_is_visible(
    call: CallContext, box: Bubblewrap
) -> None:
    tool = Exec(ToolSettings(sandbox=box))
    try:
        args = {"command": "printf 'Name? '; read name; echo", "background": True}
        result = await tool.run(args, call)
        [process] = tool.processes.of("s1")
        text = result.for_model
        if "Name?" not in text:
            data, _ = await process.read_output(30, first_words=True)
            text = data.decode()
        assert "Name? " in text
    finally:
        await tool.aclose()
