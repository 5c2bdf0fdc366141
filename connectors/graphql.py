"""GraphQL for connectors: fixed query documents and nothing else, over the same pace, deadline and
byte budget.

GraphQL needs POST, and with POST a server would also take mutations. So a document is a constant
that is checked when it is made (one query, no other operation), values travel as variables, and the
HTTP client refuses every request that is not POST to the one address with one of these documents.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from analysis.errors import ConnectorError
from connectors.base import require
from connectors.http import HttpSession, Retries, Timeouts, plain_url, retry_after, short
from connectors.limits import Limits
from connectors.pacing import ByteBudget, Deadline, pace_of

T = TypeVar("T")

_QUERY = re.compile(r"query [A-Z][A-Za-z]{0,60}\b")
_OTHER_OPERATION = re.compile(r"\b(?:mutation|subscription)\b|[\"'#@]|\bquery\b", re.I)
"""Besides other operations: strings, comments and directives, so that nothing can hide in a
document."""


@dataclass(frozen=True)
class Query:
    """One query document. Raises ValueError unless it is exactly one named query."""

    name: str
    text: str

    def __post_init__(self) -> None:
        head = _QUERY.match(self.text)
        if head is None or head[0] != f"query {self.name}":
            raise ValueError(f"the document {self.name!r} does not begin with its query")
        if _OTHER_OPERATION.search(self.text, head.end()):
            raise ValueError(f"the document {self.name!r} holds more than one plain query")
        depth = lowest = 0
        for place, char in enumerate(self.text):
            depth += (char == "{") - (char == "}")
            lowest = min(lowest, depth)
            if char == "}" and depth == 0 and self.text[place + 1 :].strip():
                raise ValueError(f"the document {self.name!r} goes on after its query")
        if depth or lowest:
            raise ValueError(f"the document {self.name!r} is not balanced")


class GraphQLReads:
    """A vendor's GraphQL endpoint, of which only the given queries can be asked."""

    def __init__(
        self,
        vendor: str,
        base_url: str,
        path: str,
        queries: Iterable[Query],
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits,
    ) -> None:
        self.vendor = vendor
        self.base_url = plain_url(base_url, vendor)
        self.limits = limits
        self._path = path
        self._texts = frozenset(query.text for query in queries)
        self._headers = {"Accept": "application/json", "Accept-Encoding": "gzip", **(headers or {})}

    @asynccontextmanager
    async def open(self, deadline: Deadline | None = None) -> AsyncIterator[GraphQLSession]:
        """A session with its own connections, deadline and byte budget."""
        async with httpx.AsyncClient(
            headers=self._headers,
            timeout=httpx.Timeout(Timeouts.read_s, connect=Timeouts.connect_s),
            follow_redirects=False,
            event_hooks={"request": [self._refuse_all_but_queries]},
        ) as client:
            yield GraphQLSession(
                self.vendor,
                self.base_url,
                client,
                pace_of(self.vendor, self.base_url, self.limits),
                deadline or Deadline.within(self.limits),
                ByteBudget(f"size of {self.vendor}'s answers", self.limits.max_bytes),
                Retries(),
                path=self._path,
            )

    async def _refuse_all_but_queries(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        try:
            body = msgspec.json.decode(request.content, type=_Body)
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise ConnectorError(
                self.vendor, request.method, "a connector sends its own queries only"
            ) from error
        known = request.method == "POST" and str(request.url) == self.base_url + self._path
        if not known or body.query not in self._texts:
            raise ConnectorError(
                self.vendor, request.method, "a connector sends its own queries only"
            )


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    variables: dict[str, Any]


class _Problem(msgspec.Struct):
    message: str = ""


class _Answer(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")
    errors: list[_Problem] | None = None


class GraphQLSession(HttpSession):
    """One collection's queries."""

    def __init__(self, *given: Any, path: str) -> None:
        super().__init__(*given)
        self._path = path
        self._wait_until = 0.0

    async def get(
        self, path: str, params: list[tuple[str, str]] | None = None, *, type: type[T]
    ) -> T:
        """Refused: there is nothing but queries here."""
        raise ConnectorError(self._vendor, path, "a connector sends its own queries only")

    async def ask(self, query: Query, variables: Mapping[str, Any], *, type: type[T]) -> T:
        """The data of the answer, decoded as `type`. Raises ConnectorError, BudgetExceeded."""
        pause = self._wait_until - time.monotonic()
        if pause > self.deadline.remaining:
            raise ConnectorError(
                self._vendor, query.name, "the rate limit is used up", status=429, retryable=True
            )
        await asyncio.sleep(max(0.0, pause))
        body = msgspec.json.encode(_Body(query.text, dict(variables))).decode()
        answer = await self._answer(query.name, [("body", body)])
        if answer.status >= 400:
            raise self._refused(query.name, answer)
        if answer.headers.get("ratelimit-remaining", "").strip() == "0":
            self._wait_until = time.monotonic() + retry_after(answer.headers, 0.0)
        try:
            found = msgspec.json.decode(answer.body, type=_Answer)
            if found.errors:
                said = short(found.errors[0].message) or "no reason given"
                raise ConnectorError(
                    self._vendor, query.name, f"the query was not answered: {said}"
                )
            require(
                bytes(found.data) != b"null", self._vendor, query.name, "the answer holds no data"
            )
            return msgspec.json.decode(found.data, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            problem = f"the answer is not understood: {short(str(error))}"
            raise ConnectorError(self._vendor, query.name, problem) from error

    def _stream(
        self, path: str, params: list[tuple[str, str]]
    ) -> AbstractAsyncContextManager[httpx.Response]:
        headers = {"Content-Type": "application/json"}
        return self._client.stream(
            "POST", self._base_url + self._path, content=params[0][1], headers=headers
        )
