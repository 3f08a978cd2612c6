"""Languages with a tree-sitter grammar, and the node types of their definitions.

Node types are listed in the `node-types.json` of each grammar.
"""

from agent.records import frozen


@frozen
class CodeLanguage:
    """Language and the queries for its definitions and references.

    `package` contains the grammar, and its `function` returns it. `definitions` are tree-sitter
    query patterns, each with the capture `@name` and a capture named after the kind; `references`
    captures the names in use. Data formats have neither.
    """

    name: str
    package: str
    definitions: str = ""
    references: str = "(identifier) @name"
    function: str = "language"


def _with_name(**kinds: str) -> str:
    """Return patterns for nodes that have a field `name`; the values are node types."""
    return "\n".join(
        f"({node} name: (_) @name) @{kind}"
        for kind, nodes in kinds.items()
        for node in nodes.split()
    )


_SCRIPT = (
    _with_name(
        **{
            "class": "class_declaration",
            "function": "function_declaration generator_function_declaration",
            "method": "method_definition",
        }
    )
    + "(variable_declarator name: (identifier) @name"
    + " value: [(arrow_function) (function_expression)]) @function"
)
_TYPED_SCRIPT = _SCRIPT + _with_name(
    **{
        "class": "abstract_class_declaration",
        "interface": "interface_declaration",
        "type": "type_alias_declaration",
        "enum": "enum_declaration",
        "namespace": "internal_module",
        "method": "method_signature abstract_method_signature",
    }
)
_SCRIPT_NAMES = "[(identifier) (property_identifier)] @name"
_TYPED_NAMES = "[(identifier) (property_identifier) (type_identifier)] @name"
# The name of a function that returns a pointer or reference is nested one level deeper.
_C_PATTERNS = (
    "(function_definition declarator: (function_declarator declarator: (_) @name)) @function",
    "(function_definition declarator: (pointer_declarator declarator:"
    " (function_declarator declarator: (_) @name))) @function",
    "(struct_specifier name: (_) @name body: (_)) @struct",
    "(union_specifier name: (_) @name body: (_)) @union",
    "(enum_specifier name: (_) @name body: (_)) @enum",
    "(type_definition declarator: (type_identifier) @name) @type",
    "(preproc_function_def name: (_) @name) @macro",
)
_CPP_PATTERNS = (
    "(function_definition declarator: (reference_declarator"
    " (function_declarator declarator: (_) @name))) @function",
    "(class_specifier name: (_) @name body: (_)) @class",
    "(namespace_definition name: (_) @name) @namespace",
)
_C = "\n".join(_C_PATTERNS)
_CPP = "\n".join((*_C_PATTERNS, *_CPP_PATTERNS))
_C_NAMES = "[(identifier) (field_identifier) (type_identifier)] @name"

