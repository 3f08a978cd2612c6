"""The pages describe everything that exists, and nothing else."""

import argparse
import ast
import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from agent.providers.vendors import ALIASES, VENDORS
from agent.settings import ToolSettings
from agent.skills.commands import BUILT_IN
from agent.tools.built_in import default_tools
from gateway.cli.console.chat.local_commands import CONSOLE_COMMANDS
from gateway.cli.verb_table import VERBS, Verb
from gateway.commands.declaration import ChatCommand
from gateway.commands.table import COMMANDS, UNLISTED
from gateway.config.key_catalog import (
    all_keys,
    default_of,
    leaf_types,
    own_setting,
    path_keys,
    setting_at,
)
from gateway.config.origin import Key
from gateway.config.sections import ModelEntry
from gateway.core.channel_table import CHANNELS
from tests.house.cli_flags import flags
from tests.house.command_table import FILE, command_table
from tests.house.control_page import control_page
from tests.house.openapi import openapi
from tests.house.pages import (
    DOCS,
    README,
    anchors,
    blocks,
    code_spans,
    links,
    page,
    pages,
    rows,
    sections,
    source_paths,
)
from tests.house.settings_page import example_config, settings_page
from tests.house.tree import PACKAGES, ROOT, parse, python_files, statements

LONGEST_PAGE_LINES = 200
LONGEST_README_LINES = 200


def error_codes() -> set[str]:
    """Return the error codes: the value of `code = "…"` in each class body."""
    return {
        str(ast.literal_eval(line.value))
        for path in python_files(*PACKAGES)
        for node in statements(parse(path))
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "code" for t in line.targets)
    }


