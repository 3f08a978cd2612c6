"""Health check for containers: `python3 -m gateway.control.probe /readyz`.

It runs every few seconds, so it imports nothing from Kore.
"""

import http.client
import os
import sys

_PORT = "8787"
_TIMEOUT_S = 4.0


def main() -> int:
    """Return 0 when the page reports status 200. The port is KORE_HTTP_PORT, or 8787."""
    path = sys.argv[1] if len(sys.argv) > 1 else "/healthz"
    port = int(os.environ.get("KORE_HTTP_PORT") or _PORT)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode(errors="replace").strip()
    except OSError as exc:
        print(f"127.0.0.1:{port}{path}: {exc}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    print(text.partition("\n")[0])
    return 0 if response.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
