"""Writing."""

from tinycsv.dialect import DEFAULT


def write_rows(rows, dialect=DEFAULT):
    """The rows as text, each on a line of its own."""
    lines = []
    for row in rows:
        lines.append(dialect.separator.join(_quote(value, dialect) for value in row))
    return "".join(line + dialect.line_end for line in lines)


def write_dicts(records, columns=None, dialect=DEFAULT):
    """Records as text, below a header; `columns` defaults to the keys of the first."""
    if columns is None:
        columns = list(records[0]) if records else []
    rows = [[record.get(column, "") for column in columns] for record in records]
    return write_rows([columns, *rows], dialect)


def _quote(value, dialect):
    text = str(value)
    if dialect.separator in text or dialect.quote in text or "\n" in text:
        doubled = text.replace(dialect.quote, dialect.quote * 2)
        return dialect.quote + doubled + dialect.quote
    return text
