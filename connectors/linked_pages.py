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
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from analysis.errors import ConnectorError
from connectors.http import Answer, HttpSession, ReadOnlyHttp, short
from connectors.pacing import ByteBudget, Deadline, pace_of

T = TypeVar("T")

SECONDARY_S = 60.0
"""Seconds to wait where a secondary limit names none (GitHub's page above)."""
_NEXT = re.compile(r'<([^<>\s]{1,4000})>;[^,<]{0,200}?rel="?next"?')


@dataclass(frozen=True)
class Page(Generic[T]):
    """One answer and its headers."""

    value: T
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Entries of the pages that were read; `more` when there are others."""

    values: tuple[T, ...]
    more: bool = False


@dataclass
class RateLimit:
    """Until when (monotonic seconds) the vendor wants no more requests."""

    until: float = field(default=0.0)

    def note(self, answer: Answer) -> float | None:
        """Seconds to wait before the next request, where this answer says that the limit is used
        up."""
        headers = answer.headers
        wait: float | None = None
        given = headers.get("retry-after", "").strip()
        if answer.status in (403, 429) and given.isascii() and given.isdigit():
            wait = float(given[:9])
        elif _remaining(headers) == 0:
            wait = max(1.0, _reset(headers))
        elif answer.status in (403, 429) and b"secondary rate limit" in answer.body[:4096].lower():
            wait = SECONDARY_S
        if wait is not None:
            self.until = max(self.until, time.monotonic() + wait)
        return wait


class LinkedHttp(ReadOnlyHttp):
    """A vendor's HTTP API, GET alone, whose lists come in linked pages."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.rate_limit = RateLimit()

    @asynccontextmanager
    async def open(
        self, deadline: Deadline | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[LinkedSession]:
        """A session with its own connections, deadline and byte budget; `headers` for this session
        alone."""
        async with httpx.AsyncClient(
            headers={**self._headers, **(headers or {})},
            timeout=httpx.Timeout(self._timeouts.read_s, connect=self._timeouts.connect_s),
            follow_redirects=False,
            event_hooks={"request": [_refuse_writes]},
        ) as client:
            yield LinkedSession(
                self.vendor,
                self.base_url,
                client,
                pace_of(self.vendor, self.base_url, self.limits),
                deadline or Deadline.within(self.limits),
                ByteBudget(f"size of {self.vendor}'s answers", self.limits.max_bytes),
                self._retries,
                rate_limit=self.rate_limit,
            )


class LinkedSession(HttpSession):
    """One collection's requests."""

    def __init__(self, *given: Any, rate_limit: RateLimit) -> None:
        super().__init__(*given)
        self._limit = rate_limit

    async def page(self, path: str, params: list[tuple[str, str]], *, type: type[T]) -> Page[T]:
        """One answer with its headers. Raises ConnectorError, BudgetExceeded."""
        answer = await self._answer(path, params)
        if answer.status >= 400:
            raise self._refused(path, answer)
        try:
            return Page(msgspec.json.decode(answer.body, type=type), answer.headers)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ConnectorError(
                self._vendor, path, f"the answer is not understood: {short(str(error))}"
            ) from error

    async def pages(
        self, path: str, params: list[tuple[str, str]], *, type: type[list[T]], most_pages: int
    ) -> Listing[T]:
        """The list at `path`, at most so many pages of it."""
        values: list[T] = []
        asked: set[tuple[tuple[str, str], ...]] = set()
        for _ in range(most_pages):
            asked.add(tuple(params))
            page = await self.page(path, params, type=type)
            values += page.value
            following = next_params(page.headers)
            if following is None or tuple(following) in asked:
                return Listing(tuple(values))
            params = following
        return Listing(tuple(values), more=True)

    async def _once(self, path: str, params: list[tuple[str, str]]) -> Answer:
        """A refusal that means "later" gets the status that says so."""
        wait = self._limit.until - time.monotonic()
        if wait > self.deadline.remaining:
            said = f"the rate limit is used up; the vendor wants no request for {wait:.0f} s"
            raise ConnectorError(self._vendor, path, said, status=429)
        await asyncio.sleep(max(0.0, wait))
        answer = await super()._once(path, params)
        asked_to_wait = self._limit.note(answer)
        if asked_to_wait is not None and answer.status in (403, 429):
            return Answer(429, {"retry-after": str(int(asked_to_wait + 1))}, b"")
        return answer


def next_params(headers: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The query of the next page, or None on the last one."""
    found = _NEXT.search(headers.get("link", "")[:20_000])
    if found is None:
        return None
    try:
        return parse_qsl(urlsplit(found[1]).query, max_num_fields=40)
    except ValueError:
        return None


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


async def _refuse_writes(request: httpx.Request) -> None:
    if request.method != "GET":
        raise ConnectorError(request.url.host, request.method, "a connector sends GET only")
