"""Import of KodaX's newer sessions, which are trees of entries with the conversation as one branch.

Entries are `{"_type": "lineage_entry", "entry": {"id", "parentId", "type", …}}`. The branch ends at
`activeEntryId` of the metadata line or of the last `meta_update` that names one. After a
compaction, a branch begins with an entry `compaction`, whose summary replaces the earlier messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SUMMARIES = {
    "compaction": "[Summary of what was said before]",
    "branch_summary": "[Summary of another branch that was left]",
}


def entry(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry of a line, which may also be the line itself."""
    inner = record.get("entry")
    return inner if isinstance(inner, dict) else record


def active_branch(records: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the conversation's entries; `records` are all lines."""
    parents = {
        str(item.get("id")): item.get("parentId")
        for item in _entries(records)
        if item.get("type") != "label"
    }
    active = _latest(records, "activeEntryId")
    leaf: object = active if active in parents else next(reversed(parents), None)
    ids: set[str] = set()
    while leaf is not None and str(leaf) in parents and str(leaf) not in ids:
        ids.add(str(leaf))
        leaf = parents[str(leaf)]
    return frozenset(ids)


def title(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the current title of the session."""
    meta = records[0]
    if "taint" in meta:
        # Kore wrote this file, so its metadata line is newer than any update.
        records = records[:1]
    return _latest(records, "title")


def messages_of(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages that an entry of the branch represents."""
    kind, message = item.get("type"), item.get("message")
    if kind == "message" and isinstance(message, dict):
        return [message]
    summary = item.get("summary")
    if kind not in _SUMMARIES or not isinstance(summary, str) or item.get("reason") == "rewind":
        return []
    attachments = item.get("postCompactAttachments")
    messages = attachments if isinstance(attachments, list) else []
    summary_message = {"role": "user", "content": f"{_SUMMARIES[kind]}\n\n{summary}"}
    return [summary_message, *(candidate for candidate in messages if isinstance(candidate, dict))]


def _entries(records: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (entry(record) for record in records if record.get("_type") == "lineage_entry")


def _latest(records: Iterable[Mapping[str, Any]], name: str) -> str | None:
    values = (r.get(name) for r in records if r.get("_type") in ("meta", "meta_update"))
    return next(reversed([value for value in values if isinstance(value, str)]), None)
