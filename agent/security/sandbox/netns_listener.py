"""First program in a sandbox with network access: passes a listener in its network to Kore.

It sets the proxy variables, with a password unknown to other commands in the same network. The text
of this module runs as `python -I -S -c TEXT CHANNEL PASSWORD NO_PROXY SHELL COMMAND` in the
sandbox, and is then replaced by the command.
"""

import _socket
import os
import sys


def main() -> None:
    channel = _socket.socket(fileno=int(sys.argv[1]))
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    descriptor = listener.fileno().to_bytes(4, sys.byteorder)
    channel.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
    channel.close()
    address = f"http://kore:{sys.argv[2]}@127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = address
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = sys.argv[3]
    os.execv(sys.argv[4], [sys.argv[4], "-c", sys.argv[5]])  # noqa: S606 - it is a shell


if __name__ == "__main__":
    main()
