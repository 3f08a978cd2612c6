"""No interface of Kore shows a link that carries a secret, or changes a harmless link."""

from pathlib import Path

import pytest

from tests.agent.security.taint.rendered_links import targets_of_links
from tests.injection.faces import FACES, HARMLESS, HOSTILE, Face, Scenario
from tests.injection.scene import CANARY

EVERY_FACE = pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)


def test_hostile_answer_has_links_with_a_secret() -> None:
    assert len([link for link in targets_of_links(HOSTILE) if CANARY in link]) == 7


@EVERY_FACE
async def test_links_with_a_secret_are_sent_as_code(face: Face, tmp_path: Path) -> None:
    shown = await face(Scenario(tmp_path, HOSTILE, tainted=True))
    assert CANARY in shown.replace("\n", ""), "the answer did not arrive"
    assert not targets_of_links(shown)


@EVERY_FACE
async def test_harmless_links_stay(face: Face, tmp_path: Path) -> None:
    shown = await face(Scenario(tmp_path, HARMLESS, tainted=False))
    assert "https://docs.example/page" in shown
