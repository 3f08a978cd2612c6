import subprocess
import sys

# A separate process, since the libraries are fully imported in this one.
LOADED = """
import sys
from gateway.cli.program import run
assert run(["config", "validate"]) == 0
sources = sys.modules["pydantic_settings.sources.providers.cli"]
print(getattr(sources, "__file__", None), "pydantic_settings.sources.providers.env" in sys.modules)
"""
KEPT = """
import pydantic_settings
from gateway.runtime.import_trimming import leave_out_sources
leave_out_sources()
print(pydantic_settings.sources.providers.cli.__file__)
"""
FORGOTTEN = """
import telegram
from gateway.channels.telegram.library import drop_docstrings
drop_docstrings(telegram)
person = telegram.User.de_json({"id": 5, "is_bot": False, "first_name": "A"})
print(telegram.Message.__doc__, person.id)
"""


def last_line(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_only_used_settings_sources_are_imported() -> None:
    assert last_line(LOADED) == "None True"


def test_library_imported_earlier_stays_complete() -> None:
    assert last_line(KEPT).endswith("cli.py")


def test_unused_library_data_is_released() -> None:
    assert last_line(FORGOTTEN) == "None 5"
