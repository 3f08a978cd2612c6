"""The public protocol: every call of `Service` over HTTP and WebSocket, for whoever has a token."""
