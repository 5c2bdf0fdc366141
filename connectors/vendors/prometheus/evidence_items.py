"""The items of evidence: which query brought which rows, and where a human sees the same graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import polars as pl

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import StateRow, rows_table
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer
from faultline.connectors.vendors.prometheus.promql import quoted
from faultline.connectors.vendors.prometheus.series import PrometheusSelection


class EvidenceItems:
    """Items with links to the server's page of graphs, for what was asked over these spans."""

    def __init__(self, base_url: str, spans: Sequence[Window]) -> None:
        self._base_url = base_url
        self._window = Window(start=spans[0].start, end=spans[-1].end)

    def of_metrics(
        self, selections: Sequence[PrometheusSelection], rows: Mapping[int, pl.DataFrame]
    ) -> tuple[list[Item], list[Missing]]:
        """What each query brought, `rows` by its place in `selections`, and the gaps."""
        signals = {
            selection.query.signal for order, selection in enumerate(selections) if order in rows
        }
        items, gaps = [], []
        for order, selection in enumerate(selections):
            if selection.failed and not selection.query.is_extra:
                gaps.append(Missing("metrics", selection.query.promql, selection.failed))
            row = rows.get(order)
            if row is not None:
                items.append(self.item("metrics", selection, row.height).holding(row))
                continue
            # Another query brought the signal, or the exporters lack it, as most lack some.
            is_expected = selection.query.signal in signals or selection.query.of is not None
            is_expected = is_expected or selection.query.is_extra
            if not selection.failed and not is_expected:
                reason = "no series in these windows for the services in scope"
                gaps.append(Missing("metrics", selection.query.promql, reason))
        return items, gaps

    def item(self, kind: EvidenceKind, selection: PrometheusSelection, rows: int) -> Item:
        """What one query brought."""
        details = {"asked_by": selection.query.requested_by} if selection.query.requested_by else {}
        return Item(
            kind,
            selection.query.promql,
            window=self._window,
            link=self.link(selection.query.promql),
            rows=rows,
            cut=selection.cut,
            details=details,
        )

    def of_states(
        self, answers: Sequence[ExporterAnswer], states: Sequence[StateRow]
    ) -> list[Item]:
        """Which query showed which facts. Where exporters were asked and all is well, that is
        said once."""
        shown: dict[str, ExporterAnswer] = {}
        judged = [
            answer for answer in answers if answer.metric.fact and not answer.selection.failed
        ]
        for exporter_answer in judged:
            shown.setdefault(exporter_answer.selection.query.promql, exporter_answer)
        counts = Counter(row.query for row in states)
        items = []
        for query, answer in shown.items():
            if counts[query]:
                items.append(self.item("states", answer.selection, counts[query]))
        if judged and not items:
            items.append(Item("states", "exporters", window=self._window, rows=0))
        return items

    def failed_exporters(self, answers: Sequence[ExporterAnswer]) -> list[Missing]:
        """The queries that failed, one gap for each exporter and reason."""
        # All signals of an exporter may fail for one reason: say it once.
        failed: dict[tuple[str, str], list[str]] = {}
        for answer in answers:
            if answer.selection.failed:
                key = (answer.metric.exporter, answer.selection.failed)
                failed.setdefault(key, []).append(answer.selection.query.promql)
        gaps = []
        for (exporter, reason), queries in failed.items():
            what = queries[0] if len(queries) == 1 else counted(len(queries), "signal")
            gaps.append(Missing("metrics", f"{exporter}: {what}", reason))
        return gaps

    def links_of_alerts(self, alerts: PrometheusSelection) -> dict[str, str]:
        """By the alert's name."""
        links: dict[str, str] = {}
        for series in alerts.series:
            name = series.metric.get("alertname")
            if name and name not in links:
                links[name] = self.link(f'ALERTS{{alertname="{quoted(name)}"}}')
        return links

    def link(self, expression: str) -> str:
        """The page on which a human sees the same graph (Prometheus 3 redirects it to its /query
        page)."""
        params = {
            "g0.expr": expression,
            # The graph, not the table.
            "g0.tab": "0",
            "g0.range_input": f"{max(1, math.ceil(self._window.seconds))}s",
            "g0.end_input": self._window.end.strftime("%Y-%m-%d %H:%M:%S"),
        }
        return f"{self._base_url}/graph?{urlencode(params)}"


def state_table(rows: Sequence[StateRow]) -> pl.DataFrame:
    """The table `states`."""
    return rows_table(rows, SCHEMAS["states"].columns)
