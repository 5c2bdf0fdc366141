"""`events`: what clusters and clouds say of pods, nodes and other objects: their states, their
events, the monitors that watch them, and the alert's own text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl
from pydantic import Field

from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    first_of,
    has,
    iso,
    moment,
    observation,
    quoted,
)
from faultline.bot.investigation.model.tools.metric_rows import labels_in
from faultline.bot.runtime.threads import in_thread

EVENT_MARK = '"kubernetes event"'
"""In the attributes of a log line that is an event of Kubernetes."""
CALM = ("ok", "ok no data", "resolved", "normal", "green", "inactive")
"""States of a monitor that asks for nothing."""
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_VARIES = re.compile(r"[0-9a-f]{5,}|\d+")
"""Ids and numbers, in which events of one kind differ."""


class EventArguments(Arguments):
    service: str | None = Field(default=None, description="The service, or null for all.")
    object: str | None = Field(
        default=None, description="A part of a pod's, node's or other object's name, or null."
    )
    contains: str | None = Field(
        default=None, description="Words of the reason, state or message, any case, or null."
    )


async def events(model_session: ModelSession, arguments: EventArguments) -> CallResult:
    """The newest first: alert, monitors, states of objects, events."""
    service = case_service(model_session, arguments.service) if arguments.service else None
    rows = await in_thread(_matching, model_session, service, arguments)
    if not rows:
        raise InvalidCall("no event, state or monitor matches; with nulls all are listed")
    shown, cut = first_of(rows, "narrow with service, object or contains")
    phrase = "events, states and monitors of the case; quoted parts are foreign text"
    return CallResult(shown, phrase, cut=cut)


def _matching(
    model_session: ModelSession, service: str | None, arguments: EventArguments
) -> list[Row]:
    dated_rows: list[tuple[datetime, Row]] = []
    for of_service, at, row in (
        *_alert(model_session),
        *_monitors(model_session),
        *_states(model_session),
        *_events(model_session),
    ):
        text = f"{row.text} {row.quote}".lower()
        if service is not None and of_service != service:
            continue
        if arguments.object and arguments.object.lower() not in text:
            continue
        if arguments.contains and arguments.contains.lower() not in text:
            continue
        # What has no time may hold now, so it comes first.
        dated_rows.append((at or LATEST, row))
    dated_rows.sort(key=lambda dated_row: dated_row[0], reverse=True)
    return [row for _, row in dated_rows]


_ServiceRow = tuple[str | None, datetime | None, Row]
"""The service, when, and the row."""


def _alert(model_session: ModelSession) -> Iterator[_ServiceRow]:
    alert = model_session.case.alert
    for part in (alert.title, alert.summary):
        if part:
            quote = quoted(part)
            phrase = f"the alert of {plain(alert.source, 40)} at {moment(alert.started_at)}"
            finding = observation(
                alert.service or "",
                "alert",
                f'{phrase} says "{plain(quote, 160)}".',
                ObservationDetails(about="alert_text", time=iso(alert.started_at), quote=quote),
                evidence=model_session.case.evidence_ids("alert"),
            )
            yield alert.service, alert.started_at, Row(phrase, quote, finding)


def _monitors(model_session: ModelSession) -> Iterator[_ServiceRow]:
    table = model_session.case.monitors
    is_calm = pl.col("state").str.to_lowercase().is_in(CALM).fill_null(value=False)
    calm = table.filter(is_calm)
    if calm.height:
        phrase = f"{calm.height} monitors are ok"
        yield None, None, Row(phrase)
    for row in table.filter(~is_calm).iter_rows(named=True):
        service, since = row["service"], row["since"]
        state = plain(row["state"] or "in no state", 40)
        when = f" since {moment(since)}" if since is not None else ""
        phrase = f"a monitor of {plain(service or 'no service')} is {state}{when}"
        quote = quoted(row["monitor"])
        finding = observation(
            service or "",
            "monitors",
            f'{phrase}: "{plain(quote, 120)}".',
            ObservationDetails(
                about="monitor", quote=quote, time=iso(since) if since is not None else ""
            ),
            evidence=model_session.case.evidence_ids("monitors"),
        )
        yield service, since, Row(phrase, quote, finding)


def _states(model_session: ModelSession) -> Iterator[_ServiceRow]:
    for row in model_session.case.states.iter_rows(named=True):
        service, since = row["service"], row["since"]
        finding, phrase, quote = _state(model_session, row)
        yield service, since, Row(phrase, quote, finding)


def _state(model_session: ModelSession, row: Mapping[str, Any]) -> tuple[Finding, str, str]:
    inside = f"{row['namespace']}/" if row["namespace"] else ""
    name = f"{plain(row['kind'], 40)} {plain(inside + row['name'], 120)}"
    phrase = f"{name}: {plain(row['fact'], 60)}"
    phrase += f" ({plain(row['field'], 60)})" if row["field"] else ""
    phrase += f" on {plain(row['place'], 80)}" if row["place"] else ""
    phrase += f", of {plain(row['service'])}" if row["service"] else ""
    phrase += f", since {moment(row['since'])}" if row["since"] is not None else ""
    values = [f"{n} {row[n]}" for n in ("value", "expected") if row[n]]
    quote = quoted("; ".join(values))
    # Cite the item of the row's own query where there is one.
    ids = [
        e.id for e in model_session.case.evidence if e.kind == "states" and e.query == row["query"]
    ]
    finding = observation(
        row["service"] or row["name"],
        "states",
        f"{phrase}.",
        ObservationDetails(
            about="state",
            quote=quote,
            time=iso(row["since"]) if row["since"] is not None else "",
            labels={"object": name} | ({"place": row["place"]} if row["place"] else {}),
        ),
        evidence=ids or model_session.case.evidence_ids("states"),
    )
    return finding, phrase, quote


def _events(model_session: ModelSession) -> Iterator[_ServiceRow]:
    """One row for each kind of event, as its last one says it."""
    lines = model_session.case.logs
    attributes = pl.col("attributes").fill_null("")
    # Search the raw JSON, so that only the lines that match have to be parsed.
    of_objects = lines.filter(attributes.str.contains(EVENT_MARK, literal=True)).sort("time")
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in of_objects.iter_rows(named=True):
        about = labels_in(row["attributes"])
        message = str(row["message"] or "").replace(about.get("object", "").rpartition("/")[2], "*")
        kind = (row["service"] or "", about.get("reason", ""), _VARIES.sub("*", message))
        alike.setdefault(kind, []).append(row)
    for rows in alike.values():
        yield _event(model_session, rows)


def _event(model_session: ModelSession, rows: Sequence[Mapping[str, Any]]) -> _ServiceRow:
    row, about = rows[-1], labels_in(rows[-1]["attributes"])
    service, quote = row["service"], quoted(row["message"] or "")
    phrase = f"{moment(row['time'])} {about.get('object', 'an object')}"
    phrase += f" {about['reason']}" if about.get("reason") else ""
    phrase += f" on {about['node']}" if about.get("node") else ""
    phrase += f", of {plain(service)}" if service else ""
    if len(rows) > 1:
        objects = {labels_in(each["attributes"]).get("object", "") for each in rows}
        of_how_many = f" of {len(objects)} objects" if len(objects) > 1 else ""
        phrase += f", and {len(rows) - 1} more like it{of_how_many} since {moment(rows[0]['time'])}"
    finding = observation(
        service or "",
        "events",
        f'{phrase}: "{plain(quote, 120)}".',
        ObservationDetails(about="event", time=iso(row["time"]), quote=quote, labels=about),
        evidence=(row[ORIGIN],) if row[ORIGIN] else model_session.case.evidence_ids("logs"),
        numbers={"count": float(len(rows))},
    )
    return service, row["time"], Row(phrase, quote, finding)


def _offered(model_session: ModelSession) -> bool:
    if has("states", "monitors")(model_session):
        return True
    text = model_session.case.logs["attributes"].fill_null("")
    return bool(text.str.contains(EVENT_MARK, literal=True).any())


EVENTS = Tool(
    "events",
    "Events and states of pods, nodes and other objects, monitors, and the alert's text; newest "
    "first.",
    EventArguments,
    events,
    _offered,
)
