"""Log adapter that reports malformed requests of clients as debug lines without a traceback."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class RequestLogger(_Adapter):
    """Logs for aiohttp's server, which reports malformed requests like exceptions of a handler."""

    def exception(self, msg: object, *args: object, exc_info: Any = True, **more: Any) -> None:
        from aiohttp.http_exceptions import HttpProcessingError
        from aiohttp.web import RequestPayloadError

        # aiohttp raises the second error when it reads the rest of an undecodable body.
        if isinstance(exc_info, HttpProcessingError | RequestPayloadError):
            # Omit the message, which repeats the request.
            self.debug("refused a malformed request: %s", type(exc_info).__name__)
        else:
            super().exception(msg, *args, exc_info=exc_info, **more)

    def debug(self, msg: object, *args: object, exc_info: Any = None, **more: Any) -> None:
        """Log without the traceback, for the same reason."""
        super().debug(msg, *args, **more)
