"""Reading."""

from tinycsv.dialect import DEFAULT


def read_rows(text, dialect=DEFAULT):
    """All rows of `text` as lists of strings."""
    rows = []
    for line in text.splitlines():
        if line:
            rows.append(split_line(line, dialect))
    return rows


def read_dicts(text, dialect=DEFAULT):
    """One dictionary per row; the first row names the columns."""
    rows = read_rows(text, dialect)
    if not rows:
        return []
    header = rows[0]
    return [dict(zip(header, row)) for row in rows[1:]]


def split_line(line, dialect):
    """The fields of one line; quotes protect separators, two quotes are one."""
    fields, field, quoted = [], "", False
    position = 0
    while position < len(line):
        char = line[position]
        if quoted:
            if char == dialect.quote:
                if line[position + 1 : position + 2] == dialect.quote:
                    field += dialect.quote
                    position += 1
                else:
                    quoted = False
            else:
                field += char
        elif char == dialect.quote:
            quoted = True
        elif char == dialect.separator:
            fields.append(field)
            field = ""
        else:
            field += char
        position += 1
    fields.append(field)
    return fields
