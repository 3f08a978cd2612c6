"""A hundred skills in published layouts: each loads, or one line says why not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.skills.catalog import SkillCatalog, SkillPaths
from tests.agent.skills.skill_files import catalog, write
from tests.gateway.cli.kore import kore

D = "description: Makes PDF files.\n"
# Fields as written next to a description, and the remark about each.
FIELDS = {
    "name": ("name: {place}\n", ""),
    "quoted name": ('name: "{place}"\n', ""),
    "single quotes": ("name: '{place}'\n", ""),
    "another name": ("name: other\n", "not that of its folder"),
    "capitals": ("name: PDF Maker\n", "single hyphens"),
    "chinese name": ("name: 制作文档\n", "single hyphens"),
    "underscores": ("name: pdf_maker\n", "single hyphens"),
    "number": ("name: 42\n", "not that of its folder"),
    "list as name": ("name: [a, b]\n", "single hyphens"),
    "null name": ("name: null\n", ""),
    "empty name": ("name:\n", ""),
    "license": ("license: Apache-2.0\n", ""),
    "long license": ("license: Complete terms in LICENSE.txt\n", ""),
    "compatibility": ("compatibility: Needs git, docker and jq\n", ""),
    "metadata": ("metadata:\n  author: ann\n  version: '1.0'\n", ""),
    "deep metadata": ("metadata: {openclaw: {requires: {bins: [uv]}}}\n", ""),
    "metadata as JSON": ('metadata: {"clawdbot":{"emoji":"📄","os":["linux"]}}\n', ""),
    "version": ("version: 1.2.3\n", ""),
    "version number": ("version: 1.0\n", ""),
    "tools as words": ("allowed-tools: Read Bash(git:*) Write\n", "never grants"),
    "tools with commas": ("allowed-tools: Read, Write, Bash\n", "never grants"),
    "tools as a list": ("allowed-tools:\n  - Read\n  - Bash(npm run *)\n", "never grants"),
    "tools in brackets": ("allowed-tools: [Read, Grep]\n", "never grants"),
    "all tools": ('allowed-tools: "*"\n', "never grants"),
    "underscored tools": ("allowed_tools: Read\n", "never grants"),
    "when": ("when_to_use: When a PDF is asked for\n", ""),
    "hint": ("argument-hint: [file] [pages]\n", "read line by line"),
    "quoted hint": ('argument-hint: "<file>"\n', ""),
    "arguments": ("arguments: file pages\n", ""),
    "argument list": ("arguments: [file, pages]\n", ""),
    "for people": ("disable-model-invocation: true\n", ""),
    "for people, yes": ("disable-model-invocation: yes\n", ""),
    "for the model": ("user-invocable: false\n", ""),
    "fork": ("context: fork\nagent: Explore\n", ""),
    "model": ("model: sonnet\n", ""),
    "inherit": ("model: inherit\n", ""),
    "effort": ("effort: high\n", ""),
    "bad effort": ("effort: 9000\n", "not one of none"),
    "paths": ('paths: "src/**/*.ts, lib/**"\n', ""),
    "paths as a list": ("paths:\n  - '*.py'\n  - '*.pyi'\n", ""),
    "hooks": ("hooks:\n  PreToolUse:\n    - matcher: Bash\n", "no effect"),
    "tags": ("tags: [pdf, office]\n", "no effect"),
    "category": ("category: office\n", "no effect"),
    "author": ("author: Ann <ann@example.org>\n", "no effect"),
    "triggers": ("triggers:\n  - make a pdf\n  - 做一个PDF\n", "no effect"),
    "emoji": ("emoji: 📄\n", "no effect"),
    "homepage": ("homepage: https://example.org/a?b=c#d\n", "no effect"),
    "twice": ("license: MIT\nlicense: GPL\n", ""),
    "comment": ("# made by hand\nlicense: MIT # or so\n", ""),
    "an anchor": ("license: &x MIT\nmetadata: *x\n", "read line by line"),
    "a tag": ("license: !!python/object:os.system x\n", ""),
    "a tab": ("metadata:\n\tauthor: ann\n", "read line by line"),
    "unclosed quote": ('license: "MIT\n', "read line by line"),
    "unclosed bracket": ("tags: [a, b\n", "read line by line"),
}
# The description itself.
DESCRIPTIONS = {
    "colon": ("description: Use when: a PDF is asked for\n", "read line by line"),
    "two colons": ("description: TRIGGER: pdf: any\n", "read line by line"),
    "quoted": ('description: "Use when: a, b"\n', ""),
    "single quotes": ("description: 'It''s for PDF'\n", ""),
    "folded": ("description: >\n  Makes\n  PDF files.\n", ""),
    "folded, stripped": ("description: >-\n  Makes\n  PDF files.\n", ""),
    "literal": ("description: |\n  Makes\n  PDF files.\n", ""),
    "on the next line": ("description:\n  Makes PDF files.\n", ""),
    "continued": ("description: Makes\n  PDF files.\n", ""),
    "as a list": ("description:\n  - Makes PDF\n  - Reads PDF\n", ""),
    "chinese": ("description: 当用户需要制作PDF时使用。\n", ""),
    "full-width colon": ("description: 用途:制作PDF\n", ""),
    "emoji": ("description: 📄 Makes PDF files ✨\n", ""),
    "a dialogue": (
        "description: Use it. Examples:\n<example>\nuser: hi\n</example>\n",
        "read line by line",
    ),
    "html": ("description: <b>Makes</b> PDF & more\n", ""),
    "at sign": ("description: @ann makes PDF\n", "read line by line"),
    "backtick": ("description: `pdf` maker\n", "read line by line"),
    "percent": ("description: %PDF maker\n", "read line by line"),
    "star": ("description: **Makes** PDF\n", "read line by line"),
    "a hash": ("description: Makes C# and PDF\n", ""),
    "a number": ("description: 42\n", ""),
    "capital key": ("Description: Makes PDF files.\n", ""),
    "blank before the colon": ("description : Makes PDF files.\n", ""),
    "too long": (f"description: {'word ' * 400}\n", "longer than 1,024"),
    "escape sequences": ('description: "Makes \\e[31mred\\e[0m PDF"\n', ""),
    "right to left": ("description: Makes \u202efdp\u202c files\n", ""),
}
# Whole files.
FILES: dict[str, tuple[bytes, str]] = {
    "line ends of Windows": (f"---\r\n{D.strip()}\r\n---\r\nB".encode(), ""),
    "line ends of old Macs": (f"---\r{D.strip()}\r---\rB".encode(), ""),
    "a byte order mark": (f"\ufeff---\n{D}---\nB".encode(), ""),
    "UTF-16": (f"---\n{D}---\nB".encode("utf-16"), ""),
    "Latin-1": (b"---\ndescription: Caf\xe9 menus\n---\nB", "not text"),
    "a zero byte": (f"---\n{D}---\nB\0B".encode(), ""),
    "blank lines first": (f"\n\n---\n{D}---\nB".encode(), ""),
    "blanks behind the dashes": (f"---  \n{D}---\t\nB".encode(), ""),
    "dots at the end": (f"---\n{D}...\nB".encode(), ""),
    "never closed": (f"---\n{D}\nB".encode(), ""),
    "a rule in the body": (f"---\n{D}---\nB\n\n---\n\nC".encode(), ""),
    "no body": (f"---\n{D}---\n".encode(), ""),
    "no last line end": (f"---\n{D}---".encode(), ""),
    "a large body": (f"---\n{D}---\n{'x' * 300_000}".encode(), "longer than 256,000"),
}
# Files that are not skills.
NONE: dict[str, bytes] = {
    "empty": b"",
    "only a text": b"# PDF maker\n\nMakes PDF files.",
    "no description": b"---\nname: x\n---\nB",
    "an empty description": b"---\nname: x\ndescription:\n---\nB",
    "a map as description": b"---\ndescription: {a: b}\n---\nB",
    "blanks": b"---\ndescription: '   '\n---\nB",
    "a list": b"---\n- a\n- b\n---\nB",
    "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
}


def layouts() -> Iterator[tuple[str, bytes, str]]:
    """Yield titles, files and remarks."""
    for title, (fields, remark) in FIELDS.items():
        yield f"fields: {title}", f"---\n{fields}{D}---\nB".encode(), remark
    for title, (description, remark) in DESCRIPTIONS.items():
        yield f"description: {title}", f"---\n{description}---\nB".encode(), remark
    for title, (data, remark) in FILES.items():
        yield f"file: {title}", data, remark


def test_there_are_a_hundred_layouts() -> None:
    assert len([*layouts(), *NONE]) >= 100


def test_all_layouts_load_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In nested folders and next to files that are not skills."""
    skills = catalog(tmp_path)
    top = tmp_path / "user" / ".claude" / "skills"
    for n, (_, data, _) in enumerate(layouts()):
        if b"\nname:" not in data:
            write(top / ("office" if n % 2 else "office/deep"), f"skill-{n}", data)
    for n, data in enumerate(NONE.values()):
        write(top, f"none-{n}", data or b"\n")
    expected = {f"skill-{n}" for n, (_, data, _) in enumerate(layouts()) if b"\nname:" not in data}
    assert set(skills.load()) == expected
    skills.load()
    warnings = [message for message in caplog.messages if "is not a skill" in message]
    assert len(warnings) == len(NONE)
    assert all(line.isprintable() for line in skills.listing(tmp_path).splitlines())


