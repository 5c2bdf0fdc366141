"""What PagerDuty's REST API answers, mapped to changes, monitors and details. All text in it is
hostile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import polars as pl

from faultline.analysis.case.tables import CHANGES, MONITORS
from faultline.analysis.vocabulary import ChangeKind
from faultline.connectors.shared.rows.collection_builder import ChangeRow, rows_table
from faultline.connectors.shared.vendor_text import first_of, short, web_link

MOST_DETAILS = 40
LONGEST_DETAIL = 500
"""Characters kept of one detail: an alert's body may be as long as a log file."""

_KINDS: tuple[tuple[ChangeKind, re.Pattern[str]], ...] = (
    (
        "flag",
        re.compile(r"\b(feature[ _-]?)?(flag|toggle)s?\b|launchdarkly|unleash|split\.io", re.I),
    ),
    (
        "migration",
        re.compile(
            r"\bmigrat(e|es|ed|ion|ions|ing)\b|\bschema change\b|flyway|liquibase|alembic", re.I
        ),
    ),
    (
        "scale",
        re.compile(r"\bscal(e|ed|es|ing)\b|\bauto-?scal|\breplicas?\b|\binstance count\b", re.I),
    ),
    (
        "deploy",
        re.compile(
            (
                r"\b(deploy(s|ed|ment|ing)?|releas(e|ed|es|ing)|roll(ed)?[ "
                r"-]?(out|back)|rollout|build)\b"
            ),
            re.I,
        ),
    ),
    ("merge", re.compile(r"\bmerg(e|ed|es|ing)\b|\bpull request\b|\bPR ?#\d+", re.I)),
    (
        "config",
        re.compile(
            (
                r"\bconfig(uration|s|map)?\b|\bsettings?\b|terraform|\bhelm "
                r"values\b|\benv(ironment)? var"
            ),
            re.I,
        ),
    ),
)
"""The word that comes first decides. What says nothing is a deploy: most change integrations send
builds."""
_AUTHOR_KEYS = (
    "author",
    "user",
    "actor",
    "deployed_by",
    "triggered_by",
    "committer",
    "sender",
    "created_by",
)

ServiceNames = Mapping[str, str]
"""Our name of a service by PagerDuty's id."""


def change_kind(text: str) -> ChangeKind:
    """What kind of change a change event's text speaks of."""
    first_kind: ChangeKind = "deploy"
    first = len(text)
    for kind, words in _KINDS:
        match = words.search(text)
        if match and match.start() < first:
            first_kind, first = kind, match.start()
    return first_kind


def changes_table(events: Iterable[Mapping[str, Any]], names: ServiceNames) -> pl.DataFrame:
    """One row per change event and service it names; an event without a readable time is left
    out."""
    rows: dict[tuple[str, str | None], tuple[Any, ...]] = {}
    for event in events:
        at = moment(event.get("timestamp"))
        if at is None:
            continue
        title, source = text_of(event.get("summary")), text_of(event.get("source"))
        details = flat_details(event.get("custom_details"))
        kind = change_kind(f"{title} {' '.join(details)} {source}")
        author = first_of(details, _AUTHOR_KEYS)
        link = _first_link(event)
        identity = text_of(event.get("id"))
        services: list[str | None] = [*service_names(event.get("services"), names)]
        for service in services or [None]:
            # A change may be listed for its service and as a related one: keep it once.
            rows[identity, service] = ChangeRow(at, service, kind, identity, title, author, link)
    return rows_table(rows.values(), CHANGES.columns)


def _first_link(event: Mapping[str, Any]) -> str | None:
    for link_object in objects(event.get("links")):
        link = web_link(link_object.get("href"))
        if link:
            return link
    return None


def monitors_table(alerts: Iterable[Mapping[str, Any]], names: ServiceNames) -> pl.DataFrame:
    """One row per alert of the incident."""
    rows = []
    for alert in alerts:
        since = moment(alert.get("created_at"))
        if since is None:
            continue
        title = text_of(alert.get("summary"))
        service = next(iter(service_names([alert.get("service")], names)), None)
        state = text_of(alert.get("status"))
        rows.append((title, service, state, since, web_link(alert.get("html_url"))))
    return pl.DataFrame(rows, schema=MONITORS.columns, orient="row")


