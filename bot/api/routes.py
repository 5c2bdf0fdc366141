"""The addresses of the API and their handlers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from faultline.analysis.errors import FaultlineError
from faultline.bot.api import models
from faultline.bot.api.deploys import DeployHandlers
from faultline.bot.api.models import key_of, read_answer, read_finding, read_findings, since_time
from faultline.bot.api.openapi import document
from faultline.bot.api.operations import Operation, answer_of
from faultline.bot.intake.accepting import Accept
from faultline.bot.intake.incident_requests import IncidentRequest, IncidentRequests, requester_key
from faultline.bot.intake.signatures import Refused
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.listing import Labels, Listing, ListingCursor, ListingFilter
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.access import AccessControl
from faultline.bot.web.again_pages import requester_of
from faultline.bot.web.progress_steps import progress_events, resume_point
from faultline.bot.web.refusals import refusal
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import note_investigation, visibility_of, visitor_of

API = "/api"
ALL = f"{API}/investigations"
BY_ID = f"{ALL}/{{id}}"
DEPLOYS = f"{API}/deploy-checks"

R = TypeVar("R")


def api_routes(site: Site, access: AccessControl, accept: Accept) -> list[BaseRoute]:
    """All addresses below /api. `accept` is that of the alerts."""
    listed = operations(ApiHandlers(site, access, accept))
    described = JSONResponse(document(listed, site.settings.server.public_url))

    async def openapi(_request: Request) -> Response:
        return described

    async def nothing(request: Request) -> Response:
        sentence = f"There is nothing at this address. {API}/openapi.json lists all."
        return refusal(request, 404, sentence)

    return [
        *(operation.route(access) for operation in listed),
        Route(f"{API}/openapi.json", openapi, middleware=access.open_to_all()),
        # This one takes everything below /api, so it stays last.
        Route(f"{API}/{{path:path}}", nothing, middleware=access.open_to("read")),
    ]


def operations(handlers: ApiHandlers) -> tuple[Operation, ...]:
    """Everything that the API does."""
    h, m = handlers, models
    return (
        Operation(
            "startInvestigation",
            "POST",
            ALL,
            "Start an investigation",
            "investigate",
            h.start,
            takes=m.NewInvestigation,
            gives=m.Started,
            status=202,
            recorded_as="asked for an investigation",
            by_key=True,
        ),
        Operation(
            "listInvestigations",
            "GET",
            ALL,
            "List investigations, the newest first",
            "read",
            h.list,
            takes=m.ListQuery,
            gives=m.Investigations,
        ),
        Operation(
            "getInvestigation",
            "GET",
            BY_ID,
            "Its status",
            "read",
            h.get,
            gives=m.Investigation,
            refuses=(404,),
        ),
        Operation(
            "getAnswer",
            "GET",
            f"{BY_ID}/answer",
            "Its answer",
            "read",
            h.answer,
            gives=m.Answer,
            refuses=(404, 409),
            recorded_as="looked",
        ),
        Operation(
            "listFindings",
            "GET",
            f"{BY_ID}/findings",
            "What code established",
            "read",
            h.findings,
            gives=m.Findings,
            refuses=(404, 409),
            recorded_as="looked",
        ),
        Operation(
            "getFinding",
            "GET",
            f"{BY_ID}/findings/{{finding_id}}",
            "One finding with its evidence: query, window and values",
            "read",
            h.finding,
            gives=m.FindingWithEvidence,
            refuses=(404, 409),
            recorded_as="looked",
        ),
        Operation(
            "streamEvents",
            "GET",
            f"{BY_ID}/events",
            "Its progress as it happens",
            "read",
            h.events,
            takes=m.EventsQuery,
            refuses=(404,),
        ),
        Operation(
            "giveFeedback",
            "POST",
            f"{BY_ID}/feedback",
            "Say whether the answer was right",
            "rate",
            h.feedback,
            takes=m.Feedback,
            gives=m.FeedbackKept,
            refuses=(404, 409),
            recorded_as="judged",
        ),
        Operation(
            "checkDeploy",
            "POST",
            DEPLOYS,
            "Watch a deploy",
            "investigate",
            h.deploys.start,
            takes=m.NewDeployCheck,
            gives=m.DeployCheck,
            status=202,
            recorded_as="asked for a check of a deploy",
            by_key=True,
        ),
        Operation(
            "getDeployCheck",
            "GET",
            f"{DEPLOYS}/{{check_id}}",
            "The verdict on it so far",
            "read",
            h.deploys.get,
            gives=m.DeployCheck,
            refuses=(404,),
        ),
    )


class ApiHandlers:
    """The handlers. Each raises Refused for what it cannot answer."""

    def __init__(self, site: Site, access: AccessControl, accept: Accept) -> None:
        self.site, self.access, self.store = site, access, site.store
        self.requests = IncidentRequests(site.settings, site.store, accept)
        self.labels = Labels(site.store.engine)
        self.listing = Listing(site.store.engine)
        self.deploys = DeployHandlers(site, access, self.requests)

    async def start(self, request: Request, new_investigation: models.NewInvestigation) -> Response:
        """Start one, or find the one of the same key."""
        key = key_of(request)
        requester = await requester_of(self.access, request)
        incident = IncidentRequest(
            text=new_investigation.question,
            key=requester_key(requester, key),
            door="api",
            service=new_investigation.service,
            since=since_time(new_investigation.since),
            places=new_investigation.places,
        )
        accepted = await self.requests.start(
            incident, requester, new_investigation.model_dump_json()
        )
        investigation_id = accepted.investigation_id
        note_investigation(request, investigation_id)
        # Without an id the database is away, and the request waits on disk.
        outcome = accepted.outcome if investigation_id else "spooled"
        url = self._url(investigation_id) if investigation_id else None
        started = models.Started.model_validate(
            {"id": investigation_id, "outcome": outcome, "url": url, "key": key}
        )
        # A repeated key starts nothing, so the answer is not 202.
        return answer_of(started, 200 if outcome == "duplicate" else 202)

    async def list(self, request: Request, list_query: models.ListQuery) -> models.Investigations:
        """One page."""
        visibility = visibility_of(request)
        cursor = None
        # Pages go on from the last investigation that was seen, so that new ones shift nothing.
        if list_query.after is not None:
            last = await in_store(self.store.get, list_query.after, visibility)
            if last is None:
                raise Refused(422, "after: is no investigation")
            cursor = ListingCursor(last.accepted_at, last.id)
        listing_filter = ListingFilter(
            words=list_query.q or "", status=list_query.status, service=list_query.service
        )
        listing = self.listing.visible_to(visibility)
        page = await in_store(listing.page, listing_filter, size=list_query.limit, after=cursor)
        shown = await in_store(self.store.some, page.ids, visibility)
        return models.Investigations(
            investigations=tuple(self._shown(investigation) for investigation in shown),
            next=page.older.id if page.older else None,
        )

    async def get(self, request: Request, _payload: None) -> models.Investigation:
        """Its status."""
        return self._shown(await self._investigation(request))

    async def answer(self, request: Request, _payload: None) -> models.Answer:
        """Its answer."""
        investigation = await self._answered(request)
        return await self._read(investigation, partial(read_answer, investigation.id))

    async def findings(self, request: Request, _payload: None) -> models.Findings:
        """Its findings."""
        return await self._read(await self._answered(request), read_findings)

    async def finding(self, request: Request, _payload: None) -> models.FindingWithEvidence:
        """One finding."""
        investigation = await self._answered(request)
        finding_id = request.path_params["finding_id"]
        finding = await self._read(investigation, lambda folder: read_finding(folder, finding_id))
        if finding is None:
            raise Refused(404, "This investigation has no finding of this id")
        return finding

    async def events(self, request: Request, events_query: models.EventsQuery) -> Response:
        """Its progress."""
        investigation = await self._investigation(request)
        after = resume_point(request.headers.get("last-event-id"), str(events_query.after))
        stream = progress_events(self.store, investigation.id, after, request.is_disconnected)
        # nginx would hold events back until its buffer is full.
        headers = {"x-accel-buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def feedback(self, request: Request, feedback: models.Feedback) -> models.FeedbackKept:
        """Keep what somebody says of the answer."""
        investigation = await self._answered(request)
        visitor = visitor_of(request)
        remaining_id = await in_store(
            self.labels.write,
            investigation.id,
            right=feedback.right,
            cause=feedback.cause,
            who=visitor.name if visitor else "",
        )
        if remaining_id is None:  # deleted in this moment
            raise Refused(404, "No investigation has this id")
        return models.FeedbackKept(
            right=remaining_id.right,
            cause=remaining_id.cause,
            who=remaining_id.who,
            at=remaining_id.at,
        )

    async def _investigation(self, request: Request) -> StoredInvestigation:
        investigation = await self.site.investigation(request)
        if investigation is None:
            raise Refused(404, "No investigation has this id")
        return investigation

    async def _answered(self, request: Request) -> StoredInvestigation:
        investigation = await self._investigation(request)
        if investigation.status == "failed":
            raise Refused(409, f"The investigation failed: {investigation.headline}")
        if investigation.status == "joined":
            reason = f"{investigation.headline}. Read investigation {investigation.joined_id}"
            raise Refused(409, reason)
        if investigation.status != "done":
            raise Refused(409, f"The investigation has no answer yet: it is {investigation.status}")
        return investigation

    async def _read(self, investigation: StoredInvestigation, read: Callable[[Path], R]) -> R:
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            raise Refused(404, trouble or "The case folder of this investigation is gone")
        try:
            return await in_thread(read, folder)
        except (FaultlineError, OSError) as error:
            raise Refused(404, f"This case cannot be read: {error}") from None

    def _shown(self, investigation: StoredInvestigation) -> models.Investigation:
        return models.Investigation(
            id=investigation.id,
            status=investigation.status,
            title=investigation.alert.title,
            question=investigation.question,
            service=investigation.alert.service,
            source=investigation.alert.source,
            since=investigation.alert.started_at,
            accepted_at=investigation.accepted_at,
            started_at=investigation.started_at,
            finished_at=investigation.finished_at,
            verdict=investigation.verdict,
            confidence=investigation.confidence,
            headline=investigation.headline,
            url=self._url(investigation.id),
        )

    def _url(self, investigation_id: str) -> str:
        return f"{self.site.settings.server.public_url}/investigations/{investigation_id}"
