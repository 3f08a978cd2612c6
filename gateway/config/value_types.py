"""Types of values in settings, each with a description for error messages."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from agent.i18n import language_of, t
from agent.security.local_services import LocalService
from agent.security.secret_values import holds_secret, secrets_in_addresses
from gateway.core.channel_table import DEFAULT_CHANNEL


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError(t("a URL that starts with http:// or https://"))
    return text.rstrip("/")


def _store_url(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme in ("postgresql", "postgres") and rest.strip("/"):
        return text
    if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        raise ValueError(t("sqlite:///PATH or postgresql://USER@HOST/DATABASE"))
    return text


def _bus_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        # `port` raises ValueError for an invalid port.
        is_one = parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
        is_one = is_one and parts.path in ("", "/") and not parts.query and not parts.fragment
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError(t("a NATS server: nats://HOST:PORT or tls://HOST:PORT"))
    return text.rstrip("/")


def _proxy(text: str) -> str:
    from agent.errors import ConfigError
    from agent.proxies.outbound import DIRECT, read_proxy

    try:
        return text if text == DIRECT else read_proxy(text).url
    except ConfigError as exc:
        expected = t('http://HOST:PORT, https://HOST:PORT, socks5://HOST:PORT or "none"')
        raise ValueError(expected) from exc


def _file_address(text: str) -> str:
    from gateway.core.addresses import parse_file_address

    try:
        parse_file_address(text)
    except ValueError as exc:
        raise ValueError(
            t("the full path of a folder, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME")
        ) from exc
    return text


def _vendor_model(text: str) -> str:
    vendor, slash, name = text.partition("/")
    if not (vendor and slash and name):
        raise ValueError(t('vendor/model, such as "openai/gpt-5"'))
    return text


def _names(value: Any) -> Any:
    listed = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, str) and item for item in listed):
        raise ValueError(t('a name, or a list of names such as ["a", "b"]'))
    return value


def _zone(text: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError) as exc:
        raise ValueError(t('an IANA time zone, such as "Europe/Berlin"')) from exc
    return text


def _hours(text: str) -> str:
    from gateway.core.timezones import QUIET

    if not QUIET.fullmatch(text):
        raise ValueError(t('hours of the day, such as "22:00-07:00"'))
    return text


_LISTEN = re.compile(r"auto|unix:[/~].*|.+:(\d{1,5})")


def _listen(text: str) -> str:
    address = _LISTEN.fullmatch(text)
    if address is None or int(address[1] or 0) > 65_535:
        raise ValueError(t("127.0.0.1:PORT, unix:/PATH or auto"))
    return text


_MAX_PATTERN_CHARS = 1_000
_MAX_REPEATS = 3
# A group that is repeated, or a reference to one.
_GROUP_REPEATS = re.compile(r"\)[*+{]|\\[0-9]")


def _pattern(text: str) -> str:
    """Check a regular expression for speed, because matching blocks Python."""
    if not _is_quick(text):
        raise ValueError(t('a simpler regular expression, such as "Edit|Write"'))
    try:
        re.compile("" if text == "*" else text)
    except re.error as exc:
        raise ValueError(t('a regular expression, such as "Edit|Write"')) from exc
    return text


def _is_quick(text: str) -> bool:
    """Return whether a pattern has few ways to match.

    Repetitions are not nested and not referred to, and each alternative has few of them. The
    estimate errs on the high side.
    """
    plain = text.replace("(?:", "(")
    if len(plain) > _MAX_PATTERN_CHARS or "(?" in plain or _GROUP_REPEATS.search(plain):
        return False
    if plain.startswith("^"):
        plain = plain[1:]
    plain = plain.removesuffix("$")
    if plain.startswith("(") and plain.endswith(")") and plain.count("(") == 1:
        plain = plain[1:-1]
    has_groups = "(" in plain
    parts = [plain] if has_groups else plain.split("|")
    is_narrow = not has_groups or plain.count("|") <= _MAX_REPEATS
    return is_narrow and all(sum(map(part.count, "*+?{")) <= _MAX_REPEATS for part in parts)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Variables that Kore sets, or that run code before the command itself.
_KORE_VARIABLES = re.compile(
    r"PATH|HOME|TMPDIR|BASH_ENV|ENV|IFS|LD_.*|KORE_.*|.*_proxy", re.IGNORECASE
)


def _variables(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name) or _KORE_VARIABLES.fullmatch(name) or "\0" in value:
            raise ValueError(t("names of variables that Kore does not set itself"))
        if holds_secret(name, value) or any(secrets_in_addresses(value)):
            raise ValueError(t("no secrets: every command of the model could read them"))
    return variables


Flag = Annotated[bool, Strict()]

Whole = Annotated[int, Strict(), Field(ge=1, le=10**12)]

Number = Annotated[float, Strict(), Field(ge=0, le=10**9, allow_inf_nan=False)]

Temperature = Annotated[float, Strict(), Field(ge=0, le=2, allow_inf_nan=False)]

# Variables of commands, none of which may be a secret.
Variables = Annotated[dict[str, str], AfterValidator(_variables)]

# A name in HTTP: https://www.rfc-editor.org/rfc/rfc9110#name-field-names
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]

Word = Annotated[str, Field(min_length=1, max_length=4096)]

FileEnding = Annotated[str, Field(pattern=r"^\.[^/\s]{1,40}$")]

Pattern = Annotated[str, Field(max_length=4096), AfterValidator(_pattern)]

Url = Annotated[str, AfterValidator(_url)]

ProxyUrl = Annotated[str, AfterValidator(_proxy)]

StoreUrl = Annotated[str, AfterValidator(_store_url)]

BusUrl = Annotated[str, AfterValidator(_bus_url)]

ListenText = Annotated[str, AfterValidator(_listen)]

FileAddress = Annotated[str, AfterValidator(_file_address)]


def _language(value: Any) -> Any:
    """Normalize the usual names of Chinese: `zh`, `zh-CN`, `zh_TW`."""
    if isinstance(value, str) and value.casefold().startswith("zh"):
        return language_of(value) or value
    return value


Language = Annotated[Literal["auto", "en", "zh-Hans", "zh-Hant"], BeforeValidator(_language)]
Names = Annotated[Word | tuple[Word, ...], BeforeValidator(_names)]

ZoneName = Annotated[str, AfterValidator(_zone)]

Hours = Annotated[str, AfterValidator(_hours)]

VendorModel = Annotated[str, AfterValidator(_vendor_model)]


def _principal(value: Any) -> Any:
    """Add the default channel to an owner's id that is only a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{DEFAULT_CHANNEL}:{value}"
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return f"{DEFAULT_CHANNEL}:{value}"
    if isinstance(value, str) and value.partition(":")[0] and value.partition(":")[2]:
        return value
    raise ValueError(t('"channel:id", such as "{example}"', example=f"{DEFAULT_CHANNEL}:123456"))


