"""Backup of the version with schema 85 (commit d405710a), which stored thinking as on or off.

`plain.zip` was written by its `kore backup`, after it had restored the backup of version 83,
continued the newest conversation and switched thinking on there.
"""

from pathlib import Path

PLAIN = Path(__file__).parent / "plain.zip"