@pytest.mark.parametrize(
    ("title", "data", "remark"), [*layouts()], ids=[layout[0] for layout in layouts()]
)
def test_published_layout_loads(tmp_path: Path, title: str, data: bytes, remark: str) -> None:
    skills = catalog(tmp_path)
    data = data.replace(b"{place}", b"pdf")
    write(tmp_path / "own" / "skills", "pdf", data)
    [skill] = skills.load().values()
    assert skill.description.isprintable()
    assert skill.description.strip()
    assert skill.body[:1] == "B" or title in (
        "file: no body",
        "file: no last line end",
        "file: a large body",
    )
    lines = (*skill.remarks, *skill.notes)
    assert all(line.isprintable() and "\n" not in line for line in lines)
    assert any(remark in line for line in lines) if remark else lines == ()


@pytest.mark.parametrize("data", NONE.values(), ids=NONE)
def test_unloadable_file_is_explained_in_one_line(tmp_path: Path, data: bytes) -> None:
    place = write(tmp_path, "pdf", data or b"\n")
    answer = kore("skills", "validate", place, home=tmp_path / "kore")
    assert answer.returncode != 0
    assert "no description" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


async def test_skills_of_an_untrusted_folder_do_not_change_the_prompt(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for program in (".claude", ".agents", ".kore"):
        text = "---\nname: canary-name\ndescription: CANARY words\n---\nCANARY body"
        write(project / program / "skills", "canary", text)
    for name in ("one", "two"):
        write(tmp_path / "own" / "skills", name)
    (tmp_path / "user").mkdir()
    (tmp_path / "workspace").mkdir()
    paths = SkillPaths(tmp_path / "user", tmp_path / "own", tmp_path / "workspace")
    model = ScriptedProvider(["done"] * 3)
    agent = Agent(model, workspace=project, skills=SkillCatalog(paths))
    async with agent:
        for word in ("canary-name", "two", "three"):
            await agent.run(f"Say {word}", session="s")
    assert "CANARY" not in repr(model.requests)
    assert "- one: " in model.requests[0].system
    assert len({request.system for request in model.requests}) == 1
    assert len({repr(request.tools) for request in model.requests}) == 1
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
