"""Buttons below the question of an MCP server."""

from agent.approvals import ServerQuestion
from agent.i18n import t
from gateway.core.messages import Button

# More choices are numbered in the text, and a reply names a number.
MAX_BUTTONS = 10
_KIND = "e"
_OTHERWISE = "-"


def buttons_of(nonce: str, query: ServerQuestion) -> tuple[Button, ...]:
    """Return a button for each choice, and always one to decline."""
    buttons = [
        Button(label, f"{_KIND}:{n}:{nonce}") for n, label in enumerate(query.choices, start=1)
    ]
    if query.otherwise:
        buttons.append(Button(query.otherwise, f"{_KIND}:{_OTHERWISE}:{nonce}"))
    return (*buttons, Button(t("Decline"), f"a:d:{nonce}"))


def read_choice(data: str) -> tuple[str, int] | None:
    """Return nonce and number of a button of a server's question, None for any other button.

    Number 0 is an empty answer.
    """
    kind, _, rest = data.partition(":")
    word, _, nonce = rest.partition(":")
    if kind != _KIND or not nonce or not (word.isdecimal() or word == _OTHERWISE):
        return None
    return nonce, 0 if word == _OTHERWISE else int(word)


def words_of(query: ServerQuestion, number: int) -> str:
    """Return the label of the button with this number."""
    return query.choices[number - 1] if 0 < number <= len(query.choices) else ""
