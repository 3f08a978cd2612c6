"""Loading of `Settings` from files, environment and command line, also repeatedly."""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.errors import ConfigError
from agent.i18n import t
from agent.records import frozen
from gateway.config.folder_trust import PROJECT, content, mentions_hooks, read_trusted
from gateway.config.foreign.hook_files import hooks_in, is_hook_file
from gateway.config.json_files.document import read_object
from gateway.config.layers import (
    CommandLineLayer,
    DefaultsLayer,
    EnvironmentLayer,
    FileLayer,
    ForeignLayer,
    Layer,
)
from gateway.config.origin import Key, Kind, ValueOrigin
from gateway.config.references import References, expand_home, read_secrets
from gateway.config.schema import Settings
from gateway.config.sections import HookSource
from gateway.config.validation import (
    check_command_variables,
    check_packages,
    check_references,
    explain_errors,
)

MAX_COMPLAINTS = 20
_ENCRYPTION: Key = ("store", "encryption_key_env")
_KODE = ".kode.json"
_HOOK_KEYS = ("hooks", "python_hooks")
Drafts = Mapping[Path, Mapping[str, Any]]
# Returns the content of a project's file, or None if it is not trusted.
ReadProjectFile = Callable[[Path], bytes | None]


def load_settings(  # noqa: PLR0913 - all arguments are named
    *,
    config: Path | None,
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
    drafts: Mapping[Path, Mapping[str, Any] | None] | None = None,
    trusted_folder: Path | None = None,
) -> Settings:
    """Load the settings of all layers.

    The order is command line over environment over the project's file over the user's file over
    defaults.

    `config` names the user's file (else `KORE_CONFIG`, else `home`/config.json, which may be
    absent). `overrides` maps "section.key" to a value. A path in a file is relative to the file's
    folder, any other to `cwd`; `~/.kore` always means `home`. `drafts` replace the contents of
    files; None is an absent file. If `drafts` removes secrets.json, a key with an unresolved
    reference has its default. `trusted_folder` (a real path) counts as trusted, and so do the
    project's files if `cwd` is in it.

    Raises `ConfigError` with one line for each error.
    """
    drafts = drafts or {}
    is_trusted = trusted_folder is not None and cwd.resolve().is_relative_to(trusted_folder)
    read_project_file = content if is_trusted else partial(read_trusted, home=home)
    contents: dict[ValueOrigin, Mapping[str, Any]] = {}
    for place, required, raw in _files(config, home, cwd, environ, read_project_file):
        path = Path(place.name)
        file = drafts[path] if path in drafts else read_object(path, raw)
        if file is not None:
            contents[place] = file
        elif required:
            raise ConfigError(
                t("{place}: no such file", place=place), hint=t("create one with `kore init`")
            )
    secrets_file = home / "secrets.json"
    more = drafts.get(secrets_file, {})
    secrets = {} if more is None else {**read_secrets(secrets_file), **more}
    references = References(environ, secrets, home, is_partial=more is None)
    foreign = _load_foreign(home, cwd, environ, secrets, read_project_file)
    borrowed, notes, hooks = foreign.values, foreign.notes, foreign.hooks
    contents, project_hooks, more_notes = _without_project_hooks(contents, cwd)
    variables = EnvironmentLayer(cwd, references)
    top = [CommandLineLayer(overrides, cwd, references), variables]
    # Servers given for this run replace all others.
    adds_servers = all(("mcp_servers",) not in layer.values for layer in top)
    layers = [
        *top,
        *[FileLayer(content, place, references) for place, content in reversed(contents.items())],
        *[
            ForeignLayer(values, place, references, adds_servers=adds_servers)
            for place, values in borrowed.items()
        ],
        DefaultsLayer(references),
    ]
    files = [Path(place.name) for place in (*contents, *borrowed)]
    settings = _build(layers, references, files)
    own = own_file(config, home, cwd, environ)
    settings.set_own_file(own)
    settings.set_project_files(cwd, project_files(cwd, environ) - {own})
    settings.set_notes([*notes, *more_notes])
    others = {*references.names, settings.store.encryption_key_env}
    unknown = [name for name in variables.unknown if name not in others]
    settings.set_unused(
        [*foreign.unused, *(t("environment variable {name}: unknown", name=n) for n in unknown)]
    )
    settings.set_project_hooks([*project_hooks, *hooks])
    if trusted_folder is not None:
        settings.set_trusted_for_run(trusted_folder)
    return settings


