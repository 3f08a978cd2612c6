"""Options of `kore`'s verbs."""

import argparse
from collections.abc import Iterator


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every option of a verb and of its subcommands, and the subcommands' names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield name
                yield from flags(part)
        elif "-h" not in action.option_strings:
            yield from action.option_strings
