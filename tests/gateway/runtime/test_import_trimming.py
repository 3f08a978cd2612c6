"""Imports of libraries without unused packages."""

import importlib
import subprocess
import sys
import threading

import pytest

from gateway.runtime.import_trimming import hidden

# A separate process, since the libraries are fully imported in this one.
VALIDATED = """
import sys
from gateway.cli.program import run
assert run(["config", "validate"]) == 0
loader = sys.modules["pydantic.plugin._loader"]
print(loader.__file__.rpartition("/")[2], "importlib.metadata" in sys.modules)
"""
IMPORTED_BEFORE = """
from pydantic.plugin import _loader
from gateway.runtime.import_trimming import disable_pydantic_plugins
disable_pydantic_plugins()
import pydantic
pydantic.create_model("Model")
from pydantic.plugin import _loader
print(_loader.__file__.rpartition("/")[2])
"""
OPENED = """
import gateway.channels.telegram.opening
import click, cryptography, httpx, telegram.request
print(httpx.Client().get, telegram.request.HTTPXRequest().read_timeout)
"""
FORGOTTEN = """
import telegram
from gateway.channels.telegram.opening import drop_docstrings
drop_docstrings(telegram)
person = telegram.User.de_json({"id": 5, "is_bot": False, "first_name": "A"})
print(telegram.Message.__doc__, person.id)
"""


def last_line(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_commands_load_no_pydantic_plugins() -> None:
    assert last_line(VALIDATED) == "no_pydantic_plugins.py False"


def test_program_that_has_imported_pydantic_keeps_its_plugins() -> None:
    assert last_line(IMPORTED_BEFORE) == "_loader.py"


def test_telegram_leaves_every_package_usable() -> None:
    assert last_line(OPENED).endswith(" 5.0")


def test_unused_library_data_is_released() -> None:
    assert last_line(FORGOTTEN) == "None 5"


def test_hidden_package_is_missing_in_this_thread_only() -> None:
    sys.modules.pop("colorsys", None)
    with hidden("colorsys"):
        with pytest.raises(ImportError):
            importlib.import_module("colorsys")
        thread = threading.Thread(target=importlib.import_module, args=("colorsys",))
        thread.start()
        thread.join()
        assert sys.modules.get("colorsys") is not None
    assert importlib.import_module("colorsys").rgb_to_hsv


def test_hidden_package_can_be_imported_afterwards() -> None:
    sys.modules.pop("colorsys", None)
    with hidden("colorsys"), pytest.raises(ImportError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_hsv
