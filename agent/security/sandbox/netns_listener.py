"""The first program in a sandbox with hosts: hands a listener of its network out to Kore.

The variables that it sets lead programs there, with a password that other commands of the same
network do not know.
Its text runs in the sandbox, `python -I -S -c TEXT CHANNEL PASSWORD NO_PROXY SHELL COMMAND`, and
then it is the command: of itself it leaves nothing.
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
