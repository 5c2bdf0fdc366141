"""The routes of the web pages, and the handlers that answer them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import iterate_in_threadpool
from starlette.middleware import Middleware
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
from starlette.templating import Jinja2Templates

from analysis.case_folder import read_case, read_diagnosis
from analysis.errors import EvidenceError, FaultlineError
from bot.settings import Settings
from bot.store.labels import Labels
from bot.store.memory import Memory
from bot.store.store import Investigation, Store
from bot.web import text
from bot.web.access import COOKIE, SESSION_S, Access, SecurityHeaders, access_token, local_target, new_session, same
from bot.web.case_zip import CaseArchive, zip_case
from bot.web.events import progress_events, resume_point
from bot.web.investigation_view import build_view, read_changes, verdict_view
from bot.web.judging import MAX_FIELD_BYTES, MAX_FIELDS, Judging, form_key, read_judgement
from bot.web.labelled_cases import add_labelled
from bot.web.series import chart_data

CasePath = Callable[[str], Awaitable[Path | None]]

HERE = Path(__file__).parent
STATIC = HERE / "static"
LISTED = 100
LONGEST_SEARCH = 200
READY_DEADLINE_S = 2.0


def page_routes(settings: Settings, store: Store, case_path: CasePath) -> list[BaseRoute]:
    """All pages. They end with a catch-all that answers 404, so they belong behind every other route."""
    pages = Pages(settings, store, case_path)
    everyone = [Middleware(SecurityHeaders)]
    guarded = [*everyone, Middleware(Access, server=settings.server)]
    one = "/investigations/{id}"
    return [
        Route("/healthz", pages.healthz, middleware=everyone),
        Route("/readyz", pages.readyz, middleware=everyone),
        Mount("/static", Assets(directory=STATIC), name="static", middleware=everyone),
        Route("/login", pages.login, methods=["GET", "POST"], middleware=everyone),
        Route("/logout", pages.logout, methods=["POST"], middleware=everyone),
        Route("/", pages.index, middleware=guarded),
        Route("/judged.zip", pages.judged_zip, middleware=guarded),
        Route(one, pages.investigation, middleware=guarded),
        Route(one + "/judgement", pages.judge, methods=["POST"], middleware=guarded),
        Route(one + "/events", pages.events, middleware=guarded),
        Route(one + "/series/{finding_id}.json", pages.series, middleware=guarded),
        Route(one + "/case.zip", pages.case_zip, middleware=guarded),
        Route("/{path:path}", pages.no_such_page, middleware=guarded),
    ]


class Assets(StaticFiles):
    """Static files; their addresses carry a hash of their content, so browsers may keep them."""

    def file_response(self, full_path: str | PathLike[str], *args: Any, **kwargs: Any) -> Response:
        """One file."""
        response = super().file_response(full_path, *args, **kwargs)
        response.headers["cache-control"] = "public, max-age=604800"
        return response


@lru_cache(maxsize=64)
def static(name: str) -> str:
    """The address of a static file, with its version."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]}"


