"""Cost of a conversation in input tokens (characters / 4), and savings by a prompt cache."""

import json
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from bench.figure import Figure
from bench.process import environ, wall_ms
from bench.stage import OWNER, open_stage
from gateway.plugins.installation import PluginInstaller

_QUESTIONS = (
    "What do you know about me so far?",
    "I am planning a weekend in Lisbon in May. Which three things should I not miss?",
    "What is in my notes folder?",
    "Thanks. Put the castle first, and tell me how long each visit takes.",
    "Remember that I only ever take hand luggage.",
    "How would you get from the airport to the old town?",
    "What would the weather be like then?",
    "Please look up what my memory file holds.",
    "Now write me a packing list of at most ten things.",
    "Good, that is all for today. Sum it up in two sentences.",
)
# Turn (from 0) -> the tool call with which the model begins it.
_CALLS = {
    2: ("list_dir", {"path": "."}),
    4: ("remember", {"text": "only ever takes hand luggage"}),
    7: ("read_file", {"path": "memory/MEMORY.md"}),
}
_ANSWER = (
    "Here is what I would say to that, in a few plain sentences. The castle on the hill opens at "
    "nine and takes about two hours; go early, since the queue grows. The tower by the river and "
    "the old monastery are next to each other, so one afternoon is enough for both of them."
)


_PLUGINS = 92
_SKILL = """---
name: {name}
description: Prepares the monthly report of {name} from the tables of the accounting program, checks
  its sums against the previous month, and writes a summary for people who were not there. Use it
  when somebody asks for numbers, tables or a report.
---
Read the tables first.
"""
_HOOKS = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
_FILES = {
    "AGENTS.md": "# Shop\n\nRun the tests with `make test`, one with `pytest -k NAME`.\n",
    "README.md": "# Shop\n\nA small web shop.\n",
    "shop/cart.py": "def total(prices: list[int]) -> int:\n    return sum(prices)\n",
    "tests/test_cart.py": "from shop.cart import total\n",
}


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage, stage.gateway():
        await stage.turn_ms(OWNER, "hi", await stage.effects())
        hi = await stage.model.get("requests", since=0)
    async with open_stage(command) as stage:
        project = _make_project(stage.home.parent / "shop")
        once = [*command, "agent", "--cwd", str(project), "-m", "hi"]
        wall_ms(once, environ(stage.home), stage.home.parent)
        in_project = await stage.model.get("requests", since=0)
    async with open_stage(command) as stage:
        _add_plugins(stage.home)
        once = [*command, "agent", "-m", "hi"]
        wall_ms(once, environ(stage.home), stage.home.parent)
        with_plugins = await stage.model.get("requests", since=0)
    async with open_stage(command) as stage, stage.gateway():
        await stage.model.post("script", _script())
        since = await stage.effects()
        for question in _QUESTIONS:
            _, since = await stage.turn_ms(OWNER, question, since)
        raws = [request["raw"] for request in await stage.model.get("requests", since=0)]
    expected = len(_QUESTIONS) + len(_CALLS)
    assert len(raws) == expected, f"{len(raws)} requests instead of {expected}"
    first, body = len(hi[0]["raw"]) / 4, json.loads(hi[0]["raw"])
    total = sum(map(len, raws)) / 4
    prefix = min(_share(before, after) for before, after in pairwise(raws))
    note = f"{len(body['tools'])} tools; system prompt {len(body['messages'][0]['content']) // 4:,}"
    return [
        Figure('first request for "hi"', "tokens", first, goal=2_500, note=note),
        Figure("first request with a project", "tokens", len(in_project[0]["raw"]) / 4, goal=3_800),
        Figure(
            f"first request with {_PLUGINS} plugins",
            "tokens",
            len(with_plugins[0]["raw"]) / 4,
            goal=3_800,
        ),
        Figure("10 turns with 3 tool calls", "tokens", total, goal=42_000),
        Figure("least prefix share", "", prefix, goal=1.0, at_least=True),
    ]


def _make_project(root: Path) -> Path:
    """Create a small repository with one uncommitted file."""
    for name, text in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def _add_plugins(home: Path) -> None:
    """Install plugins with three skills, a command and a hook each."""
    installer = PluginInstaller(home / "plugins")
    for number in range(_PLUGINS):
        place = home.parent / "published" / f"plugin-{number:02}"
        for skill in range(3):
            folder = place / "skills" / f"task-{number:02}-{skill}"
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(_SKILL.format(name=folder.name), encoding="utf-8")
        (place / "commands").mkdir()
        (place / "commands" / "go.md").write_text("Go $ARGUMENTS.\n", encoding="utf-8")
        (place / "hooks").mkdir()
        (place / "hooks" / "hooks.json").write_text(_HOOKS, encoding="utf-8")
        with installer.fetched({"source": "folder", "path": str(place)}) as review:
            installer.install(review)


def _script() -> list[dict[str, object]]:
    replies: list[dict[str, object]] = []
    for turn in range(len(_QUESTIONS)):
        if turn in _CALLS:
            name, arguments = _CALLS[turn]
            call = {"name": name, "arguments": arguments, "id": f"call_{turn}"}
            replies.append({"tool_calls": [call]})
        replies.append({"text": _ANSWER})
    return replies


def _share(before: str, after: str) -> float:
    """Return the share of a request, without its closing `]}`, that the next request repeats."""
    common = next(
        (n for n, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1),
        len(after),
    )
    return min(common, len(before) - 2) / (len(before) - 2)
