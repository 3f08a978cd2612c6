"""Protection of feature_list.json, through the tools that write files."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.tools.files.feature_list import check_edit_allowed, is_same_plan

ITEM: dict[str, Any] = {"description": "a", "steps": ["x"], "passes": False}


def text(*items: dict[str, Any], **more: Any) -> str:
    return json.dumps({"features": list(items), **more})


LIST = Path("/w/feature_list.json")


CHANGED = {**ITEM, "passes": True}


@pytest.mark.parametrize("new", [text(CHANGED), json.dumps({"features": [CHANGED]}, indent=4)])
def test_status_may_change(new: str) -> None:
    check_edit_allowed(LIST, text(ITEM), new)


@pytest.mark.parametrize(
    "new",
    [
        text({**ITEM, "description": "b"}),
        text({**ITEM, "steps": []}),
        text({**ITEM, "note": "x"}),
        text(ITEM, ITEM),
        text(ITEM, version=2),
        text({**ITEM, "passes": "yes"}),
        text(),
        "",
        "not json",
    ],
)
def test_other_fields_may_not_change(new: str) -> None:
    with pytest.raises(ToolError, match='only the values of "passes" may change'):
        check_edit_allowed(LIST, text(ITEM), new)


def test_missing_checklist_is_another_plan() -> None:
    assert is_same_plan(text(ITEM), text(CHANGED))
    assert not is_same_plan(text(ITEM), "")
    assert not is_same_plan("", "")


@pytest.mark.parametrize(
    ("path", "old"),
    [(LIST, ""), (LIST, '{"features": "mine"}'), (Path("/w/other.json"), text(ITEM))],
)
def test_other_files_may_be_edited_freely(path: Path, old: str) -> None:
    check_edit_allowed(path, old, "anything")
