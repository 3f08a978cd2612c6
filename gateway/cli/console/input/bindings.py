"""What the keys do while a line is typed, beside what every line editor does."""

from collections.abc import Callable

from prompt_toolkit.filters import has_completions, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from gateway.cli.console.input.pastes import Pastes


def key_bindings(pastes: Pastes, unfold: Callable[[], None]) -> KeyBindings:
    found = KeyBindings()

    @found.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state and buffer.complete_state.current_completion
        if chosen and chosen.text.endswith((" ", "/")):
            # It was put in already, and something is to follow.
            buffer.complete_state = None
            if chosen.text.endswith("/"):
                buffer.start_completion()
        else:
            buffer.validate_and_handle()

    @found.add("tab", filter=has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        assert state is not None
        chosen = state.current_completion or state.completions[0]
        buffer.apply_completion(chosen)
        if chosen.text.endswith("/"):
            buffer.start_completion()

    @found.add("escape", "enter")
    @found.add("c-j", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @found.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    @found.add("c-o", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        unfold()

    @found.add(Keys.BracketedPaste, filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.fold(plain_lines(event.data)))

    @found.add("backspace", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        mark = pastes.mark_before(buffer.document.text_before_cursor)
        buffer.delete_before_cursor(len(mark) or event.arg)

    return found


def plain_lines(text: str) -> str:
    """Line ends of a paste, which a terminal may send as carriage returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
