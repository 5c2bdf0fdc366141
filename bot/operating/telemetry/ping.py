"""A sign of life to a service that misses it: once a minute, and at another address while alerts do
not get into the database."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from faultline.analysis.errors import FaultlineError
from faultline.bot.runtime.components import BackgroundLoop

EVERY_S = 60.0
TIMEOUT_S = 10.0


class PingError(FaultlineError):
    """The service did not take it."""


class Ping(BackgroundLoop):
    """As https://healthchecks.io/docs/http_api/ has it: the address itself means that all is well,
    `/fail` behind it that it is not; the body says why."""

    expected_errors = (httpx.HTTPError, *BackgroundLoop.expected_errors)

    def __init__(
        self, url: str, problem: Callable[[], str | None], *, every_s: float = EVERY_S
    ) -> None:
        super().__init__("ping", every_s=every_s)
        self._url = httpx.URL(url)
        self._problem = problem

    def turn(self) -> bool:
        """One. Raises httpx.HTTPError, PingError."""
        problem = self._problem()
        url = self._url
        if problem is not None:
            url = url.copy_with(path=url.path.rstrip("/") + "/fail")
        answer = httpx.post(url, content=problem or "ok", timeout=TIMEOUT_S)
        if not answer.is_success:
            raise PingError(f"the ping was answered {answer.status_code}")
        return False
