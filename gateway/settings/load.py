"""From files, environment and command line to `Settings`."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.errors import ConfigError
from gateway.settings.complaints import sentences
from gateway.settings.document import read_object
from gateway.settings.layers import CommandLine, Defaults, Environment, File, Layer
from gateway.settings.names import check_names
from gateway.settings.place import Place
from gateway.settings.references import References, expand_home, read_secrets
from gateway.settings.schema import Settings

COMPLAINTS_SHOWN = 20


def load_settings(
    *,
    config: Path | None,
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
    drafts: Mapping[Path, Mapping[str, Any]] | None = None,
) -> Settings:
    """Command line over environment over the project's file over the user's file over defaults.

    `config` names the user's file (else `KORE_CONFIG`, else `home`/config.json, which may be
    absent). `overrides` maps "section.key" to a value. A path in a file is relative to the file's
    folder, any other to `cwd`; `~/.kore` always means `home`. `drafts` are what files are to hold,
    in place of what they do.
    Raises `ConfigError`: one line for each thing that is wrong.
    """
    drafts = drafts or {}
    found: dict[Place, Mapping[str, Any]] = {}
    for place, required in _files(config, home, cwd, environ):
        path = Path(place.name)
        content = drafts[path] if path in drafts else read_object(path)
        if content is not None:
            found[place] = content
        elif required:
            raise ConfigError(f"{place}: no such file", hint="`kore init` writes a first one")
    secrets = {**read_secrets(home / "secrets.json"), **drafts.get(home / "secrets.json", {})}
    references = References(environ, secrets, home)
    layers = [
        CommandLine(overrides, cwd, references),
        Environment(cwd, references),
        *[File(content, place, references) for place, content in reversed(found.items())],
        Defaults(references),
    ]
    return _build(layers, references, [Path(place.name) for place in found])


def own_file(config: Path | None, home: Path, cwd: Path, environ: Mapping[str, str]) -> Path:
    """The user's own file, whether it is there or not."""
    named = config or (Path(environ["KORE_CONFIG"]) if environ.get("KORE_CONFIG") else None)
    return cwd / expand_home(str(named), home, environ) if named else home / "config.json"


def _files(
    config: Path | None, home: Path, cwd: Path, environ: Mapping[str, str]
) -> list[tuple[Place, bool]]:
    own = own_file(config, home, cwd, environ)
    named = config is not None or bool(environ.get("KORE_CONFIG"))
    places = [(Place("file", str(own), own.parent), named)]
    project = cwd / ".kore" / "config.json"
    # In the user's own folder `./.kore` is the home itself, not a project's.
    if project.parent.resolve() != home.resolve() and project.resolve() != own.resolve():
        places.append((Place("project", str(project), cwd), False))
    return places


def _build(layers: Sequence[Layer], references: References, files: Sequence[Path]) -> Settings:
    """The settings of these layers, the highest first."""
    values = ChainMap(*(layer.values for layer in layers))
    try:
        settings = Settings(*layers, missing=references.missing, files=files)
        settings.hide(references.hidden)
        settings.tell({key: str(held.place) for key, held in values.items()})
    except ValidationError as exc:
        found = sentences(exc, values, references.missing)
    else:
        found = check_names(settings, values)
    complaints = [line for layer in reversed(layers) for line in layer.complaints]
    complaints += references.complaints + found
    if not complaints:
        return settings
    unique = list(dict.fromkeys(complaints))
    more = len(unique) - COMPLAINTS_SHOWN
    shown = unique[:COMPLAINTS_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
    raise ConfigError("\n".join(shown))
