"""Command `kore service`: run the gateway as a service that starts with the machine."""

import argparse
import os
import subprocess
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.providers.vendors import VENDORS
from agent.security.sandbox.trusted_programs import find_trusted_program
from gateway.cli.folders import data_dir_of
from gateway.cli.output import clean_lines, print_json
from gateway.cli.settings import settings_of, sources_of
from gateway.config.atomic_write import write_atomic
from gateway.config.key_catalog import all_keys, setting_at
from gateway.ops.systemd_unit import NAME, lingers, require_systemd, systemctl, unit_path, unit_text


def run(args: argparse.Namespace) -> int:
    return {"install": _install, "status": _status, "logs": _logs, "uninstall": _uninstall}[
        args.action
    ](args)


def _install(args: argparse.Namespace) -> int:
    home = data_dir_of(args)
    config = args.config or os.environ.get("KORE_CONFIG")
    text = unit_text(home, sources_of(args).own_file.resolve() if config else None, os.environ)
    if args.print:
        print(text, end="")
        return 0
    # Report errors that would stop the gateway here, where a person will read them.
    settings_of(args)
    require_systemd()
    home.ensure()
    path = unit_path(os.environ)
    _write(path, text)
    for command in (("daemon-reload",), ("enable", NAME), ("restart", NAME)):
        outcome = systemctl(*command)
        if outcome.code:
            raise KoreError(
                t(
                    "systemctl {words} failed: {reason}",
                    words=command[0],
                    reason=outcome.err.strip(),
                ),
                hint="kore service logs",
            )
    print(t("{path}: written, enabled and started", path=path))
    for name in _exported_variables():
        print(t("{name} is only exported in this shell; the service cannot see it.", name=name))
    if _exported_variables():
        print(t("`kore init` and `kore channel add` save keys in secrets.json."))
    if not lingers():
        print(t("It stops when you log out. To keep it running: loginctl enable-linger"))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise KoreError(f"{path.parent}: {exc.strerror}") from None
    write_atomic(path, text)


def _exported_variables() -> list[str]:
    """Return variables of this shell that Kore reads but a service does not get."""
    keys = {name for vendor in VENDORS.values() for name in vendor.key_variables}
    keys |= {vendor.address_variable for vendor in VENDORS.values() if vendor.address_variable}
    keys |= {name for key in all_keys() if (name := setting_at(key).stored_as)}
    kore_variables = {name for name in os.environ if name.startswith("KORE_")} - {
        "KORE_HOME",
        "KORE_CONFIG",
    }
    return sorted(name for name in keys | kore_variables if os.environ.get(name))


def _status(args: argparse.Namespace) -> int:
    require_systemd()
    path = unit_path(os.environ)
    facts = {
        "installed": path.exists(),
        "unit": str(path),
        "enabled": systemctl("is-enabled", NAME).out.strip() or "no",
        "active": systemctl("is-active", NAME).out.strip() or "unknown",
        "lingers": lingers(),
    }
    if args.json:
        print_json(facts)
    elif facts["installed"]:
        print(t("{unit}: {active}, {enabled}", **facts))
        if not facts["lingers"]:
            print(t("It stops when you log out. To keep it running: loginctl enable-linger"))
    else:
        print(t("Not installed; run `kore service install`."))
    return 0 if facts["active"] == "active" else 1


def _logs(args: argparse.Namespace) -> int:
    """Show the journal's log, or the path of the log file without a journal."""
    journal = find_trusted_program("journalctl")
    if journal is None:
        raise KoreError(t("journalctl not found"), hint=str(data_dir_of(args).logs / "kore.log"))
    if args.follow:
        command = [journal, "--user", "--unit", NAME, "--lines=50", "--follow"]
        return subprocess.run(command, check=False).returncode
    command = [journal, "--user", "--no-pager", "--unit", NAME, "--lines=200"]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    print(args.crash.redactor.clean(clean_lines(result.stdout + result.stderr)), end="")
    return result.returncode


def _uninstall(args: argparse.Namespace) -> int:
    path = unit_path(os.environ)
    if not path.exists():
        raise KoreError(t("{path}: unit not found; nothing was removed", path=path))
    require_systemd()
    systemctl("disable", "--now", NAME)
    path.unlink()
    systemctl("daemon-reload")
    print(t("{path}: stopped and removed; Kore's data is unchanged", path=path))
    return 0
