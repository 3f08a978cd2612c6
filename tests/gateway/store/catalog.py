"""Catalog of a database: its tables, in a form that does not depend on their history."""

import re

from gateway.store.port import Transaction

Catalog = dict[str, object]
_SQLITE = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
_POSTGRES = {
    "column": "SELECT table_name, column_name, coalesce(domain_name, data_type), is_nullable,"
    " column_default, is_identity FROM information_schema.columns"
    " WHERE table_schema = current_schema()",
    "constraint": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
    " FROM pg_constraint WHERE connamespace = current_schema()::regnamespace",
    "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    "function": "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = current_schema()::regnamespace",
    "trigger": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "domain": "SELECT typname, typbasetype::regtype::text, typcollation::regcollation::text"
    " FROM pg_type WHERE typtype = 'd' AND typnamespace = current_schema()::regnamespace",
}


def catalog(tx: Transaction, engine: str) -> Catalog:
    """Return the definition of each table, index, trigger and function by its name."""
    if engine == "sqlite":
        return {name: _definition(sql) for name, sql in tx.all(_SQLITE)}
    return {kind: {repr(row) for row in tx.all(query)} for kind, query in _POSTGRES.items()}


def _definition(sql: str) -> object:
    """Return a statement without comments, white space and quotes; a table's columns as a set."""
    sql = re.sub(r"--[^\n]*", "", sql).replace('"', "")
    sql = re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.split()))
    table = re.fullmatch(r"(CREATE TABLE \w+)\((.*)\)([^()]*)", sql)
    if table is None:
        return sql
    return table[1], frozenset(_parts(table[2])), table[3].strip()


def _parts(columns: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
