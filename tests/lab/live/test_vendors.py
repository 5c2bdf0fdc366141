"""The bot's own connectors read what the shop tells its vendors on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
from starlette.applications import Starlette

from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.jaeger.connector import JaegerConnector
from faultline.connectors.vendors.loki.connector import LokiConnector
from faultline.connectors.vendors.pagerduty.connector import PagerDutyConnector
from faultline.loopback.jaeger import LoopbackJaeger
from faultline.loopback.loki import LoopbackLoki
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from tests.connectors.collected_cases import collected
from tests.connectors.conftest import ALERT_AT, ONSET

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The app's address, for the time of the block."""
    with ExitStack() as stack:
        url, stop = serve_in_thread(app)
        stack.callback(stop)
        yield url


def line(at: datetime, level: str, message: str) -> str:
    return json.dumps(
        {
            "ts": round(at.timestamp() * 1e9),
            "level": level,
            "service": "checkout",
            "cluster": "eu",
            "pod": "checkout-eu-1",
            "message": message,
            "trace_id": TRACE,
        }
    )


def write_log(folder: Path) -> None:
    """An order every ten seconds, and errors from the onset on."""
    lines = []
    for n in range(6 * 150):
        at = ALERT_AT - timedelta(seconds=10 * (900 - n))
        lines.append(line(at, "info", f"order {n} placed"))
        if at >= ONSET:
            lines.append(line(at + timedelta(seconds=1), "error", "payments: no answer"))
    (folder / "checkout-eu-1.jsonl").write_text("\n".join(lines) + '\n{"ts": 1, "half')


def from_loki(folder: Path) -> Collected:
    (folder / "logs").mkdir()
    (folder / "case").mkdir()
    write_log(folder / "logs")
    with served(LoopbackLoki(folder / "logs").app) as url:
        return collected(folder / "case", LokiConnector(url))


def test_logs_and_their_counts(tmp_path: Path) -> None:
    found = from_loki(tmp_path)
    logs = found.tables["logs"]
    errors = logs.filter(pl.col("level") == "error")
    assert errors.height
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [TRACE]
    counts = found.tables["metrics"].filter(pl.col("signal") == "error_log_lines_per_min")
    late = counts.filter(pl.col("time") >= ONSET + timedelta(minutes=1))
    assert late["value"].median() == 6
    assert counts.filter(pl.col("time") < ONSET - timedelta(minutes=1))["value"].max() == 0
    assert not found.missing


def otlp(
    service: str, span_id: str, parent: str, start: datetime, *, failed: bool
) -> dict[str, Any]:
    began = round(start.timestamp() * 1e9)
    span = {
        "traceId": TRACE,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": "GET /orders",
        "kind": 2,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 50_000_000),
        "attributes": [],
        "status": {"code": 2, "message": "no answer"} if failed else {},
    }
    resource = [{"key": "service.name", "value": {"stringValue": service}}]
    return {"resource": {"attributes": resource}, "scopeSpans": [{"spans": [span]}]}


def test_spans_and_who_calls_whom(tmp_path: Path) -> None:
    at = ALERT_AT - timedelta(minutes=2)
    groups = [
        otlp("checkout", "a" * 16, "", at, failed=True),
        otlp("payments", "b" * 16, "a" * 16, at, failed=False),
    ]
    with served(LoopbackJaeger().app) as url:
        httpx.post(f"{url}/v1/traces", json={"resourceSpans": groups}).raise_for_status()
        found = collected(tmp_path, JaegerConnector(url))
    spans = {row["service"]: row for row in found.tables["spans"].to_dicts()}
    assert spans["checkout"]["status"] == "error"
    assert spans["payments"]["parent_id"] == "a" * 16
    calls = found.tables["topology"].select("caller", "callee", "source").rows()
    assert calls == [("checkout", "payments", "jaeger")]


def test_change_events_of_services_in_scope(tmp_path: Path) -> None:
    pagerduty = LoopbackPagerDuty()
    pagerduty.services |= {"PSHOP001": "checkout", "PSHOP002": "mailer"}
    at = ONSET - timedelta(seconds=40)
    pagerduty.publish_change("CE1", "Deploy checkout v2.3.1", "checkout", at, author="mira")
    pagerduty.publish_change("CE2", "Deploy mailer v1.0.1", "mailer", at)
    pagerduty.publish_change("CE3", "Deploy checkout v1", "checkout", at - timedelta(days=9))
    with served(pagerduty.app) as url:
        found = collected(tmp_path, PagerDutyConnector("token", url))
    (change,) = found.tables["changes"].to_dicts()
    assert (change["id"], change["service"], change["author"]) == ("CE1", "checkout", "mira")
    assert change["time"] == at.astimezone(UTC)
