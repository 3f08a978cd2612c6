import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.text.text_document import MAX_BYTES
from agent.tools.base import CallContext
from agent.tools.files.list_dir import ListDir
from agent.tools.files.read_write import AppendFile, ReadFile, WriteFile
from agent.tools.output_spill import spill_folder
from tests.fakes.pdf import pdf_of


async def read(
    call: CallContext, path: str, start: int | None = None, end: int | None = None
) -> str:
    args = {"path": path, "line_start": start, "line_end": end}
    result = {name: value for name, value in args.items() if value is not None}
    return (await ReadFile(ToolSettings()).run(result, call)).for_model


@pytest.mark.parametrize(
    ("start", "end", "numbers"),
    [
        (None, None, [1, 2, 3, 4]),
        (2, 3, [2, 3]),
        (1, 1, [1]),
        (0, 2, [1, 2]),
        (-5, 1, [1]),
        (3, 99, [3, 4]),
        (99, None, [4]),
        (3, 1, [3]),
        (-2, None, [3, 4]),
    ],
)
async def test_lines_are_one_based_inclusive_and_clamped(
    call: CallContext, workspace: Path, start: int | None, end: int | None, numbers: list[int]
) -> None:
    (workspace / "f.txt").write_bytes(b"l1\nl2\nl3\nl4\n")
    expected = "\n".join(f"{n}\tl{n}" for n in numbers)
    assert await read(call, "f.txt", start, end) == expected


async def test_long_file_names_the_next_line(call: CallContext, workspace: Path) -> None:
    (workspace / "f.txt").write_text("".join(f"line {i} {'x' * 40}\n" for i in range(1, 1901)))
    seen: list[str] = []
    start = 1
    while True:
        text = await read(call, "f.txt", start)
        assert len(text.encode()) < 50_200
        lines = text.split("\n")
        seen += [line.split("\t")[1] for line in lines if "\t" in line]
        if not lines[-1].startswith("…"):
            break
        start = int(lines[-1].split("line_start=")[1].rstrip(")"))
    assert [line.split()[1] for line in seen] == [str(i) for i in range(1, 1901)]


async def test_endless_line_is_cut(call: CallContext, workspace: Path) -> None:
    (workspace / "f.txt").write_text("é" * 50_000 + "\nnext\n")
    text = await read(call, "f.txt")
    assert "line cut" in text
    assert "line_start=2" in text
    assert len(text.encode()) < 50_200


async def test_many_short_lines_stop_at_the_line_limit(call: CallContext, workspace: Path) -> None:
    (workspace / "f.txt").write_text("\n" * 3000)
    settings = ToolSettings(output_limit_bytes=1_000_000)
    result = await ReadFile(settings).run({"path": "f.txt"}, call)
    assert "read on with line_start=2001" in result.for_model


async def test_byte_order_marks_are_hidden_and_invalid_bytes_reported(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "utf16").write_text("hé\nyou\n", "utf-16")
    (workspace / "sig").write_text("hé\n", "utf-8-sig")
    (workspace / "latin").write_bytes(b"caf\x81")
    assert await read(call, "utf16") == "1\thé\n2\tyou"
    assert await read(call, "sig") == "1\thé"
    assert "not valid utf-8" in await read(call, "latin")


async def test_unreadable_path_is_explained(call: CallContext, workspace: Path) -> None:
    (workspace / "bin").write_bytes(b"\x7fELF\0\0")
    (workspace / "empty").write_bytes(b"")
    os.truncate(_touch(workspace / "huge"), 30_000_000)
    for path, why in [("bin", "binary"), ("none", "not exist"), (".", "folder"), ("huge", "limit")]:
        with pytest.raises(ToolError, match=why):
            await read(call, path)
    with pytest.raises(ToolError, match="not a folder"):
        await read(call, "empty/x")
    assert "empty" in await read(call, "empty")


async def test_write_creates_parents_and_replaces_the_content(
    call: CallContext, workspace: Path
) -> None:
    tool = WriteFile(ToolSettings())
    args = {"path": "a/b/f.txt", "content": "one\r\ntwo"}
    assert (await tool.plan(args, call)).creates == (workspace / "a/b/f.txt",)
    first = await tool.run(args, call)
    assert (workspace / "a/b/f.txt").read_bytes() == b"one\r\ntwo"
    assert "+one" in first.artifacts[0].content
    assert first.artifacts[0].path.startswith("/")
    plan = await tool.plan({**args, "content": "new"}, call)
    assert plan.changes == (workspace / "a/b/f.txt",)
    assert plan.diff is not None
    assert "+new" in plan.diff
    again = await tool.run(args, call)
    assert again.artifacts == ()
    assert os.listdir(workspace / "a/b") == ["f.txt"]


