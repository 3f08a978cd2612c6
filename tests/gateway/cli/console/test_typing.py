"""Text typed and pasted at a real prompt."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.console.chat.prompt import PROMPT, submissions
from tests.gateway.cli.console.terminal import kore_agent

PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "orchard.py").write_text("apples = 3\n")
    (folder / "my notes.md").write_text("pears\n")
    (folder / "tree.png").write_bytes(PICTURE)
    return folder


async def test_long_paste_is_abbreviated_and_sent_completely(
    owner: MemoryService, home: Path
) -> None:
    lines = "\n".join(f"line {n}" for n in range(120))
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type(f"what is this: \x1b[200~{lines}\x1b[201~?\r")
        await terminal.see("[pasted 120 lines]?")
        await terminal.see("echo: what is this: line 0")
        await terminal.see(PROMPT)
        terminal.type("\x1b[A")
        await terminal.see("[pasted 120 lines]?")
        terminal.type(" again\r")
        await terminal.see("echo: what is this: line 0")
    assert await submissions(owner, 2) == [
        f"what is this: {lines}?",
        f"what is this: {lines}? again",
    ]
    assert "+line 119?\n" in (home / "console_history").read_text()


async def test_backspace_removes_a_long_paste(owner: MemoryService, home: Path) -> None:
    lines = "\n".join(map(str, range(50)))
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type(f"see \x1b[200~{lines}\x1b[201~\x7fthis\r")
        await terminal.see("echo: see this")
    assert await submissions(owner, 1) == ["see this"]


async def test_long_paste_during_a_turn_is_sent_completely(
    owner: MemoryService, home: Path
) -> None:
    lines = "\n".join(f"line {n}" for n in range(30))
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type(f"\x1b[200~{lines}\x1b[201~\r")
        await terminal.see("[pasted 30 lines]  (steering)")
        terminal.type("\x03")
        await terminal.see("echo: line 0")
    assert await submissions(owner, 2) == ["slow", lines]


async def test_escape_stops_a_turn_and_alt_enter_does_not(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type("two\x1b\rlines")
        await terminal.see("lines")
        terminal.type("\x1b")
        await terminal.see("Stopped.")
        await terminal.see(PROMPT)
        terminal.type("\r")
        await terminal.see("echo: two")
    assert await submissions(owner, 2) == ["slow", "two\nlines"]


@pytest.mark.parametrize("word", ["exit", "quit", "/quit"])
async def test_exit_word_exits(owner: MemoryService, home: Path, word: str) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type(f"{word}\r")
        assert await terminal.ended() == 0
    assert owner.submitted == []


async def test_lines_typed_before_startup_are_separate_messages(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        terminal.type("one\rtwo\r/exit\r")
        assert await terminal.ended() == 0
    assert await submissions(owner, 2) == ["one", "two"]


async def test_ctrl_r_searches_the_history_and_ctrl_c_leaves_the_search(
    owner: MemoryService, home: Path
) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("about the orchard\r")
        await terminal.see("echo: about the orchard")
        await terminal.see(PROMPT)
        terminal.type("about pears\r")
        await terminal.see("echo: about pears")
        await terminal.see(PROMPT)
        terminal.type("\x12orch")
        await terminal.see("about the orchard")
        terminal.type("\x03fresh\r")
        await terminal.see("echo: fresh")
        await terminal.see(PROMPT)
        terminal.type("\x12orch")
        await terminal.see("about the orchard")
        terminal.type("\r\x05 again\r")
        await terminal.see("echo: about the orchard again")
    assert (await submissions(owner, 4))[2:] == ["fresh", "about the orchard again"]


async def test_file_is_completed_and_shown_to_the_model(
    owner: MemoryService, home: Path, place: Path
) -> None:
    async with kore_agent(home, "--cwd", str(place)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("look at @orch")
        await terminal.see("src/orchard.py")
        terminal.type("\tand @my")
        await terminal.see("my notes.md")
        terminal.type("\t\r")
        await terminal.see("attached: orchard.py, my notes.md")
        await terminal.see("echo: look at")
    (text,) = await submissions(owner, 1)
    assert text == 'look at @src/orchard.py and @"my notes.md" '
    shown = owner.submitted[0].options.project["text"]
    assert "apples = 3" in shown
    assert "pears" in shown


async def test_picture_is_sent_as_a_picture(owner: MemoryService, home: Path, place: Path) -> None:
    async with kore_agent(home, "--cwd", str(place)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("what is @tree.png?\r")
        await terminal.see("attached: tree.png")
        await terminal.see("echo: what is")
    (media,) = owner.submitted[0].media
    assert (media.kind, media.path) == ("photo", str(place / "tree.png"))
    assert (media.media_type, media.size_bytes) == ("image/png", len(PICTURE))
    assert media.digest == sha256(PICTURE).hexdigest()


async def test_command_arguments_are_completed(owner: MemoryService, home: Path) -> None:
    session = await owner.bind_session("", None)
    await owner.rename_session(session, "about plums")
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/mode acc")
        await terminal.see("accept-edits")
        terminal.type("\t\r")
        await terminal.see("command /mode accept-edits")
        await terminal.see(PROMPT)
        terminal.type("/resume plu")
        await terminal.see(session)
        terminal.type("\t\r")
        await terminal.see(f"Session {session}")


async def test_misspelt_console_command_is_not_sent(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/exti\r")
        await terminal.see("Unknown command /exti; did you mean /exit?")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    assert owner.submitted == []


async def test_project_command_attaches_its_files(
    owner: MemoryService, home: Path, place: Path
) -> None:
    (place / ".claude" / "commands").mkdir(parents=True)
    (place / ".claude" / "commands" / "explain.md").write_text(
        "---\ndescription: say what a file does\n---\nExplain @src/orchard.py to $ARGUMENTS."
    )
    (home / "commands").mkdir()
    (home / "commands" / "greet.md").write_text("Say hello to {args}.")
    async with kore_agent(home, "--cwd", str(place)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/expl")
        await terminal.see("say what a file does")
        terminal.type("\t a child\r")
        await terminal.see("attached: orchard.py")
        await terminal.see("command /explain a child")
        await terminal.see(PROMPT)
        terminal.type("/greet Ann\r")
        await terminal.see("command /greet Ann")
        await terminal.see(PROMPT)
        terminal.type("/help\r")
        await terminal.see("/greet")
        await terminal.see("say what a file does")
    assert await submissions(owner, 2) == ["/explain a child", "/greet Ann"]
    theirs, mine = (message.options.project for message in owner.submitted)
    assert "orchard.py" in theirs["text"]
    assert mine is None


async def test_review_and_init_are_built_in_prompts(
    owner: MemoryService, home: Path, place: Path
) -> None:
    async with kore_agent(home, "--cwd", str(place)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/review src/orchard.py\r")
        await terminal.see("command /review src/orchard.py")
        await terminal.see(PROMPT)
        terminal.type("slow\r")
        await terminal.see("working")
        terminal.type("/init\r")
        await terminal.see("/init  (queued)")
        terminal.type("\x03")
        await terminal.see("command /init")
    assert await submissions(owner, 3) == ["/review src/orchard.py", "slow", "/init"]
    assert owner.submitted[0].options.project is not None


async def test_last_line_shows_model_mode_and_cost(owner: MemoryService, home: Path) -> None:
    async with kore_agent(home, "--permission-mode", "plan") as terminal:
        await terminal.see("offline/echo · plan")
        terminal.type("hi\r")
        await terminal.see("echo: hi")
        await terminal.see("offline/echo · plan · ░░░░░░░░ 0% of 128k (10) · $0.25")


async def test_menu_rows_are_removed_without_a_cursor_query(
    owner: MemoryService, home: Path, place: Path
) -> None:
    async with kore_agent(home, "--cwd", str(place)) as terminal:
        await terminal.see(PROMPT)
        terminal.type("see @orch")
        await terminal.see("src/orchard.py")
        before = len(terminal.raw)
        terminal.type("\t")
        await terminal.see("see @src/orchard.py")
        await terminal.see(" · ask")
        assert "\x1b[J" in terminal.raw[before:]
        assert "\x1b[6n" not in terminal.raw
