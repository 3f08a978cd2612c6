"""Typed settings: all sections, and the layers from which they are read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agent.turn.hook_events import HookEventName
from gateway.config.channel_section import ChannelSection, built_in_sections
from gateway.config.origin import Loc, MissingVariable
from gateway.config.sections import (
    AccessSection,
    AgentFlags,
    AgentSection,
    BusSection,
    ContextSection,
    GoalsSection,
    HookMatcher,
    HookSource,
    HttpSection,
    ImagesSection,
    LimitsSection,
    LoggingSection,
    LspSection,
    LspServer,
    McpServer,
    MediaSection,
    MemorySection,
    ModelEntry,
    ProfilesSection,
    ScheduleSection,
    ScreensSection,
    SecuritySection,
    ServerSection,
    StoreSection,
    SubagentsSection,
    ToolsSection,
    TranscriptionSection,
    TtsSection,
    check_hooks,
)
from gateway.config.setting import Setting
from gateway.config.value_types import RoleName, Word
from gateway.core.channel_table import CHANNELS


@dataclass(slots=True)
class Origins:
    """Origins of keys. Settings with equal values are equal, regardless of their origins."""

    by_location: Mapping[Loc, str] = field(default_factory=dict, compare=False)


class _BaseSettings(BaseSettings):
    """All settings except channels, as defined by their layers (highest first).

    Without layers, they are the defaults. `missing` lists references to unset variables in sections
    where this matters only once they are used; `files` the files that were read.
    """

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix="KORE_",
        # Only `Settings` gets a validator.
        defer_build=True,
    )

    agent: AgentSection = AgentSection()
    model_list: Annotated[
        tuple[ModelEntry, ...],
        Setting(
            "named models",
            see="#an-entry-of-model_list",
            reload="at_once",
            is_deferred=True,
            example=(
                {
                    "model_name": "default",
                    "model": "openai/gpt-5",
                    "api_key": "${OPENAI_API_KEY}",
                },
                {
                    "model_name": "local",
                    "model": "ollama/llama3.2",
                    "api_base": "http://localhost:11434",
                },
            ),
        ),
    ] = ()
    profiles: Annotated[ProfilesSection, Setting(reload="at_once")] = ProfilesSection()
    media: MediaSection = MediaSection()
    transcription: TranscriptionSection = TranscriptionSection()
    tts: TtsSection = TtsSection()
    images: ImagesSection = ImagesSection()
    memory: MemorySection = MemorySection()
    tools: Annotated[ToolsSection, Setting(reload="at_once", is_harmless=True)] = ToolsSection()
    context: Annotated[ContextSection, Setting(reload="at_once", is_harmless=True)] = (
        ContextSection()
    )
    security: Annotated[SecuritySection, Setting(widens_access=True)] = SecuritySection()
    store: StoreSection = StoreSection()
    bus: BusSection = BusSection()
    limits: Annotated[LimitsSection, Setting(reload="at_once", widens_access=True)] = (
        LimitsSection()
    )
    subagents: Annotated[SubagentsSection, Setting(reload="at_once")] = SubagentsSection()
    goals: GoalsSection = GoalsSection()
    screens: ScreensSection = ScreensSection()
    schedule: ScheduleSection = ScheduleSection()
    http: Annotated[HttpSection, Setting(widens_access=True)] = HttpSection()
    server: Annotated[ServerSection, Setting(widens_access=True)] = ServerSection()
    access: Annotated[AccessSection, Setting(reload="at_once", widens_access=True)] = (
        AccessSection()
    )
    agents: Annotated[
        dict[RoleName, AgentFlags],
        Setting(
            'a map from a role to `{"allow_write", "allow_command", "confirm_before_command"}`; '
            "these restrict the role and never extend it",
            see="policy.md",
            reload="at_once",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    logging: Annotated[LoggingSection, Setting(reload="at_once")] = LoggingSection()
    mcp_servers: Annotated[
        dict[str, McpServer],
        Setting(
            'MCP servers by name: `{"command", "args", "env"}` or `{"url", "headers"}`, and who '
            "may do what",
            see="mcp.md",
            widens_access=True,
            is_deferred=True,
        ),
    ] = Field(default_factory=dict)
    lsp: Annotated[LspSection, Setting(widens_access=True)] = LspSection()
    lsp_servers: Annotated[
        dict[str, LspServer],
        Setting(
            'language servers by name, or other settings for those that Kore knows: `{"command", '
            '"args", "extensions", "options"}`',
            see="language-servers.md",
            widens_access=True,
            is_deferred=True,
        ),
    ] = Field(default_factory=dict)
    hooks: Annotated[
        dict[HookEventName, tuple[HookMatcher, ...]],
        AfterValidator(check_hooks),
        Setting(
            "commands and prompts at the beginning and end of turns, and before and after tool "
            'calls: `{"PreToolUse": [{"matcher", "hooks": [{"type": "command", "command", '
            '"timeout", "async"}]}]}`, timeout in seconds (60, at most 600)',
            see="hooks.md",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    python_hooks: Annotated[
        tuple[Word, ...],
        Setting(
            "names of hooks that installed packages offer",
            see="hooks.md#whose-hooks",
            widens_access=True,
        ),
    ] = ()
    python_plugins: Annotated[
        dict[Word, dict[Word, JsonValue]],
        Setting(
            'what installed Python packages offer, by name, each with its settings: `{"weather": '
            '{"city": "Oslo"}}`; only in your own config.json',
            see="plugins.md#python-packages",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)

    _missing: tuple[MissingVariable, ...] = PrivateAttr(default=())
    _files: tuple[Path, ...] = PrivateAttr(default=())
    _project: Path | None = PrivateAttr(default=None)
    _project_files: frozenset[Path] = PrivateAttr(default=frozenset())
    _own_file: Path | None = PrivateAttr(default=None)
    _hidden: tuple[str, ...] = PrivateAttr(default=())
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _unused: tuple[str, ...] = PrivateAttr(default=())
    _project_hooks: tuple[HookSource, ...] = PrivateAttr(default=())
    _trusted_for_run: Path | None = PrivateAttr(default=None)
    _places: Origins = PrivateAttr(default_factory=Origins)

    def __init__(
        self,
        *layers: PydanticBaseSettingsSource,
        missing: Sequence[MissingVariable] = (),
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(layers=layers)
        # Set last, because missing references are known only after all layers were read.
        self._missing, self._files = tuple(missing), tuple(files)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only our layers: the library's sources know neither origins nor restrictions."""
        return tuple(init_settings()["layers"])

    @property
    def channels(self) -> Mapping[str, ChannelSection]:
        """Sections of the built-in channels."""
        return {name: getattr(self, name) for name in CHANNELS}

    @property
    def missing(self) -> tuple[MissingVariable, ...]:
        return self._missing

    @property
    def files(self) -> tuple[Path, ...]:
        return self._files

    @property
    def private_files(self) -> tuple[Path, ...]:
        """The user's own `files`, not a project's, which no tool may read."""
        return tuple(path for path in self._files if path not in self._project_files)

    def set_project_files(self, folder: Path, paths: Collection[Path]) -> None:
        """Set the project's folder and the paths that its files may have; for the loader."""
        self._project, self._project_files = folder, frozenset(paths)

    def project_of_server(self, name: str) -> Path | None:
        """Return the real folder of the project whose file configures this MCP server, else None.

        A server of a plugin or an editor has no project.
        """
        if name not in self.mcp_servers:
            return None
        # Only added servers have a place of their own; the others come with the whole key.
        key = ("mcp_servers", name)
        place = self.places.get(key, self.places.get(key[:1]))
        is_project = place is not None and Path(place) in self._project_files
        return self._project.resolve() if self._project and is_project else None

    @property
    def own_file(self) -> Path | None:
        """Path of the user's own file, which may be absent; None if nothing was loaded."""
        return self._own_file

    def set_own_file(self, path: Path) -> None:
        """Set the path of the user's own file; for the loader."""
        self._own_file = path

    @property
    def places(self) -> Mapping[Loc, str]:
        """Origin of each key and reference, in words; keys at their defaults are absent."""
        return self._places.by_location

    @property
    def hidden(self) -> tuple[str, ...]:
        """Secret texts outside of `SecretStr` fields, such as those in secrets.json."""
        return self._hidden

    def set_hidden(self, texts: Sequence[str]) -> None:
        """Add texts to redact; for the loader."""
        self._hidden = tuple(texts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on files that were not read completely."""
        return self._notes

    def set_notes(self, notes: Sequence[str]) -> None:
        """Set the notes; for readers of the settings."""
        self._notes = tuple(notes)

    @property
    def unused(self) -> tuple[str, ...]:
        """Lines about settings of other programs, and variables, that have no effect."""
        return self._unused

    def set_unused(self, lines: Sequence[str]) -> None:
        """Set the lines about settings without effect; for readers of the settings."""
        self._unused = tuple(lines)

    @property
    def project_hooks(self) -> tuple[HookSource, ...]:
        """Hooks of a trusted project, in addition to `hooks`."""
        return self._project_hooks

    @property
    def trusted_for_run(self) -> Path | None:
        """Folder (a real path) that counts as trusted in this process only; None without one."""
        return self._trusted_for_run

    def set_trusted_for_run(self, folder: Path) -> None:
        """Trust a folder (a real path) in this process only."""
        self._trusted_for_run = folder

    def set_project_hooks(self, sources: Sequence[HookSource]) -> None:
        """Set the project's hooks; for readers of the settings."""
        self._project_hooks = tuple(sources)

    def set_places(self, places: Mapping[Loc, str]) -> None:
        """Set the origins of the keys; for readers of the settings."""
        self._places = Origins(dict(places))


if TYPE_CHECKING:
    Settings = _BaseSettings
else:
    Settings = create_model(
        "Settings",
        __base__=_BaseSettings,
        __doc__=_BaseSettings.__doc__,
        __module__=__name__,
        **{
            name: (Annotated[section, Setting(is_deferred=True)], section())
            for name, section in built_in_sections().items()
        },
    )
