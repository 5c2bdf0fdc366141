"""Reading whole traces from Tempo, once each, and what they lost on the way."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Missing
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.rows.collection_builder import SpanTableRow
from faultline.connectors.shared.rows.otlp_spans import UNREADABLE, TracesData, span_rows
from faultline.connectors.shared.rows.service_names import ServiceNames

MOST_SPANS_OF_A_TRACE = 1000
PAD = timedelta(minutes=30)
"""A trace is looked for that far beyond its window, for clocks differ and traces last."""
PARTIAL = (1, "PARTIAL")
"""The status of a trace of which a part is missing (grafana/tempo, pkg/tempopb/tempo.proto,
PartialStatus)."""


class TempoTraceAnswer(msgspec.Struct):
    """The v2 API's answer."""

    trace: TracesData
    status: str | int | None = None


class WholeTraces:
    """Reads whole traces, once each."""

    def __init__(self, session: HttpSession, names: ServiceNames) -> None:
        self._session = session
        self._names = names
        self._v1 = False
        self._errors: list[FaultlineError] = []
        self._dropped = 0
        self._long = 0
        self._partial = 0
        self.trace_ids: set[str] = set()

    async def trace(self, trace_id: str, window: Window) -> list[SpanTableRow] | None:
        """The rows of one trace, None where it cannot be read or has been."""
        if trace_id in self.trace_ids:
            return None
        self.trace_ids.add(trace_id)
        inside = between(Window(start=window.start - PAD, end=window.end + PAD))
        try:
            data = await self._data(trace_id, inside)
        except FaultlineError as error:
            self._errors.append(error)
            return None
        rows, dropped = await asyncio.to_thread(span_rows, data, self._names)
        self._dropped += dropped
        self._long += len(rows) > MOST_SPANS_OF_A_TRACE
        # The earliest spans are nearest to the root.
        return sorted(rows, key=lambda row: row.start)[:MOST_SPANS_OF_A_TRACE]

    async def _data(self, trace_id: str, inside: list[tuple[str, str]]) -> TracesData:
        if not self._v1:
            try:
                answer = await self._session.get(
                    f"/api/v2/traces/{trace_id}", inside, type=TempoTraceAnswer
                )
                self._partial += answer.status in PARTIAL
                return answer.trace
            except ConnectorError as error:
                if error.status != 404:
                    raise
        data = await self._session.get(f"/api/traces/{trace_id}", inside, type=TracesData)
        # Only once v1 has answered: a 404 of v2 may also mean that the trace is gone.
        self._v1 = True
        return data

    def take_missing(self, trace_count: int) -> list[Missing]:
        """One gap for all traces that could not be read since the last call."""
        errors, self._errors = self._errors, []
        if not errors:
            return []
        phrase = f"{len(errors)} of {trace_count} traces could not be read whole: {errors[0]}"
        return [Missing("spans", "whole traces", phrase)]

    def note(self, cut: str | None) -> str | None:
        """What was cut, with what the traces themselves lost."""
        notes = [cut] if cut else []
        if self._long:
            notes.append(f"only the first {MOST_SPANS_OF_A_TRACE:,} spans of {self._long} traces")
        if self._partial:
            notes.append(f"Tempo gave a part of {self._partial} traces")
        if self._dropped:
            notes.append(f"{self._dropped} spans {UNREADABLE}")
        return "; ".join(notes) or None


def between(window: Window) -> list[tuple[str, str]]:
    """A window as Tempo takes it, in whole seconds."""
    return [
        ("start", str(math.floor(window.start.timestamp()))),
        ("end", str(math.ceil(window.end.timestamp()))),
    ]
