"""Fuzz targets for incoming data: policy files, settings, updates from Telegram."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from agent.errors import ConfigError
from agent.security.policy.policy_file import decode_policy
from agent.subagents.definition import read_definition
from agent.turn.tool_catalog import known_tools
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.telegram.inbound.decode import DecodeContext
from gateway.channels.telegram.inbound.update_batch import decode_batch
from gateway.channels.telegram.settings import Bot
from gateway.config.load import load_settings
from tests.fuzz.inputs import texts, trees
from tests.fuzz.run import Target

POLICIES = (
    "default: {deny_by_default: true, audit_level: summary}\nroles:\n"
    "  writer: {tools: {read_file: {paths: ['docs/**', README.md]}, web_fetch: {allow: true}}}\n"
    "  plan: {tools: {exec: {commands: [git status, ls], ask: true}}}\n",
    "roles:\n  old: {tools: [read_file, exec], scopes: {paths: ['src/**'], commands: [go]}}\n",
    "a: &a [*a]\nb: !!python/object/apply:os.system [id]\n? [c]\n: d\n--- e\n",
)
YAML = (
    *(
        "roles:",
        "tools:",
        "paths:",
        "commands:",
        "hosts:",
        "allow:",
        "ask:",
        "\n  ",
        "- ",
        ": ",
        "{",
    ),
    *(
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!!",
        "|\n",
        ">-\n",
        "---\n",
        "? ",
        "<<: ",
        "'**'",
        "exec",
        "*",
        "%",
    ),
)
_PERSON = {"id": 7, "is_bot": False, "first_name": "Ann", "username": "ann"}
_MESSAGE = {
    "message_id": 5,
    "date": 1_700_000_000,
    "chat": {"id": -100, "type": "supergroup", "title": "T", "is_forum": True},
    "from": _PERSON,
    "text": "/start@kore_bot hello 🙂 @kore_bot",
    "entities": [{"type": "bot_command", "offset": 0, "length": 15}],
    "message_thread_id": 3,
    "is_topic_message": True,
    "reply_to_message": {
        "message_id": 4,
        "chat": {"id": -100, "type": "supergroup"},
        "from": {"id": 1, "is_bot": True, "first_name": "Kore", "username": "kore_bot"},
        "text": "before",
        "quote": {"text": "be", "position": 0},
    },
}
_PHOTO = {
    "message_id": 6,
    "chat": {"id": 7, "type": "private"},
    "sender_chat": {"id": -5, "title": "C", "type": "channel"},
    "photo": [{"file_id": "x", "file_size": 10, "width": 1, "height": 1}],
    "caption": "look",
    "caption_entities": [{"type": "text_mention", "offset": 0, "length": 4, "user": _PERSON}],
}
UPDATES = (
    {"update_id": 1, "message": _MESSAGE},
    {"update_id": 2, "edited_message": {**_MESSAGE, "edit_date": 1_700_000_001}},
    {"update_id": 3, "message": _PHOTO},
    {
        "update_id": 4,
        "callback_query": {"id": "9", "from": _PERSON, "message": _MESSAGE, "data": "a:1:2"},
    },
)
_EXAMPLE = json.loads((Path(__file__).parents[2] / "config.example.json").read_text())


def _policy(scratch: Path) -> Callable[[str], None]:
    def check(content: str) -> None:
        with suppress(ConfigError):
            decode_policy(content.encode("utf-8", "surrogatepass"), "policy.yaml", known_tools())

    return check


def _telegram(scratch: Path) -> Callable[[Any], None]:
    here = DecodeContext(Bot(1, "kore_bot"), "main", ChatSettingsIndex())

    def check(update: Any) -> None:
        decode_batch([update], here, 0.0)

    return check


def _config(scratch: Path) -> Callable[[str], None]:
    path = scratch / "config.json"

    def check(content: str) -> None:
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        with suppress(ConfigError):
            load_settings(config=path, home=scratch, cwd=scratch, environ={}, overrides={})

    return check


POLICY = Target("policy", texts(POLICIES, YAML), _policy)
TELEGRAM = Target("telegram", trees(UPDATES), _telegram)


def _settings(random: Random) -> str:
    return json.dumps(_LIKELY(random)) if random.random() < 0.6 else _WRITTEN(random)


_LIKELY = trees((_EXAMPLE, {}))
_WRITTEN = texts((json.dumps(_EXAMPLE, indent=1), "{}"), ("{", "}", ":", "[", "]", ",", "//"))
CONFIG = Target("config", _settings, _config)

_AGENTS = (
    '---\nname: a\ndescription: Use it when: the user says "x". <example>user: y</example>\n'
    "tools: Read, Bash(git diff:*)\nmodel: sonnet\n---\nYou do x.",
    "\ufeff---\r\nname: 'a'\r\ndescription: >\r\n  folded\r\n  text\r\ntools: [R, 'B']\r\n---\r\nx",
    "---\nmaxTurns: 3\nbackground: yes\nhooks:\n  PreToolUse:\n    - matcher: Bash\n---\n",
    "# No frontmatter\n\nat all",
)
_AGENT_PIECES = (
    *(
        "---\n",
        "...\n",
        "name: ",
        "description: ",
        "tools: ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ": ",
        "|\n",
    ),
    *("!!python/object/apply:os.system [id]", "&a ", "*a", "<<: ", "? ", "\t", "  ", "#", "'", '"'),
    *("- " * 200, "[" * 200, "{a: " * 100, "a:\n " * 50, "maxTurns: ", "permissionMode: plan\n"),
)


def _agents(scratch: Path) -> Callable[[str], None]:
    def check(content: str) -> None:
        definition = read_definition(content.encode("utf-8", "surrogatepass"), "stem", "file")
        assert definition.name
        assert all(isinstance(item, str) for item in (definition.description, definition.prompt))

    return check


AGENTS = Target("agents", texts(_AGENTS, _AGENT_PIECES), _agents)
