"""Titles, paths and names appear verbatim in the reply of every command, as Telegram shows it."""

import asyncio
import json
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from agent.providers.scripted import ScriptedProvider
from agent.text.visible import escape_line
from agent.types import Message, ToolCall, assistant
from gateway.channels.telegram.outbound import approval_card as telegram
from gateway.channels.telegram.outbound.render import render
from gateway.commands.table import COMMANDS, UNLISTED
from gateway.core.approval import ApprovalPrompt
from gateway.core.channel_events import Batch
from gateway.core.messages import Entity, OutboundFile, OutboundMessage, OutboundPart, Sender
from gateway.core.records import Trace
from gateway.store.port import Transaction
from tests.fakes.platform import Platform
from tests.gateway import stored
from tests.gateway.parts import Parts, chat_message, running

NAMES = [
    "app [id]", "[x] done", "a\\[b\\]c", "\\(x^2\\)", "$x^2$ and $y^2$", "||secret||", "**bold**",
    "__init__", "<Button> &lt;b", "`code` `", "``two``", "a|b|c", "[w](tg:x)",
    "- a", "1) a", "# 字 [名] （一）", "*a* _b_ ~~c~~", "> q", "`a\\`",
]  # fmt: skip
SIGNS = "[]()$|*_~`<>#&;\\!-+=.:1x {^}\"'?%@,é字名"
ODD = st.text(st.sampled_from(SIGNS), min_size=3, max_size=16)
# Text that differs between two runs: ids, times, and counts.
_VARIES = re.compile(r"[0-9A-Z]{4}-[0-9A-Z]{4}|\d{8}_\w+|\d[\d.,]*|[█░▏▎▍▌▋▊▉]+")
Shown = list[tuple[str, list[str]]]


class TelegramLike(Platform):
    """Platform that renders messages as Telegram does; `parts` collects all of them."""

    trace: Trace | None = "full"

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[OutboundPart] = []

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        return render(markdown)

    async def send(self, message: OutboundMessage) -> str:
        if message.kind != "approval":
            self.parts.append(message.content)
        return await super().send(message)

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        return telegram.render_approval(question, decided)

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        return telegram.render_details(question)

    @property
    def code(self) -> str:
        """Pairing code in the last message to the stranger."""
        (codes,) = re.findall(r"[A-Z2-9]{4}-[A-Z2-9]{4}", self.chats["8"][-1].text)
        return str(codes)

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        raise AssertionError("nobody presses a button here")


def calling(tool: str, **arguments: object) -> Message:
    return assistant("", (ToolCall("1", tool, arguments, json.dumps(arguments)),))


async def everything(folder: Path, name: str, path: str) -> Shown:
    """Return all text that a chat shows after all commands, with this name and this path.

    The name is the title of a session, a job, a task and a person's name; it is also the argument
    of every command.
    """
    platform = TelegramLike()
    provider = ScriptedProvider(
        [
            *(calling("write_file", path=path, content="one\n"), "Done."),
            *(calling("exec", command=f"sleep 60 # {name}", background=True), "Done."),
            calling("read_file", path=path),
            calling("write_file", path=path, content="two\n"),
        ]
    )
    agents = folder / "kore" / "agents"
    agents.mkdir(parents=True)
    described = f"---\nname: finder\ndescription: {json.dumps(name)}\n---\nFind it.\n"
    (agents / "finder.md").write_text(described)
    settings = {"platform": platform, "owner": "chat:7", "allow": ()}
    async with running(folder, provider, **settings) as parts:
        say = Speaker(parts)
        await say("/auto")
        await say(f"Qfind {name}")
        for text in ("/sessions", "/resume", "/sessions Qfind", "/rewind", "/rewind 1", "/diff",
                     f"/rename {name}", "/rename", "/sessions", f"/cron add in 2 hours say {name}",
                     "/cron", "/cron pause 1", "/cron resume 1", f"/cron zone {name}",
                     f"/cron quiet {name}", "/undo", "/redo", "/rewind 1 files", "/redo",
                     "/status", "run it", "/tasks", "/agents"):  # fmt: skip
            await say(text)
        await say("hello", Sender("8", "Bob"))
        await say("/pair list")
        await say(f"/pair {name}")
        await say(f"/pair approve {platform.code}")
        await say("/pair list")
        for command in [*COMMANDS, *filter(None, UNLISTED)]:
            if command not in ("new", "model", "sessions", "pair", "compact", "context", "goal"):
                await say(f"/{command} {name}")
        for text in (f"/tasks kill {name}", "/new", "/status", "/mode ask"):
            await say(text)
        await parts.bus.accept("chat", "bot", Batch([chat_message("change it", "7")]))
        await parts.until_stored("approval", state="open")
        for text in ("/status", f"{name} and more", "/queue", "/stop", f"/model {name}", "/model",
                     "/status", f"/compact {name}"):  # fmt: skip
            await say(text)
    return [
        (
            part.text.replace(str(folder), "/folder"),
            [f"{entity.type} {bare(entity, part.text)}" for entity in part.entities],
        )
        for part in platform.parts
    ]


