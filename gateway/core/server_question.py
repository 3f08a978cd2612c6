"""What an MCP server asks a person: the buttons below it, and what a press on one says."""

from agent.approvals import ServerQuestion
from agent.i18n import t
from gateway.core.messages import Button

# More of them are numbered in the text, and a reply names one.
MOST_BUTTONS = 10
_KIND = "e"
_OTHERWISE = "-"


def buttons_of(nonce: str, query: ServerQuestion) -> tuple[Button, ...]:
    """One for each choice, and always one that declines."""
    buttons = [
        Button(label, f"{_KIND}:{n}:{nonce}") for n, label in enumerate(query.choices, start=1)
    ]
    if query.otherwise:
        buttons.append(Button(query.otherwise, f"{_KIND}:{_OTHERWISE}:{nonce}"))
    return (*buttons, Button(t("Decline"), f"a:d:{nonce}"))


def read_choice(data: str) -> tuple[str, int] | None:
    """Nonce and number of a button below such a question, 0 for the one that stands for an empty
    answer; None for any other button."""
    kind, _, rest = data.partition(":")
    word, _, nonce = rest.partition(":")
    if kind != _KIND or not nonce or not (word.isdecimal() or word == _OTHERWISE):
        return None
    return nonce, 0 if word == _OTHERWISE else int(word)


def words_of(query: ServerQuestion, number: int) -> str:
    """What the button with this number says."""
    return query.choices[number - 1] if 0 < number <= len(query.choices) else ""
