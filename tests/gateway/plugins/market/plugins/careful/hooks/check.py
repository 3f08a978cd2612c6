#!/usr/bin/env python3
"""Hook that blocks writing a `.lock` file."""

import json
import sys

call = json.load(sys.stdin)
if call["tool_input"].get("file_path", "").endswith(".lock"):
    print("Locked files stay as they are.", file=sys.stderr)
    sys.exit(2)