def bare(entity: Entity, text: str) -> str:
    """Return the text that the entity covers."""
    data = text.encode("utf-16-le")
    return data[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


class Speaker:
    """Sender of private messages that waits for each answer."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def __call__(self, text: str, sender: Sender | None = None) -> None:
        sender = sender or Sender("7", "Ann")
        before = await self._parts.count("outbox")
        message = chat_message(text, sender.id, sender=sender)
        await self._parts.bus.accept(message.channel, message.account, Batch([message]))
        async with asyncio.timeout(30):
            while not await self._parts.database.transact(is_answered, before):
                await asyncio.sleep(0.005)


def is_answered(tx: Transaction, before: int) -> bool:
    """Return whether all work is done, apart from open approvals.

    The outbox then has more than `before` parts, and all of them are sent.
    """
    return (
        stored.count(tx, "outbox") > before
        and not any(stored.count(tx, "outbox", state=state) for state in ("pending", "inflight"))
        and (
            stored.count(tx, "approval", state="open") > 0
            or stored.count(tx, "inbox", turn_id=None, dead_reason=None) == 0
        )
    )


@cache
def plain(name: str, path: str) -> Shown:
    """Return the same messages for a name and a path without any markup."""
    return visible_texts(name, path)


def stand_ins(name: str, path: str) -> tuple[str, str]:
    """Return a name and a path with as many words and characters, but no markup."""
    return re.sub(r"\S", "Q", name), re.sub(r".", "W", path)


def visible_texts(name: str, path: str) -> Shown:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(everything(Path(folder), name, path))


def check(name: str, path: str) -> None:
    stands = stand_ins(name, path)
    replaced = dict(zip(stands, (name, escape_line(path)), strict=True))

    def as_shown(text: str) -> str:
        for stand_in, real in replaced.items():
            # Error messages quote input with Python's repr.
            text = text.replace(repr(stand_in), repr(real)).replace(stand_in, real)
        return _VARIES.sub("0", text)

    expected = [trimmed(as_shown(text), [as_shown(item) for item in codes])
                for text, codes in plain(*stands)]  # fmt: skip
    codes = [trimmed(_VARIES.sub("0", text), [_VARIES.sub("0", entity) for entity in entities])
             for text, entities in visible_texts(name, path)]  # fmt: skip
    wrong = [pair for pair in zip_longest(sorted(codes), sorted(expected)) if pair[0] != pair[1]]
    assert not wrong


def trimmed(text: str, codes: list[str]) -> tuple[str, list[str]]:
    """Return a message without trailing blanks in its text and entities, which Telegram drops."""
    return text.rstrip(), [entity.rstrip() for entity in codes]


_PAIRS = list(pairwise(NAMES))[::2]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pair if number % 3 == 0 else pytest.param(*pair, marks=pytest.mark.slow)
        for number, pair in enumerate(_PAIRS)
    ],
)
def test_names_and_paths_are_shown_unchanged(name: str, path: str) -> None:
    check(name, path)


@pytest.mark.parametrize("path", ["a b ", "a  b"])
def test_blanks_in_paths_are_shown_unchanged(path: str) -> None:
    check("abc x y", path)


@pytest.mark.slow
@settings(max_examples=5, phases=[Phase.generate])
@given(ODD, ODD)
def test_random_names_and_paths_are_shown_unchanged(name: str, path: str) -> None:
    name = " ".join(name.split())
    assume(len(name) > 2 and not name.startswith(("/", "1", "~")) and path[0] not in "~ ")
    check(name, path)
