"""Splunk's search API. Only reading searches can be sent.

`POST /services/search/jobs` with `exec_mode=oneshot` answers a search within one request, and
leaves no job behind (docs.splunk.com, "REST API Reference", "Search endpoint descriptions";
splunk-sdk-python, `Jobs.oneshot`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.splunk.searches import is_reading

JOBS = "/services/search/jobs"
FORM = frozenset(
    {"search", "exec_mode", "output_mode", "earliest_time", "latest_time", "count", "max_time"}
)
MOST_S = 20
"""How long Splunk may work on one search; it then answers with what it has."""
_TROUBLE = frozenset({"ERROR", "FATAL", "WARN"})
_PARTIAL = re.compile(
    r"(?i)finali[sz]|time limit|timed? ?out|peer|incomplete|partial|truncated|quota"
)


class _SplunkMessage(msgspec.Struct):
    type: str = ""
    text: str = ""


class SearchAnswer(msgspec.Struct):
    """What a search answers."""

    results: list[dict[str, Any]] = []
    messages: list[_SplunkMessage] = []

    @property
    def trouble(self) -> str | None:
        """What went wrong, in Splunk's words."""
        text = [message.text for message in self.messages if message.type.upper() in _TROUBLE]
        return short("; ".join(text[:3])) if text else None

    @property
    def partial(self) -> str | None:
        """Why it may not be all that is there. Searches of many installations also warn of lookups
        that are missing, which cost no line."""
        return self.trouble if self.trouble and _PARTIAL.search(self.trouble) else None


class SplunkSession(HttpSession):
    """One collection's searches. Safe to use from several tasks at once."""

    async def search(self, search: str, window: Window) -> SearchAnswer:
        """What a search finds in a window. Raises ConnectorError, BudgetExceeded."""
        earliest, latest = (f"{at.timestamp():.6f}" for at in (window.start, window.end))
        return await self._search(search, earliest, latest)

    async def now(self, search: str) -> SearchAnswer:
        """What a search finds in the last hour. Raises ConnectorError, BudgetExceeded."""
        return await self._search(search, "-1h", "now")

    async def _search(self, search: str, earliest: str, latest: str) -> SearchAnswer:
        form = {
            "search": search,
            "exec_mode": "oneshot",
            "output_mode": "json",
            "earliest_time": earliest,
            "latest_time": latest,
            "max_time": str(MOST_S),
            # All of them: Splunk stops at 100 otherwise.
            "count": "0",
        }
        response = await self._client.post(
            self._base_url + JOBS, data=form, extensions={CALL: JOBS}
        )
        return self._decoded(JOBS, self._accepted(JOBS, response), SearchAnswer)

    def _refused(self, call: str, response: httpx.Response) -> ConnectorError:
        """With Splunk's words for a search that it found wrong."""
        error = super()._refused(call, response)
        if response.status_code != 400:
            return error
        try:
            trouble = msgspec.json.decode(response.content, type=SearchAnswer).trouble
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return error
        problem = f"{error.problem}: {trouble}" if trouble else error.problem
        return ConnectorError(self._vendor, call, problem, status=400)


class SplunkHttp(VendorHttp[SplunkSession]):
    """A search head."""

    session = SplunkSession

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        if request.method == "GET":
            return
        refused = ConnectorError(self.vendor, request.method, "a connector sends searches only")
        if request.method != "POST" or str(request.url) != f"{self.base_url}{JOBS}":
            raise refused
        try:
            pairs = parse_qsl(request.content.decode(), strict_parsing=True)
        # A body that cannot be looked at is refused.
        except (ValueError, httpx.RequestNotRead):
            raise refused from None
        form = dict(pairs)
        # A key that is given twice could hide a second search.
        has_form_fields = len(form) == len(pairs) and FORM.issuperset(form)
        is_oneshot = form.get("exec_mode") == "oneshot"
        if not (has_form_fields and is_oneshot and is_reading(form.get("search", ""))):
            raise refused
