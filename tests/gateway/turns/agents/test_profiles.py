from pathlib import Path

from agent.i18n import use_locale
from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from agent.subagents.definition import BUILT_IN
from gateway.turns.agents.profiles import PURPOSES, summary_of


def test_built_in_agent_summaries_are_translated(
    tmp_path: Path,
) -> None:
    values = SubagentCatalog(CatalogPaths(tmp_path, tmp_path, ())).load(tmp_path).values()
    own = [item for item in values if item.source == BUILT_IN]
    assert sorted(map(summary_of, own)) == sorted(PURPOSES)
    with use_locale("zh-Hant"):
        assert all("。" in summary_of(item) for item in own)
