"""Responses to senders. They say only what that sender may know."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from faultline.bot.intake.accepting import Ignored, NotAccepted
from faultline.bot.intake.request_body import Refused
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.policy.values import Accepted
from faultline.bot.runtime.throttle import Throttle, client_address
from faultline.bot.settings import Settings
from faultline.bot.store.changes import ReportedChange

Handler = Callable[[Request], Awaitable[Response]]
Keep = Callable[[Sequence[ReportedChange]], Awaitable[None]]
"""Keep changes. May raise NotAccepted."""

log = logging.getLogger("faultline.intake")


def taken_response(taken: Sequence[Accepted]) -> Response:
    """202 with the outcome of each alert, and the first investigation among them."""
    alerts = []
    first_id: str | None = None
    for acceptance in taken:
        alerts.append(
            {"outcome": acceptance.outcome, "investigation_id": acceptance.investigation_id}
        )
        first_id = first_id or acceptance.investigation_id
    content = {"outcome": taken[0].outcome, "investigation_id": first_id, "alerts": alerts}
    return JSONResponse(content, status_code=202)


async def changes_response(changes: Sequence[ReportedChange], keep: Keep) -> Response:
    """202 with the ids of the changes, once they are kept. May raise NotAccepted."""
    await keep(changes)
    ids = [change.id for change in changes]
    return JSONResponse({"outcome": "kept", "ids": ids}, status_code=202)


def ignored_response(source: str, ignored: Ignored, status: int = 202) -> Response:
    """For a genuine delivery that starts nothing: with the reason, and not to be sent again."""
    log.info("%s delivery ignored: %s", source, ignored.reason)
    return JSONResponse({"outcome": "ignored", "reason": ignored.reason}, status_code=status)


def watchdog_response() -> Response:
    """For the alert that always fires."""
    return JSONResponse({"outcome": "heard", "investigation_id": None}, status_code=202)


def not_configured(variable: str) -> Handler:
    """A handler for a source whose secret is not set: 404 with the setting to set."""

    async def handle(request: Request) -> Response:
        return PlainTextResponse(f"not configured: set {variable}\n", status_code=404)

    return handle


class FailedSenders:
    """Counts wrong tokens and signatures by address, for every route that senders prove
    themselves at. A right one is never asked about."""

    def __init__(self, settings: Settings) -> None:
        self._throttle = Throttle()
        self._trusted = settings.server.trusted_proxies

    def failed(self, request: Request) -> int:
        """Seconds after which the sender may be wrong again; 0 for the first failures."""
        return self._throttle.failed(client_address(request, self._trusted))


def with_errors_answered(handler: Handler, senders: FailedSenders) -> Handler:
    """The handler, with each of its errors as the status that tells the sender what to do."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except BadSignature as error:
            if wait := senders.failed(request):
                # Without a line in the log, which a stranger could fill.
                return PlainTextResponse(
                    "signature\n", status_code=429, headers={"retry-after": str(wait)}
                )
            log.warning("%s refused: %s", error.source, error.reason)
            return PlainTextResponse("signature\n", status_code=401)
        except Refused as error:
            log.warning("%s refused: %s", request.url.path, error)
            return PlainTextResponse(f"{error}\n", status_code=error.status)
        except NotAccepted as error:
            log.error("%s not accepted: %s", request.url.path, error)
            return PlainTextResponse("try again\n", status_code=503, headers={"retry-after": "1"})

    return endpoint
