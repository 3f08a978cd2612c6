"""Detection of image types that models accept."""

# Limit of the model APIs: 5 MB in base64.
# https://platform.claude.com/docs/en/build-with-claude/vision
MAX_PICTURE_BYTES = 3_700_000

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


def sniff_image_type(head: bytes) -> str | None:
    """Return the media type by the first bytes (at least 12), or None for other files."""
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None
