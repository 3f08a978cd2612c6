"""What argparse says of a command line that it refuses, in the language that is spoken."""

import re

from agent.i18n import later, t

# Its sentences, as each of our Python versions has them, and the same with fields.
_SENTENCES = (
    (r"unrecognized arguments: (?P<words>.*)", later("unrecognized arguments: {words}")),
    (
        r"the following arguments are required: (?P<names>.*)",
        later("the following arguments are required: {names}"),
    ),
    (
        r"one of the arguments (?P<names>.*) is required",
        later("one of the arguments {names} is required"),
    ),
    (
        r"ambiguous option: (?P<option>.*) could match (?P<matches>.*)",
        later("ambiguous option: {option} could match {matches}"),
    ),
    (r"expected one argument", later("expected one argument")),
    (r"expected at most one argument", later("expected at most one argument")),
    (r"expected at least one argument", later("expected at least one argument")),
    (r"expected (?P<n>[0-9]+) arguments?", later("expected {n} arguments")),
    (r"not allowed with argument (?P<other>.*)", later("not allowed with argument {other}")),
    (
        r"invalid choice: (?P<found>.*) \(choose from (?P<known>.*)\)",
        later("invalid choice: {found} (choose from {known})"),
    ),
    (
        r"invalid (?P<kind>\w+) value: (?P<found>.*)",
        later("invalid {kind} value: {found}"),
    ),
    (r"ignored explicit argument (?P<found>.*)", later("ignored explicit argument {found}")),
)
_OF_ARGUMENT = re.compile(r"argument (?P<name>[^:]+): (?P<said>.*)", re.DOTALL)


def refusal(message: str) -> str:
    """The sentence of argparse looked up; one that is not known here stays as it is."""
    if of := _OF_ARGUMENT.fullmatch(message):
        return t("argument {name}: {said}", name=of["name"], said=refusal(of["said"]))
    for pattern, text in _SENTENCES:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return t(text, **found.groupdict())
    return message
