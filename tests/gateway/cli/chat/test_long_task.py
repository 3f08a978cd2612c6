"""Long tasks, from planning to each kind of end."""

import json

import pytest

from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.chat.long_task_scene import FEATURES, Place


async def test_plan_is_made_without_other_changes(place: Place) -> None:
    code, err = await place.run("--init", "an account page")
    assert code == 0, err
    assert "3 features" in err
    assert [feature["passes"] for feature in place.mind.features()] == [False] * 3
    assert (place.work / ".kore" / "session_plan.md").exists()
    assert "an account page" in place.first_messages()[0]
    code, err = await place.run("--init", "again")
    assert (code, "already exists" in err) == (2, True)


async def test_missing_plan_is_an_error(place: Place) -> None:
    place.server.script("I would rather not")
    code, err = await place.run("--init", "x")
    assert code == 1
    assert "no valid feature_list.json" in err


@pytest.mark.parametrize("flag", ["--init", "--auto-continue"])
async def test_offline_stand_in_is_rejected_at_once_with_a_hint(place: Place, flag: str) -> None:
    (place.home / "config.json").write_text('{"http": {"port": 0}}')
    code, err = await place.run(flag, "an account page")
    assert code == 2
    assert err.count("stand-in") == 1
    assert "--model" in err
    assert not list((place.home / "long").glob("*.json"))
    assert not list(place.work.iterdir())


async def test_sessions_run_until_all_features_pass(place: Place) -> None:
    code, err = await place.run("--auto-continue", "an account page")
    assert code == 0, err
    assert "all 3 features pass, after 3 sessions" in err
    assert not list((place.home / "long").glob("*.json"))
    prompt = place.first_messages()[2]
    assert "1 of 3 features pass" in prompt
    assert "[x] log in" in prompt
    assert "[ ] log out" in prompt
    assert "1 pass. " + "x" * 1400 in prompt
    assert "x" * 1500 not in prompt
    systems = {str(request.body["messages"][0]["content"]) for request in place.server.requests}
    assert len(systems) == 1
    assert "log in" not in systems.pop()


async def test_completed_task_is_reported_as_complete(place: Place) -> None:
    place.plan(done=True)
    code, err = await place.run("--auto-continue")
    assert code == 0
    assert "── all 3 features pass\n" in err


async def test_number_of_sessions_is_limited(place: Place) -> None:
    place.plan()
    code, err = await place.run("--auto-continue", "--max-sessions", "2")
    assert code == 5
    assert "2 sessions are done; 2 of 3 features pass" in err


async def test_time_limit_applies_within_a_session(place: Place) -> None:
    place.plan()
    place.server.latency_s = 30
    code, err = await place.run("--auto-continue", "--max-hours", "0.0005")
    assert code == 5
    assert "time limit reached" in err


async def test_time_limit_applies_within_planning(place: Place) -> None:
    place.server.latency_s = 30
    code, err = await place.run("--auto-continue", "an account page", "--max-hours", "0.0005")
    assert code == 5
    assert "time limit reached; no valid feature_list.json" in err
    # The server may notice the broken connection only after we notice the end of the process.
    await place.server.wait_for(lambda: place.server.abandoned == len(place.first_messages()))
    assert len(place.first_messages()) <= 1


@pytest.mark.parametrize(("word", "code"), [("BLOCKED:no key", 3), ("DECIDE:red or blue?", 4)])
async def test_signal_ends_the_task_after_its_tools_have_run(
    place: Place, word: str, code: int
) -> None:
    place.plan()
    place.mind.says = f"<promise>{word}</promise>"
    assert (await place.run("--auto-continue"))[0] == code
    assert sum(feature["passes"] for feature in place.mind.features()) == 1


async def test_sessions_without_changes_end_the_task(place: Place) -> None:
    place.plan()
    place.mind.works = False
    code, err = await place.run("--auto-continue")
    assert code == 5
    assert "2 sessions in a row made no change to" in err


async def test_features_removed_by_a_command_are_detected(place: Place) -> None:
    place.trust()
    place.plan()
    shorter = json.dumps({"features": [{"description": FEATURES[0], "passes": True}]})
    place.server.script(
        ReplyScript(
            tool_calls=(Call("exec", {"command": f"echo '{shorter}' > feature_list.json"}),)
        ),
        "all done",
    )
    code, err = await place.run("--auto-continue")
    assert code == 1
    assert "more than pass marks has changed; check it" in err


async def test_second_command_in_the_same_folder_is_rejected(place: Place) -> None:
    place.plan()
    place.server.latency_s = 30
    first = await place.start("--auto-continue")
    await place.wait_for_request(first)
    code, err = await place.run("--auto-continue")
    first.kill()
    await first.communicate()
    assert code == 2
    assert "already running in" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("--auto-continue", "-c"),
            "a long task starts new sessions: -c, -s and -r cannot be used",
        ),
        (
            ("--init", "x", "--max-hours", "1"),
            "--max-sessions, --max-hours and --team require --auto-continue",
        ),
        (("--auto-continue", "--team", "explore,astronaut"), "unknown agent 'astronaut'"),
        (("--auto-continue", "--max-hours", "soon"), "expected hours such as 1.5"),
    ],
)
async def test_conflicting_flags_are_rejected(
    place: Place, words: tuple[str, ...], complaint: str
) -> None:
    code, err = await place.run(*words)
    assert code == 2
    assert complaint in err


async def test_missing_list_and_task_are_rejected(place: Place) -> None:
    code, err = await place.run("--auto-continue")
    assert code == 2
    assert "kore agent --init" in err


async def test_team_completes_several_features_in_a_session(place: Place) -> None:
    place.plan()
    code, err = await place.run("--auto-continue", "--team", "general, Review")
    assert code == 0, err
    assert "all 3 features pass, after 2 sessions" in err
    prompts = place.first_messages()
    assert "Work as a team: general, review" in prompts[0]
    # Team members get their instructions from the model that started them.
    (member,) = {item for item in prompts if item.startswith("Build: 1")}
    assert "Long work" not in member


async def test_turn_at_its_iteration_limit_exits_with_5(place: Place) -> None:
    place.server.script(ReplyScript(tool_calls=(Call("list_dir", {"path": "."}),)))
    assert (await place.run("--max-iter", "1", "-m", "go"))[0] == 5
