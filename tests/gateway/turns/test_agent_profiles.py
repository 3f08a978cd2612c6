from pathlib import Path

from agent.i18n import speaking
from agent.subagents.catalog import Catalogue, Places
from agent.subagents.definition import BUILT_IN
from gateway.turns.agent_profiles import PURPOSES, purpose


def test_what_every_agent_of_kore_is_for_is_said_in_the_language_of_the_person(
    tmp_path: Path,
) -> None:
    found = Catalogue(Places(tmp_path, tmp_path, ())).load(tmp_path).values()
    own = [one for one in found if one.source == BUILT_IN]
    assert sorted(map(purpose, own)) == sorted(PURPOSES)
    with speaking("zh-Hant"):
        assert all("。" in purpose(one) for one in own)
