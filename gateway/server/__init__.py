"""Public protocol: every call of `Service` over HTTP and WebSocket, for clients with a token."""
