"""Reads files into dictionaries, by their suffix."""

import configparser
import json
from pathlib import Path

from layerconf.errors import ConfigError


def read_file(path):
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    reader = READERS.get(path.suffix)
    if reader is None:
        raise ConfigError(f"{path}: unknown suffix {path.suffix!r}")
    try:
        return reader(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read_ini(text):
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {name: dict(parser[name]) for name in parser.sections()}


READERS = {".json": json.loads, ".ini": _read_ini}
