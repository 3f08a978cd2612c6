"""Removal of links from replies of conversations with untrusted and private content.

Every reply passes here when it is put into the outbox, regardless of its author and its fields. An
address becomes code, which no client turns into a link. Where code is impossible, in the name of a
file or on a button, the address is spelled so that it does not work as a link.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from agent.security.taint.taint import BOTH, TaintState
from agent.types import Taint
from gateway.core.messages import Button, Entity, OutboundFile, OutboundPart

_CODE = frozenset({"code", "pre"})
# Entities that only change the look of text; any other entity may be a link.
_LOOKS = _CODE | {"bold", "italic", "underline", "strikethrough", "spoiler"}
_LOOKS |= {"blockquote", "expandable_blockquote"}
_JOINTS = re.compile(r"[.:]")
_NOT_IN_NAMES = re.compile(r"[./:?#@&=%]")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")

_Span = tuple[int, int]


def defuse_part(part: OutboundPart, *, is_markdown: bool, is_read: bool) -> OutboundPart:
    """Return the part without links in any field.

    `is_markdown`: its text is unrendered markdown. `is_read`: its text has already been cleared of
    all links except permitted ones.
    """
    if is_read:
        text, entities = part.text, part.entities
    elif is_markdown:
        text, entities = _without_links(part.text), part.entities
    else:
        text, entities = part.text, _entities(part)
    return OutboundPart(
        text,
        entities,
        tuple(Button(defuse_line(button.label), button.data) for button in part.buttons),
        tuple(_file(file) for file in part.files),
    )


def defuse_line(text: str) -> str:
    """Return a text without formatting, with each address spelled as `example[.]org`."""
    for start, end in reversed(_addresses(text)):
        harmless = _JOINTS.sub(lambda match: f"[{match[0]}]", text[start:end])
        text = f"{text[:start]}{harmless}{text[end:]}"
    return text


def plain_part(part: OutboundPart) -> OutboundPart:
    """Return the part without formatting, and without links in code that loses its formatting."""
    spans = _characters(part.text, [entity for entity in part.entities if entity.type in _CODE])
    text = part.text
    for start, end in reversed(_merge_spans(spans)):
        text = f"{text[:start]}{defuse_line(text[start:end])}{text[end:]}"
    return replace(part, text=text, entities=())


def _file(file: OutboundFile) -> OutboundFile:
    """Return the file with its name defused.

    The content is unchanged, because a person opens it as a file.
    """
    if not _addresses(file.name):
        return file
    ending = _ENDING.search(file.name)
    stem = file.name[: ending.start()] if ending else file.name
    return replace(file, name=_NOT_IN_NAMES.sub("_", stem) + (ending[0] if ending else ""))


def _entities(part: OutboundPart) -> tuple[Entity, ...]:
    looks = [entity for entity in part.entities if entity.type in _LOOKS]
    text = part.text
    for start, end in _characters(text, [look for look in looks if look.type in _CODE]):
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    at = _units(part.text)
    links = [(at[start], at[end]) for start, end in _addresses(text)]
    pieces = [piece for look in looks for piece in _outside(look, links)]
    code = [Entity("code", start, end - start) for start, end in links]
    return tuple(sorted([*pieces, *code], key=lambda item: (item.offset, -item.length)))


def _outside(entity: Entity, links: Sequence[_Span]) -> Iterator[Entity]:
    """Yield the rest of an entity outside of code, where platforms allow nothing else."""
    start, end = entity.offset, entity.offset + entity.length
    for first, last in links:
        if last <= start or first >= end:
            continue
        if first > start:
            yield replace(entity, offset=start, length=first - start)
        start = last
    if start < end:
        yield replace(entity, offset=start, length=end - start)


def _characters(text: str, entities: Iterable[Entity]) -> list[_Span]:
    """Return the spans of the entities, in characters of the text."""
    index = {unit: number for number, unit in enumerate(_units(text))}
    last = len(text)
    return [
        (index.get(entity.offset, 0), index.get(entity.offset + entity.length, last))
        for entity in entities
    ]


def _merge_spans(spans: Iterable[_Span]) -> list[_Span]:
    union: list[_Span] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _units(text: str) -> list[int]:
    """Return the UTF-16 offset of each character and of the end."""
    return [0, *accumulate(2 if char > "\uffff" else 1 for char in text)]


def _none(address: str) -> bool:
    return False


def defuse_answer(markdown: str, exposure: TaintState) -> str:
    """Return the answer without links that could carry private data away.

    Untrusted addresses remain only if they were charged to the budget of the turn's answers.
    """
    if not exposure.is_dangerous:
        return markdown
    return _without_links(markdown, exposure.is_shown, exposure.is_own)


def quiet(markdown: str, taint: frozenset[Taint]) -> str:
    """Return a text of Kore, without any link if the session has both taints."""
    return _without_links(markdown) if taint >= BOTH else markdown


# Imported in the functions: only a conversation that could leak data needs the patterns.
def _without_links(
    markdown: str,
    is_shown: Callable[[str], bool] = _none,
    is_own: Callable[[str], bool] = _none,
) -> str:
    from agent.security.taint.link_stream import defuse_links

    return defuse_links(markdown, is_shown, is_own)


def _addresses(text: str) -> Sequence[_Span]:
    from agent.security.taint.link_defusing import addresses

    return list(addresses(text))
