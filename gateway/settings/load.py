"""From files, environment and command line to `Settings`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.errors import ConfigError
from gateway.settings.complaints import sentences
from gateway.settings.document import read_object
from gateway.settings.layers import Layers, catalogue
from gateway.settings.names import check_names
from gateway.settings.place import Key, Missing, Place, Value
from gateway.settings.references import References, has_reference, read_secrets
from gateway.settings.schema import Settings

COMPLAINTS_SHOWN = 20
_PATHS: tuple[Key, ...] = (
    ("agent", "workspace"),
    ("security", "policy_file"),
    ("store", "url"),
    ("logging", "file"),
)
# References in these sections matter only once the model, the bot or the server is used.
_DEFERRED = ("model_list", "telegram", "mcp_servers")
_DROPPED = ("api_key", "api_base", "url")


def load_settings(
    *,
    config: Path | None,
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
) -> Settings:
    """Command line over environment over the project's file over the user's file over defaults.

    `config` names the user's file (else `KORE_CONFIG`, else `home`/config.json, which may be
    absent). `overrides` maps "section.key" to a value. A path in a file is relative to the file's
    folder, any other to `cwd`; `~/.kore` always means `home`.
    Raises `ConfigError`: one line for each thing that is wrong.
    """
    layers, files = Layers(), []
    for place, required in _files(config, home, cwd, environ):
        path = Path(place.name)
        found = read_object(path)
        if found is not None:
            files.append(path)
            layers.add_file(found, place)
        elif required:
            raise ConfigError(f"{path}: no such file", hint="`kore init` writes a first one")
    layers.add_environment(environ, cwd)
    layers.add_overrides(overrides, cwd)
    missing = _fill_references(layers, References(environ, read_secrets(home / "secrets.json")))
    _place_paths(layers, home, environ)
    settings = _validate(layers, missing)
    return settings.noting(tuple(missing), tuple(files))


def _files(
    config: Path | None, home: Path, cwd: Path, environ: Mapping[str, str]
) -> list[tuple[Place, bool]]:
    named = config or (Path(environ["KORE_CONFIG"]) if environ.get("KORE_CONFIG") else None)
    own = cwd / _tilde(str(named), home, environ) if named else home / "config.json"
    places = [(Place("file", str(own), own.parent), named is not None)]
    project = cwd / ".kore" / "config.json"
    # In the user's own folder `./.kore` is the home itself, not a project's.
    if project.parent.resolve() != home.resolve() and project.resolve() != own.resolve():
        places.append((Place("project", str(project), cwd), False))
    return places


def _fill_references(layers: Layers, references: References) -> list[Missing]:
    for key, held in list(layers.values.items()):
        if held.place.kind == "project" or not has_reference(held.value):
            continue
        filled = references.expand(held.value, key, held.place)
        if isinstance(filled, str) and not has_reference(filled) and len(key) > 1:
            filled = layers.coerce(key, filled, held.place)
        layers.values[key] = Value(filled, held.place, quotable=False)
    layers.complaints += references.malformed
    for lack in references.missing:
        if lack.loc[0] not in _DEFERRED:
            layers.complaints.append(str(lack))
        elif lack.loc[0] == "telegram":
            layers.values.pop(("telegram", str(lack.loc[1])), None)
        elif lack.loc[-1] in _DROPPED:
            _drop(layers.values[(str(lack.loc[0]),)].value, lack)
    return references.missing


def _drop(tree: Any, lack: Missing) -> None:
    for part in lack.loc[1:-1]:
        tree = tree[part]
    tree.pop(lack.loc[-1], None)


def _place_paths(layers: Layers, home: Path, environ: Mapping[str, str]) -> None:
    default = Place("default", "default", home)
    fields = Settings.model_fields
    for key in _PATHS:
        section = fields[key[0]].get_default(call_default_factory=True)
        held = layers.values.get(key) or Value(getattr(section, key[1]), default)
        if held.value is None or not isinstance(held.value, str | Path):
            continue
        text = str(held.value)
        scheme = "sqlite:///" if key == ("store", "url") else ""
        if not text.startswith(scheme) or len(text) == len(scheme):
            continue
        try:
            path = held.place.folder / _tilde(text.removeprefix(scheme), home, environ)
        except (RuntimeError, ValueError):
            layers.complaints.append(
                f"{held.place}: {key[0]}.{key[1]}: found a ~name that is nobody's home, "
                "expected a path"
            )
            continue
        layers.values[key] = Value(f"{scheme}{path}", held.place, held.quotable)


def _tilde(text: str, home: Path, environ: Mapping[str, str]) -> Path:
    if text == "~/.kore" or text.startswith("~/.kore/"):
        return home / text[len("~/.kore/") :]
    if text.startswith("~/") and environ.get("HOME"):
        return Path(environ["HOME"]) / text[2:]
    return Path(text).expanduser()


def _validate(layers: Layers, missing: list[Missing]) -> Settings:
    tree: dict[str, Any] = {name: {} for name in catalogue()}
    for key, held in layers.values.items():
        if len(key) == 1:
            tree[key[0]] = held.value
        else:
            tree[key[0]][key[1]] = held.value
    complaints = list(layers.complaints)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as exc:
        complaints += sentences(exc, layers.values, missing)
    else:
        complaints += check_names(settings, layers.values)
        if not complaints:
            return settings
    unique = list(dict.fromkeys(complaints))
    more = len(unique) - COMPLAINTS_SHOWN
    shown = unique[:COMPLAINTS_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
    raise ConfigError("\n".join(shown))
