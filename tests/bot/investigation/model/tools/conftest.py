"""A case with something for every tool, and a bench to use them on."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import json_bytes, read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Finding, Scope, Window
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.model.model_session import ModelSession, in_a_thread
from faultline.bot.investigation.model.toolbox import Toolbox, ToolOutcome, toolbox_for
from faultline.bot.investigation.model.turns import ToolCall
from faultline.connectors.shared.contract.base import Connector
from tests.bot.investigation.model.cases import keeper
from tests.scenarios.small_case import ALERT, STARTED

DIFF = """--- a/src/client.py
+++ b/src/client.py
@@ -10,3 +10,3 @@
 def pay(order):
-    timeout = 5.0
+    timeout = 0.3  # seconds, see "budget"
     return call(order)
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def at(minute: float) -> str:
    """Minutes after the alert."""
    return (STARTED + timedelta(minutes=minute)).isoformat()


def write_rich_case(folder: Path) -> Path:
    """An hour of baseline and eleven minutes of incident, with yesterday, pods, logs, spans, a
    diff, states and calls."""
    folder.mkdir(parents=True)
    write_json(folder / "alert.json", ALERT)
    incident = Window(start=STARTED - timedelta(minutes=5), end=STARTED + timedelta(minutes=6))
    before = Window(start=STARTED - timedelta(hours=1), end=incident.start)
    write_json(folder / "scope.json", Scope(incident=incident, baseline=(before,)))
    _write(folder, "metrics", _metrics())
    _write(folder, "logs", _logs())
    _write(folder, "spans", _spans())
    _write(
        folder,
        "changes",
        [
            {
                "time": at(-6),
                "service": "checkout",
                "kind": "deploy",
                "id": "4f2a9c1",
                "title": "checkout v2 by jo.doe@example.com",
                "diff": DIFF,
                "files": '["src/client.py"]',
            }
        ],
    )
    calls = [("web", "checkout"), ("checkout", "cart"), ("cart", "db")]
    _write(folder, "topology", [{"caller": a, "callee": b} for a, b in calls])
    _write(
        folder,
        "states",
        [
            {
                "kind": "Pod",
                "name": "checkout-1",
                "fact": "crash_looping",
                "namespace": "shop",
                "service": "checkout",
                "value": "OOMKilled",
                "since": at(-3),
            }
        ],
    )
    (folder / "findings.json").write_bytes(json_bytes(diagnose(read_case(folder))))
    return folder


def _write(folder: Path, table: str, rows: Sequence[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / f"{table}.jsonl").write_text(text + "\n")


def _metrics() -> list[dict[str, Any]]:
    rows, swings = [], random.Random(329)

    def add(minute: int, service: str, signal: str, value: float, unit: str, **labels: str) -> None:
        row = {"time": at(minute), "service": service, "signal": signal, "value": value}
        rows.append(row | {"unit": unit, "labels": json.dumps(labels) if labels else None})

    for minute in range(-60, 6):
        late = minute >= -4
        add(minute, "checkout", "latency_p99", 210 + 7 * (minute % 5) + 520 * late, "ms")
        add(minute, "cart", "latency_p99", 45 + minute % 5, "ms")
        # It swings at all times; the median of this incident happens to be 2.6 times as high.
        add(minute, "cart", "queue", round(swings.uniform(0.02, 0.4) ** 1.5 * 1.6, 4), "ratio")
        for zone in ("a", "b", "c"):
            add(minute, "cart", "cpu", 4 if late and zone == "b" else 1, "cores", zone=zone)
    for minute in range(-1445, -1434):
        add(minute, "checkout", "latency_p99", 205.0, "ms")
    return rows


def _logs() -> list[dict[str, Any]]:
    rows = []
    for minute in range(-60, 6):
        text = f"order {minute + 100} took 210 ms"
        rows.append({"time": at(minute), "service": "checkout", "message": text, "level": "INFO"})
    for number in range(60):
        row = {"service": "checkout", "level": "ERROR", "trace_id": TRACE}
        text = f"payment {number} of jo.doe@example.com failed: connection refused"
        pod = json.dumps({"pod": f"checkout-{number % 2}"})
        rows.append({**row, "time": at(-4 + number / 6), "message": text, "attributes": pod})
    about = {"object": "Pod/checkout-1", "reason": "Killing", "source": "kubernetes event"}
    text = "Container checkout failed liveness probe"
    event = {"time": at(-2), "service": "checkout", "message": text, "level": "WARNING"}
    rows.append({**event, "attributes": json.dumps(about)})
    return rows


def _spans() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for minute in range(-60, 6):
        late = minute >= -4
        trace = TRACE if minute == 0 else f"{minute + 100:032x}"
        for span, parent, service, ms in (
            ("a", None, "web", 40 + 500 * late),
            ("b", "a", "checkout", 30 + 500 * late),
            ("c", "b", "cart", 5),
        ):
            row: dict[str, Any] = {
                "trace_id": trace,
                "span_id": f"{trace}{span}",
                "service": service,
            }
            row["parent_id"] = f"{trace}{parent}" if parent else None
            row |= {"operation": f"GET /{service}", "start": at(minute + 0.1)}
            row |= {"status": "ERROR" if late and service == "checkout" else "OK"}
            rows.append({**row, "duration_us": ms * 1000.0})
    return rows


@pytest.fixture(scope="session")
def rich_case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rich_case(tmp_path_factory.mktemp("rich") / "case")


class Desk:
    """A toolbox on a case, used as a conversation uses it."""

    def __init__(
        self,
        folder: Path,
        work: Path,
        connectors: Sequence[Connector] = (),
        *,
        queries: bool = True,
    ) -> None:
        self.folder = folder
        self.bench = ModelSession(
            folder=folder,
            work=work / "case",
            diagnosis=diagnose(read_case(folder)),
            run=in_a_thread,
            store="model",
            keep=keeper(work / "kept"),
            connectors=connectors,
            queries=queries,
        )
        toolbox = toolbox_for(self.bench, Redactor(), resumed=False)
        assert toolbox is not None
        self.toolbox: Toolbox = toolbox

    @property
    def offered(self) -> list[str]:
        return [spec.name for spec in self.toolbox.specs]

    def call(self, name: str, **arguments: Any) -> ToolOutcome:
        return self.round((name, arguments))[0]

    def round(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolOutcome]:
        """Calls side by side."""

        async def all_of() -> list[ToolOutcome]:
            named = [ToolCall(f"c{n}", name, json.dumps(a)) for n, (name, a) in enumerate(calls)]
            return await asyncio.gather(*(self.toolbox.run(c, within_s=60) for c in named))

        return asyncio.run(all_of())

    def rows(self, name: str, **arguments: Any) -> list[str]:
        outcome = self.call(name, **arguments)
        assert not outcome.error, outcome.text
        return outcome.text.removeprefix("<data>\n").removesuffix("\n</data>").split("\n")

    def error(self, name: str, **arguments: Any) -> str:
        outcome = self.call(name, **arguments)
        assert outcome.error, outcome.text
        return outcome.text

    def cited(self, row: str) -> Finding:
        """The finding that a row names."""
        wanted = row[1 : row.index("]")]
        return next(f for f in self.bench.findings if f.id == wanted)


@pytest.fixture
def desk(rich_case: Path, tmp_path: Path) -> Desk:
    return Desk(rich_case, tmp_path)
