"""Notebooks are read and edited as cells; the JSON of other cells is preserved byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.edit import EditFile
from agent.tools.files.patch import ApplyPatch
from agent.tools.files.read_write import AppendFile, ReadFile, WriteFile
from agent.types import ToolResult
from tests.agent.notebooks import CELLS, PIXEL, notebook_json
from tests.agent.undo.scene import Scene


@pytest.fixture
def notebook(workspace: Path) -> Path:
    path = workspace / "sales.ipynb"
    path.write_text(notebook_json(CELLS))
    return path


async def read(call: CallContext, **args: Any) -> ToolResult:
    return await ReadFile(ToolSettings()).run({"path": "sales.ipynb", **args}, call)


async def edit(call: CallContext, old: str, new: str) -> ToolResult:
    args = {"path": "sales.ipynb", "old_string": old, "new_string": new}
    return await EditFile(ToolSettings()).run(args, call)


def with_cells(path: Path, *cells: dict[str, Any]) -> None:
    path.write_text(notebook_json(list(cells)))


async def test_reading_shows_cells_with_numbers_and_outputs(
    call: CallContext, notebook: Path
) -> None:
    result = await read(call)
    assert result.for_model.startswith(
        "1\t[cell 1: markdown]\n2\t# Sales\n3\tof 2026\n4\t[cell 2: code]\n"
    )
    assert (
        "[output of cell 2]\n100 %\ndone\n[picture 1]\n<Figure size 640x480>\n"
        "[output of cell 3]\nNameError: name 'x' is not defined\n" in result.for_model
    )
    assert [image.data for image in result.images if hasattr(image, "data")] == [PIXEL]


async def test_reading_a_part_shows_only_outputs_of_its_cells(
    call: CallContext, notebook: Path
) -> None:
    result = await read(call, line_start=7)
    assert "[output of cell 3]" in result.for_model
    assert "[output of cell 2]" not in result.for_model
    assert not result.images


async def test_long_output_is_cut_and_names_its_command(call: CallContext, notebook: Path) -> None:
    output = {"name": "stdout", "output_type": "stream", "text": "x" * 9_000}
    with_cells(notebook, {**CELLS[1], "outputs": [output]})
    text = (await read(call)).for_model
    assert len(text) < 6_000
    assert f"(9,000 characters; all: jq '.cells[0].outputs' {notebook})" in text


async def test_outputs_leave_room_for_the_source(call: CallContext, notebook: Path) -> None:
    output = {"name": "stdout", "output_type": "stream", "text": "y" * 3_900}
    with_cells(notebook, *({**CELLS[1], "outputs": [output]} for _ in range(40)))
    text = (await read(call)).for_model
    assert len(text.encode()) < ToolSettings().read_limit_bytes + 500
    assert "[cell 40: code]" in text
    assert "do not fit" in text


async def test_edit_changes_the_source_of_one_cell_only(call: CallContext, notebook: Path) -> None:
    before = notebook.read_text()
    result = await edit(call, "frame.sum()", "frame.sum()\nframe.mean()  # größer")
    after = notebook.read_text()
    assert after == before.replace(
        '"frame.sum()"\n', '"frame.sum()\\n",\n    "frame.mean()  # größer"\n'
    )
    assert result.artifacts[0].content.endswith(
        " [cell 3: code]\n frame.sum()\n+frame.mean()  # größer"
    )


async def test_approval_shows_the_cells(call: CallContext, notebook: Path) -> None:
    args = {"path": "sales.ipynb", "old_string": "of 2026", "new_string": "of 2027"}
    plan = await EditFile(ToolSettings()).plan(args, call)
    assert plan.diff is not None
    assert "-of 2026\n+of 2027\n [cell 2: code]" in plan.diff


def test_undo_restores_the_bytes_and_shows_the_cells(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "workspace", tmp_path / "undo")
    path = scene.root / "sales.ipynb"
    before = notebook_json(CELLS)
    path.write_text(before)
    scene.call("edit_file", path="sales.ipynb", old_string="of 2026", new_string="of 2027")
    result = scene.call("undo")
    assert path.read_text() == before
    assert "-of 2027\n+of 2026\n [cell 2: code]" in result.artifacts[0].content


async def test_new_cell_is_added_with_an_id(call: CallContext, notebook: Path) -> None:
    result = await edit(call, "[cell 3: code]", "[new cell: markdown]\n## Totals\n\n[cell 3: code]")
    cells = json.loads(notebook.read_text())["cells"]
    assert [cell["id"] for cell in cells[:2]] == ["intro", "load"]
    assert cells[2]["cell_type"] == "markdown"
    assert cells[2]["source"] == ["## Totals"]
    assert len(cells[2]["id"]) == 8
    assert cells[3] == CELLS[2]
    assert "[cell 4: code]" in result.for_model


async def test_deleting_and_moving_cells_leaves_the_others_unchanged(
    call: CallContext, notebook: Path
) -> None:
    await edit(
        call,
        "[cell 1: markdown]\n# Sales\nof 2026\n[cell 2: code]\nimport pandas as pd\n"
        "frame = pd.read_csv('größe.csv')\n[cell 3: code]\nframe.sum()\n",
        "[cell 3: code]\nframe.sum()\n[cell 1: markdown]\n# Sales\nof 2026\n",
    )
    assert notebook.read_text() == notebook_json([CELLS[2], CELLS[0]])


async def test_cell_changes_its_type(call: CallContext, notebook: Path) -> None:
    await edit(call, "[cell 2: code]", "[cell 2: raw]")
    cell = json.loads(notebook.read_text())["cells"][1]
    assert cell == {
        "cell_type": "raw",
        "id": "load",
        "metadata": {"tags": ["x"]},
        "source": CELLS[1]["source"],
    }


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("[cell 1: markdown]\n# Sales", "# Sales", "before the first cell"),
        ("[cell 3: code]", "[cell 9: code]", "no cell 9"),
        ("[cell 3: code]", "[cell 2: code]", "occurs twice"),
    ],
)
async def test_impossible_edit_is_refused_before_anybody_is_asked(
    call: CallContext, notebook: Path, old: str, new: str, error: str
) -> None:
    args = {"path": "sales.ipynb", "old_string": old, "new_string": new}
    with pytest.raises(ToolError, match=error):
        await EditFile(ToolSettings()).plan(args, call)


async def test_patch_edits_cells(call: CallContext, notebook: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: sales.ipynb\n@@\n [cell 3: code]\n"
        "-frame.sum()\n+frame.mean()\n*** End Patch"
    )
    before = notebook.read_text()
    await ApplyPatch(ToolSettings()).run({"input": patch}, call)
    assert notebook.read_text() == before.replace("frame.sum()", "frame.mean()")


async def test_cells_written_as_a_whole_keep_their_outputs(
    call: CallContext, notebook: Path
) -> None:
    args = {"path": "sales.ipynb", "content": "[cell 2: code]\nimport polars\n"}
    await WriteFile(ToolSettings()).run(args, call)
    assert notebook.read_text() == notebook_json([{**CELLS[1], "source": ["import polars"]}])


async def test_new_notebook_is_written_as_cells(call: CallContext, workspace: Path) -> None:
    content = "[new cell: markdown]\n# Title\n[new cell: code]\nprint(1)\n"
    await WriteFile(ToolSettings()).run({"path": "new.ipynb", "content": content}, call)
    written = json.loads((workspace / "new.ipynb").read_text())
    assert [cell["source"] for cell in written["cells"]] == [["# Title"], ["print(1)"]]
    assert written["cells"][1]["outputs"] == []
    assert written["nbformat"] == 4


async def test_text_is_not_appended_to_a_notebook(call: CallContext, notebook: Path) -> None:
    with pytest.raises(ToolError, match="is a notebook"):
        await AppendFile(ToolSettings()).run({"path": "sales.ipynb", "content": "x"}, call)
