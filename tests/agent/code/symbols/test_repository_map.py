"""The repository map: most used files first, each file read once."""

import os
from pathlib import Path

import pytest

from agent.code.symbols.repository_map import MAX_CHARS, MapTimeouts, RepositoryMaps, rank
from agent.code.symbols.tags import FileTags, tags_of
from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.types import ToolResult
from tests.agent.props import call_context

CORE = "class ShoppingCart:\n    def add_item(self, one): ...\n\n\ndef unused_helper(): ...\n"
USER = (
    "from core import ShoppingCart\n\n\ndef page_{n}():\n    return ShoppingCart().add_item({n})\n"
)


async def _answer(maps: RepositoryMaps, folder: Path) -> ToolResult:
    return await maps.answer(
        folder, call_context("outline", folder), WorkspaceScope(ToolSettings())
    )


async def _whole(maps: RepositoryMaps, folder: Path) -> str:
    """Return the map once all files have been read."""
    while "looked at so far" in (text := (await _answer(maps, folder)).for_model):
        pass
    return text


def _project(folder: Path) -> Path:
    (folder / "core.py").write_text(CORE)
    for n in range(6):
        (folder / f"page_{n}.py").write_text(USER.replace("{n}", str(n)))
    (folder / "notes.txt").write_text("ShoppingCart\n")
    (folder / ".gitignore").write_text("built/\n")
    (folder / "built").mkdir()
    (folder / "built" / "bundle.js").write_text("function ShoppingCart() {}\n")
    return folder


async def test_most_used_files_come_first(tmp_path: Path) -> None:
    maps = RepositoryMaps()
    lines = (await _whole(maps, _project(tmp_path))).splitlines()
    assert lines[:3] == ["core.py", "  1 class ShoppingCart:", "  2 def add_item(self, one): ..."]
    assert "built" not in "\n".join(lines)
    await maps.aclose()


async def test_only_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = _project(tmp_path)
    maps = RepositoryMaps()
    await _whole(maps, folder)
    before = dict(maps.known_files(folder))
    (folder / "core.py").write_text(CORE.replace("ShoppingCart", "WarehouseCart"))
    assert "WarehouseCart" in await _whole(maps, folder)
    after = maps.known_files(folder)
    changed = {path.name for path in after if after[path] is not before[path]}
    assert changed == {"core.py"}
    await maps.aclose()


async def test_closed_files_and_links_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("class Outside: ...\n")
    folder = tmp_path / "work"
    folder.mkdir()
    _project(folder)
    (folder / "link.py").symlink_to(outside)
    (folder / ".env").mkdir()
    (folder / ".env" / "secret.py").write_text("class Secret: ...\n")
    os.mkfifo(folder / "pipe.py")
    maps = RepositoryMaps()
    text = await _whole(maps, folder)
    assert "Outside" not in text
    assert "Secret" not in text
    await maps.aclose()


async def test_map_size_is_limited(tmp_path: Path) -> None:
    for n in range(60):
        text = "".join(f"def function_{n}_{m}(argument): ...\n" for m in range(50))
        (tmp_path / f"file_{n}.py").write_text(text)
    (tmp_path / "hostile.json").write_text("[" * 100_000)
    maps = RepositoryMaps()
    text = await _whole(maps, tmp_path)
    assert len(text) < MAX_CHARS + 1_000
    await maps.aclose()


async def test_slow_parser_gives_partial_maps_that_grow(tmp_path: Path) -> None:
    """Without time for an answer, each one contains more files than the one before."""
    for n in range(60):
        (tmp_path / f"file_{n}.py").write_text(f"def function_{n}(argument): ...\n")
    maps = RepositoryMaps(timeouts=MapTimeouts(answer_s=0, first_file_s=60))
    counts = []
    while not counts or counts[-1] < 60:
        result = await _answer(maps, tmp_path)
        assert "def function_" in result.for_model
        assert result.for_user is not None
        counts.append(int(result.for_user.split()[0]))
    assert counts[0] > 0
    assert counts == sorted(set(counts))
    await maps.aclose()


async def test_map_without_any_read_file_lists_the_names(tmp_path: Path) -> None:
    maps = RepositoryMaps(timeouts=MapTimeouts(answer_s=0, first_file_s=0))
    lines = (await _answer(maps, _project(tmp_path))).for_model.splitlines()
    assert lines == [
        "core.py",
        *(f"page_{n}.py" for n in range(6)),
        "… (of 7 files 0 were looked at so far; ask again for the others)",
    ]
    await maps.aclose()


async def test_folder_without_code_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("words\n")
    with pytest.raises(ToolError, match="no code"):
        await _answer(RepositoryMaps(), tmp_path)


def test_tags_of_a_file() -> None:
    tags = tags_of(b"class A:\n    pass\n\n\ndef b(c):\n    return A(c, c)\n", Path("a.py"))
    assert tags.definitions == (("A", 1, "class A:"), ("b", 5, "def b(c):"))
    assert dict(tags.names) == {"A": 2, "b": 1, "c": 3}
    assert FileTags.from_json(tags.to_json()) == tags


def test_common_names_have_little_weight() -> None:
    common = (("run", 1, "def run():"),)
    tags = {f"f{n}": FileTags(common, (("run", 50),)) for n in range(10)}
    tags["core"] = FileTags((("load_settings", 1, "def load_settings():"),), ())
    tags["f1"] = FileTags(common, (("run", 50), ("load_settings", 1)))
    ranking = rank(tags)
    assert sum(ranking.files.values()) == pytest.approx(1)
    assert ranking.files["core"] == max(ranking.files.values())
    assert rank({}).files == {}
