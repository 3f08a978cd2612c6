"""A fork server whose gateways see the time that the crash loop sets."""

import os
import sys
from pathlib import Path

from tests import fork_server
from tests.crash import clock

if __name__ == "__main__":
    # Before anything of the program could take the real clock.
    clock.obey(Path(os.environ[clock.VARIABLE]))
    sys.exit(fork_server.main())