_PYTHON = CodeLanguage(
    "Python",
    "tree_sitter_python",
    _with_name(**{"class": "class_definition"}, function="function_definition"),
)
_JAVASCRIPT = CodeLanguage("JavaScript", "tree_sitter_javascript", _SCRIPT, _SCRIPT_NAMES)
_TYPESCRIPT = CodeLanguage(
    "TypeScript", "tree_sitter_typescript", _TYPED_SCRIPT, _TYPED_NAMES, "language_typescript"
)
_TSX = CodeLanguage("TSX", "tree_sitter_typescript", _TYPED_SCRIPT, _TYPED_NAMES, "language_tsx")
_GO = CodeLanguage(
    "Go",
    "tree_sitter_go",
    _with_name(function="function_declaration", method="method_declaration", type="type_spec"),
    _C_NAMES,
)
_RUST = CodeLanguage(
    "Rust",
    "tree_sitter_rust",
    _with_name(
        function="function_item function_signature_item",
        struct="struct_item union_item",
        enum="enum_item",
        trait="trait_item",
        module="mod_item",
        type="type_item",
        macro="macro_definition",
        constant="const_item static_item",
    )
    + "(impl_item type: (_) @name) @impl",
    _C_NAMES,
)
_JAVA = CodeLanguage(
    "Java",
    "tree_sitter_java",
    _with_name(
        **{
            "class": "class_declaration record_declaration",
            "interface": "interface_declaration annotation_type_declaration",
            "enum": "enum_declaration",
            "method": "method_declaration constructor_declaration",
        }
    ),
    "[(identifier) (type_identifier)] @name",
)
_RUBY = CodeLanguage(
    "Ruby",
    "tree_sitter_ruby",
    _with_name(**{"class": "class", "module": "module", "method": "method singleton_method"}),
    "[(identifier) (constant)] @name",
)
_PHP = CodeLanguage(
    "PHP",
    "tree_sitter_php",
    _with_name(
        **{
            "class": "class_declaration",
            "interface": "interface_declaration",
            "trait": "trait_declaration",
            "enum": "enum_declaration",
            "function": "function_definition",
            "method": "method_declaration",
        }
    ),
    "(name) @name",
    "language_php",
)
_C_SHARP = CodeLanguage(
    "C#",
    "tree_sitter_c_sharp",
    _with_name(
        **{
            "class": "class_declaration record_declaration",
            "interface": "interface_declaration",
            "struct": "struct_declaration",
            "enum": "enum_declaration",
            "method": "method_declaration constructor_declaration local_function_statement",
            "property": "property_declaration",
            "namespace": "namespace_declaration",
        }
    ),
)
_KOTLIN = CodeLanguage(
    "Kotlin",
    "tree_sitter_kotlin",
    _with_name(
        **{
            "class": "class_declaration",
            "object": "object_declaration",
            "function": "function_declaration",
        }
    ),
)
_SWIFT = CodeLanguage(
    "Swift",
    "tree_sitter_swift",
    _with_name(
        **{
            "class": "class_declaration",
            "protocol": "protocol_declaration",
            "function": "function_declaration protocol_function_declaration",
        }
    ),
    "[(simple_identifier) (type_identifier)] @name",
)
_SCALA = CodeLanguage(
    "Scala",
    "tree_sitter_scala",
    _with_name(
        **{
            "class": "class_definition",
            "object": "object_definition",
            "trait": "trait_definition",
            "enum": "enum_definition",
            "function": "function_definition function_declaration",
        }
    ),
    "[(identifier) (type_identifier)] @name",
)

LANGUAGES_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyi"), _PYTHON),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": _TSX,
    ".go": _GO,
    ".rs": _RUST,
    **dict.fromkeys((".c", ".h"), CodeLanguage("C", "tree_sitter_c", _C, _C_NAMES)),
    **dict.fromkeys(
        (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"),
        CodeLanguage("C++", "tree_sitter_cpp", _CPP, _C_NAMES),
    ),
    ".java": _JAVA,
    ".rb": _RUBY,
    ".php": _PHP,
    ".cs": _C_SHARP,
    **dict.fromkeys((".kt", ".kts"), _KOTLIN),
    ".swift": _SWIFT,
    ".scala": _SCALA,
    ".lua": CodeLanguage("Lua", "tree_sitter_lua", _with_name(function="function_declaration")),
    **dict.fromkeys(
        (".sh", ".bash"),
        CodeLanguage(
            "Bash",
            "tree_sitter_bash",
            _with_name(function="function_definition"),
            "(command_name) @name",
        ),
    ),
    ".css": CodeLanguage("CSS", "tree_sitter_css"),
    **dict.fromkeys((".html", ".htm"), CodeLanguage("HTML", "tree_sitter_html")),
    ".json": CodeLanguage("JSON", "tree_sitter_json"),
    **dict.fromkeys((".yaml", ".yml"), CodeLanguage("YAML", "tree_sitter_yaml")),
    ".toml": CodeLanguage("TOML", "tree_sitter_toml"),
}
