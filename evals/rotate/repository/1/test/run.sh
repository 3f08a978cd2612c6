#!/bin/sh
# Every test/t-*.sh in a folder of its own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
failed=0
for one in "$here"/t-*.sh; do
    folder=$(mktemp -d)
    if (cd "$folder" && PATH="$here/../bin:$PATH" sh -eu "$one" >"$folder/.log" 2>&1); then
        echo "ok   $(basename "$one")"
    else
        echo "FAIL $(basename "$one")"
        cat "$folder/.log"
        failed=1
    fi
done
exit $failed
