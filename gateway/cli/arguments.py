"""Arguments of every verb: one function for each row of `gateway/cli/verb_table.py`.

The module imports no implementation, so that help and completion stay fast.
"""

import argparse
import re
import time
from datetime import datetime
from pathlib import Path

from agent.i18n import mark_for_translation, t
from agent.providers.effort import EFFORTS
from agent.security.policy.base import MODES
from gateway.control.declaration import SCOPES
from gateway.core.channel_table import CHANNELS, DEFAULT_CHANNEL
from gateway.core.log_levels import LOG_LEVELS
from gateway.core.messages import CONSOLE

SANDBOXES = ("auto", "bwrap", "landlock", "container", "none")
STORE_KEY_SETTING = "store.encryption_key_env"

_LAST_PORT = 65_535
_AGE = re.compile(r"(\d{1,6})([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class _OpenChoices(tuple[str, ...]):
    """Choices that completion offers; channels of installed packages are accepted as well."""

    def __contains__(self, _: object) -> bool:
        return True


def positive_count(text: str) -> int:
    """Parse a count from 1."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a whole number of at least 1", text=text)
        )
    return int(text)


def count(text: str) -> int:
    """Parse a count from 0."""
    return 0 if text == "0" else positive_count(text)


def port_number(text: str) -> int:
    """Parse a TCP port; 0 means any free port."""
    number = count(text)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a port from 0 to 65535", text=text)
        )
    return number


def dollars(text: str) -> float:
    """Parse an amount of money in dollars."""
    return _number(
        text, 0.0, 1e9, mark_for_translation("found {text!r}, expected an amount such as 0.50")
    )


def hours(text: str) -> float:
    """Parse a time in hours."""
    return _number(
        text, 1e-6, 1e4, mark_for_translation("found {text!r}, expected hours such as 1.5")
    )


def _number(text: str, minimum: float, maximum: float, error: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(t(error, text=text))
    return number


def account_name(text: str) -> str:
    """Parse the name of a channel or of an account."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", text):
        raise argparse.ArgumentTypeError(
            t("found {text!r}, expected a name such as work", text=text)
        )
    return text


def past_time(text: str) -> float:
    """Parse "2h" (ago) or a date in local time; return the Unix time."""
    if match := _AGE.fullmatch(text):
        return time.time() - int(match[1]) * _UNITS_S[match[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = t(
            "found {text!r}, expected an age (30m, 2h, 7d) or a date (2026-01-31, "
            "2026-01-31T08:00)",
            text=text,
        )
        raise argparse.ArgumentTypeError(message) from None


def _add_json(*parsers: argparse.ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="print JSON")


def _add_yes(*parsers: argparse.ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def _add_tls_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ca", metavar="FILE", help="trust certificates of this CA only")
    parser.add_argument("--cert", metavar="FILE", help="present this certificate (mutual TLS)")
    parser.add_argument("--key", metavar="FILE", help="its private key")


def _add_name(*parsers: argparse.ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument("name", metavar="NAME")


def _add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add-dir",
        action="append",
        metavar="DIR",
        help="also read and change files in this folder (repeatable)",
    )


def _add_worktree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--worktree",
        metavar="NAME",
        help="work in this git worktree of the project, which is created if needed",
    )


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "text",
        nargs="?",
        metavar="TEXT",
        help="send this, print the answer and exit (- reads stdin)",
    )
    add("-m", "--message", metavar="TEXT", help="same as TEXT")
    add("-p", "--print", metavar="TEXT", dest="printed", help="same, with stdin appended")
    session_group = parser.add_mutually_exclusive_group()
    session_group.add_argument(
        "-c", "--continue", action="store_true", dest="latest", help="continue the last session"
    )
    session_group.add_argument("-s", "--session", metavar="ID", help="continue this session")
    session_group.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID", help="same, or choose from a list"
    )
    add(
        "--fork-session",
        action="store_true",
        help="continue in a copy; the original session stays unchanged",
    )
    add("--model", metavar="NAME", help="a model_list name, vendor/model, or a profile")
    add("--agent", metavar="NAME", help="use this agent (`kore agents list`)")
    add(
        "--effort",
        choices=EFFORTS,
        help="how hard the model thinks before it answers",
    )
    permission_group = parser.add_mutually_exclusive_group()
    permission_group.add_argument(
        "-y",
        "--auto",
        action="store_true",
        help="approve everything that needs an approval",
    )
    permission_group.add_argument(
        "--permission-mode",
        choices=MODES,
        metavar="MODE",
        help="permission mode: plan, ask, accept-edits or auto",
    )
    permission_group.add_argument(
        "--full-access",
        action="store_true",
        help="run everything without approvals or a sandbox, for this run only",
    )
    add("--allowed-tools", metavar="A,B", help="allow only these tools")
    add("--disallowed-tools", metavar="A,B", help="allow all tools except these")
    add("--cwd", type=Path, metavar="DIR", help="work in this folder")
    _add_worktree(parser)
    _add_folders(parser)
    add("--trust", action="store_true", help="trust the project of this folder, for this run only")
    add("-f", "--file", action="append", type=Path, metavar="PATH", help="attach this file")
    add("--sandbox", choices=SANDBOXES, help="sandbox for commands (default: security.sandbox)")
    add("--max-cost", type=dollars, metavar="USD", help="spending limit per turn")
    add("--max-iter", type=positive_count, metavar="N", help="at most N model calls in a turn")
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        default="text",
        help="output format of a single turn (default: text)",
    )
    add(
        "--output-schema",
        type=Path,
        metavar="FILE",
        help="answer with JSON that matches this JSON schema",
    )
    add("--fail-on-denied", action="store_true", help="exit with code 6 if a call was denied")
    add("--profile", type=Path, metavar="FILE", help="write a profile of this run (for pstats)")
    add(
        "--init", action="store_true", help="plan TEXT as a long task: write the checklist and stop"
    )
    add(
        "--auto-continue",
        action="store_true",
        help="run session after session until everything is done",
    )
    add("--max-sessions", type=positive_count, metavar="N", help="(default: 50)")
    add("--max-hours", type=hours, metavar="H", help="(default: no limit)")
    add("--team", metavar="A,B", help="agents that work in parallel")


