"""Conversion of other programs' configuration files to our settings.

`.kode.json` (in the shape of its design and in the shape that it writes), KodaX's `config.json`, an
older `config.yaml`, `.mcp.json` and `.mcprc`. Where a design and a program differ, both are read.
Nothing that loosens a rule is imported: modes and lists of allowed tools mean something else there.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard

from agent.i18n import t
from agent.providers.vendors import ALIASES, VENDORS
from agent.records import frozen
from gateway.config.foreign.hook_files import hooks_in, is_hook_file
from gateway.config.json_files.document import parse, read_text
from gateway.config.json_files.jsonc import read
from gateway.config.key_catalog import catalogue
from gateway.config.origin import Key
from gateway.config.sections import HookTable, SecuritySection

_KODE_POINTERS = {"main": "default", "task": "task", "reasoning": "reasoning", "quick": "quick"}
# Its model for summaries corresponds to our profile "quick".
_COMPACT = "compact"
# Their names of vendors, where these differ from ours.
_PROVIDERS = {"alibaba": "qwen", "aliyun": "qwen", "glm": "zhipu"}
_WIRES = ("openai", "anthropic", "ollama")
_PROFILE_KEYS = frozenset(
    (
        *("id", "name", "provider", "type", "adapt", "config", "model", "modelName", "isActive"),
        *("apiKey", "baseURL", "baseUrl", "maxTokens", "contextLength", "temperature"),
        # The other program's own records.
        *("createdAt", "lastUsed", "updatedAt", "isGPT5", "validationStatus", "lastValidation"),
    )
)
_KODE_NAMES = {
    "defaultModel": "default",
    "defaultModelName": "default",
    "taskModel": "task",
    "reasoningModel": "reasoning",
    "quickModel": "quick",
}
_LLM_KEYS = ("provider", "model", "api_key", "base_url", "max_tokens", "temperature")
_BLOCKED = {
    "blocked_commands": "blocked_commands",
    "blocked_cmds": "blocked_commands",
    "blocked_paths": "blocked_paths",
}
_AGENTS: Mapping[str, Key] = {
    "default": ("agent", "default_agent"),
    "default_agent": ("agent", "default_agent"),
    "max_depth": ("subagents", "max_depth"),
    "max_parallel": ("subagents", "max_parallel"),
    "max_concurrent": ("subagents", "max_parallel"),
    "max_cost_usd": ("subagents", "max_cost_usd"),
}
_ENCRYPTION_SWITCHES = ("enabled", "encrypted", "encrypt", "encryption_enabled")
_ENCRYPTION_VARIABLES = ("encryption_key_env", "key_env")
_ENCRYPTION_KEYS = ("encryption_key", "key")
_REFERENCE = re.compile(r"\$\{?(\w+)\}?")
DEFAULT_STORE_KEY = "KORE_STORE_KEY"
_HTTP_TYPES = ("streamable-http", "streamableHttp", "streamable_http")
_SERVER_KEYS = ("command", "args", "env", "url", "headers", "type", "enabled")


@frozen
class ForeignConfig:
    """`values` by our keys; `notes` has a line for each setting that was not imported."""

    values: dict[Key, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    hooks: "HookTable" = field(default_factory=dict)


def is_foreign(path: Path) -> bool:
    """Return whether a file of this name belongs to another program."""
    is_theirs = path.name in (".kode.json", ".mcp.json", ".mcprc")
    return is_theirs or path.parent.name in (".kodax", ".claude")


def read_foreign(
    path: Path, raw: bytes | None = None, base: Mapping[Key, Any] = MappingProxyType({})
) -> ForeignConfig | None:
    """Read another program's file; None if it does not exist.

    Raises `ValueError` for an unreadable file, and `ConfigError` for a file that must not be read.
    `raw` is its content if already read. `base` are the settings of the person's own `.kode.json`,
    to which a project's `.kode.json` adds models; names of the project take precedence.
    """
    text = read_text(path, raw)
    if text is None or not text.strip():
        return None
    content = _yaml(text) if path.suffix in (".yaml", ".yml") else read(text).value
    if not isinstance(content, dict):
        raise ValueError(t("expected an object"))
    if is_hook_file(path):
        table, notes = hooks_in(content if "hooks" in content else {"hooks": content}, str(path))
        return ForeignConfig(notes=tuple(notes), hooks=table)
    if path.name == ".kode.json":
        return _kode(content, base)
    if path.name in (".mcp.json", ".mcprc"):
        servers = content.get("mcpServers", content if path.name == ".mcprc" else {})
        return _servers_only(servers)
    return _older(content) if path.suffix in (".yaml", ".yml") else _kodax(content)


def _kode(content: Mapping[str, Any], base: Mapping[Key, Any]) -> ForeignConfig:
    notes: list[str] = []
    profiles = content.get("modelProfiles") or {}
    if isinstance(profiles, dict):
        profiles = [
            {"name": name, **candidate}
            for name, candidate in profiles.items()
            if _object(candidate)
        ]
    entries: list[dict[str, Any]] = []
    called: dict[str, str] = {}
    for item in map(_flat, filter(_object, _list(profiles, "modelProfiles"))):
        entry = _entry(item, notes)
        if entry is not None and item.get("isActive", True):
            entries.append(entry)
            for name in (item.get("name"), item.get("id"), _model(item)):
                called.setdefault(str(name or ""), entry["model_name"])
        where = f"modelProfiles.{item.get('name') or item.get('id') or _model(item)}"
        notes += [
            t("{key}: no equivalent in Kore", key=f"{where}.{key}")
            for key in item.keys() - _PROFILE_KEYS
        ]
    _add_models(base, entries, called)
    values: dict[Key, Any] = {("model_list",): entries} if entries else {}
    for profile, name in _profile_names(content, notes):
        if name in called and name:
            values.setdefault(("profiles", profile), called[name])
        elif name:
            notes.append(t("{profile}: no model named {name!r}", profile=profile, name=name))
    for key, value in base.items():
        if key[0] == "profiles":
            values.setdefault(key, value)
    _servers(content.get("mcpServers"), values, notes)
    known_keys = {"modelProfiles", "modelPointers", "mcpServers", *_KODE_NAMES}
    return ForeignConfig(values, (*notes, *_unknown(content, known_keys)))


def _add_models(
    base: Mapping[Key, Any], entries: list[dict[str, Any]], called: dict[str, str]
) -> None:
    """Add the models of `base` whose names are free, and what pointers may call them."""
    names = {entry["model_name"] for entry in entries}
    for entry in base.get(("model_list",), ()):
        if entry["model_name"] not in names:
            entries.append(entry)
            for name in (entry["model_name"], entry["model"].partition("/")[2]):
                called.setdefault(name, entry["model_name"])


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile, flattening the keys that some formats nest under `config`."""
    config = entry.get("config")
    return {**config, **entry} if _object(config) else dict(entry)


