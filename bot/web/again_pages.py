"""What an investigation's page can start: the same again or with a wider window, a replay, the
job's trace report.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TypeVar

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import BudgetExceeded, FaultlineError, SettingsError
from faultline.analysis.vocabulary import Window
from faultline.bot.intake.accepting import Accept, NotAccepted
from faultline.bot.intake.incident_requests import (
    MOST_TEXT,
    IncidentRequest,
    IncidentRequests,
    Requester,
    requester_key,
    since_of,
)
from faultline.bot.intake.questions.subjects import QuestionSpan, window_of
from faultline.bot.intake.signatures import Refused
from faultline.bot.policy.people import HOUR, too_many_investigations
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.connections import storable
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope
from faultline.bot.store.listing import Listing
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.access import AccessControl
from faultline.bot.web.rendering import Site
from faultline.bot.web.replaying import Fresh, HeavyWork, analyse_again, compare
from faultline.bot.web.sessions import note_investigation, visibility_of, visitor_of
from faultline.bot.web.trace_report import TraceReport, trace_report

MAX_REPLAYS, MAX_REPORTS = 64, 4
CLICK_WINDOW_S = 60
"""The same wish of the same minute is one: people click twice."""
KINDS = {"again": "the same once more", "wider": "a wider window"}

V = TypeVar("V")


class Newest(OrderedDict[str, V]):
    """The newest values by key; the oldest goes when there are too many."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def keep(self, key: str, value: V) -> V:
        """Put it in as the newest."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._size:
            self.popitem(last=False)
        return value


class AgainPages:
    """The handlers."""

    def __init__(self, site: Site, access: AccessControl) -> None:
        self.site = site
        self.access = access
        self.work = HeavyWork()
        self.follow_ups = FollowUps(site.store.engine)
        self.acts = PersonActs(site.store.engine)
        self._replays: Newest[Fresh] = Newest(MAX_REPLAYS)
        self._reports: Newest[TraceReport] = Newest(MAX_REPORTS)

    async def again(self, request: Request) -> Response:
        """Start a further investigation of the same alert."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        # Foreign input: no file, and few small fields.
        form = await request.form(max_files=0, max_fields=6, max_part_size=4096)
        kind = form.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            return self.site.problem(
                request, 400, "Not started", "Say what to start: the same again, or wider."
            )
        visitor = visitor_of(request)
        who = visitor.name if visitor else "somebody"
        key = f"{kind}:{investigation.id}:page:{int(time.time()) // CLICK_WINDOW_S}"
        people = self.site.settings.people
        # Holders of the shared access token are nobody in particular, and not counted.
        if visitor is not None and visitor.named:
            most = visitor.investigations_per_hour or people.investigations_per_hour
            person = await self.access.person(visitor)
            if not await in_store(self.acts.count, person, "investigate", key, most, HOUR):
                sentence = too_many_investigations(most)
                return self.site.problem(request, 429, "Not started", sentence)
        fresh, _ = await in_store(
            self.follow_ups.start,
            investigation,
            await self._scope(investigation, kind),
            key=key,
            question=f"{who} asked for {KINDS[kind]}",
            who=who,
            reply_to=investigation.reply_to,
        )
        return RedirectResponse(f"/investigations/{fresh}", 303)

    async def _scope(self, investigation: StoredInvestigation, kind: str) -> FollowUpScope:
        incident = await self._incident(investigation) if kind == "wider" else None
        if incident is not None:
            return FollowUpScope(
                window=window_of(QuestionSpan(), incident, investigation.accepted_at)
            )
        return await in_store(self.follow_ups.scope, investigation.id) or FollowUpScope()

    async def _incident(self, investigation: StoredInvestigation) -> Window | None:
        folder, _ = await self.site.folder(investigation.id)
        if folder is None or not (folder / "scope.json").exists():
            return None
        try:
            return (await in_thread(read_case, folder)).scope.incident
        except (FaultlineError, OSError):
            return None

    async def replay(self, request: Request) -> Response:
        """GET shows the newest replay of this server; POST makes one."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None or investigation.status != "done":
            return self.site.problem(
                request, 409, "Nothing to replay", trouble or "There is no answered case yet."
            )
        try:
            if request.method == "POST":
                self._replays.keep(investigation.id, await self.work.run(analyse_again, folder))
                return RedirectResponse(request.url.path, 303)
            fresh = self._replays.get(investigation.id)
            comparison = await in_thread(compare, folder, fresh) if fresh else None
        except BudgetExceeded as error:
            return self.site.problem(request, 503, "Not replayed", f"{error}.")
        except (FaultlineError, OSError) as error:
            return self.site.problem(request, 422, "This case cannot be replayed", f"{error}.")
        return self.site.page(request, "replay.html", i=investigation, comparison=comparison)

    async def trace_report(self, request: Request) -> Response:
        """The page of the trace doctor for the job of this case."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            return self.site.problem(
                request, 404, "No case folder", trouble or "There is no case folder yet."
            )
        report = self._reports.get(investigation.id)
        try:
            if report is None:
                report = await self.work.run(trace_report, folder)
        except BudgetExceeded as error:
            return self.site.problem(request, 503, "No trace report", f"{error}.")
        except (FaultlineError, OSError) as error:
            return self.site.problem(request, 404, "No trace report", f"{error}.")
        # A running investigation may still add traces, so its report is not kept.
        if investigation.status == "done":
            self._reports.keep(investigation.id, report)
        headers = {
            "content-security-policy": report.policy,
            # Its button opens Perfetto and posts to it.
            "cross-origin-opener-policy": "same-origin-allow-popups",
        }
        return HTMLResponse(report.page, headers=headers)


