"""Command `kore models`: list models and test them."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from agent.errors import ConfigError
from agent.i18n import mark_for_translation, t
from agent.providers.registry import ModelConfig, resolve_model
from gateway.cli.output import clean, print_json, print_table
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.config.model_entries import chosen_model, local_models, model_list, profile_models
from gateway.ops.model_catalog import ModelListing, offers, used_for
from gateway.ops.model_probe import ProbeResult, probe_model

_SOURCES = {
    "configured": mark_for_translation("configured"),
    "environment": mark_for_translation("environment"),
    "local": mark_for_translation("on this machine"),
    "named": mark_for_translation("in use"),
}


def run(args: argparse.Namespace) -> int:
    """Run the action; the exit code is 1 if a tested model cannot be used."""
    return asyncio.run(_list(args) if args.action == "list" else _test(args))


async def _list(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    listings = offers(settings, os.environ, await local_models(settings))
    if args.json:
        print_json([asdict(listing) for listing in listings])
        return 0
    print_table(
        ("name", "model", "used for", "window", "abilities", "price", "source"), map(_row, listings)
    )
    for listing in listings:
        if listing.problem:
            print(f"! {clean(listing.problem)}", file=sys.stderr)
    return 0


def _row(listing: ModelListing) -> tuple[str, ...]:
    window = f"{listing.context_tokens:,}" if listing.context_tokens else ""
    price = ""
    if listing.price_input_usd is not None:
        price = f"${listing.price_input_usd:g} / ${listing.price_output_usd:g}"
    abilities = ((listing.images, t("images")), (listing.reasoning, t("reasoning")))
    can = ", ".join(word for has, word in abilities if has)
    state = t("cannot be used") if listing.problem else t(_SOURCES[listing.source])
    if listing.keys > 1 and not listing.problem:
        state += t(", {n} keys", n=listing.keys)
    return listing.name, listing.model, ", ".join(listing.marks), window, can, price, state


async def _test(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    results: list[ProbeResult] = []
    for name in await _models_to_test(settings, args.name):
        try:
            trials = await probe_model(_config(settings, name))
        except ConfigError as exc:
            if args.name:
                raise
            trials = [ProbeResult(name, name, 1, 1, ok=False, error=str(exc), code=exc.code)]
        results += trials
        if not args.json:
            _print_results(trials, args)
    if args.json:
        print_json([asdict(result) for result in results])
    return 0 if all(result.ok for result in results) else 1


async def _models_to_test(settings: Settings, name: str | None) -> list[str]:
    return [name] if name else list(used_for(settings, os.environ, await local_models(settings)))


def _config(settings: Settings, name: str) -> ModelConfig:
    configured = model_list(settings)
    names = {config.name for config in configured}
    model = name if name in names else profile_models(settings).get(name, name)
    if model == "default" and model not in names:
        model = chosen_model(settings, os.environ)
    return resolve_model(model, configured, os.environ)


def _print_results(trials: Sequence[ProbeResult], args: argparse.Namespace) -> None:
    hide = args.crash.redactor.clean
    for trial in trials:
        key = t(" (key {n} of {all})", n=trial.key, all=trial.keys) if trial.keys > 1 else ""
        model = "" if trial.model == trial.name else f" = {trial.model}"
        if trial.ok:
            times = t(
                "first token {first:.2f} s, tool call and answer {whole:.2f} s",
                first=trial.first_token_s,
                whole=trial.answer_s,
            )
            print(f"ok    {trial.name}{model}{key}: {times}", flush=True)
            continue
        print(f"fails {trial.name}{model}{key}: {clean(hide(trial.error or ''))} [{trial.code}]")
        if trial.hint:
            print(f"      {clean(hide(trial.hint))}", flush=True)
