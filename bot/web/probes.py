"""What a load balancer or an orchestrator asks: does the process work, and is it ready?"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from faultline.bot.operating.telemetry.readiness import Readiness


class Probes:
    """The handlers. They need nothing that the pages need."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def healthz(self, _request: Request) -> Response:
        """The process works, or a restart might help it."""
        problem = await self._readiness.hung()
        return PlainTextResponse(f"{problem}\n", 503) if problem else PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Requests may be sent here: what comes is stored, and the process is not about to stop.
        With `for=alerts`: alerts may be sent here, as they are at least kept."""
        if request.query_params.get("for") == "alerts":
            problem = await self._readiness.problem_for_alerts()
        else:
            problem = await self._readiness.problem()
        return PlainTextResponse(f"{problem}\n", 503) if problem else PlainTextResponse("ready\n")


def probe_routes(readiness: Readiness, everyone: Sequence[Middleware]) -> list[BaseRoute]:
    """Their routes, with the middleware of what is open to everybody."""
    probes = Probes(readiness)
    return [
        Route("/healthz", probes.healthz, middleware=everyone),
        Route("/readyz", probes.readyz, middleware=everyone),
    ]