def add_gateway_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="log to the file only")
    parser.add_argument(
        "--standby",
        action="store_true",
        help="with PostgreSQL: wait until the Kore that owns the database ends",
    )
    parser.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="with PostgreSQL: run turns in N worker processes and in those of `kore worker`",
    )
    parser.add_argument("--full-access", action="store_true", help=argparse.SUPPRESS)


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="log to the file only")
    parser.add_argument(
        "--http-port",
        type=port_number,
        metavar="PORT",
        help="serve /livez, /readyz, /healthz and /metrics on this port of http.host (0: any)",
    )
    # For workers of a gateway: the worker's number. Such a worker exits when its input closes.
    parser.add_argument("--slot", type=int, help=argparse.SUPPRESS)


def add_init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-y", "--yes", action="store_true", help="use detected values and ask nothing"
    )
    parser.add_argument(
        "--live", action="store_true", help="test the key with one short question to the model"
    )


def add_channel_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="add|list|new|remove|test"
    )
    add = actions.add_parser("add", help="connect a chat app and become its owner")
    add.add_argument(
        "--token-env", metavar="VARIABLE", help="read the token from this environment variable"
    )
    add.add_argument(
        "--no-wait", action="store_true", help="print the link and do not wait until it is opened"
    )
    list_parser = actions.add_parser("list", help="list channels and their status")
    _add_json(list_parser)
    remove = actions.add_parser("remove", help="disconnect an account and delete its token")
    _add_yes(remove)
    test = actions.add_parser("test", help="test whether the platform accepts the account")
    _add_json(test)
    new = actions.add_parser("new", help="write the skeleton of a package for another chat app")
    new.add_argument("channel", metavar="NAME", type=account_name, help="name of the new channel")
    new.add_argument("--folder", type=Path, metavar="DIR", help="where to write the package")
    for action in (add, remove, test):
        action.add_argument(
            "channel",
            metavar="CHANNEL",
            choices=_OpenChoices(CHANNELS),
            help=f"such as {DEFAULT_CHANNEL}",
        )
        action.add_argument(
            "--name", metavar="NAME", type=account_name, help="name of an additional account"
        )


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in {
        "validate": mark_for_translation("validate the configuration"),
        "show": mark_for_translation("print the effective configuration"),
    }.items():
        part = actions.add_parser(name, help=summary)
        part.add_argument(
            "file", nargs="?", type=Path, metavar="FILE", help="instead of your own configuration"
        )
        _add_json(part)
    list_parser = actions.add_parser("list", help="list every key with its value and origin")
    list_parser.add_argument(
        "--set", action="store_true", help="only values that differ from the default"
    )
    get_parser = actions.add_parser("get", help="show one value")
    set_parser = actions.add_parser("set", help="set one value in the file")
    unset_parser = actions.add_parser("unset", help="remove one value from the file")
    edit_parser = actions.add_parser(
        "edit", help="open the file in $VISUAL or $EDITOR, then check it"
    )
    for part in (get_parser, set_parser, unset_parser):
        part.add_argument("key", metavar="SECTION.KEY", help="such as agent.model")
    set_parser.add_argument(
        "value", nargs="?", metavar="VALUE", help="text or JSON (default: ask for it)"
    )
    import_parser = actions.add_parser("import", help="import settings from other programs")
    import_parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="only this file")
    _add_json(import_parser)
    revert_parser = actions.add_parser(
        "revert", help="restore the last configuration a gateway used"
    )
    _add_json(revert_parser)
    for part in (list_parser, get_parser, set_parser, unset_parser, edit_parser):
        part.add_argument("--file", type=Path, metavar="FILE", help="another configuration file")
        _add_json(part)
    for part in (set_parser, unset_parser, edit_parser, import_parser, revert_parser):
        part.set_defaults(function="gateway.cli.verbs.config.edit:run")


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show worker processes and messages waiting for them",
    )
    _add_json(parser)


