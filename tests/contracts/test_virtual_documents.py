"""Files planned, checked and written together, and edits that are refused."""

from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.settings import LspSettings
from agent.tools.files.draft_check import INSIST
from tests.contracts.code_servers import CodeCalls, code_calls, copy_project, only

BASKET = "shop/basket.py"
ITEMS = "shop/items.py"
WRONG = 'TOTAL: int = "much"\n'


def _wish(calls: CodeCalls, tool: str, path: str) -> dict[str, str]:
    """Return arguments of a writing tool that introduce an error."""
    text = (calls.folder / path).read_text()
    first = text.splitlines()[0]
    match tool:
        case "edit_file":
            return {"path": path, "old_string": first, "new_string": f"{first}\n{WRONG}"}
        case "write_file":
            return {"path": path, "content": text + WRONG}
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{first}\n+{first}\n+{WRONG}"
    return {"input": f"{patch}*** End Patch"}


@pytest.mark.parametrize("tool", ["edit_file", "write_file", "apply_patch"])
async def test_edit_with_new_errors_is_rejected_unless_forced(tmp_path: Path, tool: str) -> None:
    folder = copy_project("python", tmp_path)
    async with code_calls(folder, only("ty", before_write="block")) as calls:
        before = (folder / ITEMS).read_text()
        calls.see(ITEMS)
        wish = _wish(calls, tool, ITEMS)
        with pytest.raises(ToolError, match=r"Nothing was written(.|\n)*shop/items\.py:\d+:"):
            await calls.run(tool, **wish)
        assert (folder / ITEMS).read_text() == before
        # The server has the disk's text again, not the refused text.
        assert "Nothing is wrong" in (await calls.ask("diagnostics", ITEMS)).for_model
        result = await calls.run(tool, **wish, **{INSIST: "the next edit adds what is missing"})
        assert "New errors" in result.for_model
        assert WRONG in (folder / ITEMS).read_text()


async def test_rejected_write_asks_for_no_approval(tmp_path: Path) -> None:
    folder = copy_project("python", tmp_path)
    async with code_calls(folder, only("ty", before_write="block")) as calls:
        calls.see(ITEMS)
        with pytest.raises(ToolError, match="Nothing was written"):
            await calls.plan("write_file", path=ITEMS, content=WRONG)
        assert INSIST in calls.parameters("write_file")


async def test_force_parameter_needs_the_blocking_setting(tmp_path: Path) -> None:
    async with code_calls(copy_project("python", tmp_path), only("ty")) as calls:
        assert INSIST not in calls.parameters("write_file")


@pytest.mark.counterpart("ty")
async def test_several_files_are_planned_and_written_together(tmp_path: Path) -> None:
    folder = copy_project("python", tmp_path)
    async with code_calls(folder, only("ty")) as calls:
        wish = {"path": "shop/tax.py", "content": 'def tax(cents: int) -> int:\n    return "x"\n'}
        text = (await calls.run("create_virtual", **wish)).for_model
        assert "shop/tax.py:2:" in text
        assert not (folder / "shop" / "tax.py").exists()
        change = {"path": "shop/tax.py", "old_string": '"x"', "new_string": "cents // 5"}
        text = (await calls.run("update_virtual", **change)).for_model
        assert "error" not in text
        first = (folder / BASKET).read_text().splitlines()[0]
        change = {
            "path": BASKET,
            "old_string": first,
            "new_string": f"{first}\nfrom shop.tax import tax\n",
        }
        text = (await calls.run("update_virtual", **change)).for_model
        # The plan is valid even though shop/tax.py is not on the disk.
        assert "error" not in text
        plan = await calls.plan("sync_virtual")
        assert [path.name for path in plan.changes] == ["basket.py"]
        assert [path.name for path in plan.creates] == ["tax.py"]
        assert "+from shop.tax import tax" in (plan.diff or "")
        await calls.run("sync_virtual")
        assert (folder / "shop" / "tax.py").read_text().endswith("cents // 5\n")
        assert " error: " not in (await calls.ask("diagnostics", BASKET)).for_model
        with pytest.raises(ToolError, match="Nothing is planned"):
            await calls.run("sync_virtual")


@pytest.mark.counterpart("ty")
async def test_plan_for_a_changed_file_is_not_written(tmp_path: Path) -> None:
    folder = copy_project("python", tmp_path)
    async with code_calls(folder, only("ty")) as calls:
        wish = {"path": ITEMS, "old_string": "price", "new_string": "cost", "replace_all": True}
        await calls.run("update_virtual", **wish)
        (folder / ITEMS).write_text("# by the person\n")
        with pytest.raises(ToolError, match="has changed meanwhile"):
            await calls.run("sync_virtual")
        assert (folder / ITEMS).read_text() == "# by the person\n"


async def test_planned_bytes_are_limited(tmp_path: Path) -> None:
    async with code_calls(copy_project("python", tmp_path), only("ty")) as calls:
        await calls.run("create_virtual", path="a.txt", content="x" * 4_999_999)
        with pytest.raises(ToolError, match="can be planned at once"):
            await calls.run("create_virtual", path="b.txt", content="xx")
        with pytest.raises(ToolError, match="outside"):
            await calls.run("create_virtual", path="../b.txt", content="xx")


async def test_grammars_report_syntax_errors_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "a.rb").write_text("def total\n  1\nend\n")
    async with code_calls(tmp_path, LspSettings(before_write="block")) as calls:
        assert await calls.lines("document_symbols", "a.rb") == ["1-3 def total"]
        calls.see("a.rb")
        with pytest.raises(
            ToolError, match=r"Nothing was written(.|\n)*a\.rb:\d+:\d+ error: syntax"
        ):
            await calls.run("write_file", path="a.rb", content="def total(\n  1\nend\n")
        await calls.run("write_file", path="a.rb", content="def total\n  2\nend\n")
