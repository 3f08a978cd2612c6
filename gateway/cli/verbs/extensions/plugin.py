"""Command `kore plugin`: install, enable, update, audit and remove plugins."""

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from getpass import getpass
from typing import Any

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from gateway.cli.change_note import record_change
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean, print_details, print_json, print_list, short, tell
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller, PluginReview
from gateway.plugins.market import Markets
from gateway.plugins.options import PluginOption, Value
from gateway.plugins.page import facts_of, installed_rows, review_rows, state_of

_NO_PLUGINS = mark_for_translation("no plugins; `kore plugin install SOURCE` installs one")


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if an audit finds a difference. Raises `KoreError`."""
    installer = PluginInstaller(data_dir_of(args).plugins)
    actions = {
        "install": _install,
        "list": _list,
        "show": _show,
        "enable": _enable,
        "disable": _enable,
        "update": _update,
        "pin": _pin,
        "remove": _remove,
        "validate": _validate,
        "audit": _audit,
    }
    return actions[args.action](args, installer)


def _install(args: argparse.Namespace, installer: PluginInstaller) -> int:
    source, more = Markets(data_dir_of(args).plugins).locate_source(args.source, args.ref)
    _install_from(args, installer, source, more, ())
    return 0


def _install_from(
    args: argparse.Namespace,
    installer: PluginInstaller,
    source: Mapping[str, Any],
    more: Mapping[str, Any],
    dependents: tuple[str, ...],
) -> None:
    """Install a plugin after its dependencies, with a separate confirmation for each.

    `dependents` are the plugins that need it.
    """
    with installer.fetched(source, **more) as review:
        name = review.manifest.name
        for dependency in review.manifest.dependencies:
            # An earlier dependency may have installed it.
            is_missing = dependency in installer.missing(review.manifest)
            if not is_missing or dependency.partition("@")[0] in (*dependents, name):
                continue
            market = f"@{review.market}" if review.market and "@" not in dependency else ""
            try:
                place = Markets(data_dir_of(args).plugins).locate(f"{dependency}{market}")
            except PluginError as exc:
                reason = t("{name} needs {need}: {reason}", name=name, need=dependency, reason=exc)
                raise PluginError(reason, hint=exc.hint) from None
            tell(t("{name} needs {need}:", name=clean(name), need=clean(dependency)))
            _install_from(args, installer, *place, (*dependents, name))
        _decide(args, installer, review, is_dependency=bool(dependents))


def _decide(
    args: argparse.Namespace,
    installer: PluginInstaller,
    review: PluginReview,
    *,
    is_dependency: bool = False,
) -> None:
    """Show a plugin, ask, and install it; JSON output covers only the requested plugin."""
    if not args.json:
        _print_review(review)
    installer.check_name(review)
    if not args.yes:
        if not sys.stdin.isatty():
            raise KoreError(t("nothing was installed"), hint=t("use --yes to skip the question"))
        print(t("Install it? Type yes: "), end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise KoreError(t("nothing was installed"))
    answers_before = installer.known_answers(review.manifest.name)
    answers = ask_options(review.manifest.options, answers_before, only_required=args.yes)
    plugin = installer.install(review, answers)
    record_change(args, "plugin", plugin.name)
    if args.json and is_dependency:
        return
    if args.json:
        print_json({"name": plugin.name, "version": plugin.version, "digest": plugin.digest})
    else:
        print(t("installed {name} {version}", name=plugin.name, version=plugin.version).strip())


def _print_review(review: PluginReview) -> None:
    manifest = review.manifest
    print_details(f"{manifest.name} {manifest.version}", manifest.description, review_rows(review))


def _list(args: argparse.Namespace, installer: PluginInstaller) -> int:
    print_list(
        args,
        list(installer.installed.load().values()),
        facts_of,
        {
            "name": lambda plugin: plugin.name,
            mark_for_translation("version"): lambda plugin: plugin.version,
            "state": state_of,
            "description": lambda plugin: short(plugin.description),
        },
        t(_NO_PLUGINS),
    )
    return 0


def _show(args: argparse.Namespace, installer: PluginInstaller) -> int:
    plugin = installer.find(args.name)
    if args.json:
        print_json(facts_of(plugin))
    else:
        print_details(f"{plugin.name} {plugin.version}", plugin.description, installed_rows(plugin))
    return 0


def _enable(args: argparse.Namespace, installer: PluginInstaller) -> int:
    is_enabled = args.action == "enable"
    installer.change(args.name, is_enabled=is_enabled)
    record_change(args, "plugin", args.name)
    print(t("{name} is enabled" if is_enabled else "{name} is disabled", name=args.name))
    return 0


def _pin(args: argparse.Namespace, installer: PluginInstaller) -> int:
    installer.change(args.name, is_pinned=not args.revoke)
    record_change(args, "plugin", args.name)
    if args.revoke:
        print(t("{name} is updated with the others", name=args.name))
    else:
        print(t("{name} stays as it is", name=args.name))
    return 0


def _update(args: argparse.Namespace, installer: PluginInstaller) -> int:
    plugins = installer.installed.load()
    names = (
        [args.name]
        if args.name
        else [name for name, plugin in plugins.items() if not plugin.is_pinned]
    )
    if not names:
        print(t("every plugin is pinned") if plugins else t(_NO_PLUGINS))
    for name in names:
        plugin = installer.find(name)
        with installer.fetched_update(name) as review:
            if review.digest == plugin.digest:
                print(t("{name} is up to date", name=name))
            else:
                _decide(args, installer, review)
    return 0


def _remove(args: argparse.Namespace, installer: PluginInstaller) -> int:
    installer.remove(args.name)
    record_change(args, "plugin", args.name)
    print(t("removed: {name}", name=args.name))
    return 0


def _validate(args: argparse.Namespace, installer: PluginInstaller) -> int:
    with installer.fetched({"source": "folder", "path": str(args.folder)}) as review:
        if args.json:
            manifest = review.manifest
            print_json(
                {
                    "name": manifest.name,
                    "files": len(review.files),
                    "not_used": list(manifest.not_used),
                }
            )
        else:
            _print_review(review)
    return 0


def _audit(args: argparse.Namespace, installer: PluginInstaller) -> int:
    findings = installer.audit()
    if args.json:
        print_json(findings)
    else:
        for name, finding in findings.items():
            print(f"{clean(name)}: {finding or t('as it was approved')}")
    return 1 if any(findings.values()) else 0


def ask_options(
    options: Sequence[PluginOption], before: Collection[str], *, only_required: bool
) -> Mapping[str, Value]:
    """Ask for the options without an answer in `before`, and return the answers.

    Raises `PluginError` if a required answer is missing.
    """
    answers: dict[str, Value] = {}
    for option in options:
        if option.variable in os.environ:
            answers[option.key] = option.value_of(os.environ[option.variable])
            continue
        if option.key in before:
            continue
        may_skip = option.default is not None or not option.is_required
        if sys.stdin.isatty() and not (only_required and may_skip):
            answer = _ask(option)
        else:
            answer = option.default
        if answer is not None:
            answers[option.key] = answer
        elif option.is_required:
            raise PluginError(
                t("the plugin needs a value for {key}", key=option.key),
                hint=t(
                    "set the variable {name}, or install it in a terminal", name=option.variable
                ),
            )
    return answers


def _ask(option: PluginOption) -> Value | None:
    """Ask until the answer is valid; an empty answer means the default."""
    if option.description:
        tell(clean(option.description))
    default = "" if option.default is None else f" [{option.default}]"
    prompt = f"{clean(option.title)}{clean(default)}: "
    while True:
        if option.is_secret:
            text = getpass(prompt, stream=sys.stderr)
        else:
            print(prompt, end="", file=sys.stderr, flush=True)
            text = sys.stdin.readline()
            if not text:
                return option.default
        if not text.strip():
            return option.default
        try:
            return option.value_of(text.strip())
        except PluginError as exc:
            tell(str(exc))
