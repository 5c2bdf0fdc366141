"""A collection as a case folder, and what is diagnosed of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import SCHEMAS, conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap
from faultline.connectors.shared.contract.base import Collected, Connector, Request, collect_from
from tests.connectors.conftest import ALERT_AT, request_for


def collected(
    folder: Path,
    connector: Connector,
    *,
    services: tuple[str, ...] = ("checkout",),
    alert: Alert | None = None,
) -> Collected:
    """What the connector brings for an alert about checkout."""
    alert = alert or Alert(
        source="test", title="Checkout fails", started_at=ALERT_AT, service="checkout"
    )
    return asyncio.run(collect_from(connector, request_for(folder, services=services, alert=alert)))


def calls_in(found: Collected, source: str) -> list[tuple[str, str]]:
    """Caller and callee of the calls that this source tells of, each with the time it saw it."""
    told = conform(found.tables["topology"], "topology", "topology").filter(source=source)
    assert told["last_seen"].null_count() == 0
    return sorted(told.select("caller", "callee").iter_rows())


def diagnosed(
    folder: Path, *connectors: Connector, services: tuple[str, ...] = ("checkout", "cart")
) -> Diagnosis:
    """The case that these connectors' evidence makes, diagnosed."""
    alert = Alert(source="test", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    return diagnosed_request(
        folder, request_for(folder, services=services, alert=alert), *connectors
    )


def diagnosed_request(folder: Path, request: Request, *connectors: Connector) -> Diagnosis:
    """The same for any alert and scope."""
    write_json(folder / "alert.json", request.alert)
    write_json(folder / "scope.json", request.scope)
    found = [(c.name, asyncio.run(collect_from(c, request))) for c in connectors]
    items = [(name, one) for name, part in found for one in part.items]
    gaps = [(name, one) for name, part in found for one in part.missing]
    write_evidence(
        folder,
        [
            Evidence(
                id=f"E{n}",
                kind=i.kind,
                source=name,
                query=i.query,
                link=i.link,
                services=i.services,
                signals=i.signals,
                details=i.details,
            )
            for n, (name, i) in enumerate(items)
        ],
        [
            Gap(id=f"G{n}", kind=m.kind, source=name, query=m.query, reason=m.reason)
            for n, (name, m) in enumerate(gaps)
        ],
    )
    for table in SCHEMAS:
        parts = [
            part.tables[table]
            for _, part in found
            if table in part.tables and part.tables[table].height
        ]
        if parts:
            write_table(folder, table, pl.concat(parts))
    return diagnose(read_case(folder))
