"""Actions of a person in `kore tui`, with a real service behind it."""

import asyncio
import json
import unicodedata
from pathlib import Path

import pytest
from textual import events
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.worker import WorkerFailed

from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider
from agent.types import Message, Text, ToolCall
from gateway.cli.console.approvals import key_choice
from gateway.cli.console.chat.place import ConsolePlace
from gateway.cli.console.input.lone_letter import QUIET_INTERVAL_S
from gateway.cli.console.output.notifier import TerminalNotifier
from gateway.cli.tui import session_tab
from gateway.cli.tui.approval_panel import ApprovalPanel
from gateway.cli.tui.key_footer import KeyFooter
from gateway.cli.tui.session_chooser import SessionChooser
from gateway.cli.tui.side_panel import SidePanel
from gateway.cli.tui.tab_conversation import TabStart
from gateway.cli.tui.viewer import Viewer
from gateway.control.service import Service
from tests.gateway.cli.tui.screens import Screens, full_screen_of
from tests.gateway.parts import running


def call(name: str, **arguments: object) -> Message:
    result = ToolCall("call_1", name, arguments, json.dumps(arguments))
    return Message("assistant", (Text("I try it."),), (result,))


async def open_question(screens: Screens) -> ApprovalPanel:
    """Return the panel once it shows a question and accepts keys."""
    await screens.until(lambda: screens.tab.query_one(ApprovalPanel).is_armed)
    return screens.tab.query_one(ApprovalPanel)


async def press_alone(screens: Screens, letter: str) -> None:
    """Press the key in the empty input line once single letters are accepted there."""
    await asyncio.sleep(QUIET_INTERVAL_S)
    await screens.pilot.press(letter)


async def open_tab(screens: Screens) -> None:
    """Open a new tab, and wait until it is in front."""
    before = screens.tab
    await screens.pilot.press("ctrl+n")
    await screens.until(lambda: screens.tab is not before and screens.tab.input.has_focus)


