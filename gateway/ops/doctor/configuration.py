"""Checks of the settings: model, limits, roles, channels and sandbox."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, KoreError
from agent.i18n import mark_for_translation, t
from agent.providers.registry import OFFLINE, resolve_model
from agent.security.files.folder_tree import scratch_folder
from agent.security.sandbox.selector import installation_hint, select_sandbox
from agent.text.visible import escape_line
from gateway.access.roles import RoleRegistry
from gateway.channels.registry import chat_settings
from gateway.channels.spec import ChannelSpec
from gateway.channels.table import all_specs, require_usable
from gateway.config import Settings, require_model
from gateway.config.channel_section import ChannelSection
from gateway.config.foreign.hook_files import hook_lines
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.model_entries import chosen_model, model_list
from gateway.ops.doctor.checks import Check
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import reachable_hosts, sandbox_options
from gateway.runtime.secrets import unredacted_settings
from gateway.turns.agents.factory import hook_sources, python_hooks
from gateway.turns.usage.limits import has_money_limits, unenforceable

_NO_SANDBOX = mark_for_translation('set security.sandbox to "auto"')
_NO_WAY_OUT = mark_for_translation(
    "install bubblewrap (apt install bubblewrap), or clear security.exec_hosts and"
    " security.exec_local"
)


def check_model(settings: Settings, environ: Mapping[str, str], local: Sequence[str]) -> Check:
    """Check that the model has an address and a key, without a request.

    `local` are the models of servers on this machine.
    """
    try:
        require_model(settings)
        name = chosen_model(settings, environ, local)
        config = resolve_model(name, model_list(settings), environ)
    except KoreError as exc:
        return Check(
            "model", "fail", str(exc), exc.hint or t("set the key, or choose another agent.model")
        )
    if config.model == OFFLINE:
        fix = t("set OPENAI_API_KEY or another vendor's key")
        return Check("model", "warn", t("offline/echo, a stand-in without a model"), fix)
    return Check(
        "model", "ok", t("{model} at {api_base}", model=config.model, api_base=config.api_base)
    )


def check_imports(settings: Settings) -> Iterator[Check]:
    """List files that were not read, and settings that have no effect."""
    for note in settings.notes:
        yield Check("config", "warn", note)
    for line in settings.unused:
        yield Check("unused settings", "ok", line)


def check_secrets(settings: Settings) -> Check:
    """Check for secrets that are plain words, which are not redacted."""
    if names := ", ".join(unredacted_settings(settings)):
        return Check("secrets", "ok", t("words, which are not redacted: {names}", names=names))
    return Check("secrets", "ok", t("all are redacted where they would be shown"))


def check_limits(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Check that limits on money are enforceable: the model's price is known."""
    try:
        config = resolve_model(chosen_model(settings, environ), model_list(settings), environ)
    except KoreError:
        return Check("limits", "ok", t("not checked: no model is configured"))
    if warning := unenforceable(settings.limits, config):
        sentence, _, fix = warning.partition(". ")
        return Check("limits", "warn", sentence, fix)
    return Check(
        "limits", "ok", t("spending limits") if has_money_limits(settings.limits) else t("none")
    )


def check_policy(settings: Settings) -> Check:
    """Check the policy file."""
    try:
        RoleRegistry.of(settings)
    except KoreError as exc:
        return Check("policy", "fail", str(exc), exc.hint or t("fix the file"))
    file = settings.security.policy_file
    return Check("policy", "ok", str(file) if file else t("no policy file; using built-in roles"))


def check_hooks(settings: Settings, home: DataDir) -> Check:
    """List the commands of hooks, which see messages and actions."""
    try:
        python_hooks(settings)
    except ConfigError as exc:
        return Check("hooks", "fail", str(exc), exc.hint)
    sources = hook_sources(settings, InstalledPlugins(home.plugins))
    lines = [f"{source.origin}: {', '.join(hook_lines(source.hooks))}" for source in sources]
    lines += [f"Python: {name}" for name in settings.python_hooks]
    return Check("hooks", "ok", escape_line("; ".join(lines)) if lines else t("none"))


