"""First program in a sandbox with network access: passes listeners in its network to Kore.

If there is a password, the first listener accepts requests to the proxy, and the program sets the
proxy variables with the password, which other commands in the same network do not know. The other
listeners use the addresses of local services; if there are TARGETS, one more takes the connections
to them. With a FILTER, in hexadecimal, Kore makes the supervised calls. The text of this module
runs as `python -I -S -c TEXT CHANNEL PASSWORD NO_PROXY SERVICES TARGETS FILTER SHELL COMMAND` in
the sandbox, and is then replaced by the command. SERVICES are written like
`127.0.0.1:5432 unix:/run/x.sock`.
"""

import _socket
import os
import sys

# Labels of the passed descriptors; other values are numbers of services.
PROXY = 0
TARGETS = 254
SUPERVISOR = 255
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SOCKET_MODE = 0o140666
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5


def main() -> None:
    number, password, direct_names, services, targets, filter_code, shell, command = sys.argv[1:]
    channel = _socket.socket(fileno=int(number))
    listeners = _service_listeners(services.split())
    passed = []
    _show_sockets(services.split())
    if password:
        proxy = _listen("127.0.0.1", 0)
        address = f"http://kore:{password}@127.0.0.1:{proxy.getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            os.environ[name] = os.environ[name.upper()] = address
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = direct_names
        listeners.append((PROXY, proxy))
    if targets:
        listeners.append((TARGETS, _listen("127.0.0.1", 0)))
    passed += [(place, listener.detach()) for place, listener in listeners]
    if filter_code:
        passed.append((SUPERVISOR, _supervise(bytes.fromhex(filter_code))))
    if passed:
        descriptors = b"".join(fd.to_bytes(4, sys.byteorder) for _, fd in passed)
        places = bytes(place for place, _ in passed)
        channel.sendmsg([places], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    for _, fd in passed:
        os.close(fd)
    channel.close()
    os.execv(shell, [shell, "-c", command])  # noqa: S606 - it is a shell


def _service_listeners(services: list[str]) -> list[tuple[int, _socket.socket]]:
    """Return listeners with the number of their service, starting at 1.

    A service at 127.0.0.1 is reached at ::1 too, because `localhost` means both. An address that
    another command in this network uses is left out.
    """
    addresses = [service.rpartition(":")[::2] for service in services]
    exact = [
        (place, host.strip("[]"), port)
        for place, (host, port) in enumerate(addresses, 1)
        if host != "unix"
    ]
    further = [(place, "::1", port) for place, host, port in exact if host == "127.0.0.1"]
    listeners = []
    for place, host, port in exact + further:
        try:
            listeners.append((place, _listen(host, int(port))))
        except OSError:
            continue
    return listeners


def _show_sockets(services: list[str]) -> None:
    """Create files for programs that look for the socket of a service before they connect."""
    for service in services:
        if service.startswith("unix:/run/"):
            try:
                os.mknod(service[5:], _SOCKET_MODE)
            except OSError:
                continue


def _supervise(code: bytes) -> int:
    """Install a filter, and return the descriptor that receives the supervised calls."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    call = _SECCOMP[os.uname().machine]
    # Without the second flag (Linux 5.19), a signal would repeat a call.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        fd: int = libc.syscall(call, _SET_FILTER, flags, ctypes.byref(program))
        if fd >= 0:
            return fd
    raise OSError(ctypes.get_errno(), "the filter cannot be installed")


def _listen(host: str, port: int) -> _socket.socket:
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    listener = _socket.socket(family, _socket.SOCK_STREAM)
    # Connections of an earlier command may still occupy the port for a minute.
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    if ":" in host:
        listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


if __name__ == "__main__":
    main()
