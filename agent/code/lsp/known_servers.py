"""Built-in language servers in order of preference, and language identifiers.

Identifiers:
https://microsoft.github.io/language-server-protocol/specifications/lsp/3.18/specification/#textDocumentItem
"""

from agent.code.lsp.compilation_database import BUILD_FILES
from agent.settings import LspServerSettings

LANGUAGE_IDS = {
    ".py": "python",
    ".pyi": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascriptreact",
    ".go": "go",
    ".rs": "rust",
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".hxx": "cpp",
    ".java": "java",
    ".kt": "kotlin",
    ".rb": "ruby",
    ".php": "php",
    ".cs": "csharp",
    ".lua": "lua",
    ".sh": "shellscript",
    ".zig": "zig",
    ".swift": "swift",
    ".dart": "dart",
    ".ex": "elixir",
    ".exs": "elixir",
    ".hs": "haskell",
    ".vue": "vue",
    ".svelte": "svelte",
    ".css": "css",
    ".scss": "scss",
    ".html": "html",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".md": "markdown",
    ".tex": "latex",
}

_PYTHON = (".py", ".pyi")
_SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx")
_PYTHON_ROOT = ("pyproject.toml", "pyrightconfig.json", "setup.cfg", "setup.py", "ty.toml")
_C_ROOT = ("compile_commands.json", "compile_flags.txt", *BUILD_FILES)
_SCRIPT_ROOT = ("tsconfig.json", "jsconfig.json", "package.json")


def _server(
    name: str,
    command: str,
    extensions: tuple[str, ...],
    root_files: tuple[str, ...],
    **options: object,
) -> LspServerSettings:
    return LspServerSettings(
        name,
        tuple(command.split()),
        extensions,
        options=options,
        root_files=root_files,
        configured=False,
    )


KNOWN_SERVERS = (
    _server("basedpyright", "basedpyright-langserver --stdio", _PYTHON, _PYTHON_ROOT),
    _server("pyright", "pyright-langserver --stdio", _PYTHON, _PYTHON_ROOT),
    _server("ty", "ty server", _PYTHON, _PYTHON_ROOT),
    # The TypeScript 7 compiler is also a server.
    _server("tsc", "tsc --lsp --stdio", _SCRIPTS, _SCRIPT_ROOT),
    _server("typescript", "typescript-language-server --stdio", _SCRIPTS, _SCRIPT_ROOT),
    # This server waits 1 s for more typing before it checks, but a draft arrives complete.
    _server("gopls", "gopls serve", (".go",), ("go.work", "go.mod"), diagnosticsDelay="20ms"),
    _server("rust-analyzer", "rust-analyzer", (".rs",), ("Cargo.toml",)),
    _server("clangd", "clangd --log=error", _C, _C_ROOT),
)
