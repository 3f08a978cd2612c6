"""Telegram channel, based on python-telegram-bot's `Bot` over aiohttp."""
