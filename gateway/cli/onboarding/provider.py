"""Choice of the model: provider or local server, key, and a live check."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from agent.errors import KoreError
from agent.i18n import t
from agent.providers.local_discovery import LocalServer, discover_local_servers, models_at
from agent.providers.registry import ModelConfig, normalise_base, resolve_model
from agent.providers.vendors import VENDORS, Vendor
from agent.records import frozen
from gateway.cli.onboarding.dialogue import Dialogue
from gateway.ops.credential_checks import check_model_key

NAME = "default"
_MAX_MODELS_SHOWN = 15
# Vendor for any other OpenAI-compatible server.
_COMPATIBLE_VENDOR = "openai"
_OLLAMA = "ollama"
_LOCAL_SUFFIXES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
NextStep = Literal["again", "key", "model", "address", "keep"]


@frozen
class ProviderChoice:
    """Option of the provider list: a vendor, or None for the offline echo model.

    `asks_address` marks a server that was not found; `default_address` is its default URL.
    """

    label: str
    vendor: Vendor | None
    models: tuple[str, ...] = ()
    asks_address: bool = False
    default_address: str = ""


@frozen
class ProviderSetup:
    """Entry for model_list and the secrets that it refers to."""

    entry: Mapping[str, Any] | None
    secrets: Mapping[str, str]


def ask_provider(
    dialogue: Dialogue,
    environ: Mapping[str, str],
    current: str | None,
    *,
    find_local: bool = True,
) -> ProviderSetup | None:
    """Ask for the model; return None to keep `current`, the configured model.

    With `find_local`, the servers on this machine are offered.
    """
    servers: list[LocalServer] = []
    if find_local:
        dialogue.say(t("Looking for model servers on this machine …"))
        servers = asyncio.run(discover_local_servers())
    choices = list_choices(servers, environ)
    keep_option = [t("keep {model}", model=current)] if current else []
    number = dialogue.choose(
        t("Which model provider?"), [*keep_option, *(c.label for c in choices)]
    )
    if number < len(keep_option):
        return None
    return _details(dialogue, choices[number - len(keep_option)], environ)


def list_choices(
    servers: Sequence[LocalServer], environ: Mapping[str, str]
) -> list[ProviderChoice]:
    """Return the options: local servers, vendors with exported keys, then all others."""
    choices = [
        ProviderChoice(
            t(
                "{name} on this machine ({models})",
                name=server.vendor,
                models=_summarize_models(server.models),
            ),
            VENDORS[server.vendor],
            server.models,
        )
        for server in servers
    ]
    vendors = [vendor for vendor in VENDORS.values() if vendor.default_model]
    ready = {vendor.name: _exported_variable(vendor, environ) for vendor in vendors}
    choices += [
        ProviderChoice(t("{name} (key in {variable})", name=v.name, variable=ready[v.name]), v)
        for v in vendors
        if ready[v.name]
    ]
    choices += [ProviderChoice(v.name, v) for v in vendors if not ready[v.name]]
    if all(server.vendor != _OLLAMA for server in servers):
        label = t("{name}: local models (not running now)", name=_OLLAMA)
        usual = VENDORS[_OLLAMA].api_base
        choices.append(
            ProviderChoice(label, VENDORS[_OLLAMA], asks_address=True, default_address=usual)
        )
    other = t("another OpenAI-compatible server")
    choices.append(ProviderChoice(other, VENDORS[_COMPATIBLE_VENDOR], asks_address=True))
    choices.append(
        ProviderChoice(t("none for now (an offline stand-in that repeats what you write)"), None)
    )
    return choices


def _details(
    dialogue: Dialogue, choice: ProviderChoice, environ: Mapping[str, str]
) -> ProviderSetup:
    """Ask for model, address and key until a check succeeds or the person accepts a failure."""
    vendor = choice.vendor
    if vendor is None:
        return ProviderSetup(None, {})
    address = _ask_address(dialogue, vendor, choice) if choice.asks_address else None
    variable = _exported_variable(vendor, environ) if not choice.asks_address else None
    if address is None:
        model = _ask_model(dialogue, vendor, choice)
    key = (
        environ[variable] if variable else _ask_key(dialogue, vendor, optional=choice.asks_address)
    )
    if address is not None:
        # Some servers require a key to list their models.
        choice = _with_models(dialogue, choice, vendor, address, key)
        model = _ask_model(dialogue, vendor, choice)
    while True:
        config = ModelConfig(NAME, f"{vendor.name}/{model}", address, key or None)
        dialogue.say(t("Testing {model} …", model=config.model))
        failure = check_model(config, environ)
        if failure is None:
            break
        _explain(dialogue, failure, environ)
        match _ask_next_step(dialogue, failure, choice):
            case "key":
                variable, key = None, _ask_key(dialogue, vendor, optional=choice.asks_address)
            case "model":
                model = _ask_model(dialogue, vendor, choice)
            case "address":
                address = _ask_address(dialogue, vendor, choice)
            case "keep":
                break
    if failure is None:
        dialogue.say(t("It works."))
    return _make_choice(config, vendor, variable, key)


def _ask_next_step(dialogue: Dialogue, failure: KoreError, choice: ProviderChoice) -> NextStep:
    """Ask for the next step after a failed check; the likely fix comes first."""
    steps: dict[NextStep, str] = {"again": t("try again")}
    if choice.vendor is not None and choice.vendor.key_variables:
        steps["key"] = t("another key")
    steps["model"] = t("another model")
    if choice.asks_address:
        steps["address"] = t("another URL")
    steps["keep"] = t("keep it anyway")
    likely = "key" if failure.code == "key-refused" else "again"
    ordered = sorted(steps, key=lambda step: step != likely)
    return ordered[dialogue.choose(t("What now?"), [steps[step] for step in ordered])]


def check_model(config: ModelConfig, environ: Mapping[str, str]) -> KoreError | None:
    """Return the error of a test request, or None on success."""
    try:
        asyncio.run(check_model_key(resolve_model(NAME, (config,), environ)))
    except KoreError as exc:
        return exc
    return None


def _explain(dialogue: Dialogue, failure: KoreError, environ: Mapping[str, str]) -> None:
    dialogue.say(f"  {failure}" + (f"\n  {failure.hint}" if failure.hint else ""))


def _make_choice(
    config: ModelConfig, vendor: Vendor, variable: str | None, key: str
) -> ProviderSetup:
    entry: dict[str, Any] = {"model_name": NAME, "model": config.model}
    if config.api_base:
        entry["api_base"] = config.api_base
    if not key:
        return ProviderSetup(entry, {})
    name = variable or _free_variable(vendor, key, is_custom=bool(config.api_base))
    return ProviderSetup(entry | {"api_key": f"${{{name}}}"}, {} if variable else {name: key})


def _free_variable(vendor: Vendor, key: str, *, is_custom: bool) -> str:
    """Return a name for secrets.json that no exported variable overrides."""
    name = "KORE_SECRET_MODEL_LIST_DEFAULT_API_KEY"
    if is_custom or not vendor.key_variables:
        return name
    usual = vendor.key_variables[0]
    return name if os.environ.get(usual, key) != key else usual


def _ask_address(dialogue: Dialogue, vendor: Vendor, choice: ProviderChoice) -> str:
    def judge(text: str) -> str | None:
        try:
            normalise_base(_with_scheme(text), vendor.version)
        except KoreError as exc:
            return str(exc)
        return None

    question = t("Its URL, such as http://192.168.1.5:8080/v1")
    if choice.default_address:
        question = t("Its URL")
    return normalise_base(
        _with_scheme(dialogue.ask(question, choice.default_address, judge)), vendor.version
    )


def _with_scheme(text: str) -> str:
    """Return the URL with a scheme: http for local hosts, https for others."""
    if not text or "://" in text:
        return text
    host = text.partition("/")[0]
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    name = (name or port).strip("[]").lower()
    is_near = "." not in name or name.replace(".", "").isdecimal() or name.endswith(_LOCAL_SUFFIXES)
    return f"http://{text}" if is_near else f"https://{text}"


def _with_models(
    dialogue: Dialogue, choice: ProviderChoice, vendor: Vendor, address: str, key: str
) -> ProviderChoice:
    """Return the choice with the models of the server."""
    is_ollama = vendor.protocol == "ollama"
    models = asyncio.run(models_at(address, key, is_ollama=is_ollama))
    if not models:
        dialogue.say(t("{address} did not return a list of models.", address=address))
        if is_ollama:
            dialogue.say(
                t("Start it with `ollama serve`; get a model with `ollama pull llama3.2`.")
            )
    return replace(choice, models=tuple(models))


def _ask_model(dialogue: Dialogue, vendor: Vendor, choice: ProviderChoice) -> str:
    if choice.models:
        models_shown = choice.models[:_MAX_MODELS_SHOWN]
        other = [t("another one")] if choice.asks_address else []
        number = dialogue.choose(t("Which model?"), [*models_shown, *other])
        if number < len(models_shown):
            return models_shown[number]

    def judge(text: str) -> str | None:
        return None if text else t("Type the name of a model.")

    # A custom server uses the vendor's protocol with other models.
    usual = "" if choice.asks_address else vendor.default_model or ""
    return dialogue.ask(t("Which model?"), usual, judge).removeprefix(f"{vendor.name}/")


def _ask_key(dialogue: Dialogue, vendor: Vendor, *, optional: bool) -> str:
    if not vendor.key_variables:
        return ""
    question = (
        t("API key, if it needs one (hidden while you paste; Enter: none)")
        if optional
        else t("API key for {name} (hidden while you paste)", name=vendor.name)
    )
    while True:
        key = dialogue.secret(question)
        if key.isascii() and " " not in key and (key or optional):
            return key
        dialogue.say(
            t("That is not a valid key: expected one word of letters, digits and symbols.")
        )


def _exported_variable(vendor: Vendor, environ: Mapping[str, str]) -> str | None:
    return next((name for name in vendor.key_variables if environ.get(name)), None)


def _summarize_models(models: Sequence[str]) -> str:
    names = ", ".join(models[:3]) or t("no model yet")
    return f"{names}, …" if len(models) > 3 else names
