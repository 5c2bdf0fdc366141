"""Tokens for programs: made by an admin, shown once, kept as a hash, ended by time or by an admin.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.policy.roles import ROLES, Act, Role, may
from faultline.bot.store.api_tables import ApiTokenRow
from faultline.bot.store.memory import storable
from faultline.bot.store.sessions import reading
from faultline.bot.store.store import Store

PREFIX = "faultline_"
"""Tells a token from `server.access_token`, and lets scanners for secrets find it."""
MAX_NAME = 100
MAX_TOKENS = 200
MAX_DAYS = 3650
USED_EVERY = timedelta(minutes=1)
"""How exactly it is known when a token was last used: not each request writes."""


@dataclass(frozen=True)
class TokenLimits:
    """How much the holder of a token may ask for."""

    investigations_per_hour: int = 20
    calls_per_minute: int = 120


@dataclass(frozen=True)
class Caller:
    """A program that showed a valid token, and what it may do."""

    id: str
    name: str
    role: Role
    team: str
    """The team whose investigations it sees where `login.isolation` is `teams`; "" for none."""
    limits: TokenLimits

    @property
    def who(self) -> str:
        """The name in the audit and for rates; no two tokens share it."""
        return f"token {self.id}"

    def may(self, act: Act) -> bool:
        """Whether its role is enough."""
        return may(self.role, act)


@dataclass(frozen=True)
class ApiToken:
    """One token as the list shows it."""

    caller: Caller
    made_by: str
    made_at: datetime
    expires_at: datetime
    used_at: datetime | None


def is_api_token(header: str | None) -> bool:
    """Whether an Authorization header holds what looks like one of these tokens."""
    return _bearer_token(header).startswith(PREFIX)


def caller_of(store: Store, header: str | None, now: datetime | None = None) -> Caller | None:
    """Who sent an Authorization header (`Bearer faultline_...`); None for a token that is unknown,
    revoked or expired, and for anything else."""
    now, token = now or datetime.now(UTC), _bearer_token(header)
    token_id = token.removeprefix(PREFIX).partition("_")[0]
    if not token.startswith(PREFIX) or not token_id.isalnum():
        return None
    with reading(store.engine) as session:
        row = session.get(ApiTokenRow, storable(token_id, MAX_NAME))
        # In constant time: the time of a comparison would tell how much of it is right.
        if row is None or not hmac.compare_digest(row.digest, _digest(token)):
            return None
        if row.expires_at <= now:
            return None
        caller, used_at = _caller(row), row.used_at
    if used_at is None or now - used_at >= USED_EVERY:
        _note_use(store, caller.id, now)
    return caller


def make_token(
    store: Store,
    name: str,
    role: Role,
    *,
    days: int,
    made_by: str,
    team: str = "",
    limits: TokenLimits | None = None,
    now: datetime | None = None,
) -> tuple[str, Caller]:
    """A new token, which cannot be read again, and the caller it stands for. Raises BudgetExceeded
    when there are too many."""
    now, limits = now or datetime.now(UTC), limits or TokenLimits()
    token_id = secrets.token_hex(4)
    token = f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"
    row = ApiTokenRow(
        id=token_id,
        digest=_digest(token),
        name=storable(name, MAX_NAME),
        role=role,
        team=team,
        investigations_per_hour=limits.investigations_per_hour,
        calls_per_minute=limits.calls_per_minute,
        made_by=storable(made_by, MAX_NAME),
        made_at=now,
        expires_at=now + timedelta(days=min(days, MAX_DAYS)),
    )
    with Session(store.engine) as session, session.begin():
        count = session.scalar(select(func.count()).select_from(ApiTokenRow)) or 0
        if count >= MAX_TOKENS:
            raise BudgetExceeded("tokens", f"there are {count} already; revoke one first")
        session.add(row)
        return token, _caller(row)


def tokens(store: Store) -> list[ApiToken]:
    """All tokens, the newest first; expired ones until retention deletes them."""
    query = select(ApiTokenRow).order_by(ApiTokenRow.made_at.desc(), ApiTokenRow.id)
    with reading(store.engine) as session:
        return [
            ApiToken(_caller(row), row.made_by, row.made_at, row.expires_at, row.used_at)
            for row in session.scalars(query)
        ]


def revoke_token(store: Store, token_id: str) -> Caller | None:
    """End a token at once; whose it was, None for an unknown one."""
    with Session(store.engine) as session, session.begin():
        row = session.get(ApiTokenRow, storable(token_id, MAX_NAME))
        if row is None:
            return None
        session.execute(delete(ApiTokenRow).where(ApiTokenRow.id == row.id))
        return _caller(row)


def _bearer_token(header: str | None) -> str:
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(token: str) -> str:
    # 256 random bits need no slow hash.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _caller(row: ApiTokenRow) -> Caller:
    limits = TokenLimits(row.investigations_per_hour, row.calls_per_minute)
    # After a downgrade, a role of the newer version allows reading only.
    role = next((role for role in ROLES if role == row.role), ROLES[0])
    return Caller(row.id, row.name, role, row.team, limits)


def _note_use(store: Store, token_id: str, now: datetime) -> None:
    with Session(store.engine) as session, session.begin():
        row = session.get(ApiTokenRow, token_id)
        if row is not None:
            row.used_at = now
