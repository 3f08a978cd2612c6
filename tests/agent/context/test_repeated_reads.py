"""Shortened results of repeated reads: the model can still derive the current file."""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.compaction.compactor import shorten_old_result
from agent.context.history_validation import result_message
from agent.context.repeated_reads import shorten_reading
from agent.prompts import load_prompt
from agent.run.history import JsonlHistory
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.files.read_write import ReadFile
from agent.types import Message, ToolCall, assistant
from tests.agent.props import call, calls, results, scripted

UNCHANGED = load_prompt("unchanged").partition("$")[0]
CHANGED = load_prompt("changed_since").partition("$")[0]
_LINE = re.compile(r" *(\d+)\t(.*)")


class Reader:
    """A simulated model that reads one file and remembers the lines from its messages."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a.txt"
        self.messages: list[Message] = []
        self._tool = ReadFile(ToolSettings())
        self._environment = ToolEnvironment("s", folder, folder / "M.md", owner=True)

    def read(self, **lines: int) -> str:
        """Return the result that the model reads."""
        wish = ToolCall("c1", "read_file", {"path": "a.txt", **lines}, "{}")
        context = CallContext(wish, self._environment, lambda text, stream: None)
        full = asyncio.run(self._tool.run(wish.arguments or {}, context))
        result = shorten_reading(wish, full, self.messages, 1, lambda item: "a.txt")
        self._check(result.for_model, full.for_model)
        self.messages += [assistant("", (wish,)), result_message("c1", result)]
        return result.for_model

    def _check(self, answer: str, full: str) -> None:
        """Check that the model knows the current content of the requested lines."""
        believed = self._lines()
        if answer.startswith(CHANGED):
            believed = _patched(believed, answer.partition("\n")[2])
        elif not answer.startswith(UNCHANGED):
            assert answer == full
            return
        wanted = {int(m[1]): m[2] for m in map(_LINE.fullmatch, full.split("\n")) if m}
        assert {number: believed.get(number) for number in wanted} == wanted

    def _lines(self) -> dict[int, str]:
        """Return each line as shown by the newest message that contains it."""
        lines: dict[int, str] = {}
        for message in self.messages:
            matches = [m for m in map(_LINE.fullmatch, message.text.split("\n")) if m]
            # A diff refers to the lines of an earlier message, and may look like numbered lines.
            if message.role == "tool" and not message.text.startswith(CHANGED):
                lines.update({int(m[1]): m[2] for m in matches})
        return lines


def _patched(lines: dict[int, str], difference: str) -> dict[int, str]:
    """Apply a unified diff to numbered lines."""
    old = [lines[number] for number in sorted(lines)]
    new: list[str] = []
    at = 0
    for line in difference.split("\n")[2:]:
        if match := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            start = int(match[1]) - (match[2] != "0")
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [line[1:]] if line.startswith(" ") else []
            at += 1
    return dict(enumerate([*new, *old[at:]], 1))


_FILE = st.lists(st.sampled_from(["alpha " * 20, "beta " * 20, "gamma\tdelta", "", "7\tx"]),
                 min_size=1, max_size=40)  # fmt: skip


@settings(max_examples=60)
@given(_FILE, st.data())
def test_reported_content_matches_the_disk(lines: list[str], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        reader = Reader(Path(folder))
        for _ in range(data.draw(st.integers(2, 8))):
            match data.draw(st.sampled_from(["edit", "forget", "shorten", "part", "none"])):
                case "edit":
                    place = data.draw(st.integers(0, len(lines)))
                    added = data.draw(st.sampled_from([[], ["new line"], ["beta " * 20] * 3]))
                    lines = lines[:place] + added + lines[place + 1 :] or ["left"]
                case "forget":
                    del reader.messages[: 2 * data.draw(st.integers(0, 3))]
                case "shorten":
                    reader.messages = [*map(shorten_old_result, reader.messages)]
                case "part":
                    reader.path.write_text("\n".join(lines) + "\n")
                    first = data.draw(st.integers(1, len(lines)))
                    reader.read(line_start=first, line_end=data.draw(st.integers(first, 60)))
            reader.path.write_text("\n".join(lines) + "\n")
            reader.read()


def test_repeated_read_reports_only_changes(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    lines = [f"line {n} of a file that is long enough to talk about" for n in range(200)]
    reader.path.write_text("\n".join(lines) + "\n")
    full = reader.read()
    assert reader.read().startswith(f"{UNCHANGED}2")
    # A repeated identical request shows the full text.
    assert reader.read() == full
    assert reader.read(line_start=5, line_end=90).startswith(UNCHANGED)
    lines[100] = "another line"
    reader.path.write_text("\n".join(lines) + "\n")
    answer = reader.read()
    assert answer.startswith(CHANGED)
    assert "+another line" in answer
    assert len(answer) < len(full) / 10
    # A file that became shorter has no new line to show.
    reader.path.write_text("\n".join(lines[:150]) + "\n")
    assert not reader.read().startswith(UNCHANGED)


async def test_repeated_read_is_recognized_by_a_new_process(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a line that is repeated\n" * 100)
    texts: list[str] = []
    for _ in range(2):
        read = calls(call("read_file", path="a.txt"))
        history = JsonlHistory(tmp_path / "history")
        agent, model = scripted([read, "done"], folder, history=history)
        await agent.run("read it", session="s")
        texts += [
            message.text for message in model.requests[-1].messages if message.role == "tool"
        ][-1:]
        await agent.aclose()
    assert texts[0].startswith("  1\ta line")
    assert texts[1].startswith(UNCHANGED)


async def test_repeated_read_is_recognized_within_a_turn(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line that is repeated\n" * 100)
    read = calls(call("read_file", path="a.txt"))
    again = calls(call("Read", file_path=str(tmp_path / "a.txt")))
    agent, model = scripted([read, again, "done"], tmp_path)
    await agent.run("read it")
    first, second = results(model.requests[-1].messages)
    assert first.startswith("  1\t")
    assert second.startswith(UNCHANGED)
