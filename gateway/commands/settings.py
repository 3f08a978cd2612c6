"""Commands for a chat's answers: mode, model, effort, queue, verbose, language."""

import asyncio
from collections.abc import Mapping
from typing import Literal, get_args

from agent.errors import ConfigError
from agent.i18n import ENGLISH, LANGUAGES, language_of, mark_for_translation, t, use_locale
from agent.providers.effort import EFFORTS, read_effort
from agent.providers.registry import PROFILES
from agent.security.policy.base import MODES, PermissionMode, is_mode
from gateway.commands import is_command
from gateway.commands.declaration import MODEL, PERMISSIONS, THIS_CHAT, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import code, escape_markdown
from gateway.core.messages import QueueMode
from gateway.core.records import Trace
from gateway.sessions.mode_choice import choose_mode
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import queue_default
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.conversations.choices import StoredChoices
from gateway.store.repositories.delivery import inbox
from gateway.turns.agents.profiles import MAIN, with_model
from gateway.turns.agents.styles import find_style, load_styles
from gateway.turns.permissions import may_choose, mode_of

_MAX_AGENTS = 40

_MODE_MEANINGS: dict[PermissionMode, str] = {
    "plan": mark_for_translation("reads and answers; changes nothing"),
    "ask": mark_for_translation("asks before running commands and changing existing files"),
    "accept-edits": mark_for_translation(
        "changes workspace files and runs ordinary commands in the sandbox without asking"
    ),
    "auto": mark_for_translation("runs everything your role allows without asking"),
}
# Each is in its own language, so that its speakers recognize it.
LANGUAGE_NAMES = {ENGLISH: "English", "zh-Hans": "简体中文", "zh-Hant": "繁體中文"}
AUTO_LANGUAGE = "auto"
_LANGUAGE_ALIASES = {
    "english": ENGLISH,
    **dict.fromkeys(("中文", "简体", "简体中文", "chinese"), "zh-Hans"),
    **dict.fromkeys(("繁體", "繁體中文", "繁体", "繁体中文"), "zh-Hant"),
}
_MAX_MODEL_BUTTONS = 12
_MAX_WAITING = 5
_MAX_WAITING_CHARS = 60
_OFF = "off"
_MAX_NAMES = 40


def mode_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    modes = choosable_modes(call, tx)
    return [KeyboardChoice(mode, "mode", mode, of_session=True) for mode in modes]


@chat_command(
    "mode",
    "permission mode: plan, ask, accept-edits, auto",
    group=PERMISSIONS,
    position=10,
    choices=mode_choices,
)
@chat_command(
    "plan",
    "plan mode: read and answer, change nothing",
    group=PERMISSIONS,
    position=20,
    choices=mode_choices,
)
@chat_command(
    "auto",
    "auto mode: run without asking (owner only)",
    group=PERMISSIONS,
    position=30,
    choices=mode_choices,
    audience="owner",
)
def answer_mode(call: CommandCall, tx: Transaction) -> str:
    """Show or choose the mode of a conversation.

    Only the owner may loosen it. Others may tighten it, and undo that in their own chat.
    """
    message = call.message
    current = current_mode(call, tx)
    mode_name = call.argument.casefold() if call.name == "mode" else call.name
    modes = choosable_modes(call, tx)
    if not mode_name:
        lines = [t("Mode: `{current}`. `/mode NAME` changes it:", current=current)]
        return "\n".join([*lines, *(f"- `{mode}` {mode_meaning(mode)}" for mode in modes)])
    if not is_mode(mode_name):
        names = ", ".join(f"`{mode}`" for mode in modes)
        raise CommandRefused(
            t(
                "Unknown mode; choose one of {known}. Still using `{current}`.",
                known=names,
                current=current,
            )
        )
    refusal = refused_mode(call, mode_name, current)
    if refusal is not None:
        raise CommandRefused(refusal)
    session = call.begun_session(tx)
    by = {"who": message.principal, "chat": message.session_key}
    choose_mode(tx, session, mode_name, current, by, call.now)
    return t(
        "Mode of this conversation: `{mode}`, {meaning}.",
        mode=mode_name,
        meaning=mode_meaning(mode_name),
    )


def current_mode(call: CommandCall, tx: Transaction) -> PermissionMode:
    """Return the mode in which a message of this person would run now."""
    message, session = call.message, call.session
    session_mode = sessions.chosen_mode(tx, session) if session else None
    default = call.services.default_mode(message.channel)
    return mode_of(message, session_mode, default, owner=call.is_owner)


