"""What a client got wrong is no error of ours: a line for whoever looks for it, no traceback."""

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

        # The second is a body that cannot be decoded, read to its end behind an answer.
        if isinstance(exc_info, HttpProcessingError | RequestPayloadError):
            # Its message repeats what the client sent.
            self.debug("refused a malformed request: %s", type(exc_info).__name__)
        else:
            super().exception(msg, *args, exc_info=exc_info, **more)

    def debug(self, msg: object, *args: object, exc_info: Any = None, **more: Any) -> None:
        """Without the traceback, for the same reason."""
        super().debug(msg, *args, **more)
