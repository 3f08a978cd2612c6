from pathlib import Path

from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.config.diff import update
from gateway.config.key_catalog import is_at_once
from tests.gateway.config.loading import load


def test_reload_applies_only_live_settings(tmp_path: Path) -> None:
    running = load(tmp_path, {"agent": {"max_iterations": 3}, "http": {"port": 1}})
    new_settings = load(
        tmp_path,
        {"agent": {"max_iterations": 4}, "http": {"port": 2}, "telegram": {"enabled": True}},
    )
    diff = update(running, new_settings)
    assert diff.changed_keys == ("agent.max_iterations",)
    assert diff.restart_keys == ("http.port", "telegram.enabled")
    assert diff.settings.agent.max_iterations == 4
    assert diff.settings.http.port == 1
    assert not TELEGRAM.section_of(diff.settings).enabled
    assert update(diff.settings, new_settings).restart_keys == diff.restart_keys


def test_allowed_senders_reload_but_a_bot_token_does_not(
    tmp_path: Path,
) -> None:
    def bots(token: str, *people: int) -> dict[str, object]:
        bot = {"name": "b", "token": token, "allow_from": list(people)}
        return {"telegram": {"accounts": [bot]}}

    running = load(tmp_path, bots("1:one", 5))
    assert update(running, load(tmp_path, bots("1:one", 6))).changed_keys == ("telegram.accounts",)
    diff = update(running, load(tmp_path, bots("2:two", 6)))
    assert (diff.changed_keys, diff.restart_keys) == ((), ("telegram.accounts",))
    assert TELEGRAM.section_of(diff.settings).accounts == TELEGRAM.section_of(running).accounts


def test_keys_apply_at_once_if_their_section_does() -> None:
    assert is_at_once(("limits", "tokens_per_turn"))
    assert is_at_once(("model_list",))
    assert not is_at_once(("store", "url"))