def add_trust_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="default: this folder"
    )
    _add_yes(parser)
    parser.add_argument("--revoke", action="store_true", help="revoke the trust")
    _add_json(parser)


def add_logs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--lines",
        type=positive_count,
        default=50,
        metavar="N",
        help="number of lines (default: 50)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow new lines")
    parser.add_argument("--level", choices=LOG_LEVELS, default="debug", help="minimum level")
    parser.add_argument("--agent", action="store_true", help="log of terminals without a gateway")
    parser.add_argument("--json", action="store_true", help="print raw JSON lines")


def add_reload_arguments(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--live", action="store_true", help="also test the model and the channels with a request"
    )
    _add_json(parser)
    parser.add_argument(
        "--fix", action="store_true", help="offer to fix problems, then check again"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="with --fix: do not ask for confirmation"
    )


def add_models_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list configured, available and local models")
    test = actions.add_parser("test", help="test with a short question and a tool call")
    test.add_argument(
        "name", nargs="?", metavar="NAME", help="a model or profile (default: all in use)"
    )
    _add_json(list_parser, test)


def add_sessions_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list the latest sessions")
    list_parser.add_argument(
        "-n", "--limit", type=positive_count, default=50, metavar="N", help="at most N"
    )
    show = actions.add_parser("show", help="show a session")
    export = actions.add_parser("export", help="print a session for other programs")
    export.add_argument("--format", choices=("jsonl", "markdown"), default="jsonl")
    search = actions.add_parser("search", help="search messages")
    search.add_argument(
        "words", nargs="+", metavar="WORDS", help='words that must all match; "exact phrase"'
    )
    search.add_argument(
        "-n", "--limit", type=positive_count, default=20, metavar="N", help="at most N"
    )
    fork = actions.add_parser("fork", help="copy a session into a new one")
    rename = actions.add_parser("rename", help="rename a session")
    import_parser = actions.add_parser("import", help="import a session from a file (also KodaX)")
    import_parser.add_argument("file", type=Path, metavar="FILE")
    states = [
        actions.add_parser("pause", help="pause a session; new messages are queued"),
        actions.add_parser("resume", help="resume a paused or closed session"),
        actions.add_parser(
            "close",
            help="close a session: its chat starts a new one; you can still read, search and "
            "resume it",
        ),
    ]
    for part in (show, export, fork, rename, *states):
        part.add_argument("id", metavar="ID", help="session id, or an unambiguous prefix")
    rename.add_argument(
        "name", nargs="*", metavar="NAME", help="(none: restore the automatic name)"
    )
    show.add_argument("--html", action="store_true", help="print a page for a browser")
    _add_json(list_parser, show, search, fork, import_parser)


