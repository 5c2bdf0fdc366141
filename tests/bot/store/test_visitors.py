"""Logins and the audit, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from faultline.bot.store.store import Store
from faultline.bot.store.visitors import (
    MAX_SESSIONS,
    AuditEntry,
    AuditFilter,
    AuditLog,
    Logins,
    ProviderIdentity,
    new_secret,
)

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ANN = ProviderIdentity(
    "https://idp",
    "1",
    "ann@corp.example",
    "Ann",
    "ann@corp.example",
    ("sre", "eng"),
    "at-provider-1",
)
BOB = ProviderIdentity("https://idp", "2", "bob@corp.example", "Bob")


def logins(store: Store) -> Logins:
    return Logins(store.engine, lasting=timedelta(hours=12), idle=timedelta(hours=2))


def test_a_login_is_found_by_its_secret_from_any_process_and_the_secret_is_not_in_the_database(
    store: Store, reopen: Callable[[], Store]
) -> None:
    secret = new_secret()
    logins(store).begin(ANN, secret, "proof", "10.0.0.1", NOW)
    found = logins(reopen()).find(secret, NOW)
    assert found is not None
    assert (found.person, found.proof, found.address) == (ANN, "proof", "10.0.0.1")
    assert logins(store).find(new_secret(), NOW) is None
    assert logins(store).find(found.key, NOW) is None
    with store.engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM sessions")).all()
    assert secret not in repr(rows)


def test_a_login_ends_when_it_is_old_and_when_it_is_idle(store: Store) -> None:
    held, secret = logins(store), new_secret()
    held.begin(ANN, secret, "", "", NOW)
    for hour in (1.5, 3, 4.5, 6, 7.5, 9, 10.5, 11.9):
        assert held.find(secret, NOW + timedelta(hours=hour))
    assert held.find(secret, NOW + timedelta(hours=12)) is None
    idle = new_secret()
    held.begin(BOB, idle, "", "", NOW)
    assert held.find(idle, NOW + timedelta(hours=2)) is None


def test_logins_end_one_by_one_all_at_once_and_by_the_providers_word(store: Store) -> None:
    held = logins(store)
    ann, ann_too, bob = new_secret(), new_secret(), new_secret()
    held.begin(ANN, ann, "", "", NOW)
    held.begin(ANN, ann_too, "", "", NOW)
    held.begin(BOB, bob, "", "", NOW)
    held.end(ann)
    assert [held.find(s, NOW) is not None for s in (ann, ann_too, bob)] == [False, True, True]
    login = held.find(ann_too, NOW)
    assert login is not None
    assert held.end_all(login.visitor_id) == 1
    held.begin(ANN, ann, "", "", NOW)
    assert held.end_at_provider("https://other", "1", None) == 0
    assert held.end_at_provider("https://idp", None, None) == 0
    assert held.end_at_provider("https://idp", None, "another") == 0
    assert held.end_at_provider("https://idp", None, "at-provider-1") == 1
    assert held.end_at_provider("https://idp", "2", None) == 1
    assert held.find(bob, NOW) is None


def test_one_visitor_has_no_endless_number_of_logins_and_the_newest_hold(store: Store) -> None:
    held = logins(store)
    secrets = [new_secret() for _ in range(MAX_SESSIONS + 3)]
    for n, secret in enumerate(secrets):
        held.begin(ANN, secret, "", "", NOW + timedelta(seconds=n))
    kept = [held.find(s, NOW + timedelta(minutes=1)) is not None for s in secrets]
    assert kept == [False] * 3 + [True] * MAX_SESSIONS


def test_hostile_names_and_groups_are_kept_as_both_databases_take_them(store: Store) -> None:
    hostile = ProviderIdentity(
        "i",
        "s",
        "a\x00b\ud800" * 400,
        "<script>",
        "",
        tuple(f"g{n}\x00" for n in range(2000)),
        "\x00",
    )
    secret = new_secret()
    logins(store).begin(hostile, secret, "", "", NOW)
    found = logins(store).find(secret, NOW)
    assert found is not None
    assert len(found.person.groups) == 500
    assert len(found.person.who) <= 300


def test_the_first_login_in_two_tabs_at_once_makes_one_visitor(store: Store) -> None:
    held = logins(store)
    with ThreadPoolExecutor(6) as tabs:
        list(tabs.map(lambda _: held.begin(ANN, new_secret(), "", "", NOW), range(6)))
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM visitors")).scalar() == 1
        assert connection.execute(text("SELECT count(*) FROM sessions")).scalar() == 6


def visit(
    who: str = "ann", action: str = "looked", of: str | None = "inv-1", **more: object
) -> AuditEntry:
    return AuditEntry(who, who.title(), "viewer", action, of, "10.0.0.1", 200, **more)  # type: ignore[arg-type]


def test_the_audit_is_read_by_who_what_and_when_the_newest_first(store: Store) -> None:
    kept = AuditLog(store.engine, retention=timedelta(days=30))
    kept.write(visit(), NOW)
    kept.write(visit("bob", "downloaded"), NOW + timedelta(hours=1))
    kept.write(visit("bob", "looked", "inv-2"), NOW + timedelta(hours=2))
    assert [v.who for v in kept.read(AuditFilter())] == ["bob", "bob", "ann"]
    assert [v.action for v in kept.read(AuditFilter(who="bob"))] == ["looked", "downloaded"]
    assert [v.who for v in kept.read(AuditFilter(action="downloaded"))] == ["bob"]
    assert len(kept.read(AuditFilter(investigation_id="inv-1"))) == 2
    assert (
        len(kept.read(AuditFilter(since=NOW + timedelta(hours=1), until=NOW + timedelta(hours=2))))
        == 1
    )
    assert kept.actions() == ["downloaded", "looked"]
    assert kept.read(AuditFilter(who="x' OR 1=1 --\x00")) == []


def test_the_audit_is_read_whole_in_pages_and_old_lines_go(store: Store) -> None:
    kept = AuditLog(store.engine, retention=timedelta(days=30))
    for n in range(7):
        kept.write(visit(action=f"{n}"), NOW)
    assert [v.action for v in kept.read_all(AuditFilter())] == [str(n) for n in range(6, -1, -1)]
    assert [v.action for v in kept.read(AuditFilter(), limit=2)] == ["6", "5"]
    kept.write(visit(action="new"), NOW + timedelta(days=31))
    assert [v.action for v in kept.read(AuditFilter())] == ["new"]
