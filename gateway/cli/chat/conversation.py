"""Terminal conversation of `kore agent`, and its working folder."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent.context.project.context import ProjectContext
from agent.errors import KoreError
from agent.i18n import t
from agent.providers.registry import ModelConfig, window_of, with_address
from agent.records import frozen
from gateway.cli.chat.one_shot import DONE
from gateway.cli.chat.project_options import project_context, project_of
from gateway.cli.chat.service_connection import fork_session, service_opener
from gateway.cli.console.chat.conversation import converse
from gateway.cli.console.chat.place import ConsolePlace
from gateway.cli.console.chat.repl import ReplOptions
from gateway.cli.console.chat.shell_escape import Shell, Show, UserCommand
from gateway.cli.console.chat.workdir import ConsoleWorkdir
from gateway.cli.program import program_name
from gateway.cli.project_folder import is_folder_chosen
from gateway.config import Settings
from gateway.config.model_entries import profile_models
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.ops.model_catalog import offers
from gateway.ops.working_place import WorkingPlace
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import agent_option, skill_catalog, worktrees_of


@frozen
class ConsolePlaces:
    """Folders in which a conversation of this terminal can work.

    `options` and `place` are the person's. Another folder may have its own definition of the agent
    in `--agent`.
    """

    args: argparse.Namespace
    options: MessageOptions
    settings: Settings
    home: DataDir
    place: WorkingPlace | None

    def open(self, folder: SessionFolder | None = None) -> ConsolePlace:
        """Return the parts of a conversation in another folder, or in the person's."""
        options, settings = self.options, self.settings
        project: ProjectContext | None = None
        if folder is not None:
            options = options.in_folder(folder)
            if self.args.agent is not None:
                agent = agent_option(self.home, settings, self.args.agent, options.cwd)
                options = replace(options, agent=agent)
        if folder is None or Path(folder.workspace) != settings.agent.workspace.resolve():
            place = self.place if folder is None else None
            project = project_of(self.args, options, settings, place)

        def begin_command(command: str, show: Show) -> UserCommand:
            return UserCommand(Shell.of(settings, options), command, show)

        workdir = workdir_of(options, settings, project, self.home.root)
        return ConsolePlace(options, project, workdir, begin_command)

    def open_worktree(self, name: str, folder: SessionFolder | None) -> ConsolePlace:
        """Return the parts of a conversation in a worktree of a folder's repository.

        The name "leave" means the main checkout. Raises `KoreError`.
        """
        if folder is None:
            raise KoreError(t("this conversation works in no project"))
        place = WorkingPlace(Path(folder.workspace), Path(folder.path))
        root = worktrees_of(self.settings, self.home).enter(place.workspace, name)
        return self.open(place.in_checkout(root).session_folder)


async def talk(places: ConsolePlaces) -> int:
    args, options = places.args, places.options
    session = args.session or args.resume
    is_new = not (session or args.latest)
    connect = service_opener(places.settings, places.home, full_access=options.full_access)
    if args.fork_session:
        async with connect(None) as service:
            session = await fork_session(service, session or None, options.cwd)
    is_chosen = is_folder_chosen(args) or options.full_access is not None
    start = ReplOptions(
        session or None,
        is_new,
        args.resume == "",
        places.open(),
        None if is_chosen else places.open,
        program_name(),
        open_worktree=places.open_worktree,
    )
    await converse(connect, start, places.home.root)
    return DONE


def workdir_of(
    options: MessageOptions, settings: Settings, project: ProjectContext | None, home: Path
) -> ConsoleWorkdir:
    """Return the working folder for a terminal conversation."""

    def models() -> Sequence[str]:
        return [offer.name for offer in offers(settings, os.environ, ())]

    entries = {entry.model_name: entry for entry in settings.model_list}

    def window(model: str) -> int:
        """Return the context window, without needing a key: a client of a gateway may have none."""
        if model not in entries:
            model = profile_models(settings).get(model, model)
        entry = entries.get(model)
        config = ModelConfig(model, model)
        if entry:
            config = ModelConfig(
                model, entry.model, entry.api_base, context_tokens=entry.context_tokens
            )
        window = window_of(with_address(config, os.environ))
        return min(window, settings.context.max_tokens or window)

    def title(model: str) -> str:
        """Return a model's display name, because "default", the name from `kore init`, is
        meaningless.
        """
        first = (entry.model for entry in settings.model_list if entry.model_name == model)
        return next(first, model) if model == "default" else model

    root = Path(options.cwd or settings.agent.workspace)
    start_folder = None if options.start_folder is None else Path(options.start_folder)
    return ConsoleWorkdir(
        root,
        settings.security.blocked_paths,
        lambda: project or project_context(None, (), settings, DataDir(home)),
        models,
        window,
        title,
        skill_catalog(DataDir(home), settings).commands(root.resolve()),
        start_folder,
    )
