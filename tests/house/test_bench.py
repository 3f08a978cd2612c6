"""Files that the benchmarks read exist; nothing else checks this, as benchmarks run by hand."""

from importlib import import_module
from pathlib import Path

import pytest

from bench.__main__ import PARTS, module_of


@pytest.mark.parametrize("part", PARTS)
def test_files_read_by_benchmarks_exist(part: str) -> None:
    module = import_module(module_of(part))
    files = [value for value in vars(module).values() if isinstance(value, Path) and value.suffix]
    assert [file for file in files if not file.exists()] == []