def add_agents_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list the agents available in this folder")
    show = actions.add_parser("show", help="show an agent, with its text and warnings")
    _add_name(show)
    _add_json(list_parser, show)
    new = actions.add_parser("new", help="create an agent file to edit")
    add = new.add_argument
    add("name", metavar="NAME", help="lowercase letters, digits and -")
    add("--description", metavar="TEXT", help="when to use it (the model reads this)")
    add("--tools", metavar="A,B", help="the tools it may use (default: all)")
    add("--model", metavar="NAME", help="profile or model (default: inherit)")
    add("--project", action="store_true", help="in ./.kore/agents instead of Kore's folder")


def add_hooks_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_json(actions.add_parser("list", help="list the hooks that run in this folder"))
    setup = actions.add_parser("setup", help="run the hooks of the event Setup in this folder")
    setup.add_argument(
        "--maintenance", action="store_true", help="with the trigger `maintenance`, not `init`"
    )


def add_plugin_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="show a plugin, and install it once you agree")
    install.add_argument(
        "source",
        metavar="SOURCE",
        help="NAME[@MARKET], a folder, owner/repository, a git address, an archive or npm:NAME",
    )
    install.add_argument("--ref", metavar="REF", help="commit, tag or branch")
    list_parser = actions.add_parser("list", help="list the installed plugins")
    show = actions.add_parser("show", help="show an installed plugin")
    enable = actions.add_parser("enable", help="enable a plugin")
    disable = actions.add_parser("disable", help="disable a plugin without removing it")
    update = actions.add_parser("update", help="check for a new version, and install it")
    pin = actions.add_parser("pin", help="exclude a plugin from updates")
    pin.add_argument("--revoke", action="store_true", help="include it in updates again")
    remove = actions.add_parser("remove", help="remove a plugin")
    validate = actions.add_parser("validate", help="check a plugin's folder")
    validate.add_argument("folder", type=Path, metavar="FOLDER")
    audit = actions.add_parser("audit", help="compare installed plugins with what was approved")
    _add_name(show, enable, disable, pin, remove)
    update.add_argument(
        "name", nargs="?", metavar="NAME", help="(default: all that are not pinned)"
    )
    _add_yes(install, update)
    _add_json(install, list_parser, show, update, validate, audit)


def add_market_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_parser = actions.add_parser("add", help="add a market: a folder, git or an archive")
    add_parser.add_argument(
        "source", metavar="SOURCE", help="a folder, owner/repository, git, archive"
    )
    add_parser.add_argument("--ref", metavar="REF", help="commit, tag or branch")
    list_parser = actions.add_parser("list", help="list the markets")
    search_parser = actions.add_parser("search", help="search the plugins of all markets")
    search_parser.add_argument("words", nargs="*", metavar="WORD", help="(default: all plugins)")
    update_parser = actions.add_parser("update", help="fetch the markets again")
    update_parser.add_argument("name", nargs="?", metavar="NAME", help="(default: all markets)")
    remove_parser = actions.add_parser("remove", help="remove a market; its plugins stay installed")
    _add_name(remove_parser)
    index = actions.add_parser("index", help="create a market index for a folder of plugins")
    index.add_argument("folder", type=Path, metavar="FOLDER")
    index.add_argument("--name", required=True, metavar="NAME", help="of the market")
    _add_json(add_parser, list_parser, search_parser)


def add_skills_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list the skills available in this folder")
    show = actions.add_parser("show", help="show a skill, with its text, files and warnings")
    _add_name(show)
    validate = actions.add_parser("validate", help="check a skill's folder or SKILL.md")
    validate.add_argument("path", type=Path, metavar="PATH")
    _add_json(list_parser, show, validate)
    new = actions.add_parser("new", help="create a skill to edit")
    new.add_argument("name", metavar="NAME", help="lowercase letters, digits and -")
    new.add_argument("--description", metavar="TEXT", help="when to use it (the model reads this)")
    new.add_argument(
        "--project", action="store_true", help="in ./.agents/skills instead of Kore's folder"
    )


