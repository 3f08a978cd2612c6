from pathlib import Path

import pytest

from gateway.ops.doctor.checks import check_watches


@pytest.mark.parametrize(
    ("limit", "state"), [("8192\n", "warn"), ("524288\n", "ok"), ("odd", "ok"), (None, "ok")]
)
def test_low_watch_limit_is_reported_with_the_command_to_raise_it(
    tmp_path: Path, limit: str | None, state: str
) -> None:
    file = tmp_path / "max_user_watches"
    if limit is not None:
        file.write_text(limit)
    check = check_watches(file)
    assert check.state == state
    if state == "warn":
        assert check.detail == "up to 8,192 folders"
        assert "sysctl fs.inotify.max_user_watches=524288" in str(check.fix)
