"""Chains of waits, and statements without what they are about."""

from __future__ import annotations

import pytest

from faultline.connectors.shared.databases.lock_chains import DatabaseSession, lock_holders
from faultline.connectors.shared.queries.query_bounds import masked_statement


def session(name: str, *waits_for: str, waited_s: float = 5.0) -> DatabaseSession:
    """One that waits for others, or for none."""
    return DatabaseSession(name, name, "active", waits_for=waits_for, waited_s=waited_s)


def chain(*sessions: DatabaseSession) -> list[tuple[str, list[str]]]:
    """Each head, and who waits for it."""
    return [(one.id, sorted(w.id for w in one.waiting)) for one in lock_holders(sessions)]


def test_the_head_of_a_chain_is_found_through_those_who_wait() -> None:
    assert chain(session("a"), session("b", "a"), session("c", "b"), session("d")) == [
        ("a", ["b", "c"])
    ]


def test_the_one_that_most_wait_for_comes_first() -> None:
    assert chain(
        session("a"), session("b", "a"), session("x"), session("y", "x"), session("z", "x")
    ) == [
        ("x", ["y", "z"]),
        ("a", ["b"]),
    ]


def test_a_circle_has_a_head_too() -> None:
    assert chain(session("a", "b", waited_s=9), session("b", "a")) == [("a", ["b"])]


def test_a_holder_that_is_no_session_is_named() -> None:
    [holder] = lock_holders([session("a", "a prepared transaction")])
    assert holder.summary() == "1 session up to 5 s for a prepared transaction"


def test_short_waits_are_usual() -> None:
    assert chain(session("a"), session("b", "a", waited_s=0.5)) == []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "SELECT * FROM t WHERE a = 'x''y' AND b = -1.5e3",
            "SELECT * FROM t WHERE a = ? AND b = ?",
        ),
        ("UPDATE t2 SET c1 = E'it\\'s' -- for anna@example.com", "UPDATE t2 SET c1 = ?"),
        ('SELECT $1, $tag$se\'cret$tag$ /* k=1 */ FROM "Orders"', 'SELECT $1, ? FROM "Orders"'),
        ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO t VALUES (?)"),
        ("SELECT a FROM t WHERE id IN (1,2,3)", "SELECT a FROM t WHERE id IN (?)"),
        ("SELECT 'cut in the midd", "SELECT ?"),
        ("ALTER ROLE bob PASSWORD 'hunter2'", "ALTER ROLE bob PASSWORD ?"),
        ("SELECT x'ff', 0xDEADBEEF", "SELECT ?, ?"),
        ("SELECT 'C:\\' FROM t WHERE a = 'secret'", "SELECT ?"),
        ("SELECT \"a\\\" FROM t WHERE b = 'secret'", 'SELECT "a\\" FROM t WHERE b = ?'),
    ],
)
def test_no_value_of_a_statement_is_shown(text: str, masked: str) -> None:
    assert masked_statement(text, quotes_names=True) == masked


def test_mysqls_double_quotes_hold_text() -> None:
    told = masked_statement("SELECT `a'` FROM t WHERE b = \"se'cret\" # c", quotes_names=False)
    assert told == "SELECT `a'` FROM t WHERE b = ?"
