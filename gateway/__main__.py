"""The `kore` command; `kore --version` imports nothing else."""

import sys

from agent.version import VERSION


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
        print(f"kore {VERSION}")
        return 0
    from gateway.cli.program import run, run_process

    return run_process(words) if argv is None else run(words)


if __name__ == "__main__":
    sys.exit(main())
