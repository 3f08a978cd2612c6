"""Definition of a channel: its settings, opening, checks and setup."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import ValidationError

from agent.errors import ConfigError
from agent.records import frozen
from gateway.channels.rate_limiter import Rates
from gateway.config.channel_section import ChannelSection
from gateway.config.python_plugins import PACKAGES, channel_options
from gateway.core.channel_table import CHANNELS
from gateway.core.records import MenuCommand

if TYPE_CHECKING:
    from agent.proxies.outbound import HttpSessions
    from gateway.channels.base import Channel
    from gateway.channels.chat_settings import ChatSettingsIndex
    from gateway.channels.state import ChannelState
    from gateway.config import Settings

SectionT = TypeVar("SectionT", bound=ChannelSection)

CommandMenu = Sequence[MenuCommand]


class Cursors(Protocol):
    """Positions in the platform's streams of updates, stored with accepted batches."""

    async def __call__(self, account: str, not_before: float = 0.0) -> Mapping[str, str]:
        """Return the positions of an account by name that were stored since this Unix time."""
        ...


@frozen
class ChannelContext(Generic[SectionT]):
    """Resources that Kore provides when it opens a channel.

    `http` has sessions for requests, which Kore closes. `own_folder` may not exist yet: see
    `data_folder`. `owner` is the owner's id on the platform, if it is known. Resources that Kore
    has to close are entered on `stack`. `rates` are the spec's rates, reduced if another process of
    the same Kore sends other traffic.
    """

    section: SectionT
    state: "ChannelState"
    cursors: Cursors
    places: "ChatSettingsIndex"
    stack: AsyncExitStack
    http: "HttpSessions"
    own_folder: Path
    menu: CommandMenu = ()
    owner: str | None = None
    rates: Rates | None = None

    @property
    def data_folder(self) -> Path:
        """Private folder for the channel's files, such as keys; backups include it."""
        self.own_folder.parent.mkdir(mode=0o700, exist_ok=True)
        self.own_folder.mkdir(mode=0o700, exist_ok=True)
        return self.own_folder


@frozen
class RateLimits:
    """Rate limits of a platform.

    There is one set for a process that sends everything, and one for a process that only shows
    growing answers.
    """

    all_traffic: Rates
    previews: Rates


@frozen
class ChannelIdentity:
    """Account of the credentials on the platform.

    `account` names it in routes, `label` is for people. `facts` are printed by `kore channel test`;
    `skew_s` is the platform's clock minus ours. `route` is the end of a sentence and names the
    proxy in use.
    """

    account: str
    label: str
    link: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    skew_s: float | None = None
    route: str = ""


@frozen
class SetupStep:
    """Question of `kore channel add` about a key of the section.

    `instructions` are shown before it; `check` raises `KoreError` for an invalid answer.
    """

    key: str
    question: Callable[[], str]
    instructions: Callable[[], Sequence[str]] = tuple
    check: Callable[[str], None] = lambda answer: None


@frozen
class Invitation:
    """Way for a person to become the owner: opening a link, or sending a text to the account."""

    text: str
    is_link: bool = False


def _start_command(identity: ChannelIdentity, code: str) -> Invitation:
    return Invitation(f"/start {code}")


@frozen
class Finding:
    """Result of a check by `kore doctor`; `fix` is the suggested action."""

    state: Literal["ok", "warn", "fail"]
    detail: str
    fix: str | None = None


@frozen
class ChannelSpec(Generic[SectionT]):
    """Definition of a channel for the rest of Kore.

    Built-in channels are listed in `gateway.core.channel_table`; a package offers a channel through
    an entry point of the same name in the group `kore.channels`. A spec is loaded with the
    settings, so its module must not import anything heavy; use `deferred`.

    `title` is the platform's name. `open` returns a channel for each account. `check` raises
    `ConfigError` for unusable settings. `identify` asks the platform for the account of the
    credentials and raises `KoreError`. `doctor` returns further findings without a request. `steps`
    are the questions of `kore channel add`. `invite` turns a code into an invitation whose user
    becomes the owner. `first_account` is the name of the section's own account in routes.
    """

    name: str
    title: str
    section: type[SectionT]
    open: Callable[[ChannelContext[SectionT]], Awaitable[Sequence["Channel"]]]
    check: Callable[[SectionT], None] = lambda section: None
    identify: Callable[[SectionT], Coroutine[Any, Any, ChannelIdentity]] | None = None
    steps: tuple[SetupStep, ...] = ()
    invite: Callable[[ChannelIdentity, str], Invitation] = _start_command
    first_account: Callable[[SectionT], str] = lambda section: "main"
    doctor: Callable[[SectionT], Sequence[Finding]] = lambda section: ()
    rates: RateLimits | None = None

    @property
    def is_built_in(self) -> bool:
        return self.name in CHANNELS

    @property
    def settings_key(self) -> str:
        """Name of the section in messages; for packages, below `python_plugins`."""
        return self.name if self.is_built_in else f"{PACKAGES}.{self.name}"

    def section_of(self, settings: "Settings") -> SectionT:
        """Return the settings of this channel.

        Raises `ConfigError` for invalid settings of a package. A package in the settings is enabled
        by default.
        """
        if self.is_built_in:
            return getattr(settings, self.name)  # type: ignore[no-any-return]
        values = channel_options(settings.python_plugins.get(self.name))
        try:
            return self.section.model_validate(values)
        except ValidationError as exc:
            lines = [
                f"{self.settings_key}.{'.'.join(map(str, error['loc']))}: {error['msg']}"
                for error in exc.errors(include_url=False)
            ]
            raise ConfigError("\n".join(lines)) from None


def deferred(path: str) -> Callable[..., Any]:
    """Return a function that imports and calls the function at `path` (`module:function`)."""

    def call(*args: Any, **more: Any) -> Any:
        return resolve_name(path)(*args, **more)

    return call