async def test_answer_is_shown_once_below_its_question(tmp_path: Path) -> None:
    async with (
        running(tmp_path, ["Hello, **you**."]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("hi there")
        seen = await screens.see("tokens in")
        assert seen.index("› hi there") < seen.index("Hello, you.") < seen.index("tokens in")
        assert seen.count("Hello, you.") == 1
        await screens.until(lambda: screens.titles == ["hi there"])


async def test_turn_between_two_frames_reloads_the_tab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_tab, "_FRAME_INTERVAL_S", 1.0)
    async with (
        running(tmp_path, ["one", "two"]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("hi there")
        await screens.until(lambda: screens.titles == ["hi there"])
        await screens.see("tokens in")
        session = screens.tab.conversation.session
        assert session is not None
        await parts.service.rename_session(session, "greetings")
        await parts.service.send_message(session, "again")
        await screens.until(lambda: screens.titles == ["greetings"])


async def test_mode_of_an_opened_session_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path, []) as parts:
        session = await parts.service.create_session()
        await parts.service.choose_mode(session, "plan")
        async with full_screen_of(parts.service, tmp_path, sessions=[session]) as screens:
            await screens.until(lambda: screens.tab.status.mode == "plan")


async def test_each_tab_has_its_own_session_and_status(tmp_path: Path) -> None:
    async with (
        running(tmp_path, ["first answer", "second answer"]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("one")
        await screens.see("first answer", "tokens in")
        await open_tab(screens)
        await screens.write("two")
        await screens.see("second answer", "tokens in")
        assert "first answer" not in screens.feed_text
        await screens.until(lambda: screens.titles == ["one", "two"])
        other = await parts.service.list_sessions()
        second = screens.tab
        await screens.pilot.press("f5")
        await screens.until(lambda: "first answer" in screens.feed_text)
        # A late focus event does not bring another tab to the front.
        second.post_message(events.DescendantFocus(second.input))
        await screens.pilot.press("x")
        await screens.until(lambda: screens.tab.input.text == "x")
        assert screens.tab is not second
        assert {info.name for info in other} == {"one", "two"}


def choices_after_plan(screens: Screens) -> str:
    """Return the line above the input; empty while it is hidden."""
    line = screens.tab.query_one("#plan", Static)
    return str(line.render()) if line.display else ""


async def finish_plan(screens: Screens) -> None:
    """Let a turn in plan mode end, and wait until its choices are offered."""
    await screens.write("/plan")
    await screens.write("plan it")
    await screens.until(lambda: "[b] build, editing freely" in choices_after_plan(screens))


async def test_letter_alone_carries_out_the_plan(tmp_path: Path) -> None:
    provider = ScriptedProvider(["# Plan\n\n1. Change it.", "Built."])
    async with (
        running(tmp_path, provider) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await finish_plan(screens)
        await press_alone(screens, "b")
        await screens.see("Carry out the plan.", "accept-edits", "Built.")
        await screens.until(lambda: not choices_after_plan(screens))
        assert screens.tab.input.text == ""


async def test_message_that_begins_with_a_letter_continues_planning(tmp_path: Path) -> None:
    provider = ScriptedProvider(["# Plan\n\n1. Change it.", "# Plan\n\n1. Change less."])
    async with (
        running(tmp_path, provider) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await finish_plan(screens)
        await screens.write("a smaller one")
        await screens.see("› a smaller one", "Change less.")
        await screens.until(lambda: choices_after_plan(screens))
    assert "permission mode plan" in str(provider.requests[-1].messages[-1].content)


async def test_keep_planning_hides_the_choices(tmp_path: Path) -> None:
    async with (
        running(tmp_path, ["# Plan\n\n1. Change it."]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await finish_plan(screens)
        await screens.write("k")
        await screens.see("Still in plan mode")
        await screens.until(lambda: not choices_after_plan(screens))


async def test_fresh_conversation_for_the_plan_is_a_new_tab(tmp_path: Path) -> None:
    provider = ScriptedProvider(["# Plan\n\n1. Change it.", "Built."])
    async with (
        running(tmp_path, provider) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await finish_plan(screens)
        planned = screens.tab
        await screens.write("/build fresh")
        await screens.until(lambda: screens.tab is not planned)
        await screens.see("Carry out the plan.", "Built.")
        assert screens.tab.conversation.session != planned.conversation.session
    (message,) = provider.requests[-1].messages
    assert "1. Change it." in str(message)


async def test_joiners_and_no_break_spaces_can_be_typed(tmp_path: Path) -> None:
    text = "می\u200cخواهم 👩\u200d💻 10\u00a0km 1\u202f000"
    async with (
        running(tmp_path, []) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        for character in text:
            screens.full_screen.post_message(events.Key(character, character))
        await screens.until(lambda: screens.tab.input.text == text)


async def test_question_notifies_a_person_who_looks_elsewhere(tmp_path: Path) -> None:
    steps = [call("exec", command="ls"), "first", call("exec", command="ls"), "second"]
    written: list[str] = []
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        screens.full_screen.notifier = TerminalNotifier(written.append, {})
        await screens.write("one")
        await open_question(screens)
        await screens.pilot.press("n")
        await screens.see("first")
        assert written == []
        session = screens.tab.conversation.session
        assert session is not None
        screens.full_screen.post_message(events.AppBlur())
        await screens.until(lambda: not screens.full_screen.app_focus)
        await parts.service.send_message(session, "two")
        await screens.until(lambda: written)
        assert "Kore asks something" in written[0]
        screens.full_screen.post_message(events.AppFocus())
        await screens.until(lambda: len(written) == 2)
        await open_question(screens)
        await screens.pilot.press("n")
        await screens.see("second")


async def test_activity_in_a_background_tab_is_marked(tmp_path: Path) -> None:
    steps = ["first", call("exec", command="ls"), "done"]
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("one")
        await screens.see("tokens in")
        behind = screens.tab.conversation.session
        assert behind is not None
        await open_tab(screens)
        await parts.service.send_message(behind, "again")
        await screens.until(lambda: screens.titles[0].startswith("? "))
        await screens.pilot.press("f6")
        await open_question(screens)
        await screens.pilot.press("n")
        await screens.see("denied", "done")


async def test_question_shows_the_call_and_is_answered_by_keys(tmp_path: Path) -> None:
    steps = [call("exec", command="echo apple > new.txt"), "written"]
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("write it")
        panel = await open_question(screens)
        assert "echo apple > new.txt" in lines_of(panel.query_one("#question", Static))
        choices = panel.query_one("#choices", Static)
        await screens.until(lambda: "[y] Allow once" in lines_of(choices))
        await screens.pilot.press("y")
        await screens.see("allowed once", "written", "tokens in")
        assert (parts.workspace / "new.txt").read_text() == "apple\n"
        assert not panel.display
        assert screens.full_screen.focused is screens.tab.input


async def test_question_must_be_read_to_the_end_before_approval(tmp_path: Path) -> None:
    command = "true\n" + "true #\n" * 60 + "touch new.txt"
    async with (
        running(tmp_path, [call("exec", command=command), "written"]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("write it")
        panel = await open_question(screens)
        choices, view = panel.query_one("#choices", Static), panel.query_one(VerticalScroll)
        for key in ("y", "s", "a"):
            await screens.pilot.press("home")
            await screens.until(lambda: view.scroll_offset.y == 0)
            assert "[y]" not in lines_of(choices)
            assert "[n] Deny" in lines_of(choices)
            # The key scrolls down instead.
            await screens.pilot.press(key)
            await screens.until(lambda: view.scroll_offset.y > 0)
            assert panel.approval is not None
        await screens.pilot.press("end")
        await screens.until(lambda: "[y] Allow once" in lines_of(choices))
        await screens.pilot.press("y")
        await screens.see("allowed once", "written")
        assert (parts.workspace / "new.txt").exists()


async def test_typed_input_does_not_answer_a_question(tmp_path: Path) -> None:
    steps = [call("exec", command="touch new.txt"), "as you like"]
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        typed_before = events.Key("y", "y")
        await screens.write("write it")
        panel = await open_question(screens)
        # A busy program processes the key only now.
        screens.full_screen.post_message(typed_before)
        await screens.until(lambda: screens.tab.input.text == "y")
        await open_question(screens)
        await screens.pilot.press("f")
        await screens.until(lambda: panel.query_one(Input).display)
        await screens.pilot.press(*"no apples", "enter")
        await screens.see("denied: no apples", "as you like")
        assert screens.tab.input.text == "y"
        assert not (parts.workspace / "new.txt").exists()


async def test_late_typed_word_does_not_answer_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [call("exec", command="touch new.txt"), "as you like"]
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("write it")
        panel = await open_question(screens)
        # The program is busy after the first key for the whole time in which no other key may
        # follow.
        monkeypatch.setattr(key_choice, "KEY_INTERVAL_S", 0)
        driver = screens.full_screen._driver
        assert driver is not None

        def read_rest() -> None:
            for letter in "esterday":
                driver.send_message(events.Key(letter, letter))

        screens.full_screen.post_message(events.Key("y", "y"))
        screens.full_screen.call_later(panel.call_later, read_rest)
        await screens.until(lambda: screens.tab.input.text == "yesterday")
        await open_question(screens)
        assert panel.approval is not None
        await screens.pilot.press("n")
        await screens.see("denied", "as you like")
        assert not (parts.workspace / "new.txt").exists()


def footer(screens: Screens) -> str:
    """Return the text of the footer."""
    keys = screens.full_screen.query_one(KeyFooter).children
    return " ".join(str(key.render()) for key in keys)


async def test_escape_stops_the_turn(tmp_path: Path) -> None:
    async with (
        running(tmp_path, [call("exec", command="ls"), "never"]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("look")
        await open_question(screens)
        await screens.until(lambda: "esc No" in footer(screens))
        screens.tab.input.focus()
        await screens.until(lambda: "esc Stop" in footer(screens))
        await screens.pilot.press("escape")
        await screens.see("Stopped")
        assert "never" not in screens.feed_text
        await screens.until(lambda: "esc" not in footer(screens))


async def test_chosen_session_shows_its_history(tmp_path: Path) -> None:
    async with running(tmp_path, ["answer one", "answer two"]) as parts:
        async with full_screen_of(parts.service, tmp_path) as screens:
            await screens.write("about apples")
            await screens.see("answer one", "tokens in")
        async with full_screen_of(parts.service, tmp_path) as screens:
            await screens.pilot.press("ctrl+o")
            await screens.until(lambda: isinstance(screens.full_screen.screen, SessionChooser))
            options = screens.full_screen.screen.query_one(OptionList)
            await screens.until(lambda: options.option_count == 1)
            await screens.pilot.press(*"appl", "enter")
            await screens.see("› about apples", "answer one")
            await screens.write("and on")
            await screens.see("answer two")
            assert len(await parts.service.list_sessions()) == 1


async def test_closed_screen_still_takes_late_updates(tmp_path: Path) -> None:
    async with running(tmp_path, ["answer"]) as parts:
        async with full_screen_of(parts.service, tmp_path) as screens:
            tab = screens.tab
        assert screens.full_screen.tab is None
        await tab.refresh_status()


async def test_panel_lists_calls_and_changes_and_expands_them(tmp_path: Path) -> None:
    lines = "".join(f"line {n}\n" for n in range(90))
    steps = [call("write_file", path="new.txt", content=lines), "written"]
    async with (
        running(tmp_path, steps, modes={"cli": "accept-edits"}) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("write it")
        await screens.see("written", "tokens in")
        await screens.pilot.press("f2")
        panel = screens.full_screen.query_one(SidePanel)
        calls = panel.query_one("#call-list", OptionList)
        await screens.until(lambda: calls.option_count == 1)
        changes = panel.query_one("#change-list", OptionList)
        assert "new.txt  +90 -0" in str(changes.get_option_at_index(0).prompt)
        await screens.pilot.press("f3")
        await screens.until(lambda: isinstance(screens.full_screen.screen, Viewer))
        assert "line 0" not in screens.feed_text.split("written")[1]
        # Keys of the tabs are disabled while another screen is above them.
        await screens.pilot.press("ctrl+n", "escape")
        await screens.until(lambda: not isinstance(screens.full_screen.screen, Viewer))
        assert len(screens.titles) == 1


async def test_search_jumps_to_older_matches_and_back_to_the_end(tmp_path: Path) -> None:
    answer = "\n\n".join(f"paragraph {n} of many" for n in range(200))
    async with (
        running(tmp_path, [answer]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("talk")
        await screens.see("paragraph 199", "tokens in")
        feed = screens.tab.feed
        await screens.until(lambda: feed.is_at_end and feed.max_scroll_y > 100)
        await screens.pilot.press("ctrl+f", *"paragraph 42", "enter")
        await screens.until(lambda: "paragraph 42 of" in visible(screens))
        await screens.pilot.press("escape")
        await screens.until(lambda: "paragraph 199" in visible(screens))


def lines_of(widget: Static) -> str:
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(widget.size.height))


def visible(screens: Screens) -> str:
    feed = screens.tab.feed
    return "\n".join(feed.render_line(y).text for y in range(feed.size.height))


async def test_typed_messages_and_commands_are_recalled(tmp_path: Path) -> None:
    async with (
        running(tmp_path, ["one", "two"]) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write("first words")
        await screens.see("one", "tokens in")
        await screens.pilot.press("up")
        assert screens.tab.input.text == "first words"
        await screens.pilot.press("down")
        assert screens.tab.input.text == ""
        await screens.pilot.press(*"/stat")
        offered = screens.tab.query_one("#offered", Static)
        await screens.until(lambda: offered.display)
        await screens.pilot.press("tab", "enter")
        await screens.see("Model")
        await screens.write("/help")
        await screens.until(lambda: isinstance(screens.full_screen.screen, Viewer))


async def test_shell_command_runs_locally_and_is_sent_to_the_model(tmp_path: Path) -> None:
    from agent.security.redaction import Redactor
    from gateway.cli.console.chat.shell_escape import Shell, UserCommand

    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        requests.append(request)
        return "seen"

    shell = Shell(tmp_path, tmp_path, 10_000, Redactor())
    place = ConsolePlace(begin_command=lambda line, show: UserCommand(shell, line, show))
    start = TabStart(tmp_path, open_place=lambda _: place)
    async with (
        running(tmp_path, [answer]) as parts,
        full_screen_of(parts.service, tmp_path, start=start) as screens,
    ):
        await screens.write("!echo pear; exit 3")
        await screens.see("pear", "exit code 3")
        await screens.write("what did it say?")
        await screens.see("seen")
        assert "pear" in str(requests[0].messages)


async def test_untrusted_text_is_escaped_everywhere(tmp_path: Path) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\u202eevil\x9b31m[bold]markup[/bold] [@click=app.quit]x[/]"
    steps = [call("exec", command=f"echo '{hostile}'"), hostile]
    async with (
        running(tmp_path, steps) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.write(hostile)
        panel = await open_question(screens)
        question = panel.query_one("#question", Static)
        assert not controls(lines_of(question))
        await screens.pilot.press("n")
        seen = await screens.see("tokens in")
        assert not controls(seen)
        assert seen.count("[bold]markup[/bold]") >= 2
        assert not controls("".join(screens.titles))
        await screens.pilot.press("f2", "f3")
        await screens.until(lambda: isinstance(screens.full_screen.screen, Viewer))
        assert not controls(lines_of(screens.full_screen.screen.query_one(Static)))


def controls(text: str) -> list[str]:
    """Return the characters that a terminal would act on, or that hide text."""
    return [
        letter
        for letter in text
        if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs")
    ]


async def test_palette_inserts_a_command(tmp_path: Path) -> None:
    async with (
        running(tmp_path, []) as parts,
        full_screen_of(parts.service, tmp_path) as screens,
    ):
        await screens.pilot.press("ctrl+p")
        await screens.until(lambda: CommandPalette.is_open(screens.full_screen))
        await screens.pilot.press(*"/comp")
        options = screens.full_screen.screen.query_one(OptionList)
        await screens.until(lambda: options.option_count == 1)
        await screens.pilot.press("enter")
        await screens.until(lambda: screens.tab.input.text == "/compact ")


async def test_internal_error_ends_the_screen_and_is_reported(tmp_path: Path) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault")

    async def open_and_fail(service: Service) -> None:
        async with full_screen_of(service, tmp_path) as screens:
            screens.full_screen.run_worker(fail(), name="fault")
            await screens.until(lambda: screens.full_screen.failure is not None)

    async with running(tmp_path, []) as parts:
        with pytest.raises(WorkerFailed):
            await open_and_fail(parts.service)
