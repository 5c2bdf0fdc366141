"""Names and values as they stand in ClickHouse's SQL: clickhouse.com/docs/sql-reference/syntax."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200


def literal(text: str) -> str:
    """A string."""
    return f"'{_escaped(text, chr(39))}'"


def identifier(name: str) -> str:
    """The name of a database, a table or a column."""
    return f"`{_escaped(name, '`')}`"


def in_list(expression: str, values: Iterable[str]) -> str:
    """A condition: the expression is one of these strings."""
    return f"{expression} IN ({', '.join(literal(value) for value in values)})"


def _escaped(text: str, quote: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text[:LONGEST])
    return printable.replace("\\", "\\\\").replace(quote, f"\\{quote}")
