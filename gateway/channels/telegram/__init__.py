"""Telegram, by python-telegram-bot's `Bot` over aiohttp."""
