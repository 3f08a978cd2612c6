"""Names of the agents, skills and output styles of plugins: NAME or PLUGIN:NAME."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar


class Entry(Protocol):
    """Agent, skill or output style; `plugin` is empty for those of no plugin."""

    @property
    def name(self) -> str: ...
    @property
    def plugin(self) -> str: ...


EntryT = TypeVar("EntryT", bound=Entry)


def entry_name(plugin: str, name: str) -> str:
    """Return the name of a plugin's entry without colons, so that it is no PLUGIN:NAME.

    A published name may begin with that of its own plugin.
    """
    own_name = name.removeprefix(f"{plugin}:").strip() or name
    if own_name.isascii():
        return own_name.replace(":", "-")
    return "".join("-" if unicodedata.normalize("NFKC", char) == ":" else char for char in own_name)


def title_of(entry: Entry) -> str:
    """Return the name that no entry of another plugin has; an entry may be renamed to it."""
    is_whole = not entry.plugin or entry.name.startswith(f"{entry.plugin}:")
    return entry.name if is_whole else f"{entry.plugin}:{entry.name}"


def distinct_names(
    of_plugins: Iterable[EntryT],
    own: Mapping[str, EntryT],
    fold: Callable[[str], str],
    reserved: Iterable[str] = (),
) -> dict[str, EntryT]:
    """Return entries by name, those of plugins first; an `own` entry precedes a plugin's.

    A plugin's entry is called PLUGIN:NAME if another entry has its name, or if the name is
    `reserved`. The last of a plugin's entries with the same name counts.
    """
    by_place: dict[tuple[str, str], EntryT] = {}
    for entry in of_plugins:
        place = entry.plugin, fold(entry.name)
        by_place.pop(place, None)
        by_place[place] = entry
    counts = Counter(name for _, name in by_place)
    counts.update({fold(name) for name in (*own, *reserved)})
    distinct = {
        entry.name if counts[name] == 1 else title_of(entry): entry
        for (_, name), entry in by_place.items()
    }
    return {**distinct, **own}


def find_named(
    entries: Mapping[str, EntryT], name: str, fold: Callable[[str], str]
) -> EntryT | None:
    """Return the entry of this exact name, else of this folded name, else of this title."""
    if name in entries:
        return entries[name]
    folded = fold(name)
    by_title = {fold(title_of(entry)): entry for entry in entries.values() if entry.plugin}
    by_name = {fold(key): entry for key, entry in entries.items()}
    return by_name.get(folded) or by_title.get(folded)
