# Shared by the commands; sourced, never run.

say() {
    [ "${QUIET:-0}" = 1 ] || echo "rotate: $*"
}

die() {
    echo "rotate: $*" >&2
    exit 1
}
