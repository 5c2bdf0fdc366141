"""Operations of GKE and Cloud SQL, which Google begins by itself too: upgrades, repairs, failovers
and maintenance, as changes.

`projects.locations.operations.list` of the Kubernetes Engine API v1, `operations.list` of the Cloud
SQL Admin API v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds, time_of
from faultline.connectors.shared.rows.log_windows import Row
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.google_cloud.logs import kind_of, service_in

MOST_OPERATIONS = 100
ROUTINE = frozenset(
    {"BACKUP", "EXPORT", "DELETE_BACKUP", "SNAPSHOT", "LOG_CLEANUP", "UPDATE_BACKUP"}
)


class ClusterOperation(msgspec.Struct):
    """Of GKE."""

    name: str = ""
    operationType: str = ""
    startTime: str = ""
    targetLink: str = ""
    detail: str = ""


class ClusterOperations(msgspec.Struct):
    operations: list[ClusterOperation] = []


class DatabaseOperation(msgspec.Struct):
    """Of Cloud SQL."""

    name: str = ""
    operationType: str = ""
    startTime: str = ""
    insertTime: str = ""
    targetId: str = ""
    user: str = ""


class DatabaseOperations(msgspec.Struct):
    items: list[DatabaseOperation] = []


def cluster_rows(
    operations: Iterable[ClusterOperation],
    services: Sequence[str],
    names: ServiceNames,
    window: Window,
    link: str,
) -> list[Row]:
    """Rows of the table `changes`."""
    rows: list[Row] = []
    for operation in operations:
        # The link ends in the name of what was changed.
        target = operation.targetLink.split("/")[-1]
        title = f"GKE {_words(operation.operationType)} of {target}"
        if operation.detail:
            title += f": {operation.detail}"
        service = service_in(operation.targetLink.split("/"), services, names)
        row = _row(
            operation.startTime,
            service,
            operation.operationType,
            operation.name,
            title,
            None,
            link,
            window,
        )
        rows += row
    return rows


def database_rows(
    operations: Iterable[DatabaseOperation],
    services: Sequence[str],
    names: ServiceNames,
    window: Window,
    link: str,
) -> list[Row]:
    """Rows of the table `changes`. Backups and exports are left out: they happen every day."""
    rows: list[Row] = []
    for operation in operations:
        if operation.operationType in ROUTINE:
            continue
        title = f"Cloud SQL {_words(operation.operationType)} of {operation.targetId}"
        service = service_in([operation.targetId], services, names)
        # An operation that still waits has only the time at which it was queued.
        when = operation.startTime or operation.insertTime
        rows += _row(
            when,
            service,
            operation.operationType,
            operation.name,
            title,
            operation.user,
            link,
            window,
        )
    return rows


def _row(
    when: str,
    service: str | None,
    kind: str,
    name: str,
    title: str,
    author: str | None,
    link: str,
    window: Window,
) -> list[Row]:
    at = time_of(when)
    if at is None or not nanoseconds(window.start) <= at < nanoseconds(window.end):
        return []
    by = short(author, 120) if author else None
    cells = (kind_of(kind), short(name, 100), short(title, 300), by, link, None, None)
    return [(at, service, *cells)]


def _words(kind: str) -> str:
    return short(kind.replace("_", " ").lower(), 60)