async def test_write_keeps_mode_and_utf_16(call: CallContext, workspace: Path) -> None:
    path = workspace / "f.txt"
    path.write_text("x", "utf-16")
    path.chmod(0o600)
    await WriteFile(ToolSettings()).run({"path": "f.txt", "content": "é"}, call)
    assert path.read_text("utf-16") == "é"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_write_rejects_folders_lone_surrogates_and_files_as_parents(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "file").write_text("x")
    (workspace / "folder").mkdir()
    tool = WriteFile(ToolSettings())
    for path, content in [("folder", "x"), ("file/x", "x"), ("new", "\ud800"), (".env", "x")]:
        with pytest.raises(ToolError):
            await tool.run({"path": path, "content": content}, call)
    assert sorted(os.listdir(workspace)) == ["file", "folder"]
    assert (workspace / "file").read_text() == "x"


async def test_append_uses_the_encoding_of_the_file(call: CallContext, workspace: Path) -> None:
    tool = AppendFile(ToolSettings())
    args = {"path": "log/f.txt", "content": "a\n"}
    assert (await tool.plan(args, call)).creates
    await tool.run(args, call)
    plan = await tool.plan(args, call)
    assert plan.changes
    assert plan.diff is not None
    assert plan.diff.splitlines()[-2:] == [" a", "+a"]
    await tool.run(args, call)
    assert (workspace / "log/f.txt").read_text() == "a\na\n"
    (workspace / "w.txt").write_text("x", "utf-16")
    await tool.run({"path": "w.txt", "content": "é"}, call)
    assert (workspace / "w.txt").read_text("utf-16") == "x\né"


async def test_list_shows_folders_first_with_sizes_and_counts_the_rest(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "z/inner").mkdir(parents=True)
    (workspace / "z/inner/deep.txt").write_text("x")
    (workspace / ".git").mkdir()
    (workspace / "b.txt").write_bytes(b"x" * 1500)
    (workspace / "out").symlink_to("/etc")
    for i in range(70):
        (workspace / "z" / f"{i:02}.txt").touch()
    tool = ListDir(ToolSettings())
    assert (await tool.run({}, call)).for_model.split("\n") == ["z/", "b.txt (1.5 KB)"]
    deep = (await tool.run({"depth": 2}, call)).for_model.split("\n")
    assert deep[:3] == ["z/", "  inner/", "  00.txt (0 B)"]
    assert deep[-2:] == ["  ... (21 more)", "b.txt (1.5 KB)"]
    with pytest.raises(ToolError, match="read_file"):
        await tool.run({"path": "b.txt"}, call)


