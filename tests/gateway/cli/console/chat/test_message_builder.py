import pytest

from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.core.messages import MessageOptions

FLAGS = {"model": "a/b", "effort": "high", "auto": True, "cwd": "/tmp"}


@pytest.mark.parametrize(
    ("typed", "gone"),
    [
        ("/model c/d", {"model"}),
        ("/model", set()),
        ("/effort low", {"effort"}),
        ("/effort default", {"effort"}),
        ("/effort", set()),
        ("/thinking hide", set()),
        ("/mode ask", {"auto"}),
        ("/mode perhaps", set()),
        ("/plan", {"auto"}),
        ("/cost", set()),
    ],
)
def test_command_that_changes_an_option_overrides_the_flag(typed: str, gone: set[str]) -> None:
    speaker = MessageBuilder("main", MessageOptions.from_json(FLAGS))
    assert (
        FLAGS.keys() - speaker.without_options_of(typed).build("hi").options.to_json().keys()
        == gone
    )
