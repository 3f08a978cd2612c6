"""OpenAI-compatible API of Kore over the calls of `Service`.

It provides `/v1/models`, `/v1/chat/completions` and `/v1/responses`.
"""