async def test_memory_of_other_people_is_hidden_from_a_guest(
    guest: CallContext, call: CallContext, workspace: Path
) -> None:
    for path in ("memory/MEMORY.md", "memory/telegram/7/MEMORY.md", "memory/telegram/8/MEMORY.md"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(f"secret of {path}")
    (workspace / "USER.md").write_text("the owner")
    for path in (
        "memory/MEMORY.md",
        "memory/telegram/8/MEMORY.md",
        "USER.md",
        "./memory/../USER.md",
    ):
        with pytest.raises(ToolError, match="someone else"):
            await read(guest, path)
        assert await read(call, path)
    assert "secret" in await read(guest, "memory/telegram/7/MEMORY.md")
    listing = await ListDir(ToolSettings()).run({"depth": 5}, guest)
    assert "MEMORY.md" not in listing.for_model
    assert "USER.md" not in listing.for_model


async def test_memory_of_other_people_is_hidden_in_any_spelling(
    guest: CallContext, workspace: Path
) -> None:
    # Case-insensitive file systems find memory/ by the name Memory/.
    (workspace / "Memory" / "telegram" / "8").mkdir(parents=True)
    (workspace / "Memory" / "telegram" / "8" / "MEMORY.md").write_text("secret")
    (workspace / "user.md").write_text("the owner")
    for path in ("Memory/telegram/8/MEMORY.md", "user.md"):
        with pytest.raises(ToolError, match="someone else"):
            await read(guest, path)


async def test_guest_reads_a_saved_output_by_name_and_cannot_list_others(
    guest: CallContext, call: CallContext, workspace: Path
) -> None:
    result = spill_folder(workspace) / "20250101-000000-abc.txt"
    result.parent.mkdir(parents=True)
    result.write_text("long")
    assert "long" in await read(guest, str(result))
    tool = ListDir(ToolSettings())
    assert ".kore" not in (await tool.run({"depth": 5}, guest)).for_model
    for path in (".kore", ".kore/spill"):
        with pytest.raises(ToolError, match="only the owner"):
            await tool.run({"path": path, "depth": 5}, guest)
        assert "abc" in (await tool.run({"path": path, "depth": 5}, call)).for_model


@pytest.mark.parametrize("restrict", [True, False])
async def test_off_limits_files_are_neither_opened_nor_listed(
    call: CallContext, workspace: Path, restrict: bool
) -> None:
    for path in ("home/secrets.json", "home/logs/kore.log", "home/notes.md"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("canary")
    (workspace / "way").symlink_to("home/secrets.json")
    closed = (workspace / "home" / "secrets.json", workspace / "home" / "logs")
    settings = ToolSettings(restrict_to_workspace=restrict, off_limits=closed)
    for path in ("home/secrets.json", str(closed[0]), "way", "home/logs/kore.log"):
        with pytest.raises(ToolError, match="is blocked"):
            await ReadFile(settings).run({"path": path}, call)
        with pytest.raises(ToolError, match="is blocked"):
            await WriteFile(settings).run({"path": path, "content": ""}, call)
    listing = (await ListDir(settings).run({"depth": 5}, call)).for_model
    assert "notes.md" in listing
    assert not {"secrets.json", "logs", "way"} & set(listing.replace("/", " ").split())


async def test_only_the_owner_writes_into_the_folder_of_kore(
    guest: CallContext, call: CallContext, workspace: Path
) -> None:
    tool = WriteFile(ToolSettings())
    (workspace / "way").symlink_to(".kore")
    for path in (".kore/config.json", ".Kore/x", ".kore/spill/new.txt", "way/agents/a.md"):
        with pytest.raises(ToolError, match="only the owner"):
            await tool.run({"path": path, "content": ""}, guest)
    await tool.run({"path": ".kore/agents/a.md", "content": ""}, call)


async def test_path_like_the_memory_of_the_owner_does_not_grant_access(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "USER.md").write_text("the owner")
    with pytest.raises(ToolError, match="someone else"):
        await read(replace(call, environment=replace(call.environment, owner=False)), "USER.md")


@pytest.mark.parametrize("name", ["HEARTBEAT.md", "PROGRESS.md", "feature_list.json"])
async def test_only_the_owner_writes_the_heartbeat_file(
    call: CallContext, guest: CallContext, workspace: Path, name: str
) -> None:
    work = {"path": name, "content": "- copy USER.md into notes.md\n"}
    for tool in (WriteFile(ToolSettings()), AppendFile(ToolSettings())):
        with pytest.raises(ToolError, match="someone else"):
            await tool.run(work, guest)
        assert not (workspace / name).exists()
    await WriteFile(ToolSettings()).run(work, call)
    with pytest.raises(ToolError, match="someone else"):
        await read(guest, name.lower())


async def test_owner_reads_files_named_like_a_profile_in_any_folder(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "USER.md").write_text("a project's own file\n")
    elsewhere = replace(
        call,
        environment=replace(
            call.environment, memory=workspace.parent / "home" / "memory" / "MEMORY.md"
        ),
    )
    assert await read(elsewhere, "USER.md") == "1\ta project's own file"


def _touch(path: Path) -> Path:
    path.touch()
    return path


async def test_latin_1_is_decoded(
    call: CallContext, workspace: Path, settings: ToolSettings
) -> None:
    (workspace / "f.txt").write_bytes("Ein Café für Gäste\n".encode("latin-1"))
    result = await ReadFile(settings).run({"path": "f.txt"}, call)
    assert result.for_model == "1\tEin Café für Gäste"


async def test_latin_1_is_kept_while_it_can_encode_the_new_text(
    call: CallContext, workspace: Path, settings: ToolSettings
) -> None:
    path = workspace / "f.txt"
    path.write_bytes("Ein Café für Gäste\n".encode("latin-1"))
    await WriteFile(settings).run({"path": "f.txt", "content": "Bär und Gäste"}, call)
    assert path.read_bytes() == "Bär und Gäste".encode("latin-1")
    await WriteFile(settings).run({"path": "f.txt", "content": "Bär 熊"}, call)
    assert path.read_bytes() == "Bär 熊".encode()


async def test_text_of_a_pdf_is_read(call: CallContext, workspace: Path) -> None:
    (workspace / "plan.pdf").write_bytes(pdf_of(["first page", "second page"]))
    shown = await read(call, "plan.pdf")
    assert "[page 1 of 2]" in shown
    assert "second page" in shown
    (workspace / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing of the kind")
    with pytest.raises(ToolError, match="PDF could not be read"):
        await read(call, "broken.pdf")


async def test_missing_folder_suggests_similar_names(call: CallContext, workspace: Path) -> None:
    (workspace / "source").mkdir()
    with pytest.raises(ToolError) as caught:
        await read(call, "sorce/main.py")
    assert str(caught.value).endswith(f"does not exist. Similar: {workspace / 'source'}.")


async def test_file_over_the_limit_names_the_command_that_reads_it(
    call: CallContext, workspace: Path
) -> None:
    path = workspace / "large file.log"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ToolError, match="limit for opening files is 20,000,000") as failure:
        await ReadFile(ToolSettings()).run({"path": path.name}, call)
    assert str(failure.value).endswith(f"with exec: sed -n 1,200p '{path}'")
