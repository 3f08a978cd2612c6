"""`/plugin`: list, show, enable and disable plugins."""

import asyncio

from agent.i18n import t
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.config.installed_plugins import InstalledPlugin
from gateway.core.errors import CommandRefused
from gateway.core.markdown import code, escape_markdown
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller
from gateway.plugins.page import installed_rows, state_of

_MAX_SUMMARY_CHARS = 120


@chat_command(
    "plugin", "list, enable and disable plugins", group=WORK, position=90, aliases=("plugins",)
)
async def answer_plugin(call: CommandCall) -> str:
    """List, show, enable and disable plugins; everything except the list is for the owner."""
    word, _, name = call.argument.partition(" ")
    installer = PluginInstaller(call.services.home.plugins)
    if word in ("", "list"):
        return _list(await asyncio.to_thread(installer.installed.load))
    if word not in ("show", "enable", "disable") or not name.strip():
        raise CommandRefused(
            t(
                "`/plugin show NAME`, `/plugin enable NAME`, `/plugin disable NAME`. "
                "`kore plugin` installs and updates them on Kore's machine."
            )
        )
    if not call.is_owner:
        raise CommandRefused(t("Only the owner can see and change plugins."))
    try:
        return await asyncio.to_thread(_answer, installer, word, name.strip())
    except PluginError as exc:
        raise CommandRefused(escape_markdown(str(exc))) from exc


def _answer(installer: PluginInstaller, word: str, name: str) -> str:
    if word == "show":
        return _page(installer.find(name))
    installer.change(name, is_enabled=word == "enable")
    if word == "enable":
        return t("{name} is used from the next message on.", name=code(name))
    return t("{name} is not used any more.", name=code(name))


def _list(plugins: dict[str, InstalledPlugin]) -> str:
    if not plugins:
        return t("There are no plugins. `kore plugin install` adds one on Kore's machine.")
    return "\n".join(
        f"- {code(plugin.name)} {escape_markdown(plugin.version)} ({state_of(plugin)}): "
        f"{escape_markdown(plugin.description[:_MAX_SUMMARY_CHARS])}"
        for plugin in plugins.values()
    )


def _page(plugin: InstalledPlugin) -> str:
    title = f"{plugin.name} {plugin.version}".strip()
    lines = [f"**{escape_markdown(title)}**", escape_markdown(plugin.description)]
    lines += [f"- {name}: {escape_markdown(value)}" for name, value in installed_rows(plugin)]
    return "\n".join(filter(None, lines))
