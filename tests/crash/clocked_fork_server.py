"""A fork server whose gateways use the time that the crash loop sets."""

import os
import sys
from pathlib import Path

from tests import fork_server
from tests.crash import clock

if __name__ == "__main__":
    # Do this first, before other code can use the real clock.
    clock.obey(Path(os.environ[clock.VARIABLE]))
    sys.exit(fork_server.main())
