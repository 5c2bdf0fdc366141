"""A token opens what its role says until it expires or is revoked, and its row opens nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.store import quotas
from faultline.bot.store.quotas import (
    TokenLimits,
    caller_of,
    is_api_token,
    make_token,
    revoke_token,
    tokens,
)
from faultline.bot.store.store import Store
from tests.databases import store_engine

NOW = datetime(2026, 11, 24, 3, tzinfo=UTC)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    engine = store_engine(database_url)
    yield Store(engine)
    engine.dispose()


def secret_of(token: str) -> str:
    return token.split("_", 2)[2]


def test_a_token_names_its_caller_until_it_expires(store: Store) -> None:
    limits = TokenLimits(investigations_per_hour=3, calls_per_minute=7)
    token, made = make_token(
        store, "pipeline", "viewer", days=30, made_by="ann", team="shop", limits=limits, now=NOW
    )
    caller = caller_of(store, f"Bearer {token}", NOW)
    assert caller == made
    assert caller is not None
    assert (caller.name, caller.team, caller.limits) == ("pipeline", "shop", limits)
    assert caller.may("read")
    assert not caller.may("investigate")
    assert caller_of(store, f"bearer  {token} ", NOW + timedelta(days=29)) == made
    assert caller_of(store, f"Bearer {token}", NOW + timedelta(days=30)) is None


def test_what_is_no_token_of_ours_is_nobody(store: Store) -> None:
    token, made = make_token(store, "one", "admin", days=1, made_by="ann")
    other, _ = make_token(store, "two", "viewer", days=1, made_by="ann")
    mixed = f"faultline_{made.id}_{secret_of(other)}"
    for header in (
        None,
        "",
        token,
        f"Basic {token}",
        "Bearer ",
        "Bearer faultline_",
        "Bearer faultline_\x00_x",
        "Bearer faultline_\ud800_x",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"Bearer {mixed}",
        f"Bearer faultline_{made.id}",
    ):
        assert caller_of(store, header) is None, header
    assert is_api_token(f"Bearer {mixed}")
    assert not is_api_token("Bearer correct horse battery staple")


def test_a_revoked_token_opens_nothing_at_once(store: Store) -> None:
    token, made = make_token(store, "one", "admin", days=1, made_by="ann")
    assert revoke_token(store, made.id) == made
    assert caller_of(store, f"Bearer {token}") is None
    assert revoke_token(store, made.id) is None
    assert tokens(store) == []


def test_its_last_use_is_known_to_the_minute(store: Store) -> None:
    token, _ = make_token(store, "one", "viewer", days=30, made_by="ann", now=NOW)
    assert tokens(store)[0].used_at is None
    for seconds in (0, 59):
        caller_of(store, f"Bearer {token}", NOW + timedelta(seconds=seconds))
        assert tokens(store)[0].used_at == NOW
    caller_of(store, f"Bearer {token}", NOW + timedelta(seconds=60))
    assert tokens(store)[0].used_at == NOW + timedelta(seconds=60)


def test_the_row_holds_no_token_and_there_are_not_too_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, _ = make_token(store, "one", "viewer", days=1, made_by="ann")
    with store.engine.connect() as connection:
        kept = str(connection.execute(text("SELECT * FROM api_tokens")).all())
    assert secret_of(token) not in kept
    monkeypatch.setattr(quotas, "MAX_TOKENS", 1)
    with pytest.raises(BudgetExceeded, match="revoke one first"):
        make_token(store, "two", "viewer", days=1, made_by="ann")
