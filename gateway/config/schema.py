"""The typed settings: the sections together, and the layers that they are read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, JsonValue, PrivateAttr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.config.hook_source import HookSource
from gateway.config.origin import Loc, MissingVariable
from gateway.config.sections import (
    AccessSection,
    AgentFlags,
    AgentSection,
    BusSection,
    ContextSection,
    HookEventName,
    HookMatcher,
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
    SecuritySection,
    ServerSection,
    StoreSection,
    SubagentsSection,
    TelegramSection,
    ToolsSection,
    TranscriptionSection,
    TtsSection,
)
from gateway.config.value_types import RoleName, Word


@dataclass(slots=True)
class Origins:
    """Where keys were set. Settings that say the same are equal, wherever it was said."""

    by_location: Mapping[Loc, str] = field(default_factory=dict, compare=False)


class Settings(BaseSettings):
    """All settings, as their layers give them (the highest first); without any, the defaults.

    `missing` lists references to variables that are not set, in places where that matters only
    once they are used; `files` the files that were read.
    """

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, env_prefix="KORE_"
    )

    agent: AgentSection = AgentSection()
    model_list: tuple[ModelEntry, ...] = ()
    profiles: ProfilesSection = ProfilesSection()
    telegram: TelegramSection = TelegramSection()
    media: MediaSection = MediaSection()
    transcription: TranscriptionSection = TranscriptionSection()
    tts: TtsSection = TtsSection()
    images: ImagesSection = ImagesSection()
    memory: MemorySection = MemorySection()
    tools: ToolsSection = ToolsSection()
    context: ContextSection = ContextSection()
    security: SecuritySection = SecuritySection()
    store: StoreSection = StoreSection()
    bus: BusSection = BusSection()
    limits: LimitsSection = LimitsSection()
    subagents: SubagentsSection = SubagentsSection()
    schedule: ScheduleSection = ScheduleSection()
    http: HttpSection = HttpSection()
    server: ServerSection = ServerSection()
    access: AccessSection = AccessSection()
    agents: dict[RoleName, AgentFlags] = Field(default_factory=dict)
    logging: LoggingSection = LoggingSection()
    mcp_servers: dict[str, McpServer] = Field(default_factory=dict)
    lsp: LspSection = LspSection()
    lsp_servers: dict[str, LspServer] = Field(default_factory=dict)
    hooks: dict[HookEventName, tuple[HookMatcher, ...]] = Field(default_factory=dict)
    python_hooks: tuple[Word, ...] = ()
    python_plugins: dict[Word, dict[Word, JsonValue]] = Field(default_factory=dict)

    _missing: tuple[MissingVariable, ...] = PrivateAttr(default=())
    _files: tuple[Path, ...] = PrivateAttr(default=())
    _own_file: Path | None = PrivateAttr(default=None)
    _hidden: tuple[str, ...] = PrivateAttr(default=())
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _project_hooks: tuple[HookSource, ...] = PrivateAttr(default=())
    _places: Origins = PrivateAttr(default_factory=Origins)

    def __init__(
        self,
        *layers: PydanticBaseSettingsSource,
        missing: Sequence[MissingVariable] = (),
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(layers=layers)
        # Only now: what is missing is known once the layers were asked.
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
        """Our layers alone: the library's own sources know neither places nor lesser rights."""
        return tuple(init_settings()["layers"])

    @property
    def missing(self) -> tuple[MissingVariable, ...]:
        return self._missing

    @property
    def files(self) -> tuple[Path, ...]:
        return self._files

    @property
    def own_file(self) -> Path | None:
        """The user's own file, whether it is there or not; None when nothing was loaded."""
        return self._own_file

    def set_own_file(self, path: Path) -> None:
        """Set by the loader."""
        self._own_file = path

    @property
    def places(self) -> Mapping[Loc, str]:
        """Where each key was set, in words, and where a reference led to; what is not in here is
        at its default."""
        return self._places.by_location

    @property
    def hidden(self) -> tuple[str, ...]:
        """Secret texts that no field of type `SecretStr` holds: secrets.json, and the like."""
        return self._hidden

    def set_hidden(self, texts: Sequence[str]) -> None:
        """Further texts to redact; set by the loader."""
        self._hidden = tuple(texts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of files that were not read, or not as a whole."""
        return self._notes

    def set_notes(self, notes: Sequence[str]) -> None:
        """For readers of the settings."""
        self._notes = tuple(notes)

    @property
    def project_hooks(self) -> tuple[HookSource, ...]:
        """The hooks of a trusted project, beside those of `hooks`."""
        return self._project_hooks

    def set_project_hooks(self, sources: Sequence[HookSource]) -> None:
        """For readers of the settings."""
        self._project_hooks = tuple(sources)

    def set_places(self, places: Mapping[Loc, str]) -> None:
        """Where the keys were set; for readers of the settings."""
        self._places = Origins(dict(places))
