"""Files that the agent sends."""

from tests.fakes.bot_chats import Effect
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import GatewayProcess


def sends(*paths: str, caption: str | None = None) -> ReplyScript:
    arguments = {"paths": list(paths), **({"caption": caption} if caption else {})}
    return ReplyScript(tool_calls=(Call("send_file", arguments),))


def put(gateway: GatewayProcess, name: str, data: bytes) -> str:
    gateway.workspace.mkdir(exist_ok=True)
    (gateway.workspace / name).write_bytes(data)
    return name


def files(gateway: GatewayProcess, chat: int) -> list[Effect]:
    return [effect for effect in gateway.effects(chat) if effect.files]
