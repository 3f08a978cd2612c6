"""Import of python-telegram-bot without unused packages."""

import importlib
import sys
import threading

import pytest

from gateway.channels.telegram.library import hidden


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
