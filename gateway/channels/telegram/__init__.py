"""Telegram, by python-telegram-bot's `Bot` over aiohttp."""

import sys

# Its HTTP client httpx, which is not used here, imports a command line of its own wherever click
# happens to be installed, and with it rich and pygments: 5 MB, and a tenth of the gateway's start.
# None here makes that import fail, as it does where click is missing.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # "None: not to be imported"
