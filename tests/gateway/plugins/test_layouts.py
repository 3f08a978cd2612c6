"""Sixty plugin layouts found in the wild: each loads or explains its error in one line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller

MANIFEST = ".claude-plugin/plugin.json"
SKILL = "---\nname: hi\ndescription: Says hi.\n---\nSay hi.\n"
COMMAND = "---\ndescription: Fixes\nallowed-tools: Bash(*)\n---\nFix $ARGUMENTS"
AGENT = "---\nname: critic\ndescription: d\n---\nBody"
HOOK = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./after.sh"}]}]}}
SERVER = {"s": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}}
LSP = {"go": {"command": "gopls", "extensionToLanguage": {".go": "go"}}}


def case(
    expected: Mapping[str, Any] | str,
    manifest: Any = None,
    files: Mapping[str, Any] | None = None,
    entry: Mapping[str, Any] | None = None,
) -> tuple[Mapping[str, Any] | str, Any, Mapping[str, Any], Mapping[str, Any] | None]:
    return expected, manifest, files or {}, entry


BASE = {"commands/fix.md": COMMAND}
EVERYTHING = {
    "commands/fix.md": COMMAND,
    "commands/deep/more.md": COMMAND,
    "agents/critic.md": AGENT,
    "skills/hi/SKILL.md": SKILL,
    "skills/group/deep/SKILL.md": SKILL,
    "hooks/hooks.json": HOOK,
    ".mcp.json": {"mcpServers": SERVER},
    ".lsp.json": LSP,
    "output-styles/short.md": "---\nname: Short\n---\nBe short.",
}

LAYOUTS = {
    # Manifest
    "no manifest": case({"name": "p", "commands": ("commands",)}, None, BASE),
    "only a name": case({"name": "tools", "commands": ("commands",)}, {"name": "tools"}, BASE),
    "no name": case({"name": "p", "version": "1"}, {"version": "1"}, BASE),
    "an empty manifest": case({"name": "p"}, {}, BASE),
    "an empty folder": case({"name": "p", "commands": (), "skills": ()}),
    "only a README": case({"commands": ()}, None, {"README.md": "Hello"}),
    "everything": case(
        {
            "skills": ("skills",),
            "commands": ("commands",),
            "agents": ("agents",),
            "servers": SERVER,
            "hooks": HOOK["hooks"],
            "languages": LSP,
        },
        {"name": "p"},
        EVERYTHING,
    ),
    "the manifest at the top": case({"name": "p"}, None, {"plugin.json": {"name": "other"}}),
    "a manifest with a BOM": case({"name": "bom"}, '\ufeff{"name": "bom"}'),
    "a manifest in UTF-16": case({"name": "wide"}, '{"name": "wide"}'.encode("utf-16")),
    "Windows lines": case({"name": "w"}, '{\r\n  "name": "w"\r\n}\r\n'),
    "a broken manifest": case("not valid JSON", '{"name": "p",}'),
    "comments in JSON": case("not valid JSON", '{"name": "p" /* mine */}'),
    "an empty file": case("not valid JSON", ""),
    "a list": case("expected an object", [1]),
    "not UTF-8": case("not valid JSON", b'{"name": "\xff\xfe"}'),
    "nested without end": case("not valid JSON", '{"a":' * 100_000),
    "a manifest that is too large": case("too large", '{"name": "' + "a" * 1_100_000 + '"}'),
    "a manifest that is a folder": case(
        {"name": "p"}, None, {".claude-plugin/plugin.json/x": "odd"}
    ),
    "unknown keys": case(
        {"name": "p", "commands": ("commands",)},
        {"name": "p", "$schema": "x", "permissions": ["Bash(*)"], "settings": {"a": 1}, "x": None},
        BASE,
    ),
    "an author, a licence and more": case(
        {"name": "p", "version": "1.2.3-rc.1"},
        {
            "name": "p",
            "version": "1.2.3-rc.1",
            "author": {"name": "A", "email": "a@b.c"},
            "homepage": "https://x.org",
            "repository": {"type": "git", "url": "https://x.org/r"},
            "license": "MIT",
            "keywords": ["a", "b"],
        },
    ),
    "a version that is a number": case("version: expected a text", {"name": "p", "version": 1}),
    "a name that is a number": case("name: expected a text", {"name": 1}),
    "a name that is a path": case("found the plugin name", {"name": "a/b"}),
    "a name that leads up": case("found the plugin name", {"name": ".."}),
    "a name with a line break": case("found the plugin name", {"name": "a\nb"}),
    "a name with a space": case({"name": "My Tools"}, {"name": "My Tools"}),
    "a name in Chinese": case({"name": "工具"}, {"name": "工具"}),
    "a name that hides": case("expected a plain word", {"name": "a\u202eb"}),
    "a description of many lines": case(
        {"description": "One two"}, {"name": "p", "description": "One\n\n two "}
    ),
    # Commands and agents
    "commands as a text": case(
        {"commands": ("extra",)}, {"name": "p", "commands": "./extra"}, {"extra/a.md": COMMAND}
    ),
    "commands as a list": case(
        {"commands": ("a.md", "b")},
        {"name": "p", "commands": ["./a.md", "./b/"]},
        {"a.md": COMMAND, "b/c.md": COMMAND},
    ),
    "commands as an object": case(
        {"commands": ("a.md",)},
        {"commands": {"go": {"source": "./a.md", "description": "d"}}},
        {"a.md": COMMAND},
    ),
    "commands as an object with their text": case(
        {"commands": (), "not_used": "commands without a file"},
        {"name": "p", "commands": {"go": {"content": "Do it", "description": "d"}}},
    ),
    "commands without ./": case({"commands": ("x",)}, {"commands": "x"}, {"x/a.md": COMMAND}),
    "commands replace the usual folder": case(
        {"commands": ("x",)}, {"commands": ["./x"]}, {**BASE, "x/a.md": COMMAND}
    ),
    "no commands at all": case({"commands": ()}, {"commands": []}, BASE),
    "commands that are not there": case({"commands": ()}, {"commands": "./missing"}, BASE),
    "commands that lead out": case("leaves the plugin's folder", {"commands": "../../etc"}),
    "commands from the root": case("leaves the plugin's folder", {"commands": "/etc"}),
    "commands as a number": case("expected a path or a list of paths", {"commands": 3}),
    "commands null": case({"commands": ("commands",)}, {"commands": None}, BASE),
    "commands in a file": case({"commands": ()}, None, {"commands": "not a folder"}),
    "agents as files": case(
        {"agents": ("agents/critic.md",)}, {"agents": ["./agents/critic.md"]}, EVERYTHING
    ),
    "agents as an object": case("expected a path", {"agents": {"a": 1}}),
    # Skills
    "skills are added": case(
        {"skills": ("skills", "more")},
        {"skills": "./more"},
        {"skills/hi/SKILL.md": SKILL, "more/x/SKILL.md": SKILL},
    ),
    "skills of their folders": case(
        {"skills": ("s/one", "s/two")},
        {"skills": ["./s/one", "./s/two"]},
        {"s/one/SKILL.md": SKILL, "s/two/SKILL.md": SKILL},
    ),
    "the plugin itself is a skill": case({"skills": (".",)}, {"skills": "./"}, {"SKILL.md": SKILL}),
    "a skill and nothing else": case({"skills": (".",)}, None, {"SKILL.md": SKILL}),
    # Hooks
    "hooks in the manifest": case({"hooks": HOOK["hooks"]}, {"name": "p", **HOOK}),
    "hooks in the manifest, wrapped": case({"hooks": HOOK["hooks"]}, {"hooks": HOOK}),
    "hooks in a file of their own": case(
        {"hooks": HOOK["hooks"]}, {"hooks": "./h.json"}, {"h.json": HOOK}
    ),
    "hooks in two files": case(
        {"hooks": {"Stop": HOOK["hooks"]["Stop"] * 2}},
        {"hooks": ["./a.json", "./b.json"]},
        {"a.json": HOOK, "b.json": HOOK},
    ),
    "broken hooks": case("not valid JSON", None, {"hooks/hooks.json": "{"}),
    "hooks of another type": case("hooks: expected an object", {"hooks": 3}),
    "hooks in a missing file": case("No such file", {"hooks": "./missing.json"}),
    # Servers
    "servers in the manifest": case({"servers": SERVER}, {"mcpServers": SERVER}),
    "servers in a file": case(
        {"servers": SERVER}, {"mcpServers": "./m.json"}, {"m.json": {"mcpServers": SERVER}}
    ),
    "servers without their key": case({"servers": SERVER}, None, {".mcp.json": SERVER}),
    "servers in a list of files": case(
        {"servers": {**SERVER, "t": SERVER["s"]}},
        {"mcpServers": ["./a.json", "./b.json"]},
        {"a.json": SERVER, "b.json": {"mcpServers": {"t": SERVER["s"]}}},
    ),
    "a server over HTTP": case(
        {"servers": {"h": {"type": "http", "url": "https://x.org/mcp"}}},
        {"mcpServers": {"h": {"type": "http", "url": "https://x.org/mcp"}}},
    ),
    "a server that is no object": case({"servers": {}}, {"mcpServers": {"a": "npx x"}}),
    "servers of another type": case("mcpServers: expected an object", {"mcpServers": 3}),
    "servers out of the plugin": case("leaves", {"mcpServers": "../.mcp.json"}),
    # Language servers and output styles
    "language servers in the manifest": case({"languages": LSP}, {"lspServers": LSP}),
    "language servers in a file": case(
        {"languages": LSP}, {"lspServers": "./l.json"}, {"l.json": LSP}
    ),
    "language servers of another type": case("lspServers: expected an object", {"lspServers": 3}),
    "styles in a folder of their own": case(
        {"styles": ("s",)}, {"outputStyles": "./s"}, {"s/a.md": "Be short."}
    ),
    # Entries of the market
    "the market's entry is all": case(
        {"name": "p", "version": "2", "skills": ("x",)},
        None,
        {"x/SKILL.md": SKILL},
        {"name": "p", "version": "2", "strict": False, "skills": ["./x"]},
    ),
    "the entry wins where it is not strict": case(
        {"name": "e", "commands": ("x",)},
        {"name": "own", "commands": "./y"},
        {"x/a.md": COMMAND, "y/a.md": COMMAND},
        {"name": "e", "strict": False, "commands": "./x"},
    ),
    "the manifest wins otherwise": case(
        {"name": "own", "description": "of the market"},
        {"name": "own"},
        BASE,
        {"name": "e", "description": "of the market"},
    ),
    "hooks of the entry": case({"hooks": HOOK["hooks"]}, None, {}, {"name": "p", **HOOK}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_loads_or_is_rejected_in_one_line(tmp_path: Path, name: str) -> None:
    expected, manifest, files, entry = LAYOUTS[name]
    folder = tmp_path / "p"
    folder.mkdir()
    every = {**files, **({MANIFEST: manifest} if manifest is not None else {})}
    for path, content in every.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, (dict, list)):
            content = json.dumps(content)
        data = content if isinstance(content, bytes) else content.encode()
        (folder / path).write_bytes(data)
    installer = PluginInstaller(tmp_path / "kore")
    source = {"source": "folder", "path": str(folder)}
    if isinstance(expected, str):
        with pytest.raises(PluginError, match=expected) as refused:  # noqa: SIM117
            with installer.fetched(source, entry=entry):
                pass
        assert "\n" not in str(refused.value)
        return
    with installer.fetched(source, entry=entry) as review:
        result = {
            key: " ".join(review.manifest.not_used)
            if key == "not_used"
            else getattr(review.manifest, key)
            for key in expected
        }
        assert result == expected
        installer.install(review)
    assert list(installer.audit().values()) == [""]


def test_sixty_layouts_are_tested() -> None:
    assert len(LAYOUTS) >= 60
