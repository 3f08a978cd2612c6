"""Description of the long task in a session's folder."""

import json
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.context.long_task import describe_progress, features_of, plan_of, taint_of
from agent.providers.scripted import ScriptedProvider
from agent.security.taint.taint import PRIVATE


def write(folder: Path, count: int = 2, passing: int = 0) -> None:
    features = [{"description": f"feature {n}", "passes": n < passing} for n in range(count)]
    (folder / "feature_list.json").write_text(json.dumps({"features": features}))


def test_progress_without_a_checklist_is_empty(tmp_path: Path) -> None:
    (tmp_path / "PROGRESS.md").write_text("much")
    assert describe_progress(tmp_path) == ""
    assert not taint_of(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"features": []}', '{"features": [{"passes": true}]}', "[" * 100_000]
)
def test_invalid_checklist_has_no_features(tmp_path: Path, text: str) -> None:
    (tmp_path / "feature_list.json").write_text(text)
    assert features_of(tmp_path) is None


def test_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    write(tmp_path)
    (inside / "feature_list.json").symlink_to(tmp_path / "feature_list.json")
    assert describe_progress(inside) == ""


def test_long_checklist_shows_the_current_feature(tmp_path: Path) -> None:
    write(tmp_path, 200, 100)
    progress = describe_progress(tmp_path)
    assert "100 of 200 features pass" in progress
    assert "[x] feature 99\n[ ] feature 100\n" in progress
    assert "and 140 more" in progress
    assert taint_of(tmp_path) == PRIVATE


def test_kodax_plan_is_used_if_it_is_the_only_plan(tmp_path: Path) -> None:
    assert plan_of(tmp_path) == ".kore/session_plan.md"
    (tmp_path / ".kodax").mkdir()
    (tmp_path / ".kodax" / "session_plan.md").write_text("x")
    assert plan_of(tmp_path) == ".kodax/session_plan.md"


async def test_library_turn_gets_the_progress_in_the_message(tmp_path: Path) -> None:
    write(tmp_path)
    model = ScriptedProvider(["ok"])
    await Agent(model, workspace=tmp_path).run("go")
    (message,) = model.requests[0].messages
    assert "feature 1" in str(message.content)
    assert "feature 1" not in model.requests[0].system
