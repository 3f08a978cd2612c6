from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.chat_settings import ChatSettings, ChatSettingsIndex
from gateway.core.messages import Route

CHAT = ChatSettings(persona="calm", model="small", listen=True)
TOPIC = ChatSettings(model="large", listen=False)
PLACES = ChatSettingsIndex(
    {"chat": {"-5": CHAT, "-5/9": TOPIC}}, {"chat": ChatIdAliases({"-5": "-1005"})}
)


def route(chat: str = "-5", thread: str | None = None, channel: str = "chat") -> Route:
    return Route(channel, "bot", chat, thread)


def test_topic_inherits_the_settings_of_its_chat() -> None:
    assert PLACES.of(route()) == CHAT
    assert PLACES.of(route(thread="8")) == CHAT
    assert PLACES.of(route(thread="9")) == ChatSettings("calm", "large", None, listen=False)


def test_other_chats_and_channels_have_default_settings() -> None:
    assert PLACES.of(route("-6")) == ChatSettings()
    assert PLACES.of(route("-6", "9")) == ChatSettings()
    assert PLACES.of(route(channel="cli")) == ChatSettings()
    assert ChatSettingsIndex().of(route()) == ChatSettings()


def test_migrated_chat_has_its_settings_under_both_ids() -> None:
    by_new_id = ChatSettingsIndex(
        {"chat": {"-1005": CHAT}}, {"chat": ChatIdAliases({"-5": "-1005"})}
    )
    assert by_new_id.of(route()) == CHAT
    assert PLACES.names(route()) == ("-1005", "-5")


def test_chat_migration_is_applied_immediately() -> None:
    places = ChatSettingsIndex({"chat": {"-1006": CHAT}})
    assert places.of(route("-6")) == ChatSettings()
    places.moves("chat").learn("-6", "-1006")
    assert places.of(route("-6")) == CHAT
