"""Text of a PDF, read in a separate process, because a hostile file can keep any reader busy
forever.
"""

import asyncio
import io
import logging
import sys
from contextlib import suppress

from agent.errors import ToolError
from agent.tools.child_process import ENVIRONMENT, limit, program

MAX_BYTES = 20_000_000
MAX_PAGES = 200
TEXT_LIMIT_CHARS = 2_000_000
TIMEOUT_S = 30.0


async def pdf_text(data: bytes) -> str:
    """Return the text by page, each under its number. Raises `ToolError` for a PDF without text."""
    process = await asyncio.create_subprocess_exec(
        *program(__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, errors = await process.communicate(data)
    except TimeoutError as exc:
        raise ToolError(f"The PDF could not be read within {TIMEOUT_S:g} s.") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    if process.returncode:
        reason = errors.decode("utf-8", "replace").strip().split("\n")[-1][:200]
        raise ToolError(f"The PDF could not be read: {reason or 'the reader crashed'}.")
    return out.decode("utf-8", "replace")


def main() -> int:
    """Read a PDF from stdin and print its text."""
    limit()
    logging.disable()
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            print("it is password-protected", file=sys.stderr)
            return 2
        total = len(reader.pages)
        room = TEXT_LIMIT_CHARS
        for number, page in enumerate(reader.pages[:MAX_PAGES], 1):
            text = page.extract_text().strip()[:room]
            room -= len(text)
            print(f"[page {number} of {total}]\n{text or '(no text)'}\n")
            if room <= 0:
                print("… (the rest is left out: it is too long)")
                return 0
        if total > MAX_PAGES:
            print(f"… (pages {MAX_PAGES + 1} to {total} are left out)")
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError) as exc:
        # Broken files fail in the reader in many ways.
        print(f"it is damaged ({type(exc).__name__})", file=sys.stderr)
        return 2
    except (RecursionError, MemoryError):
        with suppress(MemoryError):
            print("it is too large or nested too deeply", file=sys.stderr)
        return 2
    return 0
