"""PagerDuty on loopback: incidents, alerts, log entries, change events and notes of the REST API
v2, everything kept.

Like PagerDuty it is not idempotent: each POST of a note stores one more. Paths and shapes follow
PagerDuty's OpenAPI description (`listIncidentNotes`, `createIncidentNote`, `updateIncidentNote`,
`listIncidentAlerts`, ...).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.loopback.server import Traffic

MAX_NOTE = 25_000
MAX_NOTES = 2_000
MINUTE_S = 60.0
Json = Mapping[str, Any]


class PagerDutyRefusal(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, code: int, message: str, *errors: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer = {"error": {"code": code, "message": message, "errors": list(errors)}}


@dataclass
class PagerDutyNote:
    """One note; `versions` holds every content it has had, the current last."""

    id: str
    author: str
    created_at: str
    versions: list[str]

    @property
    def content(self) -> str:
        """The current content."""
        return self.versions[-1]

    def as_json(self) -> dict[str, Any]:
        """As the API gives it."""
        user = {"id": "PFAULTLN", "type": "user_reference", "summary": self.author}
        channel = {"summary": "The PagerDuty website or APIs"}
        return {
            "id": self.id,
            "user": user,
            "channel": channel,
            "content": self.content,
            "created_at": self.created_at,
        }


@dataclass
class LoopbackIncident:
    """One incident with what hangs on it, each list as the API gives it."""

    id: str
    title: str
    service: str
    created_at: str
    urgency: str = "high"
    status: str = "triggered"
    alerts: Sequence[Json] = ()
    log_entries: Sequence[Json] = ()
    change_events: Sequence[Json] = ()
    notes: list[PagerDutyNote] = field(default_factory=list)
    merged_into: str | None = None
    custom_fields: dict[str, Any] = field(default_factory=dict)
    service_id: str = "PSERVICE"

    def as_json(self, base_url: str) -> dict[str, Any]:
        """As the API gives it."""
        reference = {
            "id": self.service_id,
            "type": "service_reference",
            "summary": self.service,
        }
        return {
            "id": self.id,
            "type": "incident",
            "summary": self.title,
            "title": self.title,
            "self": f"{base_url}incidents/{self.id}",
            "html_url": f"{base_url}incidents/{self.id}",
            "incident_number": 1,
            "created_at": self.created_at,
            "status": self.status,
            "urgency": self.urgency,
            "incident_key": self.id.lower(),
            "service": reference,
            **self._resolve_reason(),
            "alert_counts": {"all": len(self.alerts), "triggered": len(self.alerts), "resolved": 0},
        }

    def _resolve_reason(self) -> dict[str, Any]:
        if self.merged_into is None:
            return {}
        # A merged incident is resolved, with the other one as its reason.
        into = {"id": self.merged_into, "type": "incident_reference"}
        return {"resolve_reason": {"type": "merge_resolve_reason", "incident": into}}


class LoopbackPagerDuty:
    """The account. With `token` set, any other key is refused; with `per_minute`, more requests in
    a minute are answered 429, with the seconds until it is over."""

    def __init__(
        self,
        *,
        token: str | None = None,
        fields: Sequence[str] = (),
        per_minute: int | None = None,
    ) -> None:
        self.token = token
        self.per_minute = per_minute
        self.refused = 0
        """Requests that were answered 429 by `per_minute`."""
        self._minute = (0.0, 0)
        self.fields = frozenset(fields)
        self.traffic = Traffic()
        self.incidents: dict[str, LoopbackIncident] = {}
        self.services: dict[str, str] = {}
        """Names by id; an incident's service has one of them, or PSERVICE."""
        self.changes: list[Json] = []
        """Change events of the account, oldest first."""
        self._lock = threading.Lock()
        self._count = 0
        incident_path = "/incidents/{incident_id}"
        services = [
            Route("/services", self._handler("services", self._services)),
            Route("/change_events", self._handler("all change_events", self._all_changes)),
            Route("/oncalls", self._handler("oncalls", self._on_calls)),
        ]
        self.app = Starlette(
            routes=[
                *services,
                Route("/incidents", self._handler("incidents", self._list)),
                Route(incident_path, self._handler("incident", self._incident)),
                Route(f"{incident_path}/alerts", self._handler("alerts", self._alerts)),
                Route(
                    f"{incident_path}/log_entries", self._handler("log_entries", self._log_entries)
                ),
                Route(
                    f"{incident_path}/related_change_events",
                    self._handler("related_change_events", self._changes),
                ),
                Route(
                    f"{incident_path}/past_incidents", self._handler("past_incidents", self._past)
                ),
                Route(
                    f"{incident_path}/related_incidents",
                    self._handler("related_incidents", self._related),
                ),
                Route(
                    "/services/{service_id}/change_events",
                    self._handler("change_events", self._service_changes),
                ),
                Route(
                    f"{incident_path}/notes",
                    self._handler("list notes", self._notes),
                    methods=["GET"],
                ),
                Route(
                    f"{incident_path}/notes",
                    self._handler("create note", self._create_note),
                    methods=["POST"],
                ),
                Route(
                    f"{incident_path}/custom_fields/values",
                    self._handler("set fields", self._set_fields),
                    methods=["PUT"],
                ),
                Route(
                    f"{incident_path}/notes/{{note_id}}",
                    self._handler("update note", self._update_note),
                    methods=["PUT"],
                ),
            ]
        )

    @property
    def notes(self) -> list[PagerDutyNote]:
        """All notes of all incidents, oldest first."""
        return sorted((n for i in self.incidents.values() for n in i.notes), key=lambda n: n.id)

    def open_incident(
        self, incident_id: str, title: str, service: str, **more: Any
    ) -> LoopbackIncident:
        """An incident that has just been triggered; `more` are further fields of
        `LoopbackIncident`."""
        more.setdefault("created_at", _now())
        more.setdefault("service_id", self.service_id(service))
        incident = LoopbackIncident(incident_id, title, service, **more)
        self.incidents[incident_id] = incident
        return incident

    def service_id(self, name: str) -> str:
        """The id of the service of that name; PSERVICE where the account does not list it."""
        for service_id, service in self.services.items():
            if service == name:
                return service_id
        return "PSERVICE"

    def publish_change(
        self, change_id: str, summary: str, service: str, at: datetime, **details: str
    ) -> None:
        """A change event, as an integration sends it through the Events API v2."""
        reference = {
            "id": self.service_id(service),
            "type": "service_reference",
            "summary": service,
        }
        self.changes.append(
            {
                "id": change_id,
                "type": "change_event",
                "timestamp": at.astimezone(UTC).isoformat(),
                "summary": summary,
                "source": "ci",
                "services": [reference],
                "custom_details": details,
                "links": [],
            }
        )

    def _handler(
        self, call: str, method: Callable[[Request, Json], tuple[int, Json]]
    ) -> Callable[..., Any]:
        async def handle(request: Request) -> Response:
            # Refuse before counting: a throttled request is not a call.
            if (left_s := self._over_limit()) is not None:
                error = {"error": {"code": 2020, "message": "Too Many Requests", "errors": []}}
                return JSONResponse(error, 429, {"ratelimit-reset": str(left_s)})
            failure = await self.traffic.arrive(call)
            if failure is not None:
                error = {"error": {"code": 2000, "message": failure.error, "errors": []}}
                return JSONResponse(error, failure.status, dict(failure.headers))
            try:
                self._authorise(request)
                body = await request.json() if request.method in {"POST", "PUT"} else {}
                status, answer = method(request, body)
            # A refusal is an answer like any other and has the same delay.
            except PagerDutyRefusal as refusal:
                status, answer = refusal.status, refusal.answer
            await self.traffic.leave(call)
            return JSONResponse(answer, status)

        return handle

    def _over_limit(self) -> int | None:
        """Seconds until the next request is taken, where this one is too many."""
        began, count = self._minute
        now = time.monotonic()
        # The minute begins with the first request after the last one.
        if now - began >= MINUTE_S:
            began, count = now, 0
        self._minute = began, count + 1
        if self.per_minute is None or count < self.per_minute:
            return None
        self.refused += 1
        return math.ceil(MINUTE_S - (now - began))

    def _authorise(self, request: Request) -> None:
        # PagerDuty takes keys only as `Token token=...`.
        scheme, _, key = request.headers.get("authorization", "").partition("=")
        if scheme.strip() != "Token token" or (self.token is not None and key != self.token):
            raise PagerDutyRefusal(401, 2006, "Unauthorized")

    def _list(self, request: Request, _: Json) -> tuple[int, Json]:
        incidents = [i.as_json(str(request.base_url)) for i in self.incidents.values()]
        return 200, _paged("incidents", incidents, request)

    def _incident(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, {"incident": self._find(request).as_json(str(request.base_url))}

    def _alerts(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, _paged("alerts", self._find(request).alerts, request)

    def _log_entries(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, _paged("log_entries", self._find(request).log_entries, request)

    def _changes(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, {"change_events": list(self._find(request).change_events)}

    def _past(self, request: Request, _: Json) -> tuple[int, Json]:
        self._find(request)
        return 200, {"past_incidents": [], "total": 0, "limit": 5}

    def _related(self, request: Request, _: Json) -> tuple[int, Json]:
        self._find(request)
        return 200, {"related_incidents": []}

    def _service_changes(self, request: Request, _: Json) -> tuple[int, Json]:
        service_id = request.path_params["service_id"]
        changes = [
            change for change in self.changes if service_id in {s["id"] for s in change["services"]}
        ]
        return 200, _paged("change_events", _since(changes, request), request)

    def _all_changes(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, _paged("change_events", _since(self.changes, request), request)

    def _services(self, request: Request, _: Json) -> tuple[int, Json]:
        query = request.query_params.get("query", "").casefold()
        matches = []
        for service_id, name in self.services.items():
            if query in name.casefold():
                matches.append({"id": service_id, "type": "service", "name": name, "summary": name})
        return 200, _paged("services", matches, request)

    def _on_calls(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, _paged("oncalls", [], request)

    def _notes(self, request: Request, _: Json) -> tuple[int, Json]:
        return 200, {"notes": [n.as_json() for n in self._find(request).notes]}

    def _create_note(self, request: Request, body: Json) -> tuple[int, Json]:
        incident, content = self._find(request), _content(request, body)
        if len(incident.notes) >= MAX_NOTES:
            raise PagerDutyRefusal(400, 2001, "Invalid Input Provided", "Too many notes")
        # Number and store under one lock, so that ids follow the order of the notes.
        with self._lock:
            self._count += 1
            note = PagerDutyNote(f"PN{self._count:05d}", request.headers["from"], _now(), [content])
            incident.notes.append(note)
        return 200, {"note": note.as_json()}

    def _update_note(self, request: Request, body: Json) -> tuple[int, Json]:
        incident, content = self._find(request), _content(request, body)
        for note in incident.notes:
            if note.id == request.path_params["note_id"]:
                note.versions.append(content)
                return 200, {"note": note.as_json()}
        raise PagerDutyRefusal(404, 2100, "Not Found")

    def _set_fields(self, request: Request, body: Json) -> tuple[int, Json]:
        """Fields that the account does not have are refused, and then none is set."""
        incident, custom_fields = self._find(request), body.get("custom_fields")
        values = (
            {f["name"]: f["value"] for f in custom_fields}
            if isinstance(custom_fields, list)
            else {}
        )
        if not values or not self.fields.issuperset(values):
            raise PagerDutyRefusal(
                400, 2001, "Invalid Input Provided", "Custom field does not exist"
            )
        incident.custom_fields |= values
        field_values = [
            {
                "id": f"PF{name}",
                "type": "field_value",
                "name": name,
                "display_name": name,
                "data_type": "string",
            }
            | {"field_type": "single_value", "value": value}
            for name, value in incident.custom_fields.items()
        ]
        return 201, {"custom_fields": field_values}

    def _find(self, request: Request) -> LoopbackIncident:
        incident = self.incidents.get(request.path_params["incident_id"])
        if incident is None:
            raise PagerDutyRefusal(404, 2100, "Not Found")
        return incident


def _content(request: Request, body: Json) -> str:
    # PagerDuty requires a From header with a user for writes.
    if "@" not in request.headers.get("from", ""):
        raise PagerDutyRefusal(
            400, 1008, "Requester User Not Found", "the From header must name a user"
        )
    note = body.get("note")
    content = note.get("content") if isinstance(note, Mapping) else None
    if not isinstance(content, str) or not content or len(content) > MAX_NOTE:
        raise PagerDutyRefusal(
            400, 2001, "Invalid Input Provided", "Content is missing or too long"
        )
    return content


def _since(events: Sequence[Json], request: Request) -> list[Json]:
    """Those between `since` and `until`, the latest first."""
    since = request.query_params.get("since", "")
    until = request.query_params.get("until", "9")
    # Both are UTC in ISO 8601, so their order as text is their order in time.
    return [
        event for event in reversed(events) if since[:19] <= event["timestamp"][:19] <= until[:19]
    ]


def _paged(name: str, items: Sequence[Json], request: Request) -> dict[str, Any]:
    offset, limit = (int(request.query_params.get(k, d)) for k, d in (("offset", 0), ("limit", 25)))
    page = list(items[offset : offset + limit])
    return {
        name: page,
        "offset": offset,
        "limit": limit,
        "more": offset + limit < len(items),
        # PagerDuty gives no total unless it is asked for one.
        "total": None,
    }


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