def test_links_in_pages_resolve() -> None:
    broken = []
    for path in pages():
        for link in links(path.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (
                anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
            ):
                broken.append(f"{path.relative_to(ROOT)}: {link}")
    assert broken == []


def test_paths_in_pages_exist() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages()
        for name in source_paths(page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert missing == []


def test_missing_path_is_detected() -> None:
    text = "`agent/turn/loop.py`, `gateway/porter.py`, https://example.org/agent/x.py, `tests/` ."
    assert source_paths(text) == ["agent/turn/loop.py", "gateway/porter.py", "tests/"]


def test_glossary_defines_existing_names() -> None:
    defined = {
        name
        for path in python_files(*PACKAGES)
        for name in re.findall(
            r"^(?:class (\w+)|(\w+) = Literal)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for name in name
        if name
    }
    named = {name for name in code_spans(page("glossary")) if re.fullmatch(r"[A-Z]\w+", name)}
    assert named
    assert named - defined == set()


def test_every_package_is_in_the_architecture() -> None:
    shown = {row[0] for row in rows(page("architecture")) if row[0].startswith("`")}
    paths = [path.relative_to(ROOT).parts for path in python_files("agent", "gateway")]
    rooms = {f"`{package}/{room}/`" for package, room, *rest in paths if rest}
    assert "`agent/turn/`" in rooms
    assert rooms - shown == set()


def test_index_names_every_page() -> None:
    named = {(DOCS / link).resolve() for link in links(page("index"))}
    decisions = {(DOCS / "adr" / link).resolve() for link in links(page("adr/index"))}
    assert set(DOCS.rglob("*.md")) - {DOCS / "index.md"} - named - decisions == set()


def test_pages_stay_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in pages()}
    assert lengths.pop(README) <= LONGEST_README_LINES
    # The index of the decisions has a line for each decision.
    lengths.pop(DOCS / "adr" / "index.md")
    assert [str(path) for path, lines in lengths.items() if lines > LONGEST_PAGE_LINES] == []


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_flag_is_documented(verb: Verb) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    body = sections(page("cli"))[f"kore {verb.name}"]
    words = {word.rstrip(",") for word in re.split(r"[\s\[|{}]+", " ".join(code_spans(body)))}
    assert set(flags(parser)) - words == set()
    assert all(f"`kore {alias}`" in body for alias in verb.aliases)


def test_documented_verbs_exist() -> None:
    described = {head for head in sections(page("cli")) if head.startswith("kore ")}
    assert described == {f"kore {verb.name}" for verb in VERBS}


def test_settings_page_and_example_match_the_annotations() -> None:
    assert (DOCS / "settings.md").read_text("utf-8") == settings_page(), "run `make schema`"
    assert (ROOT / "config.example.json").read_text("utf-8") == example_config(), (
        "run `make schema`"
    )


@pytest.mark.parametrize("key", all_keys(), ids=".".join)
def test_every_setting_has_a_help_text(key: Key) -> None:
    assert setting_at(key).help


def test_every_field_of_a_model_has_a_help_text() -> None:
    assert [n for n, info in ModelEntry.model_fields.items() if not own_setting(info).help] == []


def test_every_path_is_relative_to_its_file() -> None:
    paths = {key for key in all_keys() if Path in leaf_types(key)}
    assert paths == set(path_keys()) - {("store", "url")}


def test_every_setting_has_an_effect() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for path in python_files(*PACKAGES)
        if path.parent.name != "settings" or path.name == "models.py"
    ]
    # Deduplicate the dotted names: this cuts the searched text to a tenth.
    names = {name for text in sources for name in re.findall(r"\w+(?:\.\w+)+", text)}
    used = "\n".join(names).replace("store.path", "store.url")
    assert [key for key in all_keys() if not re.search(_use_of(key), used)] == []


def _use_of(key: Key) -> str:
    """Return a pattern for code that reads a setting; the section's name alone is not proof."""
    owner = "section" if key[0] in CHANNELS else key[0]
    name = f"{owner}.{key[1]}" if key[1:] else f"settings.{key[0]}"
    return rf"\b{re.escape(name)}\b"


def test_command_table_is_current() -> None:
    assert FILE.read_text("utf-8") == command_table(), "run `make schema`"


@pytest.mark.parametrize("command", [*COMMANDS.values(), *UNLISTED.values()], ids=lambda c: c.name)
def test_only_quick_commands_run_at_once(command: ChatCommand) -> None:
    assert not (command.at_once and command.takes_time)


def test_page_lists_the_commands_that_run_at_once() -> None:
    line = next(line for line in page("chat-commands").splitlines() if "answered at once" in line)
    at_once = {f"/{command.name}" for command in COMMANDS.values() if command.at_once}
    assert code_spans(line) == at_once - {"/deny"}


def test_every_chat_command_is_documented() -> None:
    described = {name for row in rows(page("chat-commands")) for name in code_spans(row[0])}
    names = {f"/{name}" for name in (*COMMANDS, *BUILT_IN)}
    assert described == names | {name for name, _ in CONSOLE_COMMANDS}


def test_every_tool_is_documented_with_its_arguments_and_effect() -> None:
    described = {
        row[0]: (row[1], row[2]) for row in rows(page("tools")) if len(row) == 4 and "`" in row[0]
    }
    expected = {}
    for tool in default_tools(ToolSettings()):
        required = tool.parameters.get("required", ())
        names = (
            f"`{name}`" if name in required else f"`{name}?`"
            for name in tool.parameters["properties"]
        )
        expected[f"`{tool.name}`"] = (", ".join(names), tool.effect)
    assert described == expected


def test_defaults_of_tool_settings_match_the_core() -> None:
    defaults = ToolSettings()
    for field in fields(ToolSettings):
        if (key := ("tools", field.name)) in all_keys():
            assert default_of(key) == getattr(defaults, field.name)


def test_every_vendor_is_documented_with_its_keys_and_model() -> None:
    described = {row[0]: row[1:] for row in rows(page("models"))}
    for vendor in VENDORS.values():
        aliases = [alias for alias, name in ALIASES.items() if name == vendor.name]
        also = f" (also {', '.join(f'`{alias}`' for alias in aliases)})" if aliases else ""
        keys, model = described[f"`{vendor.name}`{also}"]
        assert set(vendor.key_variables) <= code_spans(keys)
        assert vendor.key_variables or vendor.api_base in code_spans(keys)
        assert code_spans(model) == ({vendor.default_model} if vendor.default_model else set())


def test_documented_error_codes_match_the_code() -> None:
    described = {name for row in rows(page("errors")) for name in code_spans(row[0])}
    assert described == error_codes()


def test_documented_layers_match_the_import_contracts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {
        contract["containers"][0]: contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") in (["agent"], ["gateway"])
    }
    checked = [
        {room for part in layer.split("|") if (room := part.strip())[0] not in "(_"}
        for package in ("gateway", "agent")
        for layer in contracts[package]
    ]
    block = next(
        item for item in blocks(page("architecture"), "text") if item.startswith("gateway:")
    )
    shown = [set(re.findall(r"\w+\b(?!:)", line)) for line in block.splitlines()]
    assert shown == [layer for layer in checked if layer]


def test_protocol_description_is_current() -> None:
    description = json.dumps(openapi(), indent=1) + "\n"
    assert (DOCS / "openapi.json").read_text("utf-8") == description, "run `make schema`"


def test_control_call_page_is_current() -> None:
    assert (DOCS / "control-socket.md").read_text("utf-8") == control_page(), "run `make schema`"
