"""Annotation of a key of config.json."""

from typing import Any, Literal

from agent.records import frozen


@frozen
class Setting:
    """Facts about a key that its type cannot express. A key inherits the flags of its section.

    `help` and the page `see` are Markdown for docs/settings.md. `widens_access` keys decide what
    Kore may do or spend, where it sends data, who may reach it or what it starts; changing them
    over the web requires a confirmation. A project's own file may set `is_harmless` keys before it
    is trusted. `is_path` values are relative to the folder of their file. A missing variable in an
    `is_deferred` section is an error once the section is used. `stored_as` is the key's name in
    secrets.json, and `example` its value in config.example.json.
    """

    help: str = ""
    see: str = ""
    reload: Literal["at_once", "restart"] = "restart"
    widens_access: bool = False
    is_harmless: bool = False
    is_path: bool = False
    is_deferred: bool = False
    stored_as: str | None = None
    example: Any = None