def add_mcp_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list the servers and their tools")
    add_parser = actions.add_parser(
        "add",
        help="add a server: a command to start, or a URL",
        usage="kore mcp add [OPTION…] NAME URL\n"
        "       kore mcp add [OPTION…] NAME -- COMMAND [ARG…]",
    )
    add = add_parser.add_argument
    add("name", metavar="NAME", help="letters, digits, - and _")
    add(
        "-e",
        "--env",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an environment variable for the server",
    )
    add(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="an HTTP header, for a URL",
    )
    add("--folder", metavar="FOLDER", help="the folder it may use")
    add("--read-only", action="store_true", help="it may only read its folders")
    add(
        "--add-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="it may also read and change this folder (repeatable)",
    )
    add(
        "--add-read-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="it may also read this folder (repeatable)",
    )
    add(
        "--network",
        action="append",
        metavar="HOST",
        help='a host it may reach, a target such as nas.local:5432 or unix:/PATH, or "none"',
    )
    add("--allow", action="append", default=[], metavar="TOOL", help="runs without asking")
    add("--sse", action="store_true", help="the URL uses the old SSE transport")
    add("target", nargs="+", metavar="TARGET", help="a URL, or a command to start")
    test_parser = actions.add_parser("test", help="start a server and show what it offers")
    test_parser.add_argument(
        "--accept", action="store_true", help="accept tools whose descriptions have changed"
    )
    remove_parser = actions.add_parser("remove", help="remove a server")
    allow_parser = actions.add_parser("allow", help="let a tool of a server run without asking")
    allow_parser.add_argument("--revoke", action="store_true", help="ask again")
    serve_parser = actions.add_parser("serve", help="let other programs use Kore as an MCP server")
    serve = serve_parser.add_argument
    serve("--port", type=int, metavar="N", help="over HTTP on 127.0.0.1 (default: stdio)")
    serve(
        "--tools",
        metavar="A,B",
        help="of ask, search_conversations, send_message (default: the first two)",
    )
    serve("--agent", metavar="NAME", help="use this agent (`kore agents list`)")
    serve("--permission-mode", choices=MODES, metavar="MODE", help="(default: ask)")
    serve("--cwd", type=Path, metavar="DIR", help="work in this folder")
    login_parser = actions.add_parser("login", help="log in to a server with OAuth")
    login = login_parser.add_argument
    login("--no-browser", action="store_true", help="only print the link")
    login(
        "--port", type=int, default=0, metavar="N", help="port for the redirect from the login page"
    )
    login("--client-id", metavar="ID", help="client ID, if Kore cannot register itself")
    login("--client-secret-env", metavar="NAME", help="the variable with the client secret")
    logout_parser = actions.add_parser("logout", help="delete the login")
    logs = actions.add_parser("logs", help="show the log of a server")
    serve_parser.set_defaults(function="gateway.cli.verbs.mcp.serve:run")
    login_parser.set_defaults(function="gateway.cli.verbs.mcp.login:login")
    logout_parser.set_defaults(function="gateway.cli.verbs.mcp.login:logout")
    logs.add_argument("-n", "--lines", type=int, default=50, metavar="N")
    _add_name(test_parser, remove_parser, allow_parser, login_parser, logout_parser, logs)
    allow_parser.add_argument(
        "tool", metavar="TOOL", help='the tool\'s own name; "*" means all tools'
    )
    _add_json(list_parser, add_parser, test_parser, remove_parser, allow_parser, logout_parser)


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--listen-addr",
        metavar="ADDR",
        help="127.0.0.1:PORT, unix:/PATH, or auto for a free port (default: 127.0.0.1:8790)",
    )
    add("--tls-cert", type=Path, metavar="FILE", help="certificate for TLS 1.3, in PEM form")
    add("--tls-key", type=Path, metavar="FILE", help="its private key")
    add("--client-ca", type=Path, metavar="FILE", help="clients must show a certificate of this CA")
    add("--insecure", action="store_true", help="let other machines connect without TLS")


def add_web_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--listen-addr", metavar="ADDR", help="as for `kore serve`")
    parser.add_argument("--no-browser", action="store_true", help="only print the link")


def add_attach_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "address",
        nargs="?",
        metavar="ADDR",
        help="HOST:PORT, https://HOST:PORT or unix:/PATH (default: the server on this machine)",
    )
    _add_tls_files(parser)
    add("-s", "--session", metavar="ID", help="continue this session")
    add("-c", "--continue", action="store_true", dest="latest", help="continue the last session")


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_parser = actions.add_parser("add", help="create a token; it is shown once")
    add_parser.add_argument("name", metavar="NAME", help="what the token is for")
    add_parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help="what it may do; repeatable (default: chat)",
    )
    add_parser.add_argument(
        "--role",
        metavar="ROLE",
        help="a separate person with this role, who can only talk with Kore",
    )
    list_parser = actions.add_parser("list", help="list the tokens, without their secrets")
    _add_json(list_parser)
    revoke_parser = actions.add_parser("revoke", help="revoke a token at once")
    _add_name(revoke_parser)


