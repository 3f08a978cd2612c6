"""Token cost of 40 reads of ten files in a conversation, with some files changing meanwhile.

The baseline returns the whole text each time. The files are Kore's own.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.providers.token_estimate import estimate_text
from agent.types import Message, ToolCall, assistant
from bench.figure import Figure
from bench.process import ROOT

READINGS = 40
_MODULES = (ROOT / "agent" / "context").glob("*.py")
_FILES = sorted(_MODULES, key=lambda path: path.stat().st_size)[-10:]
# Reads between edits of a file by its owner.
_CHANGED_EVERY = 8


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in _FILES:
            shutil.copy(path, folder / path.name)
        whole: list[int] = []
        model = ScriptedProvider(_script(folder, whole))
        agent = Agent(model, workspace=folder, builtin_tools=["read_file"])
        await agent.run("Read what you need, as often as you need it.")
        results = [message for message in model.requests[-1].messages if message.role == "tool"]
        assert len(results) == READINGS, f"{len(results)} results instead of {READINGS}"
        sent = sum(estimate_text(result.text) for result in results)
        note = f"{len(_FILES)} files, {READINGS // _CHANGED_EVERY} changes in between"
        return [
            Figure("40 readings", "tokens", sent, bare=sum(whole), goal=sum(whole) / 2, note=note)
        ]


def _script(folder: Path, whole: list[int]) -> Iterator[Message]:
    """Return a model that reads the files again and again, in changing orders."""
    names = [path.name for path in _FILES]
    for number in range(READINGS):
        path = folder / names[(number * 7 + number // len(names)) % len(names)]
        if number % _CHANGED_EVERY == _CHANGED_EVERY - 1:
            lines = path.read_text(encoding="utf-8").splitlines()
            lines.insert(len(lines) // 2, f"# changed before reading {number}")
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        whole.append(estimate_text("\n".join(f"{n}\t{line}" for n, line in numbered)))
        yield assistant("", (ToolCall(f"c{number}", "read_file", {"path": path.name}, "{}"),))
    yield assistant("Done.")