def _audience(value: str) -> str:
    """Check the audience of a role: a person, a chat or a channel. `validation` knows their ids."""
    if re.fullmatch(r"[a-z][a-z0-9_-]*(:chat)?(:\S+)?", value):
        return value
    raise ValueError(audience_forms())


def audience_forms() -> str:
    """Return examples of a role's audience."""
    channel = DEFAULT_CHANNEL
    return t(
        '"{person}" (a person), "{chat}" (a chat) or "{channel}"',
        person=f"{channel}:123",
        chat=f"{channel}:chat:-100123",
        channel=channel,
    )


def _role(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", text):
        raise ValueError(t('the name of a role, such as "general"'))
    return text


Principal = Annotated[str, BeforeValidator(_principal)]

Audience = Annotated[str, AfterValidator(_audience)]

RoleName = Annotated[str, AfterValidator(_role)]


def _folder(text: str) -> str:
    if not text.startswith(("/", "~/")) or text.rstrip("/") in ("", "~"):
        raise ValueError("a folder by its full path, such as /srv/tools or ~/.pyenv")
    return text


def _file(text: str) -> str:
    if not text.startswith(("/", "~/")):
        raise ValueError(t("a file by its full path, such as /etc/kore/cert.pem"))
    return text


def _host(text: str) -> str:
    # Imported here, because every process reads the settings, and few name hosts.
    from agent.security.network.urls import host_name

    try:
        return host_name(text)
    except ValueError as exc:
        raise ValueError("a name such as example.org, or *.example.org for all below it") from exc


def _local_service(text: str) -> str:
    try:
        service = LocalService.parse(text)
    except ValueError as exc:
        raise ValueError("127.0.0.1:PORT, [::1]:PORT or unix:/PATH") from exc
    try:
        return str(service.resolved())
    except ValueError as exc:
        raise ValueError("the path of the socket itself, or one through links of root") from exc


def _network_entry(text: str) -> str:
    # Imported here, because every process reads the settings, and few name hosts.
    from agent.security.network.targets import parse_entry

    try:
        entry = parse_entry(text)
        return str(entry.resolved() if isinstance(entry, LocalService) else entry)
    except ValueError as exc:
        raise ValueError(
            t(
                "a host such as example.org or *, each port of this machine such as "
                "127.0.0.1:8123, or nas.local:5432, nas.local:*, 10.0.0.0/8:5432 or unix:/PATH"
            )
        ) from exc


Folder = Annotated[str, AfterValidator(_folder)]

FilePath = Annotated[str, AfterValidator(_file)]

HostName = Annotated[str, AfterValidator(_host)]

LocalServiceText = Annotated[str, AfterValidator(_local_service)]

NetworkEntry = Annotated[str, AfterValidator(_network_entry)]
