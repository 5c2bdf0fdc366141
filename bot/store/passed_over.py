"""Messages of other apps in watched channels in which no alert was recognised: counted by channel
and app, with the last one's first line as an example, and forgotten after a month.

They are rows of the table of suppressed alerts, of their own kind.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.tables import SuppressedAlertRow
from faultline.bot.store.visibility import SlackChannelFacts, Visibility

KIND = "unread"
MAX_APPS = 200
"""Apps are counted by ids that Slack gives, so there are few; a limit all the same."""
MAX_EXAMPLE, MAX_SHOWN = 120, 30


@dataclass(frozen=True)
class PassedOverMessages:
    """Those of an app in a channel. `example` is the first line of the last, `shape` its parts."""

    channel: str
    app: str
    count: int
    last_at: datetime
    reason: str
    shape: str
    example: str


def count_passed_over(
    engine: Engine,
    channel: str,
    sender: str,
    app: str,
    reason: str,
    shape: str,
    example: str,
    now: datetime | None = None,
) -> None:
    """Count one message. `sender` is the app's id, `app` what it calls itself."""
    now = now or datetime.now(UTC)
    digest = hashlib.sha256(f"{channel}\x00{sender}".encode("utf-8", "replace")).hexdigest()[:32]
    key = f"{KIND}:{digest}"
    # What others wrote may hold a secret.
    content = Alert(
        source="slack",
        title=storable(masked(example), MAX_EXAMPLE),
        summary=storable(shape, MAX_EXAMPLE),
        service=storable(masked(app), 60),
        started_at=now,
    ).model_dump(mode="json")
    try:
        with Session(engine) as session, session.begin():
            row = session.get(SuppressedAlertRow, key, with_for_update=True)
            if row is not None:
                row.count += 1
                row.last_at, row.alert, row.why = now, content, reason
                return
            rows = select(func.count()).where(SuppressedAlertRow.kind == KIND)
            if (session.scalar(rows) or 0) >= MAX_APPS:
                return
            session.add(
                SuppressedAlertRow(
                    key=key,
                    kind=KIND,
                    fingerprint=digest[:16],
                    channel=storable(channel, 100),
                    alert=content,
                    why=reason,
                    first_at=now,
                    last_at=now,
                )
            )
    except IntegrityError:
        # Another process counted the app's first message at the same moment.
        return


def passed_over_messages(engine: Engine, visibility: Visibility) -> list[PassedOverMessages]:
    """What was passed over in channels that may be seen, the latest first. The example is left out
    where a channel is not known to be public and its readers are not known either."""
    if visibility.nothing:
        return []
    query = (
        select(SuppressedAlertRow)
        .where(SuppressedAlertRow.kind == KIND)
        .order_by(SuppressedAlertRow.last_at.desc(), SuppressedAlertRow.key)
        .limit(MAX_APPS)
    )
    with reading(engine) as session:
        rows = [
            (Alert.model_validate(row.alert), row.channel, row.count, row.last_at, row.why)
            for row in session.scalars(query)
        ]
    visible = visibility.channels
    if visible is not None:
        visible |= SlackChannelFacts(engine).mentionable_in(None)
    return [
        PassedOverMessages(
            channel=channel,
            app=content.service or "",
            count=count,
            last_at=last_at,
            reason=reason,
            shape=content.summary or "",
            example=content.title if visible is None or channel in visible else "",
        )
        for content, channel, count, last_at, reason in rows
    ][:MAX_SHOWN]
