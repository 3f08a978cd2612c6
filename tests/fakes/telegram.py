"""The fake Bot API as a process: `python -m tests.fakes.telegram --port 0 --state FILE`."""

import argparse
import asyncio
import pickle
from pathlib import Path

from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_control import BotControl
from tests.fakes.bot_limits import Limits
from tests.fakes.bot_methods import BotMethods
from tests.fakes.loopback import serve


def load(api: BotApi, state: Path) -> None:
    """Continue with the chats and updates of an earlier process."""
    if state.exists():
        api.chats, api.updates = pickle.loads(state.read_bytes())
        gatekeeper = api.methods.gatekeeper
        api.methods = BotMethods(api.chats, api.updates, api.files)
        api.methods.gatekeeper = gatekeeper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--state", type=Path, help="kept from one run of this server to the next")
    parser.add_argument("--limits", action="store_true", help="enforce Telegram's sending limits")
    options = parser.parse_args()

    async def run() -> None:
        api = BotApi(options.token, port=options.port, limits=Limits() if options.limits else None)
        BotControl(api)
        if options.state:
            load(api, options.state)
        await serve(api)
        if options.state:
            options.state.write_bytes(pickle.dumps((api.chats, api.updates)))

    asyncio.run(run())


if __name__ == "__main__":
    main()