def template_environment() -> jinja2.Environment:
    """Templates that escape everything and make hidden characters visible before."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=text.visible,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.globals["static"] = static
    env.globals["verdict_of"] = verdict_view
    for name in (
        "clock",
        "day",
        "stamp",
        "duration",
        "offset",
        "size",
        "percent",
        "words",
        "kind_words",
        "from_alert",
        "safe_href",
    ):
        env.filters[name] = getattr(text, name)
    return env


class Pages:
    """The handlers. They only read, but for judgements of answers."""

    def __init__(self, settings: Settings, store: Store, case_path: CasePath) -> None:
        self.settings = settings
        self.store = store
        self.case_path = case_path
        self.templates = Jinja2Templates(env=template_environment())
        self.token = access_token(settings.server)
        self.form_secret = self.token or secrets.token_hex(32)
        self.memory, self.labels = Memory(store.engine), Labels(store.engine)

    async def healthz(self, _request: Request) -> Response:
        """The process is up."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        """The store answers."""
        try:
            async with asyncio.timeout(READY_DEADLINE_S):
                await asyncio.to_thread(self.store.count, "running")
        except (SQLAlchemyError, OSError, TimeoutError):
            return PlainTextResponse("the store does not answer\n", 503)
        return PlainTextResponse("ready\n")

    async def index(self, request: Request) -> Response:
        """The latest investigations, by day; of a search, those that it finds."""
        asked = request.query_params.get("q", "")[:LONGEST_SEARCH].strip()
        if asked:
            latest = await asyncio.to_thread(self._searched, asked)
        else:
            latest = await asyncio.to_thread(self.store.latest, LISTED)
        days = [(name, list(of_day)) for name, of_day in groupby(latest, key=lambda i: text.day(i.accepted_at))]
        full = not asked and len(latest) == LISTED
        return self._page(
            request,
            "index.html",
            days=days,
            asked=asked,
            total=await asyncio.to_thread(self.store.count) if full else len(latest),
            listed=len(latest),
            judged=await asyncio.to_thread(self.labels.count),
            ways=self._ways(),
        )

    def _searched(self, asked: str) -> list[Investigation]:
        found = self.memory.search_investigations(asked, limit=LISTED)
        return self.store.some([f.id for f in found])

    def _ways(self) -> dict[str, bool]:
        """Which of the ways an alert can come in are set up."""
        return {
            "alertmanager": bool(self.settings.alertmanager.webhook_tokens),
            "pagerduty": bool(self.settings.pagerduty.webhook_secrets),
            "slack": self.settings.slack.bot_token is not None,
        }

    async def investigation(self, request: Request) -> Response:
        """One investigation."""
        found = await self._found(request)
        if found is None:
            return self._no_such_investigation(request)
        progress = await asyncio.to_thread(self.store.progress, found.id)
        folder, trouble = await self._folder(found.id)
        view = await asyncio.to_thread(build_view, found, progress, folder, trouble)
        judging = await asyncio.to_thread(self._judging, found)
        return self._page(request, "investigation.html", view=view, judging=judging)

    def _judging(self, found: Investigation) -> Judging:
        return Judging(
            label=self.labels.get(found.id),
            record=self.labels.record_at(found.confidence or 0.0, but=found.id),
            key=form_key(self.form_secret, found.id),
            answered=found.status == "done",
        )

    async def judge(self, request: Request) -> Response:
        """Keep what somebody says of an answer."""
        found = await self._found(request)
        if found is None:
            return self._no_such_investigation(request)
        if found.status != "done":
            return self._problem(request, 409, "Not yet", "This investigation has no answer that could be judged.")
        form = await request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        given = read_judgement(form, self.form_secret, found.id)
        if isinstance(given, str):
            return self._problem(request, 400, "Not kept", given)
        await asyncio.to_thread(self.labels.write, found.id, right=given.right, cause=given.cause, who=given.who)
        return RedirectResponse(f"/investigations/{found.id}#judgement", 303)

    async def judged_zip(self, _request: Request) -> Response:
        """Every judged case with its label, as `faultline eval` reads them."""

        async def pieces() -> AsyncIterator[bytes]:
            archive = CaseArchive()
            for label in await asyncio.to_thread(self.labels.all):
                folder, _ = await self._folder(label.investigation_id)
                if folder is not None:
                    async for piece in iterate_in_threadpool(add_labelled(archive, folder, label)):
                        yield piece
            yield archive.end()

        disposition = 'attachment; filename="faultline-judged.zip"'
        return StreamingResponse(pieces(), media_type="application/zip", headers={"content-disposition": disposition})

    async def events(self, request: Request) -> Response:
        """Live progress."""
        found = await self._found(request)
        if found is None:
            return PlainTextResponse("no such investigation\n", 404)
        after = resume_point(request.headers.get("last-event-id"), request.query_params.get("after"))
        stream = progress_events(self.store, found.id, after, request.is_disconnected)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def series(self, request: Request) -> Response:
        """The data of one finding's chart."""
        found = await self._found(request)
        folder, trouble = await self._folder(found.id) if found else (None, None)
        if folder is None:
            return JSONResponse({"problem": trouble or "There is no case folder for this investigation."}, 404)
        try:
            data = await asyncio.to_thread(_series, folder, request.path_params["finding_id"])
        except (FaultlineError, OSError) as error:
            return JSONResponse({"problem": text.visible(f"There is no chart: {error}.")}, 404)
        return JSONResponse(data)

    async def case_zip(self, request: Request) -> Response:
        """The raw case."""
        found = await self._found(request)
        if found is None:
            return self._no_such_investigation(request)
        folder, trouble = await self._folder(found.id)
        if folder is None:
            return self._problem(request, 404, "No case folder", trouble or "There is no case folder to download yet.")
        disposition = f'attachment; filename="faultline-{found.id}.zip"'
        return StreamingResponse(
            zip_case(folder, found.id), media_type="application/zip", headers={"content-disposition": disposition}
        )

    async def login(self, request: Request) -> Response:
        """Ask for the access token, and remember that it was given."""
        if self.token is None:
            return RedirectResponse("/", 303)
        target = local_target(request.query_params.get("next", "/"))
        if request.method == "GET":
            return self._page(request, "login.html", wrong=False, target=target)
        form = await request.form(max_files=0, max_fields=4, max_part_size=8192)
        given = form.get("token")
        if not isinstance(given, str) or not same(given.strip(), self.token):
            return self._page(request, "login.html", status=401, wrong=True, target=target)
        response = RedirectResponse(target, 303)
        response.set_cookie(
            COOKIE,
            new_session(self.token, time.time()),
            max_age=SESSION_S,
            httponly=True,
            samesite="lax",
            secure=self.settings.server.public_url.startswith("https://"),
        )
        return response

    async def logout(self, _request: Request) -> Response:
        """Forget the login in this browser."""
        response = RedirectResponse("/login" if self.token else "/", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return response

    async def no_such_page(self, request: Request) -> Response:
        """Everything else."""
        return self._problem(request, 404, "No such page", "There is nothing at this address.")

    async def _found(self, request: Request) -> Investigation | None:
        given = request.path_params["id"]
        if not given.isprintable():  # PostgreSQL refuses text with a NUL in it
            return None
        return await asyncio.to_thread(self.store.get, given)

    async def _folder(self, investigation_id: str) -> tuple[Path | None, str | None]:
        """The case folder, or why it cannot be had."""
        try:
            return await self.case_path(investigation_id), None
        except FaultlineError as error:
            return None, f"The case folder cannot be had: {error}."
        except OSError as error:
            return None, f"The case folder cannot be had: {error.strerror or type(error).__name__}."

    def _no_such_investigation(self, request: Request) -> Response:
        return self._problem(request, 404, "No such investigation", "No investigation has this id.")

    def _problem(self, request: Request, status: int, title: str, line: str) -> Response:
        return self._page(request, "problem.html", status=status, title=title, line=line)

    def _page(self, request: Request, name: str, *, status: int = 200, **context: Any) -> Response:
        signed_in = self.token is not None and name != "login.html"
        return self.templates.TemplateResponse(
            request, name, {"signed_in": signed_in, "origin": self.settings.server.public_url, **context}, status
        )


def _series(folder: Path, finding_id: str) -> dict[str, object]:
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    finding = next((f for f in diagnosis.findings if f.id == finding_id), None)
    if finding is None:
        raise EvidenceError("findings.json", f"holds no finding {finding_id[:40]!r}")
    return chart_data(case, finding, read_changes(case))