def alert_details(alerts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The bodies of the alerts as flat text by key; of equal keys the first alert's."""
    details: dict[str, str] = {}
    for alert in alerts:
        body = alert.get("body")
        if isinstance(body, Mapping):
            cef = body.get("cef_details")
            inner = cef.get("details") if isinstance(cef, Mapping) else None
            # The sender's `details` win over PagerDuty's common event format, and the first alert
            # wins over the next.
            details = {**flat_details(inner), **flat_details(body.get("details")), **details}
        if alert.get("severity"):
            details.setdefault("severity", text_of(alert["severity"]))
    return dict(list(details.items())[:MOST_DETAILS])


def log_details(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Who did what when, and what the triggering event said."""
    log_lines: dict[str, str] = {}
    for entry in entries:
        kind = text_of(entry.get("type")).removesuffix("_log_entry")
        text = text_of(entry.get("summary"))
        channel = entry.get("channel")
        if kind == "trigger" and isinstance(channel, Mapping):
            details = flat_details(channel.get("details"))
            text += "".join(f"; {key}: {value}" for key, value in details.items())
        log_lines[f"{text_of(entry.get('created_at'))} {kind}"] = short(text, LONGEST_DETAIL)
    return dict(list(log_lines.items())[:MOST_DETAILS])


def past_details(past: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Titles of similar incidents, by id and time."""
    titles = {}
    for past_incident in past:
        incident = past_incident.get("incident")
        if isinstance(incident, Mapping):
            title = text_of(incident.get("title"))
            titles[_incident_key(incident)] = (
                f"{title} (similarity {text_of(past_incident.get('score'))})"
            )
    return dict(list(titles.items())[:MOST_DETAILS])


def related_details(related: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Titles of the incidents that PagerDuty relates, by id and time, and why."""
    text_by_incident_key = {}
    for related_incident in related:
        incident = related_incident.get("incident")
        if not isinstance(incident, Mapping):
            continue
        text = text_of(incident.get("title"))
        types = [
            text_of(relationship.get("type"))
            for relationship in objects(related_incident.get("relationships"))
        ]
        why = ", ".join(types).replace("_", " ")
        if why:
            text += f" ({why})"
        text_by_incident_key[_incident_key(incident)] = text
    return dict(list(text_by_incident_key.items())[:MOST_DETAILS])


def _incident_key(incident: Mapping[str, Any]) -> str:
    return f"{text_of(incident.get('id'))} {text_of(incident.get('created_at'))}"


def on_call_details(people: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Names of who is on call, by level: nothing else of them."""
    people_by_level: dict[str, list[str]] = {}
    for person in people:
        name = _person(person.get("user"))
        if not name:
            continue
        level = person.get("escalation_level")
        phrases = people_by_level.setdefault(
            f"on call, level {level if type(level) is int else 'unknown'}", []
        )
        schedule = person.get("schedule")
        shift = text_of(schedule.get("summary")) if isinstance(schedule, Mapping) else ""
        phrase = f"{short(name, 80)} ({short(shift, 80)})" if shift else short(name, 80)
        if phrase not in phrases:
            phrases.append(phrase)
    return {
        level: short(", ".join(people_by_level[level]), LONGEST_DETAIL)
        for level in sorted(people_by_level)
    }


def _person(user: Any) -> str:
    """Somebody's name; the id where the name is an address or absent."""
    if not isinstance(user, Mapping):
        return ""
    name = text_of(user.get("summary"))
    return text_of(user.get("id")) if not name or "@" in name else name


def flat_details(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested details as text by dotted key."""
    if not isinstance(value, Mapping):
        if value in (None, "") or isinstance(value, list):
            return {}
        return {prefix or "details": text_of(value)}
    text_by_name: dict[str, str] = {}
    for key, inner in value.items():
        if len(text_by_name) >= MOST_DETAILS:
            break
        name = short(f"{prefix}.{key}" if prefix else str(key), 80)
        # Foreign text may be nested without end.
        if isinstance(inner, Mapping) and name.count(".") < 3:
            text_by_name.update(flat_details(inner, name))
        else:
            text_by_name[name] = text_of(inner)
    return dict(list(text_by_name.items())[:MOST_DETAILS])


def service_names(references: Any, names: ServiceNames) -> list[str]:
    """The services referred to: our name, else PagerDuty's, else its id."""
    our_names = []
    for reference in objects(references):
        service_id = text_of(reference.get("id"))
        name = names.get(service_id) or text_of(reference.get("summary")) or service_id
        if name:
            our_names.append(name)
    return list(dict.fromkeys(our_names))[:10]


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, whatever else is in it."""
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def moment(value: Any) -> datetime | None:
    """An ISO 8601 time as UTC."""
    try:
        at = datetime.fromisoformat(value)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    # The first and the last day of the calendar may not exist in UTC.
    except (TypeError, ValueError, OverflowError):
        return None


def text_of(value: Any) -> str:
    """Anything as one bounded line."""
    if value is None:
        return ""
    return short(value if isinstance(value, str) else repr(value), LONGEST_DETAIL)
