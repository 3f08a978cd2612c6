"""Short tests of the fuzzer; `make fuzz` is the long run."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.commands import DiskChanged, Range, bubblewrap, make
from tests.fuzz.inputs import texts
from tests.fuzz.run import Target, fuzz
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_target_survives_a_short_run(name: str, tmp_path: Path) -> None:
    outcome = fuzz(TARGETS[name], 0.2, 1, tmp_path)
    assert outcome.executions >= 20
    assert outcome.crash is None, outcome.report()


def test_crash_is_found_minimized_and_saved(tmp_path: Path) -> None:
    def breaks(scratch: Path) -> Callable[[str], None]:
        def check(text: str) -> None:
            if "needle" in text:
                raise LookupError("found it")

        return check

    make = texts(("some hay", "more hay"), ("needle",))
    outcome = fuzz(Target("hay", make, breaks), 60, 1, tmp_path)
    assert outcome.crash is not None
    assert outcome.crash.literal == "'needle'"
    assert "found it" in outcome.report()
    lines = outcome.crash.keep(tmp_path / "crashes").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("# target: hay", "'needle'")


def test_line_misjudged_as_read_only_is_found(tmp_path: Path) -> None:
    box = bubblewrap()
    if box is None:
        pytest.skip("bubblewrap is not installed")
    target = Range(tmp_path, box, lambda line, folder, workspace: True)
    target.check(["ls -l", "cat a | sort", "git status", "echo x > /tmp/x"])
    assert target.ran == 4
    for line, name in (
        ("touch new", "new"),
        ("chmod 600 a", "a"),
        ("git tag new", "refs/tags/new"),
    ):
        with pytest.raises(DiskChanged, match=name):
            target.check(["ls", line, "cat a"])


def test_read_only_lines_write_nothing(tmp_path: Path) -> None:
    box = bubblewrap()
    if box is None:
        pytest.skip("bubblewrap is not installed")
    target, random = Range(tmp_path, box), Random(11)
    for _ in range(15):
        target.check(make(random))
    assert target.ran > 15
