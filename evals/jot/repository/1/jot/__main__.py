import sys

from jot.command import main

sys.exit(main(sys.argv[1:]))
