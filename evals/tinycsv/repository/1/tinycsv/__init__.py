"""Comma-separated values, small."""

from tinycsv.reader import read_dicts, read_rows
from tinycsv.writer import write_dicts, write_rows

__all__ = ["read_dicts", "read_rows", "write_dicts", "write_rows"]