def add_tui_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "address",
        nargs="?",
        metavar="ADDR",
        help="HOST:PORT, https://… or unix:/PATH of another Kore (default: the local one)",
    )
    _add_tls_files(parser)
    add("-s", "--session", action="append", metavar="ID", help="open this session (repeatable)")
    add("-c", "--continue", action="store_true", dest="latest", help="open the last session")
    add("--cwd", type=Path, metavar="DIR", help="work in this folder")
    _add_worktree(parser)
    _add_folders(parser)
    add("--model", metavar="NAME", help="a model_list name, vendor/model, or a profile")
    add("--agent", metavar="NAME", help="use this agent (`kore agents list`)")
    add("--permission-mode", choices=MODES, metavar="MODE", help="(default: ask)")
    parser.set_defaults(file=None, sandbox=None)


def add_acp_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--agent", metavar="NAME", help="use this agent (`kore agents list`)")
    add("--permission-mode", choices=MODES, metavar="MODE", help="(default: ask)")


def add_tools_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_parser = actions.add_parser("list", help="list tools with aliases, effects and roles")
    _add_json(list_parser)


def add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="tail|search|verify")
    tail = actions.add_parser("tail", help="show the latest entries")
    tail.add_argument(
        "-n", type=positive_count, default=20, metavar="N", help="number of entries (default: 20)"
    )
    tail.add_argument("--follow", action="store_true", help="follow new entries until Ctrl-C")
    search = actions.add_parser("search", help="search entries, oldest first")
    search.add_argument("text", nargs="?", metavar="TEXT", help="text anywhere in the entry")
    search.add_argument("--tool", metavar="NAME", help="by tool")
    search.add_argument("--session", metavar="ID", help="session id prefix")
    search.add_argument("--denied", action="store_true", help="only denied calls")
    search.add_argument("--since", type=past_time, metavar="WHEN", help="2h, 7d, or 2026-01-31")
    check = actions.add_parser("verify", help="check for deleted, edited and moved entries")
    check.add_argument("--head", metavar="HASH", help="an earlier head hash that must still exist")
    _add_json(tail, search, check)


def add_cron_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|add|remove|pause|resume|run"
    )
    list_parser = actions.add_parser("list", help="list jobs with their last result")
    _add_json(list_parser)
    add_parser = actions.add_parser(
        "add", help="add a reminder, or with --ask a task for the agent"
    )
    add_parser.add_argument(
        "when", metavar="WHEN", help='"tomorrow at 9", "every 2h", "0 9 * * 1-5"'
    )
    add_parser.add_argument("text", metavar="TEXT", help="text of the reminder or task")
    add_parser.add_argument(
        "--ask", action="store_true", help="treat the text as a task, not a reminder"
    )
    add_parser.add_argument("--own", action="store_true", help="start a new conversation each time")
    add_parser.add_argument("--urgent", action="store_true", help="ignore quiet hours")
    add_parser.add_argument("--zone", metavar="NAME", help="time zone, such as Europe/Berlin")
    add_parser.add_argument(
        "--catch-up",
        choices=("skip", "once", "all"),
        default="once",
        help="how to handle missed runs (default: once)",
    )
    _add_json(add_parser)
    for name, summary in {
        "remove": mark_for_translation("remove a job"),
        "pause": mark_for_translation("pause a job"),
        "resume": mark_for_translation("resume a paused or disabled job"),
        "run": mark_for_translation("run a job now"),
    }.items():
        job_parser = actions.add_parser(name, help=summary)
        job_parser.add_argument("number", type=int, metavar="N", help="the job's number")
        _add_json(job_parser)


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|approve|revoke")
    list_parser = actions.add_parser("list", help="list paired users and pending requests")
    _add_json(list_parser)
    approve = actions.add_parser("approve", help="approve a request")
    approve.add_argument("code", metavar="CODE", help="the pairing code they received")
    revoke = actions.add_parser("revoke", help="revoke a user's access")
    revoke.add_argument("id", metavar="ID", help=f"id as listed, such as {DEFAULT_CHANNEL}:123")


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="allow, ask or deny")
    check.add_argument("words", nargs="+", metavar="COMMAND", help="a shell command, in quotes")
    explain = actions.add_parser("explain", help="show a role, or every rule's verdict")
    explain.add_argument("words", nargs="*", metavar="COMMAND", help="a command, or a tool's name")
    grants = actions.add_parser("grants", help="list permanent grants")
    _add_json(grants)
    revoke = actions.add_parser("revoke", help="revoke a grant")
    revoke.add_argument("id", metavar="ID|all", help="number from `grants`, or all")
    for action in (check, explain):
        add = action.add_argument
        add("--role", metavar="R", default="build", help="role (default: build)")
        add("--mode", choices=MODES, help="the permission mode (default: the channel's)")
        add("--channel", metavar="C", default=CONSOLE, help="source (default: cli)")
        _add_json(action)