def choosable_modes(call: CommandCall, tx: Transaction) -> list[PermissionMode]:
    """Return the modes that this person may choose here."""
    current = current_mode(call, tx)
    return [mode for mode in MODES if _may_choose(call, mode, current)]


def _may_choose(call: CommandCall, mode: PermissionMode, current: PermissionMode) -> bool:
    default = call.services.default_mode(call.message.channel)
    return may_choose(call.message, mode, current, default, owner=call.is_owner)


def refused_mode(call: CommandCall, mode: PermissionMode, current: PermissionMode) -> str | None:
    """Return a sentence if this person may not choose the mode here."""
    if _may_choose(call, mode, current):
        return None
    return t(
        "Only the owner can choose `{wanted}` here. Still using `{current}`.",
        wanted=mode,
        current=current,
    )


def mode_meaning(mode: PermissionMode) -> str:
    return t(_MODE_MEANINGS[mode])


def language_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    names = [
        *((language, LANGUAGE_NAMES[language]) for language in LANGUAGES),
        (AUTO_LANGUAGE, AUTO_LANGUAGE),
    ]
    return [KeyboardChoice(label, "language", language) for language, label in names]


@chat_command(
    "language",
    "show or change my language",
    group=THIS_CHAT,
    position=40,
    choices=language_choices,
    at_once=True,
    audience="private",
)
def answer_language(call: CommandCall, tx: Transaction) -> str:
    languages, message = call.services.languages, call.message
    name = call.argument.strip()
    if not name:
        return _language_text(languages.of(message))
    language = _parse_language(name)
    if language is None:
        raise CommandRefused(
            t("Language {name} is not supported yet.", name=escape_markdown(name[:40]))
            + f"\n{_language_lines()}"
        )
    current = languages.choose(tx, message, None if language == AUTO_LANGUAGE else language)
    with use_locale(current):
        return t("Language set to {name}.", name=LANGUAGE_NAMES[current])


def _parse_language(name: str) -> str | None:
    """Return the named language; None for an unavailable one."""
    word = name.casefold()
    if word in (AUTO_LANGUAGE, *_LANGUAGE_ALIASES):
        return _LANGUAGE_ALIASES.get(word, AUTO_LANGUAGE)
    codes = {language.casefold(): language for language in LANGUAGES}
    if word in codes or word.startswith(("zh-", "zh_", "en-", "en_")) or word == "zh":
        return codes.get(word) or language_of(word)
    return None


def _language_text(current: str) -> str:
    head = t("Language: {name}. `/language NAME` changes it:", name=LANGUAGE_NAMES[current])
    return f"{head}\n{_language_lines()}"


def _language_lines() -> str:
    lines = [f"- `{language}` {LANGUAGE_NAMES[language]}" for language in LANGUAGES]
    return "\n".join([*lines, t("- `auto`: same as your app or terminal")])


def model_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    configured = [model.name for model in call.services.agent.models.known]
    names = dict.fromkeys([*configured, *PROFILES])
    return [KeyboardChoice(name, "model", name, of_session=True) for name in names][
        :_MAX_MODEL_BUTTONS
    ]


@chat_command(
    "model",
    "show or choose the model of this conversation",
    group=MODEL,
    position=10,
    choices=model_choices,
)
def answer_model(call: CommandCall, tx: Transaction) -> str:
    models, name = call.services.agent.models, call.argument
    now_chosen = model_of_call(call, tx)
    if not name:
        configured = ", ".join(code(model.name) for model in models.known)
        profiles = ", ".join(f"`{profile}`" for profile in PROFILES)
        return t(
            "Model: {model}. Configured: {known}. `/model NAME` changes it; profiles: {profiles}."
            if configured
            else "Model: {model}. `/model NAME` changes it; profiles: {profiles}.",
            model=code(now_chosen),
            known=configured,
            profiles=profiles,
        )
    allowed_names = {models.default, *PROFILES, *(model.name for model in models.known)}
    if not call.is_owner and name not in allowed_names:
        raise CommandRefused(
            t(
                "Only the owner can choose a model that is not configured. "
                "Still using {now_chosen}.",
                now_chosen=code(now_chosen),
            )
        )
    try:
        models.check(name)
    except ConfigError as exc:
        raise CommandRefused(
            t(
                "{exc}. Still using {now_chosen}.",
                exc=escape_markdown(str(exc)),
                now_chosen=code(now_chosen),
            )
        ) from exc
    # Choosing a model, even the same one again, suggests that it works now.
    models.expire_cooldowns(name)
    choices.put(tx, call.begun_session(tx), choices.MODEL, name)
    return t("Model for this conversation: {name}.", name=code(name))


