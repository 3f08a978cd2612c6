"""`/style`: style of answers in this conversation."""

import asyncio

from agent.i18n import t
from gateway.commands.declaration import MODEL, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import code, escape_markdown
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices

_OFF = "off"
_MOST_NAMES = 40


@chat_command("style", "show or choose the output style", group=MODEL, position=30)
async def answer_style(call: CommandCall) -> str:
    from gateway.turns.agents.styles import load_styles

    services, name = call.services, call.argument.strip()
    styles = await asyncio.to_thread(load_styles, services.home)
    if not name:
        choice: str | None = None
        if call.session is not None:
            session_choices = await services.database.transact(choices.load, call.session)
            choice = session_choices.get(choices.STYLE)
        if not styles:
            return t("There are no output styles. `output-styles/NAME.md` in Kore's folder is one.")
        lines = [
            f"- {code(one.name)}: {escape_markdown(one.description)}"
            for one in list(styles.values())[:_MOST_NAMES]
        ]
        current = code(choice or _OFF)
        head = t("Output style: {style}. `/style NAME` changes it, `/style off`:", style=current)
        return "\n".join([head, *lines])
    style = styles.get(name.casefold())
    if style is None and name != _OFF:
        return t("There is no output style {name}; see `/style`.", name=code(name[:80]))
    new_choice = None if style is None else style.name

    def choose(tx: Transaction) -> None:
        choices.put(tx, call.begun_session(tx), choices.STYLE, new_choice)

    await services.database.transact(choose)
    if new_choice is None:
        return t("Answers here have no output style any more.")
    return t("Answers here are in the style {name} from now on.", name=code(new_choice))