def foreign_files(home: Path, cwd: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the existing configuration files of other programs, highest priority first."""
    places = [cwd / name for name in PROJECT if name != ".kore/config.json"]
    if environ.get("HOME"):
        own = Path(environ["HOME"])
        if own == cwd:
            # The person's own hooks for another program apply to that program only.
            places = [path for path in places if not is_hook_file(path)]
        config = Path(environ.get("XDG_CONFIG_HOME") or own / ".config")
        theirs = (own / ".kode.json", own / ".kodax" / "config.json", config / "kore/config.yaml")
        places = [*(path for path in places if path not in theirs), *theirs]
    return places


def project_files(cwd: Path, environ: Mapping[str, str]) -> set[Path]:
    """Return the project's files in a folder. In the user's own folder, they belong to the user."""
    own = environ.get("HOME")
    return set() if own and cwd == Path(own) else {cwd / name for name in PROJECT}


@dataclass(slots=True)
class _Foreign:
    """Settings of other programs by file, notes about the files, unused settings, and hooks."""

    values: dict[ValueOrigin, dict[Key, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    hooks: list[HookSource] = field(default_factory=list)


def _load_foreign(
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    read_project_file: ReadProjectFile,
) -> _Foreign:
    """Return other programs' settings. An invalid file is skipped with a note."""
    foreign = _Foreign()
    values, notes, hooks = foreign.values, foreign.notes, foreign.hooks
    projects = project_files(cwd, environ)
    for path in foreign_files(home, cwd, environ):
        if not path.is_file():
            continue
        from gateway.config.foreign.formats import read_foreign

        raw = read_project_file(path) if path in projects else None
        if path in projects and raw is None:
            if not mentions_hooks(path, content(path)):
                continue
            note = t("{path}: ignored until you trust this folder with `kore trust`", path=path)
            notes.append(note)
            continue
        place = ValueOrigin("file", str(path), path.parent)
        theirs = None
        try:
            is_projects = path in projects and path.name == _KODE
            base = _persons_kode(environ) if is_projects else {}
            theirs = read_foreign(path, raw, base)
            if theirs is None:
                continue
            references = References(environ, secrets, home)
            alone = [ForeignLayer(theirs.values, place, references), DefaultsLayer(references)]
            _build(alone, references, ())
        except (ValueError, ConfigError) as exc:
            reason = str(exc).splitlines()[0]
            notes.append(t("{path}: ignored: {reason}", path=path, reason=reason))
            if theirs is not None and _ENCRYPTION in theirs.values:
                # Without the rest of the file, the messages are still encrypted as it says.
                values[place] = {_ENCRYPTION: theirs.values[_ENCRYPTION]}
            continue
        values[place] = theirs.values
        if is_hook_file(path):
            notes += theirs.notes
        else:
            foreign.unused += [f"{path}: {line}" for line in theirs.notes]
        if theirs.hooks:
            hooks.append(HookSource(str(path), theirs.hooks))
    return foreign


def _persons_kode(environ: Mapping[str, str]) -> Mapping[Key, Any]:
    """Return the settings in the person's own `.kode.json`; empty if it cannot be read."""
    from gateway.config.foreign.formats import read_foreign

    try:
        config = read_foreign(Path(environ["HOME"]) / _KODE) if environ.get("HOME") else None
    except (ValueError, ConfigError):
        # The file gets its own note.
        return {}
    return config.values if config is not None else {}


def _without_project_hooks(
    contents: Mapping[ValueOrigin, Mapping[str, Any]], cwd: Path
) -> tuple[dict[ValueOrigin, Mapping[str, Any]], list[HookSource], list[str]]:
    """Return the files without a trusted project's hooks, then those hooks, and notes about ignored
    keys.

    The project's hooks are added to the owner's instead of replacing them.
    """
    remaining: dict[ValueOrigin, Mapping[str, Any]] = {}
    hooks: list[HookSource] = []
    notes: list[str] = []
    for place, file in contents.items():
        remaining[place] = file
        if place.kind != "file" or Path(place.name) != cwd / ".kore" / "config.json":
            continue
        remaining[place] = {key: item for key, item in file.items() if key not in _HOOK_KEYS}
        if "python_hooks" in file:
            # Such packages would run as a part of Kore, outside of the sandbox.
            notes.append(t("{path}: python_hooks: only your own config.json", path=place.name))
        if "hooks" in file:
            table, more = hooks_in(file, place.name)
            hooks.append(HookSource(place.name, table))
            notes += more
    return remaining, hooks, notes


def own_file(config: Path | None, home: Path, cwd: Path, environ: Mapping[str, str]) -> Path:
    """Return the path of the user's own file, which may be absent."""
    configured = config or (Path(environ["KORE_CONFIG"]) if environ.get("KORE_CONFIG") else None)
    return cwd / expand_home(str(configured), home, environ) if configured else home / "config.json"


def _files(
    config: Path | None,
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    read_project_file: ReadProjectFile,
) -> list[tuple[ValueOrigin, bool, bytes | None]]:
    """Return each file with whether it is required, and its content if already read."""
    own = own_file(config, home, cwd, environ)
    is_named = config is not None or bool(environ.get("KORE_CONFIG"))
    places: list[tuple[ValueOrigin, bool, bytes | None]] = []
    places.append((ValueOrigin("file", str(own), own.parent), is_named, None))
    project = cwd / ".kore" / "config.json"
    # In the user's own folder, `./.kore` is the home itself, not a project's.
    if project.parent.resolve() != home.resolve() and project.resolve() != own.resolve():
        raw = read_project_file(project)
        kind: Kind = "project" if raw is None else "file"
        places.append((ValueOrigin(kind, str(project), cwd), False, raw))
    return places


def _build(layers: Sequence[Layer], references: References, files: Sequence[Path]) -> Settings:
    """Build the settings of these layers, highest first."""
    values = ChainMap(*(layer.values for layer in layers))
    try:
        settings = Settings(*layers, missing=references.missing, files=files)
        settings.set_hidden(references.hidden)
        settings.set_places(
            {key: str(entry.place) for key, entry in values.items()} | references.sources
        )
    except ValidationError as exc:
        errors = explain_errors(exc, values, references.missing)
    else:
        errors = check_packages(settings, values, references.missing)
        errors = errors or check_references(settings, values)
        errors = errors or check_command_variables(settings, values, references)
    complaints = [line for layer in reversed(layers) for line in layer.complaints]
    complaints += references.complaints + errors
    if not complaints:
        return settings
    unique = list(dict.fromkeys(complaints))
    more = len(unique) - MAX_COMPLAINTS
    lines = unique[:MAX_COMPLAINTS] + ([t("… and {more} more", more=more)] if more > 0 else [])
    raise ConfigError("\n".join(lines))


@frozen
class Sources:
    """Arguments of `load_settings`, for repeated use."""

    config: Path | None
    home: Path
    cwd: Path
    environ: Mapping[str, str]
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own_file(self) -> Path:
        """Path of the user's configuration file."""
        return own_file(self.config, self.home, self.cwd, self.environ)

    @property
    def project_file(self) -> Path:
        """Path of the project's configuration file in the working directory."""
        return self.cwd / ".kore" / "config.json"

    @property
    def secrets_file(self) -> Path:
        return self.home / "secrets.json"

    @property
    def watched_files(self) -> tuple[Path, ...]:
        """Every file that would be read, including missing files."""
        theirs = foreign_files(self.home, self.cwd, self.environ)
        plugins = self.home / "plugins" / "installed.json"
        own = (self.own_file, self.secrets_file, self.home / "trust.json", plugins)
        return (*own, self.project_file, *theirs)

    def load(self, drafts: Drafts | None = None) -> Settings:
        """Load the settings. Raises `ConfigError`."""
        return load_settings(
            config=self.config,
            home=self.home,
            cwd=self.cwd,
            environ=self.environ,
            overrides=self.overrides,
            drafts=drafts,
        )

    def complaints(self, drafts: Drafts | None = None) -> list[str]:
        """Return one line for each error."""
        try:
            self.load(drafts)
        except ConfigError as exc:
            return str(exc).splitlines()
        return []
