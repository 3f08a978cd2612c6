"""python3 -m tinycsv FILE --to excel|tabs|default"""

import argparse
import sys
from pathlib import Path

from tinycsv.dialect import DEFAULT, EXCEL, TABS
from tinycsv.reader import read_rows
from tinycsv.sniff import guess_dialect
from tinycsv.writer import write_rows

DIALECTS = {"default": DEFAULT, "excel": EXCEL, "tabs": TABS}


def main(words=None):
    parser = argparse.ArgumentParser(prog="tinycsv", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--to", choices=sorted(DIALECTS), default="default")
    arguments = parser.parse_args(words)
    text = arguments.file.read_text(encoding="utf-8")
    rows = read_rows(text, guess_dialect(text))
    sys.stdout.write(write_rows(rows, DIALECTS[arguments.to]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
