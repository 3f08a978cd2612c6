"""What is told of messages that have left the window."""

from collections.abc import Sequence

from agent.context.token_budget import middle_out
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.types import Message, Taint


@frozen
class Summary:
    """`first` is the request that the conversation began with, word for word; `text` tells what
    followed, `todo` is the model's list where no message that stayed holds it. `taint` is what the
    conversation had taken in: telling it again does not cleanse it.
    """

    text: str
    first: str = ""
    todo: str = ""
    taint: frozenset[Taint] = frozenset()

    @property
    def front(self) -> str:
        """As the model reads it, in front of the messages that stayed."""
        told = render_prompt("summary_front", summary=self.text)
        if self.todo:
            told = f"{told}\n\n{render_prompt('summary_todo', todo=self.todo)}"
        if self.first:
            told = f"{render_prompt('summary_first', first=self.first)}\n\n{told}"
        return f"{told}\n{load_prompt('summary_untrusted')}" if "untrusted" in self.taint else told


def first_request(messages: Sequence[Message], limit: int) -> str:
    """What the person said first; of more than `limit` tokens the middle is left out."""
    text = next((message.text for message in messages if message.role == "user"), "")
    return middle_out(text, limit)
