"""Service, severity and start of an alert in a Slack message: from its fields first, then from its
title and text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from faultline.analysis.alert_signal.subjects import Naming
from faultline.bot.intake.payload_fields import as_time, in_utc
from faultline.bot.intake.service_names import in_catalogue, mentioned
from faultline.bot.intake.slack_layout import Layout
from faultline.bot.settings import Settings

STATE_KEYS = (
    """
status|state|alert status|alert state|new state|new status|current state|current status
monitor status|host state|service state|service status|health|health status|notification type
incident status|zustand|état|statut|estado|situação|stato|toestand|stan|状態|ステータス|状态|狀態
상태|статус
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
SERVICE_KEYS = (
    """
service|services|service name|affected service|affected services|impacted service
impacted services|impacted component|application|app|app name|component|components|workload
deployment|cloud role|function name|service_name|dienst|anwendung|servicio|aplicación|serviço
servizio|usługa|サービス|服务|服務|서비스|сервис
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
OBJECT_KEYS = (
    """
monitor|monitor name|check|check name|host|hostname|host name|site|website|endpoint|entity
entity name|impacted entity|affected entity|pod|container|resource|resource name|target|source
project|project name|instance|instance name|device|node|job|namespace|dbinstance|alias|tags|labels
rechner|hôte|servidor|host/service|主机|ホスト|호스트
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
SEVERITY_KEYS = (
    """
severity|priority|level|urgency|impact|prio|alert severity|alert priority|schweregrad|priorität
gravité|sévérité|priorité|severidad|gravedad|prioridad|severidade|prioridade|gravità|priorità|ernst
prioriteit|priorytet|ważność|重要度|深刻度|優先度|严重级别|严重程度|级别|优先级|심각도|уровень|важность
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
START_KEYS = (
    """
started|started at|start time|start|since|began|began at|opened|opened at|opened on|triggered at
fired at|down since|failing since|problem started|problem started at|event time|startsat
incident started|incident started at|alert time|timestamp|time|time (utc)|occurred|occurred at
beginn|seit|début|depuis|inicio|início|inizio|sinds|発生時刻|发生时间|开始时间|触发时间
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
DURATION_KEYS = [
    "duration",
    "down for",
    "lasted",
    "failing for",
    "dauer",
    "durée",
    "duración",
    "duração",
    "durata",
]
TITLE_KEYS = (
    "alert name", "alertname", "monitor name", "monitor", "rule name", "rule", "check name",
    "check", "condition name", "policy name", "name", "subject", "title", "summary",
    "output message", "problem", "reason", "message",
)  # fmt: skip
"""Fields that say what fires, where the headline holds no more than the tool's name."""
ALERT_KEYS = frozenset(
    {
        *STATE_KEYS,
        *SEVERITY_KEYS,
        *"""alert|alertname|alert name|alert policy|policy|policy name|condition|condition name
rule|rule name|threshold|current value|metric|metric name|reason|cause|root cause|trigger|incident
incident id|problem|problem id|runbook|monitor|monitor name|check|check name|impacted entity
failing since|down since|response code|http status|users affected|events|first seen|alarm
alarm name|check output|escalation policy|assigned to|dashboard|silence|alarm reason|new state
ursache|motif|motivo|原因""".replace("\n", "|").split("|"),
    }
)
"""Names of fields that alerts have, and other messages hardly."""
SEVERITIES = """
critical crit fatal emergency disaster high major error average warning warn medium moderate minor
low info informational notice page blocker urgent sev0 sev1 sev2 sev3 sev4 sev-0 sev-1 sev-2 sev-3
sev-4 p0 p1 p2 p3 p4 p5 s1 s2 s3 s4 kritisch hoch critique crítico crítica critico critica alta
"""
_SEVERITY_WORD = re.compile(
    r"(?<![\w-])(?:" + "|".join(re.escape(w) for w in SEVERITIES.split()) + r")(?![\w-])",
    re.IGNORECASE,
)
_SEVERITY_SHOWN = re.compile(r"\b(critical|warning|page|sev-?[0-4]|p[1-5])\b", re.IGNORECASE)
_SEVERITY_BESIDE_CIRCLE = re.compile(r"(?:[🔴🟠🟡🔵🟢⚪]|_circle:) ?\*?(\w{2,10})\b")
_SEVERITY_PHRASE = re.compile(r"\b(\w{3,10}) (?:severity|priority)\b", re.IGNORECASE)

LONGEST_AGO = timedelta(days=7)
LONGEST_AGO_WITHOUT_ZONE = timedelta(hours=1)
"""A time without a zone may be a local one: one that is further off than this says nothing."""
AHEAD = timedelta(minutes=5)
"""Clocks differ."""
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?\s?(Z|UTC|GMT|[+-]\d\d:?\d\d)?"
)
_EPOCH = re.compile(r"(?<!\d)1\d{9}(?!\d)")
_DURATION = re.compile(r"(\d{1,4})\s?(days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b")
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_QUOTED = re.compile(r"[“„«\"'‘`*]([^“”„«»\"'‘’`*\n]{2,80})[”“»\"'’`*]")
_BRACKETED = re.compile(r"^\[([\w .:/-]{2,60})\]\s")
_BEFORE_VERB = re.compile(
    r"^((?:\S{1,60} ){1,6}?)(?:is|are|was|went|has|have|ist|est|está|è|jest|came)\b", re.IGNORECASE
)
_AFTER_COLON = re.compile(r"\b(?:is|are|was|ist|est|está) [\w ]{2,20}:\s+([^\n(|]{2,80})")
_LEADING = re.compile(
    r"^(?:(?:your|the|an?|monitor|service|host|site|website|check|alert|for|server|endpoint|app"
    r"|application|component|incident) )+",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z][\w-]{1,62}")
LABEL_KEYS = (
    "pod", "pod_name", "deployment", "statefulset", "daemonset", "cronjob", "job_name", "container",
    "namespace", "cluster", "node", "host", "hostname", "instance",
)  # fmt: skip
"""Fields that are kept as labels: of objects of Kubernetes and of machines."""
_LABEL_VALUE = re.compile(r"[\w.:/-]{1,253}")


@dataclass(frozen=True)
class Subject:
    """What a headline is about. `is_monitor`: it says of something with a name that it is up or
    down."""

    name: str = ""
    is_monitor: bool = False


def subject_of(headline: str, has_prefix: bool) -> Subject:
    """The name in a headline, by its quotation marks, or before or after the verb."""
    line = headline[:300]
    after_colon = _AFTER_COLON.search(line)
    if after_colon:
        name = re.split(r" - | \| ", after_colon[1], maxsplit=1)[0].strip(" .")
        return Subject(name, bool(name))
    bracketed = _BRACKETED.match(line)
    if bracketed and has_prefix:
        name = bracketed[1].strip()
        return Subject(name, bool(name))
    quoted = _QUOTED.search(line)
    before = _BEFORE_VERB.match(line)
    if quoted is not None:
        return Subject(quoted[1].strip(), before is not None or not has_prefix)
    if before is not None and not has_prefix:
        name = _LEADING.sub("", before[1].split(" | ")[-1]).strip()
        return Subject(name, bool(name))
    return Subject()


def namings_of(
    settings: Settings, layout: Layout, title: str, subject: Subject
) -> Iterator[Naming]:
    """Who the message may be about: a field for the service, then the catalogue's names in its
    title and in fields for the object; what the title or the text calls so is only a hint."""
    for value in layout.values(SERVICE_KEYS):
        first = re.split(r"[,;|(]| - ", value, maxsplit=1)[0].strip()
        is_name = len(first) <= 63 and len(first.split()) <= 3
        service = in_catalogue(settings, value) or (first if is_name else "")
        yield Naming(service, "its field for the service")
    yield Naming(in_catalogue(settings, title) or "", "its title")
    for value in (*layout.values(OBJECT_KEYS), subject.name):
        yield Naming(in_catalogue(settings, value) or "", "what it watches")
    for text in (title, "\n".join(layout.lines)):
        yield Naming(mentioned(settings, text) or "", "its text", is_hint=True)
    # A domain or a sentence is no service's name.
    if _NAME.fullmatch(subject.name) and not _SEVERITY_WORD.fullmatch(subject.name):
        yield Naming(subject.name, "its title", is_hint=True)


def object_labels(layout: Layout) -> dict[str, str]:
    """The fields that name an object of Kubernetes or a machine, as labels call them."""
    labels: dict[str, str] = {}
    for key, value in layout.pairs:
        if key in LABEL_KEYS and _LABEL_VALUE.fullmatch(value):
            labels.setdefault(key, value)
    return labels


def severity_of(layout: Layout) -> str | None:
    """As the message calls it, in lower case."""
    for value in layout.values(SEVERITY_KEYS):
        word = _SEVERITY_WORD.search(value)
        if word:
            return word[0].lower()
        if 2 < len(value) <= 20 and value.replace("-", "").replace(" ", "").isalnum():
            return value.lower()
    text = "\n".join(layout.lines)
    for pattern in (_SEVERITY_PHRASE, _SEVERITY_BESIDE_CIRCLE):
        for phrase in pattern.finditer(text):
            if _SEVERITY_WORD.fullmatch(phrase[1]):
                return phrase[1].lower()
    match = _SEVERITY_SHOWN.search(text)
    return match[1].lower() if match else None


def began_at(layout: Layout, posted_at: datetime) -> datetime:
    """When it began, by a field for the start or the duration; else when it was posted."""
    for value in layout.values(START_KEYS):
        start = _time_in(value, posted_at)
        if start is not None:
            return start
    for value in layout.values(DURATION_KEYS):
        # `1 h 5 min` as a length of time.
        parts = _DURATION.findall(value[:100])[:4]
        seconds = sum(int(number) * _UNITS[unit[0].lower()] for number, unit in parts)
        if 0 < seconds <= LONGEST_AGO.total_seconds():
            return posted_at - timedelta(seconds=seconds)
    for line in layout.headlines[:3]:
        start = _time_in(line, posted_at)
        if start is not None:
            return start
    return posted_at


def _time_in(text: str, posted_at: datetime) -> datetime | None:
    epoch = _EPOCH.search(text)
    if epoch:
        time, has_zone = in_utc(datetime.fromtimestamp(int(epoch[0]), UTC)), True
    else:
        match = _TIME.search(text)
        if match is None:
            return None
        has_zone = match[3] is not None
        zone = match[3] if match[3] and match[3] not in ("UTC", "GMT") else "Z"
        time = as_time(f"{match[1]}T{match[2]}{zone}")
    if time is None:
        return None
    longest = LONGEST_AGO if has_zone else LONGEST_AGO_WITHOUT_ZONE
    return time if -AHEAD <= posted_at - time <= longest else None
