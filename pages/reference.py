"""Reference pages of the site, generated from the code at each build of the site."""

import argparse
from collections.abc import Iterator
from types import ModuleType

from gateway.cli.verb_table import VERBS
from gateway.commands.table import COMMANDS

_MADE = "Made of the code when this site was built."


def commands() -> str:
    """Return a page of every verb with its options, and every chat command."""
    lines = ["# Every command", "", _MADE, "What they mean: [cli.md](cli.md).", ""]
    lines += ["| in a shell | options | description |", "| --- | --- | --- |"]
    for verb in VERBS:
        parser = argparse.ArgumentParser(prog=f"kore {verb.name}", add_help=False)
        verb.add_arguments(parser)
        lines += list(_rows(parser, f"kore {verb.name}", verb.summary))
    lines += ["", "In a chat ([chat-commands.md](chat-commands.md)):", ""]
    lines += ["| command | description |", "| --- | --- |"]
    lines += [f"| `/{name}` | {_cell(one.summary)} |" for name, one in COMMANDS.items()]
    return "\n".join([*lines, ""])


def library() -> str:
    """Return a page of every name of `import kore`; mkdocstrings fills in the docstrings."""
    import kore

    lines = [
        "# Every name of the library",
        "",
        _MADE,
        "How to use it: [library.md](library.md).",
        "",
    ]
    for name in kore.__all__:
        if not name.startswith("_") and not isinstance(getattr(kore, name), ModuleType):
            lines += [f"::: kore.{name}", ""]
    for options in ("run.options.RunOptions", "api.AgentOptions", "api.CallOptions"):
        lines += [
            f"::: agent.{options}",
            "    options: {show_if_no_docstring: true, inherited_members: true}",
            "",
        ]
    lines += ["Events are on a [page of their own](events.md).", "", "::: kore.otel.OpenTelemetry"]
    return "\n".join([*lines, ""])


PAGES = {
    "all-commands.md": ("Every command", commands),
    "all-names.md": ("Every name of the library", library),
}


def _rows(parser: argparse.ArgumentParser, name: str, summary: str) -> Iterator[str]:
    """Yield rows for a verb and each of its subcommands."""
    options, parts = [], list[tuple[str, argparse.ArgumentParser, str]]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {one.dest: one.help or "" for one in action._choices_actions}
            parts = [(word, part, told.get(word, "")) for word, part in action.choices.items()]
        elif action.option_strings:
            if "-h" not in action.option_strings:
                options.append(action.option_strings[-1])
        else:
            options.append(action.metavar if isinstance(action.metavar, str) else action.dest)
    if not parts:
        quoted = " ".join(f"`{_cell(one)}`" for one in options)
        yield f"| `{name}` | {quoted} | {_cell(summary)} |"
    for word, part, help_ in parts:
        yield from _rows(part, f"{name} {word}", help_ or summary)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")