def _profile_names(content: Mapping[str, Any], notes: list[str]) -> list[tuple[str, str]]:
    """Return our profiles and their names for the models, strongest first."""
    pointers = _map(content.get("modelPointers"), "modelPointers")
    profiles = [
        (_KODE_POINTERS[k], _name_of(v)) for k, v in pointers.items() if k in _KODE_POINTERS
    ]
    profiles += [
        (ours, _name_of(content[theirs]))
        for theirs, ours in _KODE_NAMES.items()
        if theirs in content
    ]
    compact = _name_of(pointers.get(_COMPACT))
    quick = next((name for profile, name in profiles if profile == "quick" and name), "")
    if compact and not quick:
        profiles.append(("quick", compact))
    elif compact and compact != quick:
        notes.append(t("{key}: no equivalent in Kore", key=f"modelPointers.{_COMPACT}"))
    known_keys = {*_KODE_POINTERS, _COMPACT}
    notes += [
        t("{key}: no equivalent in Kore", key=f"modelPointers.{key}")
        for key in pointers
        if key not in known_keys
    ]
    return profiles


def _vendor_of(entry: Mapping[str, Any], base: Any) -> str:
    """Return the vendor; at a custom address, `adapt` names the API format."""
    provider = str(entry.get("provider") or entry.get("type") or "").lower()
    vendor = _PROVIDERS.get(provider, ALIASES.get(provider, provider))
    adapt = str(entry.get("adapt") or "").lower()
    if adapt in _WIRES and (base or not provider):
        listed = VENDORS.get(vendor)
        return vendor if listed is not None and listed.protocol == adapt else adapt
    return vendor


