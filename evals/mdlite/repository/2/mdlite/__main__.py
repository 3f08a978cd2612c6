import sys

from mdlite import to_html

sys.stdout.write(to_html(sys.stdin.read()))
