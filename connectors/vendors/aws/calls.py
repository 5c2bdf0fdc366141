"""The calls of one collection: asynchronous, under one deadline and one byte budget, page by
page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.connectors.vendors.aws.session import (
    ATTEMPTS,
    VENDOR,
    AwsPlace,
    AwsSession,
    Bounds,
    Later,
)

TOKENS = {
    "ecs": "nextToken",
    "codedeploy": "nextToken",
    "lambda": "Marker",
    "rds": "Marker",
    "logs": "nextToken",
    "elasticache": "Marker",
    "stepfunctions": "nextToken",
    "eks": "nextToken",
    "health": "nextToken",
}
"""The field that leads to the next page; `NextToken` in the services not named (each service's API
reference)."""
ANSWERED_AS = {"Marker": ("NextMarker", "Marker")}
"""Lambda answers NextMarker to what is asked as Marker; RDS answers Marker."""


@dataclass(frozen=True)
class AwsPages:
    """Entries of a list, and whether more were left out."""

    entries: list[Any]
    more: bool


class AwsCalls:
    """One collection's calls, for all places. Safe to use from several tasks."""

    def __init__(self, session: AwsSession, threads: ThreadPoolExecutor, bounds: Bounds) -> None:
        self._session = session
        self._threads = threads
        self.bounds = bounds

    async def call(
        self, place: AwsPlace, service: str, operation: str, /, **params: Any
    ) -> Mapping[str, Any]:
        """One answer. Raises ConnectorError, BudgetExceeded; nobody waits beyond the deadline."""
        # boto3 refuses a parameter that is None.
        values = {name: value for name, value in params.items() if value is not None}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._in_turn(place, service, operation, values)
            except Later as later:
                await asyncio.sleep(later.pause(attempt, self.bounds))
                continue
            if not isinstance(answer, Mapping):
                raise ConnectorError(VENDOR, operation, "unexpected response")
            return answer
        raise AssertionError("ATTEMPTS is at least 1")

    async def _in_turn(
        self, place: AwsPlace, service: str, operation: str, params: Mapping[str, Any]
    ) -> Any:
        """One try. The turn is waited for here: a thread that waits for a slow service would keep
        the others from being asked."""
        deadline = self.bounds.deadline
        async with self._session.limiter(place, service).permit(deadline):
            running = asyncio.get_running_loop().run_in_executor(
                self._threads, self._session.once, place, service, operation, params, self.bounds
            )
            try:
                async with asyncio.timeout(deadline.remaining):
                    return await running
            # The thread cannot be stopped: it ends at its own timeout, and nobody waits for it.
            except TimeoutError:
                raise deadline.exceeded() from None

    async def pages(
        self,
        place: AwsPlace,
        service: str,
        operation: str,
        key: str,
        /,
        *,
        most: int,
        most_pages: int = 20,
        **params: Any,
    ) -> AwsPages:
        """The entries under `key`, `most` of them at most."""
        requested_token = TOKENS.get(service, "NextToken")
        page_entries: list[Any] = []
        token = None
        for _ in range(most_pages):
            answer = await self.call(
                place, service, operation, **{**params, requested_token: token}
            )
            page_entries += entries(answer.get(key))
            token = next(
                (
                    t
                    for name in ANSWERED_AS.get(requested_token, (requested_token,))
                    if (t := answer.get(name))
                ),
                None,
            )
            if not token or len(page_entries) > most:
                break
        return AwsPages(page_entries[:most], bool(token) or len(page_entries) > most)


def entries(value: Any) -> list[Any]:
    """A list, or nothing."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, whatever else is in it."""
    return [entry for entry in entries(value) if isinstance(entry, Mapping)]
