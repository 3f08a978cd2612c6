"""Certificates that outgoing TLS connections trust."""

import ssl


def trust_store() -> ssl.SSLContext:
    """Return a context that trusts the certificates of the system or of the environment.

    The variables are SSL_CERT_FILE and SSL_CERT_DIR. aiohttp makes the same context when it is
    imported; httpx uses others, depending on its options and the platform, so every client of httpx
    receives this one.
    """
    return ssl.create_default_context()
