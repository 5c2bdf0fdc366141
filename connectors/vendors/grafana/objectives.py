"""Service level objectives of Grafana SLO: how fast each burns its error budget, as series.

Definitions come from the app's API (grafana/slo-openapi-client, openapi.yaml, `GET /v1/slo`), the
series from the recording rules that the app writes into a Prometheus, asked through Grafana's data
source proxy. Names of the series: grafana.com/docs/grafana-cloud, "Recording rules" of SLO;
grafana/gcx, internal/providers/slo. Burn rate as in the Google SRE Workbook, chapter 5: the share
of failures divided by the share that the objective allows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Alert, Window
from faultline.connectors.shared.rows.collection_builder import attributes, nanoseconds
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

SLOS = "/api/plugins/grafana-slo-app/resources/v1/slo"
SIGNAL = "error_budget_burn_rate"
UUID_LABEL = "grafana_slo_uuid"
SERVICE_KEYS = ("service", "service_name")
MOST_SLOS = 20
STEP_S, MOST_POINTS = 60, 1000
"""The app's rules are evaluated once a minute."""
_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

Row = tuple[Any, ...]


class _SloLabel(msgspec.Struct):
    key: str = ""
    value: str = ""


class _SloTarget(msgspec.Struct):
    value: float = 0.0
    window: str = ""


class _SloSource(msgspec.Struct):
    uid: str = ""


class GrafanaSlo(msgspec.Struct):
    """One definition."""

    uuid: str
    name: str = ""
    labels: list[_SloLabel] | None = None
    objectives: list[_SloTarget] | None = None
    destinationDatasource: _SloSource | None = None

    @property
    def allowed(self) -> float | None:
        """The share that may fail; None where none may, or nothing is said."""
        target = self.objectives[0].value if self.objectives else 0.0
        return 1 - target if 0 < target < 1 else None

    @property
    def text(self) -> str:
        """The objective in words."""
        first = self.objectives[0] if self.objectives else _SloTarget()
        return f"{round(100 * first.value, 6):g} % over {short(first.window, 20)}"


class SlosAnswer(msgspec.Struct):
    """What the app's API answers."""

    slos: list[GrafanaSlo]


class BurnSeries(msgspec.Struct):
    """A series of Prometheus."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _BurnMatrix(msgspec.Struct):
    result: list[BurnSeries]


class BurnAnswer(msgspec.Struct):
    """What Prometheus answers to a range query."""

    data: _BurnMatrix


def chosen(
    slos: Iterable[GrafanaSlo], services: Sequence[str], names: ServiceNames, alert: Alert
) -> dict[str, list[tuple[GrafanaSlo, str]]]:
    """Objectives of the services, and the one that the alert is of, each with its service, by data
    source."""
    chosens: dict[str, list[tuple[GrafanaSlo, str]]] = {}
    label = alert.labels.get(UUID_LABEL)
    for slo in slos:
        source = slo.destinationDatasource.uid if slo.destinationDatasource else ""
        # Ids become a part of a query, so take none that could change it.
        if slo.allowed is None or not _SAFE_ID.fullmatch(slo.uuid) or not source:
            continue
        values = [label.value for label in slo.labels or () if label.key in SERVICE_KEYS]
        service = next((s for s in services if names.matches(s, values)), None)
        if service is None and slo.uuid == label:
            service = alert.service
        if service is not None:
            chosens.setdefault(source, []).append((slo, service))
    return chosens


def burn_query(slos: Iterable[GrafanaSlo]) -> str:
    """The share that fails over five minutes, of each objective. Of ratios the app records both
    parts, which weigh busy series more than idle ones; of others only the result."""
    # These ids are safe in a pattern: `chosen` takes letters, digits, `_` and `-` alone.
    ids = "|".join(slo.uuid for slo in slos)
    by, these = f"by ({UUID_LABEL})", f'{{{UUID_LABEL}=~"{ids}"}}'
    good = f"sum {by} (grafana_slo_success_rate_5m{these})"
    every = f"sum {by} (grafana_slo_total_rate_5m{these})"
    return f"1 - ({good} / {every} or avg {by} (grafana_slo_sli_5m{these}))"


def burn_path(source: str) -> str:
    """Where a range query of a data source is asked."""
    return f"/api/datasources/proxy/uid/{quote(source[:100], safe='')}/api/v1/query_range"


def burn_params(query: str, window: Window) -> list[tuple[str, str]]:
    """A point a minute, fewer over long windows."""
    step = max(STEP_S, math.ceil(window.seconds / MOST_POINTS))
    start, end = f"{window.start.timestamp():.3f}", f"{window.end.timestamp():.3f}"
    return [("query", query), ("start", start), ("end", end), ("step", str(step))]


def burn_rows(
    series: Iterable[BurnSeries], slos: Sequence[tuple[GrafanaSlo, str]]
) -> dict[str, list[Row]]:
    """Rows of the table `metrics` by the objective's uuid: how many times too fast the error budget
    is spent."""
    slos_by_uuid = {slo.uuid: (slo, service) for slo, service in slos}
    rows: dict[str, list[Row]] = {}
    for burn_series in series:
        uuid = burn_series.metric.get(UUID_LABEL, "")
        if uuid not in slos_by_uuid:
            continue
        slo, service = slos_by_uuid[uuid]
        labels = attributes({"slo": slo.name})
        for at, text in burn_series.values:
            failing = _number(text)
            if failing is None or slo.allowed is None or not 0 < at < 9e9:
                continue
            burn = max(failing, 0.0) / slo.allowed
            # Prometheus counts in milliseconds and writes seconds.
            row = (round(at * 1000) * 1_000_000, service, SIGNAL, burn, None, labels)
            rows.setdefault(uuid, []).append(row)
    return rows


def burn_details(
    slos: Iterable[tuple[GrafanaSlo, str]], rows: Mapping[str, Sequence[Row]], incident: Window
) -> dict[str, str]:
    """What each objective is, and how fast it burned at most during the incident."""
    start, end = nanoseconds(incident.start), nanoseconds(incident.end)
    details: dict[str, str] = {}
    for slo, _ in slos:
        rates = [row[3] for row in rows.get(slo.uuid, ()) if start <= row[0] <= end]
        burned = f"burned at up to {max(rates):.3g} times the allowed rate" if rates else "no data"
        details[short(slo.name, 80) or slo.uuid] = f"objective {slo.text}; {burned}"
    return details


def _number(text: str) -> float | None:
    try:
        # Prometheus answers values as text, NaN among them.
        value = float(text[:40])
    except ValueError:
        return None
    return value if math.isfinite(value) else None
