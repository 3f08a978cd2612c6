"""Declaration of chat commands: the decorator and its record."""

from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from agent.i18n import mark_for_translation
from agent.records import frozen
from gateway.core.keyboard import KeyboardChoice
from gateway.core.records import CommandAnswer, MenuAudience

Answer = str | CommandAnswer
FunctionT = TypeVar("FunctionT", bound=Callable[..., Answer | Awaitable[Answer]])

CONVERSATION = mark_for_translation("Conversation")
WORK = mark_for_translation("Work")
PERMISSIONS = mark_for_translation("Permissions")
MODEL = mark_for_translation("Model")
THIS_CHAT = mark_for_translation("This chat")
# Section titles of /help, in order.
GROUPS = (CONVERSATION, WORK, PERMISSIONS, MODEL, THIS_CHAT)

_ATTRIBUTE = "chat_commands"


@frozen
class ChatCommand:
    """A command as listed in the table. `answer` and `choices` are "module.function"."""

    name: str
    summary: str
    answer: str
    group: str | None = None
    choices: str | None = None
    takes_time: bool = False
    at_once: bool = False
    aliases: tuple[str, ...] = ()
    audience: MenuAudience = "everyone"
    replaces_window: bool = False


def chat_command(  # noqa: PLR0913 - all but two are options, passed by name
    name: str,
    summary: str,
    *,
    group: str | None = None,
    position: int = 100,
    choices: Callable[..., Sequence[KeyboardChoice]] | None = None,
    at_once: bool = False,
    aliases: Sequence[str] = (),
    audience: MenuAudience = "everyone",
    replaces_window: bool = False,
) -> Callable[[FunctionT], FunctionT]:
    """Declare the function of a chat command; `make schema` writes it into the table.

    `answer(call, tx) -> str` is quick: it runs in the transaction that also stores its answer.
    `async answer(call) -> str` takes time (files, models, the network): it runs in its lane like a
    turn. A crash may run it again, so its effects are keyed by `call.claim.seq`. Both raise
    `CommandRefused` if they do nothing.

    /help lists the command in its `group` by `position`; menus show it to its `audience`. `choices`
    returns the buttons below the answer to the command without arguments. An `at_once` command is
    answered while a turn runs or waits; it must be quick and change nothing that a turn relies on.
    After a command that `replaces_window`, the model sees another conversation, or a shorter one.
    """

    def declare(function: FunctionT) -> FunctionT:
        command = ChatCommand(
            name,
            summary,
            _path(function),
            group,
            choices=_path(choices) if choices is not None else None,
            takes_time=iscoroutinefunction(function),
            at_once=at_once,
            aliases=tuple(aliases),
            audience=audience,
            replaces_window=replaces_window,
        )
        function.__dict__.setdefault(_ATTRIBUTE, []).append((position, command))
        return function

    return declare


def declared_commands(function: object) -> Sequence[tuple[int, ChatCommand]]:
    """Return the commands of a function, each with its position in its group."""
    return getattr(function, _ATTRIBUTE, ())


def _path(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
