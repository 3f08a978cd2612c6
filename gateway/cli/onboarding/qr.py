"""QR codes for the terminal, in half blocks or in plain ASCII."""

import codecs
from collections.abc import Iterator, Sequence

# Light modules around the code. The standard requires four; readers accept two.
_BORDER = 2
_RESET = "\x1b[0m"
# Colours 16 and 231 of the 256-colour palette, which themes do not change: black on white.
_DARK, _LIGHT = "16", "231"


def qr_lines(text: str, columns: int, *, encoding: str, colours: bool) -> list[str]:
    """Return the lines of the code; an empty list if the terminal is too narrow.

    Without `colours`, a dark background is assumed and the light modules are drawn.
    """
    import segno

    matrix = segno.make(text, error="l", micro=False).matrix_iter(border=_BORDER)
    rows = [[bool(module) for module in row] for row in matrix]
    if _has_blocks(encoding) and len(rows[0]) <= columns:
        return list(_halves(rows, colours=colours))
    if 2 * len(rows[0]) <= columns:
        return list(_doubles(rows, colours=colours))
    return []


def _has_blocks(encoding: str) -> bool:
    try:
        "▀▄█".encode(codecs.lookup(encoding).name)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _halves(rows: Sequence[Sequence[bool]], *, colours: bool) -> Iterator[str]:
    """Yield one line of text for two rows of modules."""
    padded = [*rows, [False] * len(rows[0])] if len(rows) % 2 else list(rows)
    start, end = (f"\x1b[38;5;{_DARK};48;5;{_LIGHT}m", _RESET) if colours else ("", "")
    for upper, lower in zip(padded[::2], padded[1::2], strict=True):
        pairs = zip(upper, lower, strict=True)
        yield start + "".join(_half(a == colours, b == colours) for a, b in pairs) + end


def _half(upper: bool, lower: bool) -> str:
    """Return the character for these halves."""
    return {(True, True): "█", (True, False): "▀", (False, True): "▄"}.get((upper, lower), " ")


def _doubles(rows: Sequence[Sequence[bool]], *, colours: bool) -> Iterator[str]:
    """Yield one line per row with two characters per module, so that modules are about square."""
    for row in rows:
        if colours:
            cells = (f"\x1b[48;5;{_DARK if dark else _LIGHT}m  " for dark in row)
            yield "".join(cells) + _RESET
        else:
            yield "".join("  " if dark else "##" for dark in row)
