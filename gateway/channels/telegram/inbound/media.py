"""Content of a message besides text: files by id; places, contacts and polls in words.

https://core.telegram.org/bots/api#message
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.text.visible import replace_lone_surrogates
from gateway.core.messages import Media

# In the order of Telegram's own apps, because an animation is also a document, and a live photo is
# also a photo.
KINDS = (
    *("animation", "live_photo", "photo", "video", "video_note", "voice", "audio", "sticker"),
    *("document", "venue", "location", "contact", "poll", "dice"),
    *("checklist", "story", "paid_media", "game", "gift", "unique_gift", "giveaway"),
    *("giveaway_winners", "invoice"),
)
_WORDS_CHARS = 1_000
_TYPES = {
    "photo": "image/jpeg",
    "live_photo": "image/jpeg",
    "sticker": "image/webp",
    "voice": "audio/ogg",
    "audio": "audio/mpeg",
    "animation": "video/mp4",
    "video": "video/mp4",
    "video_note": "video/mp4",
}


def kind_of(message: Mapping[str, Any]) -> str | None:
    return next((kind for kind in KINDS if message.get(kind)), None)


def media_of(message: Mapping[str, Any], *, quoted: bool = False) -> tuple[Media, ...]:
    """Return at most one file: Telegram sends the parts of an album as separate messages."""
    kind = kind_of(message)
    if kind is None:
        return ()
    content = message[kind]
    if kind in _DESCRIBERS:
        text = replace_lone_surrogates(_DESCRIBERS[kind](content))[:_WORDS_CHARS]
        return (Media(kind, quoted=quoted, words=text),)
    if kind == "photo":
        content = _largest(content)
    if kind == "live_photo":
        # The model is shown its picture; without one, the file is a video.
        if sizes := content.get("photo") or message.get("photo"):
            content = {**content, **_largest(sizes), "mime_type": None}
        else:
            content = {"mime_type": "video/mp4", **content}
    moves = kind == "sticker" and (content.get("is_animated") or content.get("is_video"))
    name = content.get("file_name")
    return (
        Media(
            kind,
            name=replace_lone_surrogates(str(name)) if name else None,
            media_type=content.get("mime_type") or _TYPES.get(kind),
            size_bytes=_number(content.get("file_size")),
            seconds=_number(content.get("duration")),
            # Animated stickers are not images, and their emoji conveys the content.
            remote=None if moves else _text(content.get("file_id")),
            unique=_text(content.get("file_unique_id")),
            quoted=quoted,
            words=_text(content.get("emoji")),
        ),
    )


def _largest(sizes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(sizes, key=lambda size: _area(size.get("width"), size.get("height")))


def _area(width: object, height: object) -> int:
    return (_number(width) or 0) * (_number(height) or 0)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return replace_lone_surrogates(str(value)) if value else None


def _location(place: Mapping[str, Any]) -> str:
    live = ", moving" if place.get("live_period") else ""
    return f"latitude {place.get('latitude')}, longitude {place.get('longitude')}{live}"


def _venue(venue: Mapping[str, Any]) -> str:
    label = ", ".join(str(venue[key]) for key in ("title", "address") if venue.get(key))
    return f"{label} ({_location(venue.get('location') or {})})"


def _contact(contact: Mapping[str, Any]) -> str:
    keys = ("first_name", "last_name", "phone_number")
    return " ".join(str(contact[key]) for key in keys if contact.get(key))


def _poll(poll: Mapping[str, Any]) -> str:
    options = "; ".join(
        f"{option.get('text')} ({option.get('voter_count', 0)})"
        for option in poll.get("options") or ()
    )
    return f"{poll.get('question')} Options: {options}"


def _dice(dice: Mapping[str, Any]) -> str:
    return f"{dice.get('emoji')} shows {dice.get('value')}"


def _checklist(checklist: Mapping[str, Any]) -> str:
    tasks = "; ".join(
        f"{task.get('text')} ({'done' if task.get('completion_date') else 'open'})"
        for task in checklist.get("tasks") or ()
    )
    return f"{checklist.get('title')}: {tasks}"


def _gift(info: Mapping[str, Any]) -> str:
    gift, text = info.get("gift") or {}, info.get("text")
    emoji = (gift.get("sticker") or {}).get("emoji") or ""
    label = f"{emoji} worth {gift.get('star_count')} stars".strip()
    return f'{label}, with the text "{text}"' if text else label


def _unique_gift(info: Mapping[str, Any]) -> str:
    gift = info.get("gift") or {}
    return f"{gift.get('base_name')} #{gift.get('number')} ({info.get('origin')})"


def _giveaway(giveaway: Mapping[str, Any]) -> str:
    prize = giveaway.get("prize_description") or "prizes"
    return f"{prize} for {giveaway.get('winner_count')} winners"


def _invoice(invoice: Mapping[str, Any]) -> str:
    return f"{invoice.get('title')}: {invoice.get('description')}"


def _story(story: Mapping[str, Any]) -> str:
    chat = story.get("chat") or {}
    whose = chat.get("title") or chat.get("first_name") or "somebody"
    return f"of {whose}, which bots are not shown"


def _paid(media: Mapping[str, Any]) -> str:
    return f"{len(media.get('paid_media') or ())} files for {media.get('star_count')} stars"


def _game(game: Mapping[str, Any]) -> str:
    return f"{game.get('title')}: {game.get('description')}"


_DESCRIBERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "location": _location,
    "venue": _venue,
    "contact": _contact,
    "poll": _poll,
    "dice": _dice,
    "checklist": _checklist,
    "story": _story,
    "paid_media": _paid,
    "game": _game,
    "gift": _gift,
    "unique_gift": _unique_gift,
    "giveaway": _giveaway,
    "giveaway_winners": _giveaway,
    "invoice": _invoice,
}
