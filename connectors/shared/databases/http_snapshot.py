"""What a server tells of itself over HTTP, call by call: one that fails is a gap, the others
stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

from faultline.analysis.errors import FaultlineError
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.http.http import HttpSession

T = TypeVar("T")
Params = Sequence[tuple[str, str]]


class HttpSnapshot:
    """The calls of one collection."""

    def __init__(self, session: HttpSession, server_snapshot: ServerSnapshot) -> None:
        self._session = session
        self.server_snapshot = server_snapshot

    async def fetch(self, path: str, params: Params = (), *, type: type[T]) -> T | None:
        """The answer; None where there is none, which is a gap then."""
        try:
            return await self._session.get(path, list(params), type=type)
        except FaultlineError as error:
            self.server_snapshot.lacks(call_text(path, params), str(error))
            return None


def call_text(path: str, params: Params = ()) -> str:
    """The call as evidence names it."""
    return f"{path}?{urlencode(params)}" if params else path