# The form that starts an investigation without an alert.

FIELDS = ("question", "service", "since", "places", "key")
LONGEST = 200
MAX_PLACES = 10
_PLACE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.]{0,60})\s*=\s*(?P<value>\S.{0,199})")


async def requester_of(access: AccessControl, request: Request) -> Requester:
    """Whose rate the request counts for. Whoever holds the access token, or sits at this machine,
    is nobody in particular and has none."""
    visitor = visitor_of(request)
    assert visitor is not None, "nobody gets here without having been let in"
    if not visitor.named:
        return Requester(visitor.who, None)
    most = visitor.investigations_per_hour or access.settings.people.investigations_per_hour
    return Requester(await access.person(visitor), most)


class InvestigatePage:
    """The handlers of `/investigate`."""

    def __init__(self, site: Site, access: AccessControl, accept: Accept) -> None:
        self.site = site
        self.access = access
        self.requests = IncidentRequests(site.settings, site.store, accept)
        self.listing = Listing(site.store.engine)

    async def show(self, request: Request) -> Response:
        """The form, filled in as the address says."""
        query_params = {name: request.query_params.get(name, "")[:LONGEST] for name in FIELDS}
        return await self._form(request, {**query_params, "key": uuid.uuid4().hex})

    async def start(self, request: Request) -> Response:
        """Start one and go to its page."""
        # Foreign input: no file, and few fields of a bounded size.
        form = await request.form(max_files=0, max_fields=10, max_part_size=4 * MOST_TEXT)
        fields = _fields(form)
        requester = await requester_of(self.access, request)
        try:
            # The key of the form makes a second click the same request.
            key = requester_key(requester, fields["key"] or uuid.uuid4().hex)
            since = fields["since"]
            requested_request = IncidentRequest(
                text=fields["question"],
                key=key,
                door="page",
                service=fields["service"][:LONGEST] or None,
                since=since_of(since, datetime.now(UTC), UTC, "since when") if since else None,
                places=_places(fields["places"]),
            )
            as_sent = repr([fields[name] for name in FIELDS])
            accepted = await self.requests.start(requested_request, requester, as_sent)
        except SettingsError as error:
            return await self._form(request, fields, 400, f"{error}.")
        except Refused as error:
            return await self._form(
                request,
                fields,
                (400 if error.status == 422 else error.status),
                f"{error}".rstrip(".") + ".",
            )
        except NotAccepted:
            trouble = "This could not be stored. Send the form again."
            return await self._form(request, fields, 503, trouble)
        investigation_id = accepted.investigation_id
        note_investigation(request, investigation_id)
        if investigation_id is None:
            # It waits in the spool, and has no id before the database takes it.
            trouble = (
                "The database is away for the moment. The investigation starts when it is back, "
            )
            trouble += "and then stands in the list."
            return self.site.problem(request, 200, "Taken", trouble)
        return RedirectResponse(f"/investigations/{investigation_id}", 303)

    async def _form(
        self, request: Request, fields: dict[str, str], status: int = 200, trouble: str = ""
    ) -> Response:
        services = await in_store(self.listing.visible_to(visibility_of(request)).services)
        service_names = sorted({*services, *self.site.settings.services}, key=str.casefold)
        return self.site.page(
            request,
            "investigate.html",
            status=status,
            given=fields,
            trouble=trouble,
            services=service_names,
            longest=MOST_TEXT,
        )


def _fields(form: FormData) -> dict[str, str]:
    storables_by_name = {}
    for name in FIELDS:
        value = form.get(name)
        storables_by_name[name] = (
            storable(value.strip(), MOST_TEXT) if isinstance(value, str) else ""
        )
    return storables_by_name


def _places(text: str) -> dict[str, str]:
    """`cluster=eu-1, region=eu`. Raises SettingsError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    values_by_name = {}
    for part in parts[:MAX_PLACES]:
        match = _PLACE.fullmatch(part)
        if match is None:
            raise SettingsError("where", "write a label and its value, such as cluster=eu-1")
        values_by_name[match["name"]] = match["value"]
    return values_by_name