def _entry(mapping: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    model = _model(mapping)
    name = str(mapping.get("name") or mapping.get("id") or model)
    provider = str(mapping.get("provider") or mapping.get("type") or "")
    base = mapping.get("baseURL") or mapping.get("baseUrl")
    vendor = _vendor_of(mapping, base)
    protocol = VENDORS[vendor].protocol if vendor in VENDORS else "openai"
    if (adapt := mapping.get("adapt")) and str(adapt).lower() not in (vendor, protocol):
        notes.append(t("model {name!r}: adapt {adapt!r} is not supported", name=name, adapt=adapt))
    if vendor not in VENDORS:
        if not base:
            notes.append(
                t(
                    "model {name!r}: unknown provider {provider!r}",
                    name=name,
                    provider=provider,
                )
            )
            return None
        # Whatever the name, a custom address has an OpenAI-compatible API.
        vendor = "openai"
    if not model:
        notes.append(t("model {name!r}: its name at the provider is missing", name=name))
        return None
    entry: dict[str, Any] = {"model_name": name.replace("/", "-"), "model": f"{vendor}/{model}"}
    for ours, theirs in (
        ("api_base", base),
        ("api_key", mapping.get("apiKey")),
        ("max_tokens", mapping.get("maxTokens")),
        ("context_tokens", mapping.get("contextLength")),
        ("temperature", mapping.get("temperature")),
    ):
        if theirs is not None and theirs != "":
            entry[ours] = theirs
    return entry


def _model(entry: Mapping[str, Any]) -> str:
    return str(entry.get("modelName") or entry.get("model") or "")


def _kodax(content: Mapping[str, Any]) -> ForeignConfig:
    notes: list[str] = []
    entries = []
    for item in filter(_object, _list(content.get("customProviders"), "customProviders")):
        vendor = "anthropic" if item.get("protocol") == "anthropic" else "openai"
        models = [item.get("model"), *_list(item.get("models"), "models")]
        for n, model in enumerate(dict.fromkeys(filter(None, map(_name_of, models)))):
            name = str(item.get("name")) if n == 0 else f"{item.get('name')}:{model}"
            entry: dict[str, Any] = {"model_name": name.replace("/", "-")}
            entry["model"] = f"{vendor}/{model}"
            for ours, value in (
                ("api_base", item.get("baseUrl")),
                ("api_key", item.get("apiKeyEnv") and f"${{{item['apiKeyEnv']}}}"),
                ("max_tokens", item.get("maxOutputTokens")),
                ("context_tokens", item.get("contextWindow")),
            ):
                if value:
                    entry[ours] = value
            entries.append(entry)
    values: dict[Key, Any] = {("model_list",): entries} if entries else {}
    provider, model_name = _name_of(content.get("provider")), _name_of(content.get("model"))
    names = [entry["model_name"] for entry in entries]
    vendor = ALIASES.get(provider.lower(), provider.lower())
    if provider in names:
        custom_name = f"{provider}:{model_name}"
        values["profiles", "default"] = custom_name if custom_name in names else provider
    elif vendor in VENDORS and (model_name or VENDORS[vendor].default_model):
        values["profiles", "default"] = f"{vendor}/{model_name or VENDORS[vendor].default_model}"
    elif provider:
        notes.append(t("provider: unknown {provider!r}", provider=provider))
    if isinstance(content.get("thinking"), bool):
        values["agent", "effort"] = "high" if content["thinking"] else "none"
    _servers(content.get("mcpServers"), values, notes)
    known_keys = {"customProviders", "provider", "model", "thinking", "mcpServers"}
    return ForeignConfig(values, (*notes, *_unknown(content, known_keys)))


def _older(content: Mapping[str, Any]) -> ForeignConfig:
    """Convert `llm`, `agents`, `session_db`, `context` and `security`.

    The last two have the same keys as ours.
    """
    values: dict[Key, Any] = {}
    notes: list[str] = []
    llm = content.get("llm")
    if _object(llm):
        fields = {**llm, "apiKey": llm.get("api_key"), "baseURL": llm.get("base_url")}
        entry = _entry({"name": "llm", **fields, "maxTokens": llm.get("max_tokens")}, notes)
        if entry is not None:
            values["model_list",] = [entry]
            values["profiles", "default"] = entry["model_name"]
        notes += [
            t("{key}: no equivalent in Kore", key=f"llm.{key}")
            for key in llm
            if key not in _LLM_KEYS
        ]
    for section in ("context", "security"):
        for key, value in _map(content.get(section), section).items():
            name = str(key)
            if section == "context" and name in catalogue()[section]:
                values[section, name] = value
            elif section == "security" and name in _BLOCKED:
                values[section, _BLOCKED[name]] = _merge_blocked(_BLOCKED[name], value)
            else:
                notes.append(t("{key}: no equivalent in Kore", key=f"{section}.{name}"))
    _agents(content.get("agents"), values, notes)
    _session_db(content.get("session_db"), values, notes)
    known_keys = {"llm", "context", "security", "agents", "session_db"}
    return ForeignConfig(values, (*notes, *_unknown(content, known_keys)))


def _agents(agents: Any, values: dict[Key, Any], notes: list[str]) -> None:
    """Convert the default agent and the limits of sub-agents."""
    if agents is not None and not _object(agents):
        notes.append(t("{key}: no equivalent in Kore", key="agents"))
        return
    for name, value in (agents or {}).items():
        if (key := _AGENTS.get(str(name))) is not None:
            values[key] = value
        else:
            notes.append(t("{key}: no equivalent in Kore", key=f"agents.{name}"))


def _session_db(section: Any, values: dict[Key, Any], notes: list[str]) -> None:
    """Convert a wish for encryption; the database itself is Kore's own.

    The key is in the named variable, or in `DEFAULT_STORE_KEY`.
    """
    content = dict(_map(section, "session_db"))
    nested = content.pop("encryption", None)
    fields = {**content, **nested} if _object(nested) else content
    switches = [fields.pop(name) for name in _ENCRYPTION_SWITCHES if name in fields]
    variables = [fields.pop(name) for name in _ENCRYPTION_VARIABLES if name in fields]
    keys = [fields.pop(name) for name in _ENCRYPTION_KEYS if name in fields]
    references = [match[1] for key in keys if (match := _REFERENCE.fullmatch(str(key)))]
    if not _object(nested) and nested is not None:
        switches.append(nested)
    is_named = bool(variables or keys) or _object(nested)
    if _is_on(switches[0]) if switches else is_named:
        name = next(filter(None, [*variables, *references]), DEFAULT_STORE_KEY)
        values["store", "encryption_key_env"] = name
        if keys and not references:
            notes.append(
                t("session_db: put its key into the environment variable {name}", name=name)
            )
    notes += [t("{key}: no equivalent in Kore", key=f"session_db.{key}") for key in fields]


def _is_on(switch: object) -> bool:
    """Return whether a switch is on; the name of a cipher also switches it on."""
    off = ("", "false", "no", "none", "off", "0")
    return str(switch if switch is not None else "").lower() not in off


def _merge_blocked(name: str, value: Any) -> Any:
    """Add a list to our default blocks, because replacing them would loosen a rule."""
    ours = SecuritySection.model_fields[name].default
    if not isinstance(value, list):
        return value
    return [*ours, *(item for item in value if item not in ours)]


def _servers_only(servers: Any) -> ForeignConfig:
    values: dict[Key, Any] = {}
    notes: list[str] = []
    _servers(servers, values, notes)
    return ForeignConfig(values, tuple(notes))


def _servers(servers: Any, values: dict[Key, Any], notes: list[str]) -> None:
    if isinstance(servers, list):
        servers = {str(item.get("name")): item for item in filter(_object, servers)}
    servers_by_name = {}
    for name, entry in _map(servers, "mcpServers").items():
        if not _object(entry) or entry.get("type") == "ws":
            notes.append(t("server {name!r}: unknown server type", name=name))
            continue
        server = {key: entry[key] for key in _SERVER_KEYS if key in entry}
        if server.get("type") in _HTTP_TYPES:
            server["type"] = "http"
        servers_by_name[name] = server
    if servers_by_name:
        values["mcp_servers",] = servers_by_name


def _unknown(content: Mapping[str, Any], known_keys: set[str]) -> list[str]:
    return [t("{key}: no equivalent in Kore", key=key) for key in content if key not in known_keys]


def _map(value: Any, name: str) -> Mapping[str, Any]:
    """Return a map, empty if absent; raises `ValueError` for any other value."""
    if not _object(value or {}):
        raise ValueError(t("{name}: expected an object", name=name))
    return value or {}


def _list(value: Any, name: str) -> list[Any]:
    """Return a list, empty if absent; raises `ValueError` for any other value."""
    if not isinstance(value or [], list):
        raise ValueError(t("{name}: expected a list", name=name))
    return value or []


def _object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _name_of(value: Any) -> str:
    """Return a model's name; KodaX lists models by name, or as objects with an id."""
    if _object(value):
        return str(value.get("id") or value.get("name") or "")
    return str(value or "")


def _yaml(text: str) -> Any:
    """Parse the JSON subset of YAML; a date is its text.

    Aliases are not read, because a few lines of them may expand to gigabytes.
    """
    import yaml

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError(t("an alias (*name), which is not supported"))
        return parse(json.dumps(yaml.safe_load(text), default=str))
    except TypeError:
        raise ValueError(t("a key that is not a string")) from None
    except (yaml.YAMLError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = t("line {line}: ", line=mark.line + 1) if mark else ""
        raise ValueError(f"{where}{t('not valid YAML')}") from None
