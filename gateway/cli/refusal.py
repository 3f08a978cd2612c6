"""What argparse says of a command line that it refuses, in the language that is spoken."""

import re

from agent.i18n import mark_for_translation, t

# Its sentences, as each of our Python versions has them, and the same with fields.
_SENTENCES = (
    (
        r"unrecognized arguments: (?P<words>.*)",
        mark_for_translation("unrecognized arguments: {words}"),
    ),
    (
        r"the following arguments are required: (?P<names>.*)",
        mark_for_translation("the following arguments are required: {names}"),
    ),
    (
        r"one of the arguments (?P<names>.*) is required",
        mark_for_translation("one of the arguments {names} is required"),
    ),
    (
        r"ambiguous option: (?P<option>.*) could match (?P<matches>.*)",
        mark_for_translation("ambiguous option: {option} could match {matches}"),
    ),
    (r"expected one argument", mark_for_translation("expected one argument")),
    (r"expected at most one argument", mark_for_translation("expected at most one argument")),
    (r"expected at least one argument", mark_for_translation("expected at least one argument")),
    (r"expected (?P<n>[0-9]+) arguments?", mark_for_translation("expected {n} arguments")),
    (
        r"not allowed with argument (?P<other>.*)",
        mark_for_translation("not allowed with argument {other}"),
    ),
    (
        r"invalid choice: (?P<found>.*) \(choose from (?P<known>.*)\)",
        mark_for_translation("invalid choice: {found} (choose from {known})"),
    ),
    (
        r"invalid (?P<kind>\w+) value: (?P<found>.*)",
        mark_for_translation("invalid {kind} value: {found}"),
    ),
    (
        r"ignored explicit argument (?P<found>.*)",
        mark_for_translation("ignored explicit argument {found}"),
    ),
)
_OF_ARGUMENT = re.compile(r"argument (?P<name>[^:]+): (?P<said>.*)", re.DOTALL)


def translate_argparse_error(message: str) -> str:
    """The sentence of argparse looked up; one that is not known here stays as it is."""
    if of := _OF_ARGUMENT.fullmatch(message):
        return t(
            "argument {name}: {said}", name=of["name"], said=translate_argparse_error(of["said"])
        )
    for pattern, text in _SENTENCES:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return t(text, **found.groupdict())
    return message
