"""`POST /changes`: a change, reported by whoever makes it.

For everything that no connector reads: the last step of a pipeline, a flag service, a person with
curl.
It is our own format, so what is wrong with it is said, in one line with the field's name.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faultline.bot.intake.accepting import IntakeLimits, NotAccepted
from faultline.bot.intake.payload_fields import as_url, plain, single_line
from faultline.bot.intake.service_names import catalogued
from faultline.bot.intake.signatures import (
    FailedSenders,
    Keep,
    Refused,
    changes_response,
    not_configured,
    read_body,
    verify_token,
    with_errors_answered,
)
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings, secret_variable
from faultline.bot.store.changes import (
    LONGEST_DIFF,
    LONGEST_FILES,
    LONGEST_ID,
    ReportedChange,
    ReportedChanges,
)

PATH = "/changes"
SECTION = "changes"
MOST_AT_ONCE = 100
AHEAD = timedelta(minutes=10)
"""How far a reporter's clock may be ahead."""

ChangeKind = Literal["deploy", "config", "migration", "flag", "scale", "merge"]
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class ChangeReport(BaseModel):
    """One change as its reporter tells it. `time` is when it took effect; unset: now. `before` and
    `after` are the versions, the numbers of replicas or the values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: Name
    title: Title
    kind: ChangeKind = "deploy"
    id: Annotated[str, StringConstraints(strip_whitespace=True, max_length=LONGEST_ID)] = ""
    time: AwareDatetime | None = None
    author: Annotated[str, StringConstraints(max_length=300)] = ""
    link: Annotated[str, StringConstraints(max_length=2_000)] = ""
    files: Annotated[tuple[str, ...], Field(max_length=2_000)] = ()
    diff: str = ""
    place: Annotated[Mapping[Name, Name], Field(max_length=10)] = Field(default_factory=dict)
    before: Annotated[str, StringConstraints(max_length=300)] = ""
    after: Annotated[str, StringConstraints(max_length=300)] = ""


def reported_change_routes(settings: Settings, keep: Keep, limits: IntakeLimits) -> list[Route]:
    """The route; without a token set it answers 404 and names the setting."""
    tokens = settings.changes.tokens

    async def handle(request: Request) -> Response:
        # Prove the sender first: nobody else's body is read.
        verify_token(SECTION, request.headers.get("authorization"), tokens)
        body = await read_body(request, limits)
        reports = read_reports(body)
        now = datetime.now(UTC)
        return await changes_response([_change(report, settings, now) for report in reports], keep)

    handler = handle if tokens else not_configured(secret_variable(SECTION, "tokens"))
    endpoint = with_errors_answered(handler, FailedSenders(settings))
    return [Route(PATH, endpoint, methods=["POST"])]


def store_keep(changes: ReportedChanges, *, within_s: float = 2.0) -> Keep:
    """Keep in the store."""

    async def keep(reported: Sequence[ReportedChange]) -> None:
        try:
            async with asyncio.timeout(within_s):
                await in_store(changes.report, reported)
        except TimeoutError:
            raise NotAccepted(f"the store did not answer within {within_s:g} s") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error

    return keep


def read_reports(body: bytes) -> list[ChangeReport]:
    """The changes of a body: an object, or a list of them. Raises Refused with 400, naming the
    field."""
    try:
        payload = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    entries = payload if isinstance(payload, list) else [payload]
    if not 1 <= len(entries) <= MOST_AT_ONCE:
        raise Refused(400, f"1 to {MOST_AT_ONCE} changes at once")
    return [_report(entry, number, len(entries)) for number, entry in enumerate(entries, start=1)]


def _report(entry: Any, number: int, count: int) -> ChangeReport:
    try:
        return ChangeReport.model_validate(entry)
    except ValidationError as error:
        # Leave the input out: this line goes into the response and the log.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(single_line(part, 60) for part in first["loc"]) or "the body"
        which = f"change {number}: " if count > 1 else ""
        raise Refused(400, f"{which}{where}: {first['msg']}") from None


def _change(report: ChangeReport, settings: Settings, now: datetime) -> ReportedChange:
    at = (report.time or now).astimezone(UTC)
    if at > now + AHEAD:
        raise Refused(400, "time: is in the future")
    service = single_line(report.service)
    files = "\n".join(filter(None, (single_line(path) for path in report.files)))
    title = single_line(report.title, 2_000)
    return ReportedChange(
        id=single_line(report.id) or _derived_id(service, report.kind, title, at),
        at=at,
        service=catalogued(settings, service) or service,
        kind=report.kind,
        title=title,
        author=single_line(report.author),
        link=as_url(report.link),
        files=files[:LONGEST_FILES],
        diff=plain(report.diff, LONGEST_DIFF),
        place={single_line(name): single_line(value) for name, value in report.place.items()},
        before=single_line(report.before),
        after=single_line(report.after),
    )


def _derived_id(service: str, kind: str, title: str, at: datetime) -> str:
    """For reporters that give none: a retry with the same time is the same change."""
    text = "\x00".join((service, kind, title, at.isoformat()))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
