"""How a file spells its fields."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    separator: str = ","
    quote: str = '"'
    line_end: str = "\n"


DEFAULT = Dialect()
EXCEL = Dialect(separator=";", line_end="\r\n")
TABS = Dialect(separator="\t")
