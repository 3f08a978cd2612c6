"""The `kore` command. `kore --version` answers before anything is imported for it."""

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command line; return the exit code (docs/cli.md lists them)."""
    if sys.platform == "win32":
        print(
            "kore: Kore does not run on Windows itself: install it in WSL"
            " (https://learn.microsoft.com/windows/wsl/install).",
            file=sys.stderr,
        )
        return 1
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        from agent.version import VERSION

        print(f"kore {VERSION}")
        return 0
    from gateway.cli.program import run

    code = run(words)
    if argv is None:
        from gateway.runtime.gc_tuning import freeze_for_exit

        freeze_for_exit()
    return code


if __name__ == "__main__":
    sys.exit(main())
