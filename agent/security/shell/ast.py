"""The words for a parsed shell script."""

from collections.abc import Mapping
from dataclasses import field

from agent.records import frozen


@frozen
class Redirect:
    """`op` as written (`>`, `2>&1` has `>&`, `<<<`); the target is None where it is computed.

    For a heredoc the target is its body.
    """

    op: str
    target: str | None


@frozen
class Command:
    """One simple command. `argv` is what the program would receive.

    An element is None where the shell computes it at run time, as is a program named by a
    pattern. `words` is the source text of each element. A redirection or an assignment that
    belongs to no program has an empty `argv`. `text` is the source of the whole command.
    """

    argv: tuple[str | None, ...]
    words: tuple[str, ...] = ()
    assignments: tuple[tuple[str, str | None], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    text: str = ""

    @property
    def program(self) -> str | None:
        """The program's name without its folder, folded; None where it is computed or absent."""
        name = self.argv[0] if self.argv else None
        return None if name is None else name.rsplit("/", 1)[-1].casefold()


@frozen
class Script:
    """Every command of the script written as `text`, outer before inner.

    `opaque` is one short reason why not all of it is understood, or None. `loops` holds the
    literal values that the variable of each loop takes, `sets` the names of all variables that
    get a value from a loop, an expansion or an expression.
    """

    text: str = ""
    commands: tuple[Command, ...] = ()
    opaque: str | None = None
    loops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: frozenset[str] = frozenset()