def add_user_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show_parser = actions.add_parser("show", help="show how much data is stored about a person")
    export_parser = actions.add_parser("export", help="export the data as a zip file")
    delete_parser = actions.add_parser("delete", help="delete all of the data")
    for part in (show_parser, export_parser, delete_parser):
        part.add_argument(
            "who", metavar="ID", help=f"such as {DEFAULT_CHANNEL}:123 (see `kore pair list`)"
        )
        _add_json(part)
    export_parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the zip file")
    _add_yes(delete_parser)
    delete_parser.add_argument(
        "--with-copies", action="store_true", help="also delete backups made by upgrades"
    )


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    metavar = "install|status|logs|uninstall"
    actions = parser.add_subparsers(dest="action", required=True, metavar=metavar)
    install = actions.add_parser("install", help="install and start a user service")
    install.add_argument("--print", action="store_true", help="only print the unit")
    status = actions.add_parser("status", help="show whether it is installed and running")
    _add_json(status)
    logs = actions.add_parser("logs", help="show its log")
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log")
    actions.add_parser("uninstall", help="stop and remove it")


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "seq", type=positive_count, metavar="SEQ", help="message number in the inbox"
    )


def add_store_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="rekey|copy|mark-restored"
    )
    rekey = actions.add_parser(
        "rekey", help="change or remove the key that encrypts all stored messages"
    )
    rekey.add_argument(
        "--from",
        dest="source",
        metavar="ENV_NAME",
        help=f"the variable with the current key (else that of {STORE_KEY_SETTING})",
    )
    target = rekey.add_mutually_exclusive_group()
    target.add_argument(
        "--to",
        metavar="ENV_NAME",
        help=f"the variable with the new key (else that of {STORE_KEY_SETTING})",
    )
    target.add_argument("--plain", action="store_true", help="store them unencrypted from now on")
    _add_json(rekey)
    copy = actions.add_parser(
        "copy", help="copy everything into another, empty database, and compare every row"
    )
    for name in ("source", "target"):
        copy.add_argument(
            name,
            metavar=name.upper(),
            help="sqlite:///PATH, postgresql://USER@HOST/DATABASE, or `store` for the one in use",
        )
    _add_json(copy)
    restored_parser = actions.add_parser(
        "mark-restored",
        help="close work in progress after a restore with the database server's own tools",
    )
    _add_json(restored_parser)


def add_review_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--base", metavar="REF", help="review the commits since this branch or commit")
    add("--comment", action="store_true", help="post comments on the pull or merge request")
    add("--cwd", type=Path, metavar="DIR", help="the repository around this folder")
    add("--model", metavar="NAME", help="a model_list name, vendor/model, or a profile")
    add("--effort", choices=EFFORTS, help="how hard the model thinks before it answers")
    add("--max-cost", type=dollars, metavar="USD", help="spending limit")
    add("--max-iter", type=positive_count, metavar="N", help="at most N model calls")
    _add_json(parser)


def add_eval_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("places", nargs="*", type=Path, metavar="FILE|FOLDER", help="cases (default: ./evals)")
    add("--model", metavar="NAME", help="model to evaluate (default: the configured one)")
    add("--scripted", action="store_true", help="no model: replay each case's script")
    add("--repeat", type=positive_count, default=1, metavar="N", help="run each case N times")
    add(
        "-j",
        "--parallel",
        type=positive_count,
        default=1,
        metavar="N",
        help="number of parallel cases",
    )
    _add_json(parser)


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the backup file; a .zip also includes configuration, secrets and workspace",
    )
    _add_json(parser)


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file created by `kore backup`")
    _add_yes(parser)
    parser.add_argument(
        "--database-only", action="store_true", help="keep the current configuration and workspace"
    )
    _add_json(parser)


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help="shell to generate completions for"
    )
