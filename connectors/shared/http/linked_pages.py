"""GET in pages that follow one another by the Link header, under a rate limit whose end the vendor
names as a moment.

Of a next link only the query is used: the path stays the one that was asked, so that no answer
leads elsewhere. Link: RFC 8288. Rate limits:
docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api and
docs.gitlab.com/administration/settings/user_and_ip_rate_limits.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.circuit_breaker import Deadline

T = TypeVar("T")

SECONDARY_S = 60.0
"""Seconds to wait where a secondary limit names none (GitHub's page above)."""
LONGEST_ADDRESS = 4_000
# Every repetition is bounded, because the header is foreign text.
_NEXT = re.compile(r'<([^<>\s]{1,4000})>;[^,<]{0,200}?rel="?next"?')


@dataclass(frozen=True)
class LinkedPage(Generic[T]):
    """One answer and its headers."""

    value: T
    headers: Mapping[str, str]


@dataclass(frozen=True)
class LinkedListing(Generic[T]):
    """Entries of the pages that were read; `more` when there are others."""

    values: tuple[T, ...]
    more: bool = False


@dataclass
class VendorQuota:
    """Until when (monotonic seconds) the vendor wants no more requests."""

    vendor: str
    until: float = field(default=0.0)

    async def wait(self, call: str, deadline: Deadline) -> None:
        """Wait until then. Raises ConnectorError where that is after the deadline."""
        wait = self.until - time.monotonic()
        if wait > deadline.remaining:
            problem = f"the rate limit is used up; the vendor wants no request for {wait:.0f} s"
            raise ConnectorError(self.vendor, call, problem, status=429)
        await asyncio.sleep(max(0.0, wait))

    def read(self, response: httpx.Response) -> httpx.Response:
        """The response; a refusal that means "later" gets the status that says so."""
        wait = self.note(response)
        # GitHub says 403 for a used-up limit, too, which otherwise means a missing permission.
        if wait is None or response.status_code not in (403, 429):
            return response
        return httpx.Response(429, headers={"retry-after": str(int(wait + 1))})

    def note(self, response: httpx.Response) -> float | None:
        """Seconds to wait before the next request, where the response says that none is left."""
        headers = response.headers
        is_refused = response.status_code in (403, 429)
        retry_after = headers.get("retry-after", "").strip()
        wait: float | None = None
        if is_refused and retry_after.isascii() and retry_after.isdigit():
            wait = float(retry_after[:9])
        elif _remaining(headers) == 0:
            wait = max(1.0, _reset(headers))
        elif is_refused and b"secondary rate limit" in response.content[:4096].lower():
            wait = SECONDARY_S
        if wait is not None:
            # Answers arrive in any order, so the farthest moment counts.
            self.until = max(self.until, time.monotonic() + wait)
        return wait


class LinkedSession(HttpSession):
    """One collection's requests."""

    async def page(
        self, path: str, params: list[tuple[str, str]], *, type: type[T]
    ) -> LinkedPage[T]:
        """One answer with its headers. Raises ConnectorError, BudgetExceeded."""
        response = await self._get(path, params)
        return LinkedPage(self._decoded(path, response, type), response.headers)

    async def pages(
        self, path: str, params: list[tuple[str, str]], *, type: type[list[T]], most_pages: int
    ) -> LinkedListing[T]:
        """The list at `path`, at most `most_pages` pages of it."""
        values: list[T] = []
        requested_params: set[tuple[tuple[str, str], ...]] = set()
        for _ in range(most_pages):
            requested_params.add(tuple(params))
            page = await self.page(path, params, type=type)
            values += page.value
            following = next_params(page.headers)
            # Stop at a link that leads back, instead of reading the same pages up to the limit.
            if following is None or tuple(following) in requested_params:
                return LinkedListing(tuple(values))
            params = following
        return LinkedListing(tuple(values), more=True)


class LinkedHttp(VendorHttp[LinkedSession]):
    """A vendor's HTTP API, GET alone, whose lists come in linked pages."""

    session = LinkedSession

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # One quota for all collections: the vendor counts the requests of the credential.
        self.quota = VendorQuota(self.vendor)


def next_params(headers: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The query of the next page, or None on the last one."""
    match = _NEXT.search(headers.get("link", "")[:20_000])
    return query_in(match[1]) if match else None


def query_in(address: object) -> list[tuple[str, str]] | None:
    """The query of an address that a vendor gives for the next page; None without one."""
    if not isinstance(address, str) or len(address) > LONGEST_ADDRESS:
        return None
    try:
        return parse_qsl(urlsplit(address).query, max_num_fields=40) or None
    except ValueError:
        return None


def query_of(path: str, params: list[tuple[str, str]]) -> str:
    """A call as a person may repeat it."""
    text = "&".join(f"{name}={value}" for name, value in params)
    return f"GET {path}?{text}" if text else f"GET {path}"


def _remaining(headers: Mapping[str, str]) -> int | None:
    text = (
        headers.get("x-ratelimit-remaining") or headers.get("ratelimit-remaining") or ""
    ).strip()
    return int(text[:9]) if text.isascii() and text.isdigit() else None


def _reset(headers: Mapping[str, str]) -> float:
    """Seconds until the limit's end, which is named in Unix time; counted from the vendor's own
    clock."""
    text = (headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or "").strip()
    if not (text.isascii() and text.isdigit()):
        return SECONDARY_S
    try:
        now = parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):
        now = datetime.now(UTC)
    now = now if now.tzinfo else now.replace(tzinfo=UTC)
    return float(text[:12]) - now.timestamp()