def check_language_servers(settings: Settings, home: DataDir) -> Check:
    """List the installed language servers; a configured but missing one is a warning."""
    from agent.code.lsp.programs import find_server_program
    from agent.code.lsp.servers import all_servers
    from gateway.config.servers import lsp_settings

    try:
        servers = lsp_settings(settings, home.lsp, InstalledPlugins(home.plugins))
    except ConfigError as exc:
        return Check("language servers", "fail", str(exc), exc.hint)
    if not servers.enabled:
        return Check("language servers", "ok", t("switched off"))
    folders = (settings.agent.workspace, Path.cwd())
    programs = {
        server.name: find_server_program(server, folders) for server in all_servers(servers)
    }
    missing = [server.name for server in servers.servers if programs[server.name] is None]
    if missing:
        return Check(
            "language servers",
            "warn",
            t("not installed: {names}", names=escape_line(", ".join(missing))),
            t("install them, or remove them from lsp_servers; see docs/language-servers.md"),
        )
    lines = [f"{name} ({path})" for name, path in programs.items() if path is not None]
    text = escape_line(", ".join(lines)) or t("none installed; see docs/language-servers.md")
    return Check("language servers", "ok", text)


def check_channels(settings: Settings, home: DataDir) -> Iterator[Check]:
    """Check the settings and the permitted senders of each channel."""
    for spec in all_specs(settings):
        try:
            section = spec.section_of(settings)
            if not section.enabled:
                yield Check(spec.name, "ok", t("not enabled"))
                continue
            require_usable(spec, section, settings)
            chat_settings(spec.settings_key, section, settings, home)
        except KoreError as exc:
            yield Check(spec.name, "fail", str(exc), exc.hint)
            continue
        yield _check_senders(spec, section)
        for finding in spec.doctor(section):
            yield Check(spec.name, finding.state, finding.detail, finding.fix)


def _check_senders(spec: ChannelSpec[Any], section: ChannelSection) -> Check:
    if "*" in section.allow_from:
        return Check(
            spec.name,
            "warn",
            t('allow_from is ["*"]: anyone can use this bot'),
            t("list the ids of people in {key}", key=f"{spec.settings_key}.allow_from"),
        )
    if not section.allow_from:
        return Check(spec.name, "ok", t("new users get a pairing code: `kore pair approve CODE`"))
    return Check(spec.name, "ok", t("allowed: {allow_from}", allow_from=len(section.allow_from)))


def check_sandbox(settings: Settings, home: DataDir) -> Check:
    """Check that commands are confined.

    Every available back end is tested again, by real escape attempts.
    """
    folder = home.root if home.root.is_dir() else None
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(scratch_folder("kore-doctor-"))
        try:
            choice = select_sandbox(sandbox_options(settings, home.root), folder, afresh=True)
        except ConfigError as exc:
            return Check("sandbox", "fail", str(exc), exc.hint)
    before = "; ".join(f"{name}: {reason}" for name, reason in choice.failures.items())
    if choice.sandbox.confines:
        summary = t("{sandbox} (tested, working)", sandbox=choice.sandbox.name)
        if hosts := ", ".join(reachable_hosts(settings)):
            if not choice.sandbox.supports_egress:
                summary = t(
                    "{sandbox} cannot restrict the network to {hosts}: commands are refused",
                    sandbox=choice.sandbox.name,
                    hosts=hosts,
                )
                return Check("sandbox", "warn", summary, t(_NO_WAY_OUT))
            summary += t("; network access: {hosts}", hosts=hosts)
        return Check("sandbox", "ok", f"{summary} ({before})" if before else summary)
    if settings.security.sandbox == "none":
        return Check(
            "sandbox", "warn", t("none: commands run with your full permissions"), t(_NO_SANDBOX)
        )
    return Check("sandbox", "warn", t("none ({before})", before=before), installation_hint())
