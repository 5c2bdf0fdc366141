"""GraphQL for connectors: fixed query documents and nothing else, over the same transport, deadline
and byte budget.

GraphQL needs POST, and with POST a server would also take mutations. So a document is a constant
that is checked when it is made (one query, no other operation), values travel as variables, and the
HTTP client refuses every request that is not POST to the one address with one of these documents.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import require
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.transport import CALL, retry_after
from faultline.connectors.shared.vendor_text import short, unexpected_response

T = TypeVar("T")

_QUERY = re.compile(r"query [A-Z][A-Za-z]{0,60}\b")
_OTHER_OPERATION = re.compile(r"\b(?:mutation|subscription)\b|[\"'#@]|\bquery\b(?!: ?\$| \})", re.I)
"""Besides other operations: strings, comments and directives, so that nothing can hide in a
document. An argument may be called `query`, and the last field of a selection."""


@dataclass(frozen=True)
class GraphQLQuery:
    """One query document. Raises ValueError unless it is exactly one named query."""

    name: str
    text: str

    def __post_init__(self) -> None:
        head = _QUERY.match(self.text)
        if head is None or head[0] != f"query {self.name}":
            raise ValueError(f"the document {self.name!r} does not begin with its query")
        if _OTHER_OPERATION.search(self.text, head.end()):
            raise ValueError(f"the document {self.name!r} holds more than one plain query")
        self._check_braces()

    def _check_braces(self) -> None:
        depth = 0
        for place, character in enumerate(self.text):
            if character == "{":
                depth += 1
            elif character == "}":
                depth -= 1
                # What follows the closing brace would be a second operation.
                rest = self.text[place + 1 :].strip()
                if depth == 0 and rest:
                    raise ValueError(f"the document {self.name!r} goes on after its query")
            if depth < 0:
                break
        if depth != 0:
            raise ValueError(f"the document {self.name!r} is not balanced")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    variables: dict[str, Any]


class _Problem(msgspec.Struct):
    message: str = ""


class _GraphQLAnswer(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")
    errors: list[_Problem] | None = None


class GraphQLSession(HttpSession):
    """One collection's queries, sent to one address."""

    _url: str
    _wait_until = 0.0

    async def get(
        self, path: str, params: list[tuple[str, str]] | None = None, *, type: type[T]
    ) -> T:
        """Refused: there is nothing but queries here."""
        raise ConnectorError(self._vendor, path, "a connector sends its own queries only")

    async def ask(self, query: GraphQLQuery, variables: Mapping[str, Any], *, type: type[T]) -> T:
        """The data of the answer, decoded as `type`. Raises ConnectorError, BudgetExceeded."""
        await self._wait_for_quota(query)
        response = await self._client.post(
            self._url,
            content=msgspec.json.encode(_Body(query.text, dict(variables))),
            headers={"Content-Type": "application/json"},
            extensions={CALL: query.name},
        )
        self._accepted(query.name, response)
        # Note the end of the limit now, so that the next query waits instead of being refused.
        if response.headers.get("ratelimit-remaining", "").strip() == "0":
            self._wait_until = time.monotonic() + retry_after(response.headers, 0.0)
        return self._data(query, response, type)

    async def _wait_for_quota(self, query: GraphQLQuery) -> None:
        pause = self._wait_until - time.monotonic()
        if pause > self.deadline.remaining:
            problem = "the rate limit is used up"
            raise ConnectorError(self._vendor, query.name, problem, status=429, retryable=True)
        await asyncio.sleep(max(0.0, pause))

    def _data(self, query: GraphQLQuery, response: httpx.Response, type: type[T]) -> T:
        try:
            answer = msgspec.json.decode(response.content, type=_GraphQLAnswer)
            # GraphQL answers HTTP 200 also when it refuses a query.
            if answer.errors:
                reason = short(answer.errors[0].message) or "no reason given"
                problem = f"the query was not answered: {reason}"
                raise ConnectorError(self._vendor, query.name, problem)
            is_empty = bytes(answer.data) == b"null"
            require(not is_empty, self._vendor, query.name, "the answer holds no data")
            return msgspec.json.decode(answer.data, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unexpected_response(self._vendor, query.name, error) from error


class GraphQLReads(VendorHttp[GraphQLSession]):
    """A vendor's GraphQL endpoint, limited to the given queries."""

    session = GraphQLSession

    def __init__(
        self,
        vendor: str,
        base_url: str,
        path: str,
        queries: Iterable[GraphQLQuery],
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits,
    ) -> None:
        super().__init__(vendor, base_url, headers=headers, limits=limits)
        self._path = path
        self._texts = frozenset(query.text for query in queries)

    def _session(self, client: httpx.AsyncClient, deadline: Deadline) -> GraphQLSession:
        session = super()._session(client, deadline)
        session._url = self.base_url + self._path
        return session

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        refused = ConnectorError(
            self.vendor, request.method, "a connector sends its own queries only"
        )
        try:
            body = msgspec.json.decode(request.content, type=_Body)
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise refused from error
        # Compare the whole address: a redirect must not take the query elsewhere.
        is_endpoint = request.method == "POST" and str(request.url) == self.base_url + self._path
        if not is_endpoint or body.query not in self._texts:
            raise refused
