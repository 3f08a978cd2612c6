"""Text to schedule."""

from cronline.fields import FIELDS
from cronline.schedule import Schedule


class CronError(ValueError):
    """A line that cannot be understood."""


def parse(line):
    """The schedule of a line of five fields."""
    parts = line.lower().split()
    if len(parts) != len(FIELDS):
        raise CronError(f"found {len(parts)} fields, expected {len(FIELDS)}")
    minutes, hours, days, months, weekdays = (
        parse_field(part, field) for part, field in zip(parts, FIELDS)
    )
    if 7 in weekdays:
        weekdays = (weekdays - {7}) | {0}
    return Schedule(minutes, hours, days, months, weekdays, parts[2] != "*", parts[4] != "*")


def parse_field(text, field):
    """The numbers that a field stands for: lists of *, n, n-m, each with /step."""
    numbers = set()
    for item in text.split(","):
        numbers |= _parse_item(item, field)
    return numbers


def _parse_item(item, field):
    span, _, step_text = item.partition("/")
    step = int(step_text) if step_text else 1
    if span == "*":
        low, high = field.low, field.high
    elif "-" in span:
        low, high = (_number(word, field) for word in span.split("-", 1))
    else:
        low = high = _number(span, field)
    return set(range(low, high + 1, step))


def _number(word, field):
    if word in field.words:
        return field.words[word]
    if not word.isdigit() or not field.low <= int(word) <= field.high:
        raise CronError(f"{field.name}: {word!r} is not between {field.low} and {field.high}")
    return int(word)
