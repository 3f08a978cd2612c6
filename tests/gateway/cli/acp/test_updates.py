"""Updates about tool calls in an editor."""

from collections import Counter
from pathlib import Path

from agent.events import ToolResulted
from gateway.cli.acp.updates import SentText, TurnUpdates


def test_results_are_fenced_despite_their_markup() -> None:
    updates = TurnUpdates(Path("/"), Counter(), SentText())
    picture = "```\n![](https://evil.example/secret.png)"
    (update,) = updates.of(ToolResulted("c1", "exec", picture, is_error=False, elapsed_s=0.1))
    assert update.content[0].content.text == f"````\n{picture}\n````"
