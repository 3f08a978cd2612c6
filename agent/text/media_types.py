"""Pictures that models can be shown, told by their first bytes."""

# Vendors take 5 MB in base64.
# https://platform.claude.com/docs/en/build-with-claude/vision
LIMIT_BYTES = 3_700_000

_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


def sniff_image_type(head: bytes) -> str | None:
    """Of a file that begins like this (at least 12 bytes); None when it is no such picture."""
    for beginning, media_type in _BEGINNINGS:
        if head.startswith(beginning):
            return media_type
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None
