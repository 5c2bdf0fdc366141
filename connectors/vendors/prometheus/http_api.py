"""The calls of Prometheus's HTTP API that are made, over one session; all of them read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.vendors.prometheus.rules import RULES, PrometheusRules, rule_params
from faultline.connectors.vendors.prometheus.series import (
    CALL,
    InstantAnswer,
    InstantSeries,
    RangeAnswer,
)


class _NamesAnswer(msgspec.Struct):
    data: list[str]


class _TextsAnswer(msgspec.Struct):
    data: dict[str, str]


class PrometheusApi:
    """Each call raises FaultlineError where the server does not answer it."""

    def __init__(self, session: HttpSession) -> None:
        self._session = session

    async def metric_names(self, spans: Sequence[Window]) -> frozenset[str]:
        """The metrics that exist."""
        return frozenset(await self.values_of("__name__", spans))

    async def values_of(
        self, label: str, spans: Sequence[Window], matches: Sequence[str] = ()
    ) -> list[str]:
        """The values that a label has, on the series that match any of these if given."""
        path = f"/api/v1/label/{label}/values"
        params = [*(("match[]", match) for match in matches), *between(spans)]
        return (await self._session.get(path, params, type=_NamesAnswer)).data

    async def labels_of(self, metrics: Sequence[str], spans: Sequence[Window]) -> list[str]:
        """The labels that any of these metrics carry."""
        params = [*(("match[]", metric) for metric in metrics), *between(spans)]
        return (await self._session.get("/api/v1/labels", params, type=_NamesAnswer)).data

    async def instant(self, query: str, at: datetime) -> Sequence[InstantSeries]:
        """The query at one time."""
        # Prometheus keeps times in milliseconds.
        params = [("query", query), ("time", f"{at.timestamp():.3f}")]
        answer = await self._session.get("/api/v1/query", params, type=InstantAnswer)
        return answer.data.result

    async def range(self, query: str, window: Window, step_s: float) -> RangeAnswer:
        """The query at each step of the window."""
        params = [("query", query), *between([window]), ("step", f"{step_s:g}")]
        return await self._session.get(CALL, params, type=RangeAnswer)

    async def limited_range(
        self, query: str, window: Window, step_s: float, series: int, timeout_s: float
    ) -> RangeAnswer:
        """The same for at most that many series; servers that know no such limit (Prometheus
        before 3.2, VictoriaMetrics) give all."""
        params = [("query", query), *between([window]), ("step", f"{step_s:g}")]
        # The server's own limit of time: it stops when nobody waits any more.
        params += [("limit", str(series)), ("timeout", f"{max(1, int(timeout_s))}s")]
        return await self._session.get(CALL, params, type=RangeAnswer)

    @property
    def remaining_s(self) -> float:
        """Seconds until the collection's deadline."""
        return self._session.deadline.remaining

    async def status(self, page: str) -> dict[str, str]:
        """A status page; empty where the server has none (Thanos, Mimir) or does not show it."""
        try:
            answer = await self._session.get(f"/api/v1/status/{page}", type=_TextsAnswer)
        except ConnectorError:
            return {}
        return answer.data

    async def rules(self, name: str) -> PrometheusRules:
        """The alerting rules of that name."""
        return await self._session.get(RULES, list(rule_params(name)), type=PrometheusRules)


def between(spans: Sequence[Window]) -> list[tuple[str, str]]:
    """From the first span's start to the last one's end."""
    return [
        ("start", f"{spans[0].start.timestamp():.3f}"),
        ("end", f"{spans[-1].end.timestamp():.3f}"),
    ]