@chat_command("agent", "show or choose the agent that answers here", group=MODEL, position=20)
async def answer_agent(call: CommandCall) -> str:
    """Show or choose the agent that answers in this conversation."""
    services, name = call.services, call.argument
    audience = services.permissions.audience(call.message)
    agents = await asyncio.to_thread(services.agent.subagents.load, call.folder)
    own: str | None = None
    if call.session is not None:
        session_choices = await services.database.transact(choices.load, call.session)
        own = session_choices.get(choices.AGENT)
    now_chosen = code(own or audience.agent or MAIN)
    names = ", ".join(code(agent) for agent in (MAIN, *list(agents)[:_MAX_AGENTS]))
    if not name:
        return t(
            "{agent} answers here. `/agent NAME` changes it: {names}.",
            agent=now_chosen,
            names=names,
        )
    is_main = name.casefold() == MAIN
    definition = None if is_main else services.agent.subagents.find(name, call.folder)
    if not is_main and definition is None:
        raise CommandRefused(
            t(
                "There is no agent {name}; {now_chosen} still answers. There are: {names}.",
                name=code(name[:80]),
                now_chosen=now_chosen,
                names=names,
            )
        )
    new_choice = MAIN if definition is None else definition.name

    def choose(tx: Transaction) -> None:
        choices.put(tx, call.begun_session(tx), choices.AGENT, new_choice)

    await services.database.transact(choose)
    return t("{agent} answers in this conversation from now on.", agent=code(new_choice))


def _choices_of(call: CommandCall, tx: Transaction) -> StoredChoices:
    """Return the choices of the chat's current conversation."""
    return choices.load(tx, call.session) if call.session else StoredChoices()


def model_of_call(call: CommandCall, tx: Transaction) -> str:
    """Return the model that answers in this conversation."""
    own = _choices_of(call, tx).get(choices.MODEL)
    models, audience = call.services.agent.models, call.services.permissions.audience(call.message)
    return with_model(audience, call.message, own, models).model or models.default


_QUEUE_MEANINGS: dict[QueueMode, str] = {
    "queue": mark_for_translation("messages are answered one at a time"),
    "join": mark_for_translation("queued messages get one combined answer"),
    "steer": mark_for_translation("a message joins the running turn before its next step"),
}


@chat_command(
    "queue", "show the queue; set queue, join or steer", group=THIS_CHAT, position=20, at_once=True
)
def answer_queue(call: CommandCall, tx: Transaction) -> str:
    lane = call.message.session_key
    mode = call.message.options.queue_mode(
        sessions.queue_mode_of_lane(tx, lane), queue_default(tx, lane)
    )
    name = call.argument.casefold()
    if not name:
        return "\n".join([*_waiting_lines(call, tx), "", *_queue_mode_lines(mode)])
    new_mode = next((argument for argument in get_args(QueueMode) if argument == name), None)
    if new_mode is None:
        names = ", ".join(f"`{name}`" for name in _QUEUE_MEANINGS)
        raise CommandRefused(
            t("Unknown mode; choose one of {known}. Still using `{mode}`.", known=names, mode=mode)
        )
    choices.put(tx, call.begun_session(tx), choices.QUEUE, new_mode)
    meaning = t(_QUEUE_MEANINGS[new_mode])
    return t("Messages sent while I work: `{mode}`, {meaning}.", mode=new_mode, meaning=meaning)


def _waiting_lines(call: CommandCall, tx: Transaction) -> list[str]:
    waiting = [
        message
        for message in inbox.waiting_messages(tx, call.message.session_key)
        if not (is_command(message) and message.event_id == call.message.event_id)
        and not message.is_for_goal
    ]
    if not waiting:
        return [t("The queue is empty.")]
    lines = [t("{n} queued:", n=len(waiting))]
    lines += [f"- {_shorten(message.content)}" for message in waiting[:_MAX_WAITING]]
    if len(waiting) > _MAX_WAITING:
        lines.append(t("- and {n} more", n=len(waiting) - _MAX_WAITING))
    return lines


def _queue_mode_lines(mode: str) -> list[str]:
    lines = [t("Messages sent while I work: `{mode}`. `/queue NAME` changes it:", mode=mode)]
    return [*lines, *(f"- `{name}`: {t(meaning)}" for name, meaning in _QUEUE_MEANINGS.items())]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return code(line if len(line) <= _MAX_WAITING_CHARS else f"{line[: _MAX_WAITING_CHARS - 1]}…")


