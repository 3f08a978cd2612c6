"""A real `kore agent` in a pseudo-terminal, with an owner that answers over its socket."""

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agent.types import assistant, user
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.input.lone_letter import QUIET_INTERVAL_S
from gateway.control.server import ControlServer
from gateway.core.messages import MessageOptions
from gateway.core.turn_choice import PLAN_CHOICES
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.console.chat.prompt import PROMPT, submissions
from tests.gateway.cli.console.terminal import kore_agent


async def test_conversation_runs_from_greeting_to_exit(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, "--model", "offline/echo") as terminal:
        await terminal.see("offline/echo")
        await terminal.see("Set a key.")
        await terminal.see(PROMPT)
        terminal.type("hello there\r")
        await terminal.see("echo: hello there")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        await terminal.see("kore -r 20")
        assert await terminal.ended() == 0
        assert terminal.echoes()
    assert owner.submitted[0].options == MessageOptions(model="offline/echo")
    assert terminal.text.count("echo: hello there") == 1


async def test_shift_enter_makes_a_new_line_and_the_terminal_is_restored(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("one\x1b[27;2;13~two\x1b[13;2uthree\r")
        assert await submissions(owner, 1) == ["one\ntwo\nthree"]
        await terminal.see("echo: one")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    assert terminal.raw.count("\x1b[>4;1m") == terminal.raw.count("\x1b[>4m") == 1


async def test_keys_of_the_kitty_protocol_are_read_where_the_terminal_answers(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        assert "\x1b[?u" in terminal.raw
        terminal.type("\x1b[?0u")
        await terminal.see_raw("\x1b[>1u")
        # Shift-Enter; Escape b (a word back) with Caps Lock; Ctrl-E with Num Lock.
        terminal.type("one\x1b[13;2utwo\x1b[98;67u\x1b[101;133u!\r")
        assert await submissions(owner, 1) == ["one\ntwo!"]
        await terminal.see("echo: one")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        await terminal.see_raw("\x1b[<u")
        assert await terminal.ended() == 0
    assert terminal.raw.count("\x1b[>1u") == terminal.raw.count("\x1b[<u") == 1


async def test_terminal_without_an_answer_gets_no_kitty_protocol(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("hi\r")
        await terminal.see("echo: hi")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    assert "\x1b[>1u" not in terminal.raw
    assert "\x1b[<u" not in terminal.raw


async def test_kitty_protocol_is_off_after_the_program_was_terminated(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("\x1b[?0uslow\r")
        await terminal.see("working")
        terminal.process.send_signal(signal.SIGTERM)
        await terminal.see_raw("\x1b[<u")
        assert await terminal.ended() == 130
    assert terminal.raw.count("\x1b[>1u") == terminal.raw.count("\x1b[<u") == 1


async def test_choices_after_a_plan_need_a_single_key(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, "--permission-mode", "plan") as terminal:
        await terminal.see(PROMPT)
        terminal.type("f\r")
        await terminal.see("echo: f")
        owner.turn_offer = PLAN_CHOICES
        terminal.type("plan it\r")
        await terminal.see("echo: plan it")
        await terminal.see("[b] build, editing freely")
        await terminal.see(PROMPT)
        await asyncio.sleep(QUIET_INTERVAL_S)
        terminal.type("f")
        await terminal.see("command /build fresh")
        await terminal.see(PROMPT)
        terminal.type("thanks\r")
        await terminal.see("echo: thanks")
    assert await submissions(owner, 4) == ["f", "plan it", "/build fresh", "thanks"]
    assert [message.options.mode for message in owner.submitted] == ["plan"] * 3 + [None]


async def test_message_instead_of_a_choice_is_sent(owner: MemoryService, home: Path) -> None:
    owner.turn_offer = PLAN_CHOICES
    async with kore_agent(home, "--permission-mode", "plan") as terminal:
        await terminal.see(PROMPT)
        terminal.type("plan it\r")
        await terminal.see("echo: plan it")
        await terminal.see("[b] build, editing freely")
        await terminal.see(PROMPT)
        await asyncio.sleep(QUIET_INTERVAL_S)
        terminal.type("but smaller\r")
        await terminal.see("echo: but smaller")
        await terminal.see("[b] build, editing freely")
        await terminal.see(PROMPT)
        terminal.type("k\r")
        await terminal.see("command /build keep")
    assert [message.options.mode for message in owner.submitted] == ["plan"] * 3


async def test_mode_of_the_command_line_is_stored_with_the_session_that_continues(
    owner: MemoryService, home: Path
) -> None:
    session = await owner.bind_session("cli:local:other", None)
    async with kore_agent(home, "-c", "--permission-mode", "plan") as terminal:
        await terminal.see(PROMPT)
        await terminal.see(" plan ")
    assert owner.modes == {session: "plan"}


async def test_greeting_names_the_requested_model(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, "--model", "vendor/other") as terminal:
        await terminal.see("vendor/other")
        await terminal.see(PROMPT)
    assert "Set a key." not in terminal.text


async def test_greeting_names_the_folder_and_explains_trust(
    owner: MemoryService, home: Path
) -> None:
    (home.parent / "theirs").mkdir()
    (home.parent / "theirs" / "AGENTS.md").write_text("Use tabs.")
    async with kore_agent(home, "--cwd", str(home.parent / "theirs")) as terminal:
        await terminal.see("This folder isn't trusted")
        await terminal.see("kore trust")
        await terminal.see(PROMPT)
        terminal.type("hi\r")
        await terminal.see("echo: hi")
    assert "/theirs" in terminal.text.replace("\n", "")
    shown = owner.submitted[0].options.project["text"]
    assert "AGENTS.md (9 B)" in shown


async def test_session_list_keeps_full_ids_in_a_narrow_terminal(
    owner: MemoryService, home: Path
) -> None:
    session = await owner.bind_session("cli:local:other", None)
    stored = owner.sessions_by_id[session]
    stored.info = replace(stored.info, name="a plan for the garden " * 3)
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.resize(24, 40)
        terminal.type("/sessions\r")
        await terminal.see(session)
        await terminal.see("…")


async def test_pasted_lines_and_alt_enter_make_one_message(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("\x1b[200~one\ntwo\x1b[201~\x1b\rthree\r")
        await terminal.see("echo: one")
    assert await submissions(owner, 1) == ["one\ntwo\nthree"]


async def test_ctrl_c_stops_only_the_turn(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("Ctrl-C stops")
        terminal.type("\x03")
        await terminal.see("Stopped.")
        await terminal.see(PROMPT)
        terminal.type("again\r")
        await terminal.see("echo: again")


async def test_second_ctrl_c_at_an_empty_prompt_exits(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("\x03")
        await terminal.see("again quits")
        await terminal.see(PROMPT)
        terminal.type("\x03")
        assert await terminal.ended() == 0


async def test_output_of_a_shell_command_is_sent_with_the_next_message(
    owner: MemoryService, home: Path, tmp_path: Path
) -> None:
    async with kore_agent(home, "--cwd", str(tmp_path)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("!echo $((40 + 2)); exit 7\r")
        await terminal.see("42")
        await terminal.see("exit code 7")
        await terminal.see(PROMPT)
        terminal.type("!sleep 1000\r")
        await terminal.see("Ctrl-C stops")
        terminal.type("why?\r")
        await terminal.see("(queued)")
        terminal.type("\x03")
        await terminal.see("stopped by you")
        await terminal.see("echo: why?")
        await terminal.see(PROMPT)
        terminal.type("and now?\r")
        await terminal.see("echo: and now?")
    first, second = owner.submitted
    assert [told["text"].split("\n")[1] for told in first.options.run] == [
        "$ echo $((40 + 2)); exit 7",
        "$ sleep 1000",
    ]
    assert second.options.run == ()


async def test_dumb_terminal_runs_shell_commands(
    owner: MemoryService, home: Path, tmp_path: Path
) -> None:
    words = ("--cwd", str(tmp_path))
    async with kore_agent(home, *words, environ={"TERM": "dumb"}) as terminal:
        await terminal.see(">")
        terminal.type("!echo $((40 + 2))\r")
        await terminal.see("42")
    assert owner.submitted == []


async def test_background_commands_are_listed_on_exit(owner: MemoryService, home: Path) -> None:
    owner.running = ["make -j4", "npm run dev"]
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("hello\r")
        await terminal.see("echo: hello")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        await terminal.see("Continues in the background (see /tasks): make -j4, npm run dev")
        assert await terminal.ended() == 0


async def test_ctrl_d_exits(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("\x04")
        assert await terminal.ended() == 0


@pytest.mark.parametrize(
    ("key", "answer"),
    [("y", "once"), ("s", "session"), ("a", "always"), ("n", "deny"), ("\x1b", "deny")],
)
async def test_approval_takes_one_key(
    owner: MemoryService, home: Path, key: str, answer: str
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("ask ls\r")
        await terminal.see("? exec")
        await terminal.see("left)")  # keys count only after a pause
        terminal.type(key)
        await terminal.see(f"answer: {answer}")


async def test_denial_has_a_reason(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("ask ls\r")
        await terminal.see("left)")
        terminal.type("f")
        await terminal.see("Why not?")
        terminal.type("never mind\x1b")
        await terminal.see("[y] Allow once")
        terminal.type("\x15")
        await terminal.see("left)")
        terminal.type("f")
        await terminal.see("Why not?")
        terminal.type("yes, but 用 a branch\r")
        await terminal.see("answer: deny")
    ((_, answer, _, words),) = owner.answers
    assert (answer, words) == ("deny", "yes, but 用 a branch")
    assert [message.content for message in owner.submitted] == ["ask ls"]


async def test_question_withdrawn_by_ctrl_c_is_not_denied(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("ask ls\r")
        await terminal.see("left)")
        terminal.type("\x03")
        await terminal.see("Stopped.")
        await terminal.see(PROMPT)
    assert "denied" not in terminal.text


async def test_keys_typed_before_a_question_approve_nothing(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("ask\rya")
        await terminal.see("[y] Allow once")
        await terminal.see("› ya")
        assert owner.answers == []
        terminal.type("\x03")
        await terminal.see("Stopped.")


@pytest.mark.parametrize("word", ["why", "yes", "stop", "ask me", "xy"])
async def test_word_typed_at_a_question_approves_nothing(
    owner: MemoryService, home: Path, word: str
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("ask ls\r")
        await terminal.see("left)")  # keys count only after a pause
        # Send the word in a single write: a key that is alone for a moment would be an answer.
        terminal.type(word)
        await terminal.see(f"› {word}")
        assert owner.answers == []
        terminal.type("\x03")
        await terminal.see("Stopped.")


async def test_steering_message_is_labelled_and_status_is_not_queued(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type("rather green\rand then blue\t/status\r/new\r")
        await terminal.see("rather green  (steering)")
        await terminal.see("and then blue  (queued)")
        await terminal.see("/new  (queued)")
        assert "/status  (queued)" not in terminal.text


async def test_input_typed_during_a_turn_is_kept(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type("next one\thalf a")
        await terminal.see("next one  (queued)")
        await terminal.see("half a")
        await terminal.see("1 queued")
        assert await submissions(owner, 2) == ["slow", "next one"]
        terminal.type("\x03")
        await terminal.see("Stopped.")
        await terminal.see("› next one")  # repeated above its answer
        await terminal.see("echo: next one")
        await terminal.see("half a")
        terminal.type(" line\r")
        await terminal.see("echo: half a line")


async def test_foreign_answer_keeps_the_line_being_typed(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("my dra")
        await terminal.see("my dra")
        await owner.submit(MessageBuilder("console-1").build("from elsewhere"))
        await terminal.see("echo: from elsewhere")
        await terminal.see("my dra")
        terminal.type("ft\r")
        await terminal.see("echo: my draft")


async def test_sessions_are_listed_and_resumed_by_number(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("first words\r")
        await terminal.see("echo: first words")
        earlier = next(iter(owner.sessions_by_id))
        terminal.type("/sessions\r/resume 1\r")
        await terminal.see(f"1  {earlier}")
        await terminal.see("› first words")
        terminal.type("/resume 77\r")
        await terminal.see("number from 1 to 1")


async def test_resume_shows_the_last_messages_without_control_characters(
    owner: MemoryService, home: Path
) -> None:
    session = await owner.bind_session("", None)
    messages = [
        user("long ago"),
        assistant("so it was"),
        user("東京\x1b[2J\u202e"),
        assistant("**you**"),
    ]
    owner.sessions_by_id[session].messages += messages
    async with kore_agent(home, "-r", session) as terminal:
        await terminal.see(f"Session {session}, 4 messages")
        await terminal.see("› 東京\\u{1b}[2J\\u{202e}")
        await terminal.see("you")
        await terminal.see(PROMPT)
        assert "long ago" not in terminal.text


async def test_empty_line_separates_an_answer_from_the_next_question(
    owner: MemoryService, home: Path
) -> None:
    session = await owner.bind_session("", None)
    owner.sessions_by_id[session].messages += [user("a"), assistant("so it was"), user("go on")]
    async with kore_agent(home, "-r", session) as terminal:
        await terminal.see("› go on")
        lines = [line.strip() for line in terminal.text.splitlines()]
        assert lines[lines.index("so it was") :][:3] == ["so it was", "", "› go on"]


async def test_exit_message_names_the_current_session(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("hello\r")
        await terminal.see("echo: hello")
        (lane,) = owner.lanes
        fork = await owner.bind_session(lane, None)
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        await terminal.see(f"kore -r {fork}")


async def test_session_is_exported_to_new_private_files(
    owner: MemoryService, home: Path, tmp_path: Path
) -> None:
    lines, page = tmp_path / "東京.jsonl", tmp_path / "talk.md"
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/export\r")
        await terminal.see("nothing to export")
        terminal.type("about apples\r")
        await terminal.see("echo: about apples")
        terminal.type(f"/export {lines}\r/export {page}\r/export {page}\r")
        await terminal.see("already")
    assert '"about apples"' in lines.read_text()
    assert lines.read_text().startswith('{"_type":"meta"')
    assert page.read_text() == "## You\n\nabout apples\n\n## Kore\n\necho: about apples\n"
    assert lines.stat().st_mode & 0o777 == 0o600


async def test_session_is_picked_by_filter_and_preview(owner: MemoryService, home: Path) -> None:
    made = {}
    for name in ("about apples", "über 東京タワー", "about pears"):
        session = made[name] = await owner.bind_session("", None)
        await owner.rename_session(session, name)
        owner.sessions_by_id[session].messages += [user(f"{name}?"), assistant(f"{name} it was")]
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/resume\r")
        await terminal.see("about apples")
        terminal.type("東京")
        await terminal.see("über 東京タワー it was")
        terminal.type("\r")
        await terminal.see(f"Session {made['über 東京タワー']}")
        terminal.type("/resume\r")
        await terminal.see("session ›")
        terminal.type("\x03")
        terminal.type("here\r")
        await terminal.see("echo: here")
        assert len(owner.sessions_by_id[made["über 東京タワー"]].messages) == 4


async def test_help_lists_console_and_chat_commands(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/help\r")
        await terminal.see("/compact")
        await terminal.see("/sessions")
        await terminal.see("Alt-Enter")


async def test_history_is_private_and_survives_a_restart(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("keep me\r")
        await terminal.see("echo: keep me")
        terminal.type("/exit\r")
        await terminal.ended()
    assert (home / "console_history").stat().st_mode & 0o777 == 0o600
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("\x1b[A\x1b[A\r")
        await terminal.see("echo: keep me")


async def test_dumb_terminal_gets_no_control_codes(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, environ={"TERM": "dumb"}) as terminal:
        await terminal.see("> ")
        terminal.type("plain\n")
        await terminal.see("echo: plain")
        await terminal.see("> ")
        terminal.type("/exit\n")
        assert await terminal.ended() == 0
    assert "\x1b" not in terminal.raw


async def test_dumb_terminal_ignores_ctrl_o(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, environ={"TERM": "dumb"}) as terminal:
        await terminal.see("> ")
        terminal.type("tool\n")
        await terminal.see("4 lines")
        await terminal.see("> ")
        terminal.type("\x0fhalf\x0f a line\n")
        await terminal.see("Reading notes.md")
        await terminal.see("echo: half a line")
        await terminal.see("> ")
        terminal.type("\x0f\n")
        await terminal.see("nothing more to expand")
    assert await submissions(owner, 2) == ["tool", "half a line"]


async def test_no_color_is_respected(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, environ={"NO_COLOR": "1"}) as terminal:
        await terminal.see(PROMPT)
        terminal.type("tool\r")
        await terminal.see("4 lines")
    assert "\x1b[36m" not in terminal.raw


async def test_terminal_without_utf_8_gets_ascii_signs(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, environ={"PYTHONIOENCODING": "ascii"}) as terminal:
        await terminal.see("Kore ")
        await terminal.see("quits.")
        await terminal.see(">")
        terminal.type("tool\r")
        await terminal.see("* Reading notes.md")
        await terminal.see("| 4 lines")
    assert all(ord(letter) < 128 for letter in terminal.raw)
    assert "\\u" not in terminal.raw


async def test_key_and_command_expand_collapsed_output(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("tool\r")
        await terminal.see("4 lines")
        await terminal.see(PROMPT)
        terminal.type("half a li\x0f")
        await terminal.see("Reading notes.md")
        await terminal.see("  a")
        await terminal.see("  d")
        await terminal.see("half a li")
        terminal.type("ne\r")
        await terminal.see("echo: half a line")
        await terminal.see(PROMPT)
        terminal.type("/output\r")
        await terminal.see("nothing more to expand")
    assert await submissions(owner, 2) == ["tool", "half a line"]


async def test_permanent_loss_of_the_owner_is_an_error(home: Path) -> None:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(MemoryService())
        server = await stack.enter_async_context(ControlServer(service, home / "kore.sock"))
        terminal = await stack.enter_async_context(kore_agent(home))
        await terminal.see(PROMPT)
        (home / "kore.sock").unlink()
        (home / "kore.sock").mkdir()
        await server.__aexit__()
        await terminal.see("reconnecting …")
        assert await terminal.ended() == 1
        assert "Traceback" not in terminal.text


async def test_console_reconnects_to_a_new_owner(home: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(MemoryService())
        server = await stack.enter_async_context(ControlServer(first, home / "kore.sock"))
        terminal = await stack.enter_async_context(kore_agent(home))
        await terminal.see(PROMPT)
        terminal.type("first\r")
        await terminal.see("echo: first")
        await terminal.see(PROMPT)
        second = await stack.enter_async_context(MemoryService())
        second.sessions_by_id, second.lanes = first.sessions_by_id, first.lanes
        (home / "kore.sock").unlink()
        await stack.enter_async_context(ControlServer(second, home / "kore.sock"))
        await server.__aexit__()
        await terminal.see("reconnecting …")
        await terminal.see(PROMPT)
        terminal.type("still here\r")
        await terminal.see("echo: still here")
        assert len(second.sessions_by_id) == 1


async def test_replaced_option_of_the_command_line_stays_replaced_after_a_reconnection(
    home: Path,
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(MemoryService())
        server = ControlServer(first, home / "kore.sock")
        await server.__aenter__()
        options = ("--model", "vendor/other", "--permission-mode", "plan")
        terminal = await stack.enter_async_context(kore_agent(home, *options))
        await terminal.see(PROMPT)
        terminal.type("/mode auto\r")
        await terminal.see("command /mode auto")
        await terminal.see(PROMPT)
        second = await stack.enter_async_context(MemoryService())
        second.sessions_by_id, second.lanes = first.sessions_by_id, first.lanes
        (home / "kore.sock").unlink()
        await stack.enter_async_context(ControlServer(second, home / "kore.sock"))
        await server.__aexit__()
        await terminal.see("reconnecting …")
        await terminal.see(PROMPT)
        terminal.type("still here\r")
        await terminal.see("echo: still here")
        options_sent = second.submitted[-1].options
        assert options_sent.model == "vendor/other"
        assert options_sent.mode is None
        assert second.modes == {}


async def test_terminated_program_restores_the_terminal(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        assert not terminal.echoes()
        terminal.process.send_signal(signal.SIGTERM)
        assert await terminal.ended() == 130
        assert terminal.echoes()


async def test_console_takes_over_from_a_killed_owner(home: Path) -> None:
    async with AsyncExitStack() as stack:
        words = (home, "--model", "offline/echo")
        first = await stack.enter_async_context(kore_agent(*words))
        await first.see(PROMPT)
        second = await stack.enter_async_context(kore_agent(*words))
        await second.see(PROMPT)
        second.type('!tool exec {"command": "touch one"}\r')
        await second.see("[y] Allow once")
        first.process.kill()
        await second.see("reconnecting …")
        await second.see("left)")
        second.type("n")
        await second.see("The tools answered")
        second.type("/exit\r")
        assert await second.ended() == 0
    assert "Traceback" not in second.text


async def test_exit_typed_during_a_turn_takes_effect_after_it(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type("/exit\r")
        await terminal.see("/exit  (queued)")
        terminal.type("\x03")
        await terminal.see("To resume later")
        assert await terminal.ended() == 0
    assert await submissions(owner, 1) == ["slow"]


async def test_question_of_a_background_task_stays_until_answered(home: Path) -> None:
    """A command in between gets its own answer and ends no turn."""
    asks = r"!tool exec {\"command\":\"echo hi > made.txt\"}"
    line = f'!tool task {{"description":"make it","background":true,"prompt":"{asks}"}}'
    loose = {"KORE_SECURITY_SANDBOX": "none"}
    async with kore_agent(home, "--model", "offline/echo", environ=loose) as terminal:
        await terminal.see(PROMPT)
        terminal.type(f"{line}\r")
        await terminal.see("sub-agent general (1)")
        await terminal.see("left)")
        terminal.type("/tasks\r")
        await terminal.see("running in the background")
        await terminal.see("left)")
        terminal.type("y")
        await terminal.see("allowed once")
        await terminal.see("number 1")
        assert "(queued)" not in terminal.text
    assert (home / "workspace" / "made.txt").read_text() == "hi\n"


async def test_subagent_is_stopped_while_it_asks(home: Path) -> None:
    asks = r"!tool exec {\"command\":\"echo hi > made.txt\"}"
    line = f'!tool task {{"description":"make it","background":true,"prompt":"{asks}"}}'
    async with kore_agent(home, "--model", "offline/echo") as terminal:
        await terminal.see(PROMPT)
        terminal.type(f"{line}\r")
        await terminal.see("sub-agent general (1)")
        await terminal.see("left)")
        terminal.type("/stop 1\r")
        await terminal.see("Sub-agent general (1) stopped.")
        await terminal.see(PROMPT)
    assert "(queued)" not in terminal.text
    assert not (home / "workspace" / "made.txt").exists()
