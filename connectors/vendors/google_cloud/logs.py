"""Cloud Logging: filters, entries as log lines, and entries of audit logs as changes.

`entries.list` of the Logging API v2. The language of filters: docs.cloud.google.com/logging,
"Logging query language"; audit entries: google.cloud.audit.AuditLog.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import attributes, time_of
from faultline.connectors.shared.rows.log_windows import LONGEST_LINE, LinePage, Row
from faultline.connectors.shared.rows.otlp_spans import TRACE_ID_BYTES, hex_id
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.google_cloud.metrics import literal, utc

NAMED_BY = (
    "resource.labels.service_name",
    "resource.labels.container_name",
    "resource.labels.module_id",
    "resource.labels.function_name",
    'labels."k8s-pod/app"',
    'labels."k8s-pod/app_kubernetes_io/name"',
    "jsonPayload.serviceContext.service",
)
"""Where the name of a service stands: Cloud Run, GKE, App Engine, functions, labels of pods, and
the format of Error Reporting."""
PLACES = {"cluster_name": "cluster", "location": "location", "revision_name": "revision"}
LABEL_NAMES = ("pod_name", "namespace_name", "configuration_name", "instance_id", "version_id")
MESSAGES = ("message", "msg", "textPayload", "log", "error")
MOST_CHANGES = 200
MOST_IMAGES, DEEPEST = 5, 12
_ROLLOUTS = "[.](deployments|statefulsets|daemonsets|cronjobs|configmaps|secrets|ingresses"
_ROLLOUTS += "|services|horizontalpodautoscalers)[.](create|patch|update|delete)$"
CHANGES = (
    '(log_id("cloudaudit.googleapis.com/activity") OR log_id("cloudaudit.googleapis.com/'
    'system_event")) AND severity<ERROR AND (operation.first=true OR NOT operation.id:*)'
    ' AND NOT (log_id("cloudaudit.googleapis.com/system_event") AND '
    'protoPayload.serviceName="run.googleapis.com")'
    f' AND (protoPayload.serviceName!="k8s.io" OR (protoPayload.methodName=~{literal(_ROLLOUTS)}'
    ' AND NOT protoPayload.authenticationInfo.principalEmail=~"^system:"))'
)
"""What people and tools changed, each operation once. Controllers of Kubernetes write all the time,
and Cloud Run says of each revision when it is ready."""
_DEPLOYS = re.compile(
    r"(?i)(services\.(create|replace|update)service|revisions|deployments\.|statefulsets\."
    r"|daemonsets\.|cronjobs\.|functions?\.?(create|update)|createversion|deploy)"
)
_SCALES = re.compile(r"(?i)(resize|setsize|node_?pool_?size|autoscal|scale|horizontalpod)")


class _Resource(msgspec.Struct):
    type: str = ""
    labels: dict[str, str] = {}


class _HttpRequest(msgspec.Struct):
    requestMethod: str = ""
    requestUrl: str = ""
    status: int | None = None
    latency: str = ""


class LogEntry(msgspec.Struct):
    """The fields of an entry that are read."""

    timestamp: str = ""
    severity: str = ""
    logName: str = ""
    insertId: str = ""
    textPayload: str | None = None
    jsonPayload: dict[str, Any] | None = None
    protoPayload: dict[str, Any] | None = None
    httpRequest: _HttpRequest | None = None
    resource: _Resource = msgspec.field(default_factory=_Resource)
    labels: dict[str, str] = {}
    trace: str = ""


class EntriesAnswer(msgspec.Struct):
    """A page. One without entries may have a following one that has some."""

    entries: list[LogEntry] = []
    nextPageToken: str = ""


def lines_filter(names: Sequence[str]) -> str:
    """Lines of the services with these names."""
    either = " OR ".join(literal(name) for name in names)
    fields = " OR ".join(f"{field}=({either})" for field in NAMED_BY)
    return f'({fields}) AND NOT logName:"cloudaudit.googleapis.com"'


def errors_filter(lines: str) -> str:
    """Those of them that are errors."""
    return f"{lines} AND severity>=ERROR"


def words_filter(lines: str, words: Sequence[str]) -> str:
    """Those of them that say one of the words."""
    return f"{lines} AND ({' OR '.join(literal(word) for word in words)})"


def within(text: str, window: Window) -> str:
    """The filter with a window."""
    return f'{text} AND timestamp>="{utc(window.start)}" AND timestamp<"{utc(window.end)}"'


def logs_link(console: str, project: str, text: str, window: Window) -> str:
    """The same lines in the Logs Explorer."""
    times = f"startTime={utc(window.start)};endTime={utc(window.end)}"
    return f"{console}/logs/query;query={quote(text, safe='')};{times}?project={project}"


def line_page(
    entries: Iterable[LogEntry], services: Sequence[str], names: ServiceNames
) -> LinePage:
    """Rows of the table `logs`; `services` are those that were asked for."""
    rows: list[Row] = []
    left_out = 0
    for entry in entries:
        at, text = time_of(entry.timestamp), _text(entry)
        if at is None or not text:
            left_out += 1
            continue
        level = entry.severity.lower()
        # The field is a resource's name: projects/P/traces/ID.
        trace = hex_id(entry.trace.rpartition("/")[2][:64], TRACE_ID_BYTES) or None
        service = _service(entry, services, names)
        # DEFAULT means that nobody set a severity.
        shown = None if level in ("", "default") else short(level, 20)
        rows.append((at, service, text[:LONGEST_LINE], shown, trace, _attributes(entry)))
    return LinePage(rows, left_out)


def _text(entry: LogEntry) -> str:
    if entry.textPayload:
        return entry.textPayload
    payload = entry.jsonPayload or {}
    for name in MESSAGES:
        if isinstance(payload.get(name), str) and payload[name]:
            return str(payload[name])
    http_request = entry.httpRequest
    if http_request is not None and http_request.requestUrl:
        # A query may hold what must not be shown.
        path = http_request.requestUrl.partition("?")[0]
        status = http_request.status or ""
        return f"{http_request.requestMethod} {path} {status} {http_request.latency}".strip()
    return msgspec.json.encode(payload).decode() if payload else ""


def _service(entry: LogEntry, services: Sequence[str], names: ServiceNames) -> str | None:
    labels = entry.resource.labels
    context = (entry.jsonPayload or {}).get("serviceContext")
    # The first four fields are labels of the resource; the others are read below.
    raw_names = [labels.get(field.rpartition(".")[2]) for field in NAMED_BY[:4]]
    raw_names += [
        entry.labels.get("k8s-pod/app"),
        entry.labels.get("k8s-pod/app_kubernetes_io/name"),
    ]
    raw_names.append(context.get("service") if isinstance(context, dict) else None)
    candidates = [name for name in raw_names if isinstance(name, str)]
    for service in services:
        if names.matches(service, candidates):
            return service
    return None


def _attributes(entry: LogEntry) -> str | None:
    labels = entry.resource.labels
    remaining_labels: dict[str, Any] = {ours: labels.get(theirs) for theirs, ours in PLACES.items()}
    remaining_labels |= {name: labels.get(name) for name in LABEL_NAMES}
    if entry.httpRequest is not None:
        remaining_labels["http.response.status_code"] = entry.httpRequest.status
    for name, value in (entry.jsonPayload or {}).items():
        if name not in MESSAGES and isinstance(value, (str, int, float)):
            remaining_labels.setdefault(name, value)
    return attributes(remaining_labels)


def change_rows(
    entries: Iterable[LogEntry], services: Sequence[str], names: ServiceNames, link: str
) -> list[Row]:
    """Rows of the table `changes`."""
    rows: list[Row] = []
    for entry in entries:
        proto_payload, at = entry.protoPayload or {}, time_of(entry.timestamp)
        method, resource = (
            _string(proto_payload, "methodName"),
            _string(proto_payload, "resourceName"),
        )
        if at is None or not method:
            continue
        # `google.cloud.run.v2.Services.UpdateService` is known by its last two parts.
        what = ".".join(method.split(".")[-2:])
        title = f"{what} on {resource.rpartition('/')[2] or resource}"
        images = list(dict.fromkeys(images_in(proto_payload.get("request"))))[:MOST_IMAGES]
        if images:
            title += f": image {', '.join(images)}"
        value = proto_payload.get("authenticationInfo")
        author = _string((value if isinstance(value, dict) else {}), "principalEmail")
        parts = [*resource.split("/"), *entry.resource.labels.values()]
        rows.append(
            (
                at,
                service_in(parts, services, names),
                kind_of(method),
                change_id(entry),
                short(title, 300),
                short(author, 120) or None,
                link,
                None,
                None,
            )
        )
    return rows


def change_id(entry: LogEntry) -> str:
    """What an entry is called as a change."""
    method = _string(entry.protoPayload or {}, "methodName")
    return short(entry.insertId, 100) or f"{method} {entry.timestamp}"[:100]


def service_in(parts: Sequence[str], services: Sequence[str], names: ServiceNames) -> str | None:
    """The service whose name one of a resource's parts is."""
    for service in services:
        if names.matches(service, parts):
            return service
    return None


def kind_of(method: str) -> str:
    """The kind of change, from a method's name."""
    if _DEPLOYS.search(method):
        return "deploy"
    return "scale" if _SCALES.search(method) else "config"


def images_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Container images anywhere in a request: each API nests them its own way."""
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in list(value.items())[:100]:
            if name == "image" and isinstance(inner, str):
                yield short(inner, 200)
            else:
                yield from images_in(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value[:50]:
            yield from images_in(inner, depth + 1)


def _string(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) else ""
