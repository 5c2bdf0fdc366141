"""The routes of the web pages, and the handlers that answer them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from faultline.analysis.case.folder import read_case, read_diagnosis
from faultline.analysis.errors import EvidenceError, FaultlineError
from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.answer.targets.tickets.revert_target import blamed_link
from faultline.bot.answer.targets.tickets.target import ticket_offers
from faultline.bot.intake.accepting import Accept
from faultline.bot.intake.alert_source import AlertSource
from faultline.bot.intake.alert_sources import alert_sources
from faultline.bot.operating.credentials import Credentials
from faultline.bot.operating.telemetry.readiness import Readiness
from faultline.bot.queue.backlog import ahead_of
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.visibility import Visibility
from faultline.bot.web import text
from faultline.bot.web.access import AccessControl
from faultline.bot.web.again_pages import AgainPages, InvestigatePage
from faultline.bot.web.audit import audit_routes
from faultline.bot.web.case_zip import CaseArchive, zip_case
from faultline.bot.web.finding_page import ExportPage, FindingPage
from faultline.bot.web.investigation_view import build_view, read_changes
from faultline.bot.web.judging import MAX_FIELD_BYTES, MAX_FIELDS, Judging, read_judgement
from faultline.bot.web.list_page import ListPage
from faultline.bot.web.login import login_routes
from faultline.bot.web.probes import probe_routes
from faultline.bot.web.progress_steps import progress_events, resume_point
from faultline.bot.web.question_page import AnswerQuestion, QuestionPage
from faultline.bot.web.record_pages import RecordPages, add_labelled
from faultline.bot.web.rendering import STATIC, CasePath, Site
from faultline.bot.web.series import chart_data
from faultline.bot.web.sessions import visibility_of, visitor_of
from faultline.bot.web.ticket_page import TicketPage
from faultline.bot.web.token_pages import token_routes

FOLLOW_UPS_SHOWN = 10

Door = Callable[[Site, AccessControl], Sequence[BaseRoute]]
"""The routes of another way in, behind the access control of the pages."""


def page_routes(
    settings: Settings,
    store: Store,
    case_path: CasePath,
    readiness: Readiness | None = None,
    credentials: Credentials | None = None,
    sources: Sequence[AlertSource] | None = None,
    answer: AnswerQuestion | None = None,
    accept: Accept | None = None,
    doors: Sequence[Door] = (),
) -> list[BaseRoute]:
    """All pages. They end with a catch-all that answers 404, so they belong behind every other
    route. `sources` are the alert sources they explain; unset: all. `answer` answers questions;
    without it the pages offer none. `accept` takes what people ask to have investigated; without it
    there is no form for that. `doors` add what is not a page and lets in the same visitors."""
    pages = Pages(settings, store, case_path, readiness or Readiness(store))
    pages.site.takes_questions = answer is not None
    access = AccessControl(settings, store, pages.site.problem)
    everyone = access.open_to_all()
    guarded = access.open_to("read")
    index = ListPage(pages.site, alert_sources() if sources is None else sources).index
    record = RecordPages(pages.site, credentials, pages.readiness)
    again = AgainPages(pages.site, access)
    investigation_path = "/investigations/{id}"
    asking: list[BaseRoute] = [route for door in doors for route in door(pages.site, access)]
    if accept is not None:
        form = InvestigatePage(pages.site, access, accept)
        pages.site.takes_requests = True
        rules = access.open_to("investigate", "asked for an investigation")
        asking += [
            Route("/investigate", form.show, middleware=access.open_to("investigate")),
            Route("/investigate", form.start, methods=["POST"], middleware=rules),
        ]
    if answer is not None:
        ask = QuestionPage(pages.site, answer).ask
        # It reads the stored case and starts nothing, unlike a question in Slack.
        rules = access.open_to("read", "asked")
        asking.append(
            Route(investigation_path + "/question", ask, methods=["POST"], middleware=rules)
        )
    return [
        *probe_routes(pages.readiness, everyone),
        Mount("/static", Assets(directory=STATIC), name="static", middleware=everyone),
        *login_routes(access, pages.site),
        *audit_routes(access, pages.site),
        *token_routes(access, pages.site),
        Route("/", index, middleware=guarded),
        Route("/accuracy", record.accuracy, middleware=guarded),
        Route("/health", record.health, middleware=guarded),
        Route(
            "/judged.zip",
            pages.judged_zip,
            middleware=access.open_to("read", "downloaded judged cases"),
        ),
        Route(investigation_path, pages.investigation, middleware=access.open_to("read", "looked")),
        Route(
            investigation_path + "/judgement",
            pages.judge,
            methods=["POST"],
            middleware=access.open_to("rate", "judged"),
        ),
        Route(
            investigation_path + "/findings/{finding_id}",
            FindingPage(pages.site).finding,
            middleware=access.open_to("read", "looked"),
        ),
        Route(
            investigation_path + "/again",
            again.again,
            methods=["POST"],
            middleware=access.open_to("investigate", "started again"),
        ),
        Route(
            investigation_path + "/ticket",
            TicketPage(pages.site).ask,
            methods=["POST"],
            middleware=access.open_to("ticket", "asked for a ticket"),
        ),
        Route(investigation_path + "/replay", again.replay, middleware=guarded),
        Route(
            investigation_path + "/replay",
            again.replay,
            methods=["POST"],
            middleware=access.open_to("read", "replayed"),
        ),
        Route(
            investigation_path + "/trace-report",
            again.trace_report,
            middleware=access.open_to("read", "looked"),
        ),
        *asking,
        Route(investigation_path + "/events", pages.events, middleware=guarded),
        Route(investigation_path + "/series/{finding_id}.json", pages.series, middleware=guarded),
        Route(
            investigation_path + "/case.zip",
            pages.case_zip,
            middleware=access.open_to("read", "downloaded"),
        ),
        Route(
            investigation_path + "/export/{file}",
            ExportPage(pages.site).export,
            middleware=access.open_to("read", "downloaded"),
        ),
        # Last, because it matches every address.
        Route("/{path:path}", pages.no_such_page, middleware=guarded),
    ]


class Assets(StaticFiles):
    """Static files; their addresses carry a hash of their content, so browsers may keep them."""

    def file_response(self, full_path: str | PathLike[str], *args: Any, **kwargs: Any) -> Response:
        """One file."""
        response = super().file_response(full_path, *args, **kwargs)
        response.headers["cache-control"] = "public, max-age=604800"
        return response


class Pages:
    """The handlers. They only read, but for judgements of answers."""

    def __init__(
        self, settings: Settings, store: Store, case_path: CasePath, readiness: Readiness
    ) -> None:
        self.site = Site(settings, store, case_path)
        self.readiness = readiness
        self.settings = settings
        self.store = store
        self.labels, self.follow_ups = Labels(store.engine), FollowUps(store.engine)

    async def investigation(self, request: Request) -> Response:
        """One investigation."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        if investigation.joined_id is not None:
            return RedirectResponse(f"/investigations/{investigation.joined_id}", 303)
        progress = await in_store(self.store.progress, investigation.id)
        folder, trouble = await self.site.folder(investigation.id)
        ahead = (
            await in_store(ahead_of, self.store, investigation.id)
            if investigation.status == "accepted"
            else None
        )
        view = await in_thread(build_view, investigation, progress, folder, trouble, ahead)
        blamed = blamed_link(view.diagnosis) if view.diagnosis else None
        visibility = visibility_of(request)
        judging = await in_store(self._judging, investigation, visibility)
        family = await in_store(self._family, investigation.id, visibility)
        return self.site.page(
            request,
            "investigation.html",
            view=view,
            judging=judging,
            family=family,
            exports=self._exports(investigation),
            tickets=await in_store(ticket_offers, investigation, self.store, self.settings, blamed),
        )

    def _family(self, investigation_id: str, visibility: Visibility) -> dict[str, object]:
        """The visible investigation it was started from, and those started from it."""
        parent, further = (
            self.follow_ups.parent(investigation_id),
            self.follow_ups.started_from(investigation_id),
        )
        ids = [
            investigation.id
            for investigation in self.store.some(
                [*further, *([parent] if parent else [])], visibility
            )
        ]
        shown = [child_id for child_id in further if child_id in ids][-FOLLOW_UPS_SHOWN:]
        return {"parent": parent if parent in ids else None, "further": shown}

    def _exports(self, investigation: StoredInvestigation) -> tuple[tuple[str, str], ...]:
        """Title and address of what the answer can be taken along as."""
        home = f"/investigations/{investigation.id}/export"
        return (
            tuple((f.title, f"{home}/{f.file}") for f in FORMATS.values())
            if investigation.status == "done"
            else ()
        )

    def _judging(self, investigation: StoredInvestigation, visibility: Visibility) -> Judging:
        return Judging(
            label=self.labels.get(investigation.id),
            record=self.labels.visible_to(visibility).record_at(
                investigation.confidence or 0.0, but=investigation.id
            ),
            answered=investigation.status == "done",
        )

    async def judge(self, request: Request) -> Response:
        """Keep what somebody says of an answer."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        if investigation.status != "done":
            return self.site.problem(
                request, 409, "Not yet", "This investigation has no answer that could be judged."
            )
        form = await request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        judgement = read_judgement(form)
        if isinstance(judgement, str):
            return self.site.problem(request, 400, "Not kept", judgement)
        visitor = visitor_of(request)
        # Who is signed in by name cannot judge under another one.
        who = visitor.name if visitor is not None and visitor.named else judgement.who
        await in_store(
            self.labels.write,
            investigation.id,
            right=judgement.right,
            cause=judgement.cause,
            who=who,
        )
        return RedirectResponse(f"/investigations/{investigation.id}#judgement", 303)

    async def judged_zip(self, request: Request) -> Response:
        """Every judged case that can be seen, with its label, as `faultline eval` reads them."""
        labels = self.labels.visible_to(visibility_of(request))

        async def pieces() -> AsyncIterator[bytes]:
            archive = CaseArchive()
            for label in await in_store(labels.all):
                folder, _ = await self.site.folder(label.investigation_id)
                # Retention may have deleted the case before its investigation.
                if folder is not None:
                    async for piece in iterate_in_threadpool(add_labelled(archive, folder, label)):
                        yield piece
            yield archive.end()

        disposition = 'attachment; filename="faultline-judged.zip"'
        return StreamingResponse(
            pieces(), media_type="application/zip", headers={"content-disposition": disposition}
        )

    async def events(self, request: Request) -> Response:
        """Live progress."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return PlainTextResponse("no such investigation\n", 404)
        after = resume_point(
            request.headers.get("last-event-id"), request.query_params.get("after")
        )
        stream = progress_events(self.store, investigation.id, after, request.is_disconnected)
        # Without the header, nginx holds the events back in its buffer.
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def series(self, request: Request) -> Response:
        """The data of one finding's chart."""
        investigation = await self.site.investigation(request)
        folder, trouble = (
            await self.site.folder(investigation.id) if investigation else (None, None)
        )
        if folder is None:
            return JSONResponse(
                {"problem": trouble or "There is no case folder for this investigation."}, 404
            )
        try:
            data = await in_thread(_series, folder, request.path_params["finding_id"])
        except (FaultlineError, OSError) as error:
            return JSONResponse({"problem": text.visible(f"There is no chart: {error}.")}, 404)
        return JSONResponse(data)

    async def case_zip(self, request: Request) -> Response:
        """The raw case."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            return self.site.problem(
                request,
                404,
                "No case folder",
                trouble or "There is no case folder to download yet.",
            )
        disposition = f'attachment; filename="faultline-{investigation.id}.zip"'
        return StreamingResponse(
            zip_case(folder, investigation.id),
            media_type="application/zip",
            headers={"content-disposition": disposition},
        )

    async def no_such_page(self, request: Request) -> Response:
        """Everything else."""
        return self.site.problem(request, 404, "No such page", "There is nothing at this address.")


def _series(folder: Path, finding_id: str) -> dict[str, object]:
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    finding = next((f for f in diagnosis.findings if f.id == finding_id), None)
    if finding is None:
        # The id comes from the address, so it is shortened and quoted.
        raise EvidenceError("findings.json", f"holds no finding {finding_id[:40]!r}")
    return chart_data(case, finding, read_changes(case))
