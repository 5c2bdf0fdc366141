"""What programs and people may take: tokens for programs, made by an admin, shown once and kept as
a hash; idempotency keys; acts of a person, counted by all processes together; and what the language
model took, by day and channel."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, delete, func, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.policy.people import ROLES, Act, Role, may
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.people_tables import ApiTokenRow, PersonActRow, RequestKeyRow
from faultline.bot.store.store import Store
from faultline.bot.store.tables import ModelSpendingRow

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


def is_same_request(engine: Engine, key: str, request_body: str, now: datetime) -> bool:
    """Remember the request under a key; False where the key was used for another request."""
    digest = hashlib.sha256(request_body.encode("utf-8", "replace")).hexdigest()
    try:
        with Session(engine) as session, session.begin():
            response = session.get(RequestKeyRow, key)
            if response is None:
                session.add(RequestKeyRow(key=key, digest=digest, at=now))
            return response is None or response.digest == digest
    except IntegrityError:  # another process took it at the same moment
        with Session(engine) as session:
            return session.get_one(RequestKeyRow, key).digest == digest


MAX_WHO = 300
ACTS_RETENTION = timedelta(days=2)
"""More than the longest window in which anything is counted."""
ACTS_LOCK = 0x61637473
"""First half of the PostgreSQL advisory lock under which one person's acts are counted; the second
is the person's."""


class PersonActs:
    """The counts, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def count(
        self,
        who: str,
        act: str,
        key: str,
        most: int,
        window: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Count one more act, unless `most` were counted within the window: then False.

        The same `key` again is counted once, and gets the same answer.
        """
        now = now or datetime.now(UTC)
        row, who, key = (
            PersonActRow,
            storable(who, MAX_WHO),
            hashlib.sha256(f"{act} {key}".encode("utf-8", "replace")).hexdigest(),
        )
        with Session(self._engine) as session, session.begin():
            if self._engine.dialect.name == "postgresql":
                # An advisory lock of two keys takes signed 32-bit integers.
                lock_key = int.from_bytes(hashlib.sha256(who.encode()).digest()[:4], signed=True)
                session.execute(
                    text("SELECT pg_advisory_xact_lock(:room, :who)"),
                    {"room": ACTS_LOCK, "who": lock_key},
                )
            if session.get(row, key) is not None:
                return True
            session.execute(delete(row).where(row.at < now - ACTS_RETENTION))
            counted = session.scalar(
                select(func.count())
                .select_from(row)
                .where(row.who == who, row.act == act, row.at > now - window)
            )
            if (counted or 0) >= most:
                return False
            session.add(row(key=key, who=who, act=act, at=now))
            return True


SPENDING_RETENTION = timedelta(days=31)
LONGEST_CHANNEL = 200


@dataclass(frozen=True)
class Spent:
    """Tokens sent and received, and US dollars."""

    tokens: int = 0
    cost_usd: float = 0.0


def _now() -> datetime:
    return datetime.now(UTC)


class ModelSpending:
    """The counts of all workers, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, now: Callable[[], datetime] = _now) -> None:
        self._engine = engine
        self._now = now

    def add(self, channel: str, tokens: int, cost_usd: float) -> tuple[Spent, Spent]:
        """Count one answer; gives what `spent` gives, with it."""
        row, day = ModelSpendingRow, self._day()
        is_postgres = self._engine.dialect.name == "postgresql"
        insert = (postgresql.insert if is_postgres else sqlite.insert)(row)
        # A negative count must not lower the sum.
        counted = {"tokens": max(0, tokens), "cost_usd": max(0.0, cost_usd)}
        new = {"day": day, "channel": storable(channel, LONGEST_CHANNEL), **counted}
        more = {
            "tokens": row.tokens + insert.excluded.tokens,
            "cost_usd": row.cost_usd + insert.excluded.cost_usd,
        }
        with Session(self._engine) as session, session.begin():
            # One statement adds, so that workers that count at once lose nothing.
            session.execute(
                insert.values(new).on_conflict_do_update(
                    index_elements=["day", "channel"], set_=more
                )
            )
            session.execute(delete(row).where(row.day < self._day(SPENDING_RETENTION)))
            return self._read(session, channel)

    def spent(self, channel: str) -> tuple[Spent, Spent]:
        """What today took so far: all of it, and the channel's part."""
        with reading(self._engine) as session:
            return self._read(session, channel)

    def _read(self, session: Session, channel: str) -> tuple[Spent, Spent]:
        row = ModelSpendingRow
        sums = select(func.sum(row.tokens), func.sum(row.cost_usd)).where(row.day == self._day())
        channel_sums = sums.where(row.channel == storable(channel, LONGEST_CHANNEL))
        day, part = (session.execute(query).one() for query in (sums, channel_sums))
        return Spent(int(day[0] or 0), float(day[1] or 0)), Spent(
            int(part[0] or 0), float(part[1] or 0)
        )

    def _day(self, back: timedelta = timedelta()) -> str:
        return (self._now() - back).date().isoformat()