def effort_choices(call: CommandCall, tx: Transaction) -> list[KeyboardChoice]:
    return [KeyboardChoice(effort, "effort", effort, of_session=True) for effort in EFFORTS]


@chat_command(
    "effort",
    "show or set how hard the model thinks",
    group=MODEL,
    position=40,
    choices=effort_choices,
)
def answer_effort(call: CommandCall, tx: Transaction) -> str:
    """Show or choose the effort of the model in this conversation."""
    word = call.argument.casefold()
    levels = ", ".join(f"`{name}`" for name in (*EFFORTS, "default"))
    usage = t("`/effort` accepts {levels}.", levels=levels)
    general = call.services.agent.settings.effort
    if not word:
        effort = call.message.options.effort or _choices_of(call, tx).get(choices.EFFORT)
        return f"{_effort_text(effort or general)} {usage}"
    effort = read_effort(word)
    if effort is None and word != "default":
        raise CommandRefused(usage)
    choices.put(tx, call.begun_session(tx), choices.EFFORT, effort)
    return _effort_text(effort or general)


def _effort_text(effort: str | None) -> str:
    level = t("model default") if effort is None else f"`{effort}`"
    return t("Effort in this conversation: {level}.", level=level)


_THINKING_WORDS: Mapping[str, Literal["shown", "hidden"]] = {"show": "shown", "hide": "hidden"}


@chat_command("thinking", "show or hide the model's thoughts", group=MODEL, position=41)
def answer_thinking(call: CommandCall, tx: Transaction) -> str:
    """Show or choose whether screens show the thoughts in this conversation."""
    word = call.argument.casefold()
    usage = t("`/thinking` accepts `show` and `hide`; `/effort` sets how hard the model thinks.")
    if not word:
        return f"{_thinking_text(_choices_of(call, tx))} {usage}"
    if word not in _THINKING_WORDS:
        raise CommandRefused(usage)
    session = call.begun_session(tx)
    choices.put(tx, session, choices.THINKING_DISPLAY, _THINKING_WORDS[word])
    return _thinking_text(choices.load(tx, session))


def _thinking_text(session_choices: StoredChoices) -> str:
    if session_choices.shows_thinking:
        return t("Thoughts are shown in this conversation.")
    return t("Thoughts are hidden in this conversation.")


_TRACE_MEANINGS: dict[Trace, str] = {
    "off": mark_for_translation("the answer only"),
    "summary": mark_for_translation("a line below with tools, changed files and cost"),
    "full": mark_for_translation("every step as well"),
}


@chat_command("verbose", "detail below answers: off, summary, full", group=THIS_CHAT, position=30)
def answer_verbose(call: CommandCall, tx: Transaction) -> str:
    default = call.services.renderer.trace(call.message.route)
    if default is None:
        raise CommandRefused(t("The terminal always shows the steps; `/verbose` is for chats."))
    session_level = _choices_of(call, tx).get(choices.TRACE)
    name = call.argument.casefold()
    level = next((argument for argument in get_args(Trace) if argument == name), None)
    if level is None:
        head = t(
            "Detail below answers: `{level}`. `/verbose NAME` changes it:",
            level=session_level or default,
        )
        return "\n".join(
            [head, *(f"- `{detail}` {t(meaning)}" for detail, meaning in _TRACE_MEANINGS.items())]
        )
    choices.put(tx, call.begun_session(tx), choices.TRACE, level)
    return t(
        "Detail below answers: `{level}`, {meaning}.",
        level=level,
        meaning=t(_TRACE_MEANINGS[level]),
    )


@chat_command("style", "show or choose the output style", group=MODEL, position=30)
async def answer_style(call: CommandCall) -> str:
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
            f"- {code(item.name)}: {escape_markdown(item.description)}"
            for item in list(styles.values())[:_MAX_NAMES]
        ]
        current = code(choice or _OFF)
        head = t("Output style: {style}. `/style NAME` changes it, `/style off`:", style=current)
        return "\n".join([head, *lines])
    style = await asyncio.to_thread(find_style, services.home, name)
    if style is None and name != _OFF:
        raise CommandRefused(
            t("There is no output style {name}; see `/style`.", name=code(name[:80]))
        )
    new_choice = None if style is None else style.name

    def choose(tx: Transaction) -> None:
        choices.put(tx, call.begun_session(tx), choices.STYLE, new_choice)

    await services.database.transact(choose)
    if new_choice is None:
        return t("Answers here have no output style any more.")
    return t("Answers here are in the style {name} from now on.", name=code(new_choice))
