"""What Flux applied to the workloads in scope, and when: releases of Helm charts with their
versions, and revisions of Git.

Flux labels every object that it makes with the name of the HelmRelease or Kustomization that it
comes from (fluxcd.io, "HelmRelease" and "Kustomization", helm.toolkit.fluxcd.io/v2 and
kustomize.toolkit.fluxcd.io/v1), so nothing is asked of a cluster without such labels. A
Kustomization tells its history from Flux 2.7 on. Helm's own record of a release is in secrets:
`faultline.connectors.vendors.kubernetes.helm_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import Meta, Struct
from faultline.connectors.vendors.kubernetes.session import replayed
from faultline.connectors.vendors.kubernetes.state_inquiry import ListObjects
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload
from faultline.connectors.vendors.pagerduty.answers import moment

MOST_OBJECTS = 20
DONE = frozenset({"deployed", "superseded", "ReconciliationSucceeded", ""})
"""States of Helm's releases and of Kustomizations that are no trouble."""
SHORT_HASH = 12

Link = Callable[[str, str, str], str | None]
"""The page of an object by namespace, kind and name."""


class _Snapshot(Struct):
    """An entry of a history, the newest first; of a HelmRelease or of a Kustomization."""

    chart_name: str = ""
    chart_version: str = ""
    app_version: str = ""
    version: int = 0
    status: str = ""
    last_deployed: str | None = None
    first_reconciled: str | None = None
    last_reconciled_status: str = ""
    metadata: dict[str, str] | None = None

    @property
    def at(self) -> datetime | None:
        """When it was applied first."""
        return moment(self.last_deployed or self.first_reconciled)

    @property
    def revision(self) -> str:
        """The chart's version, or the commit of `main@sha1:0123abcd`."""
        if self.chart_version:
            return self.chart_version
        named = (self.metadata or {}).get("revision", "")
        return named.rpartition(":")[2]

    @property
    def state(self) -> str:
        """How it ended."""
        return self.status or self.last_reconciled_status


class _Condition(Struct):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Status(Struct):
    history: list[_Snapshot] | None = None
    conditions: list[_Condition] | None = None


class FluxObject(Struct):
    """The parts of a HelmRelease or a Kustomization that are read."""

    metadata: Meta
    status: _Status | None = None

    @property
    def trouble(self) -> str | None:
        """Why it is not ready; None where it is, or where nothing says so."""
        for condition in (self.status and self.status.conditions) or ():
            if condition.type == "Ready" and condition.status == "False":
                at = condition.last_transition_time
                since = f" since {short(at, 30)}" if at else ""
                return f"not ready{since}: {short(condition.message, 200)}"
        return None


@dataclass(frozen=True)
class FluxKind:
    """One kind of object, and the group whose label names it on what it made."""

    kind: str
    group: str
    version: str

    @property
    def resource(self) -> str:
        """Its name in paths."""
        return f"{self.kind.lower()}s"


KINDS = (
    FluxKind("HelmRelease", "helm.toolkit.fluxcd.io", "v2"),
    FluxKind("Kustomization", "kustomize.toolkit.fluxcd.io", "v1"),
)


@dataclass
class FluxInquiry:
    """The Flux objects of one collection."""

    fetch: ListObjects
    link: Link
    window: Window
    rows: list[ChangeRow] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    async def read(self, workloads: Sequence[ObservedWorkload]) -> None:
        """What the labels of workloads name."""
        for kind in KINDS:
            services: dict[tuple[str, str], list[str]] = {}
            for workload in workloads:
                labels = workload.meta.labels or {}
                name = labels.get(f"{kind.group}/name", "")
                space = labels.get(f"{kind.group}/namespace", "")
                service = services.setdefault((space, name), [])
                if workload.ref.service not in service:
                    service.append(workload.ref.service)
            # Workloads that Flux did not make lack the labels.
            named = [key for key in services if all(key)]
            for space, name in named[:MOST_OBJECTS]:
                await self._read(kind, space, name, services[space, name])

    async def _read(self, kind: FluxKind, space: str, name: str, services: Iterable[str]) -> None:
        # A label is foreign text: it must not add parts to the path.
        place = quote(space, safe="")
        path = f"/apis/{kind.group}/{kind.version}/namespaces/{place}/{kind.resource}"
        selection = {"fieldSelector": f"metadata.name={name}"}
        listed = await self.fetch("changes", path, FluxObject, selection)
        if listed is None:
            return
        rows: list[ChangeRow] = []
        details: dict[str, str] = {}
        link = self.link(space, kind.kind, name)
        for flux_object in listed[0]:
            for service in services:
                rows += _rows(kind, flux_object, service, link, self.window)
            if flux_object.trouble:
                details[f"{kind.kind} {short(name, 80)}"] = flux_object.trouble
        self.rows += rows
        query = replayed(path, selection)
        item = Item("changes", query, self.window, link, rows=len(rows), details=details)
        self.items.append(item.holding(rows))


def _rows(
    kind: FluxKind, flux_object: FluxObject, service: str, link: str | None, window: Window
) -> Iterable[ChangeRow]:
    """A row for each entry of the history in the window."""
    history: list[Any] = list((flux_object.status and flux_object.status.history) or ())
    # The newest comes first, so the next entry is the revision before.
    for snapshot, before in pairwise((*history, None)):
        at = snapshot.at
        if at is None or not snapshot.revision or not window.start <= at <= window.end:
            continue
        title = _title(kind, flux_object.metadata.name, snapshot, before)
        identity = snapshot.revision
        # A chart's version may be released again with other values: the number tells them apart.
        if kind.kind == "HelmRelease":
            identity = (
                f"{flux_object.metadata.name} {snapshot.revision} (release {snapshot.version})"
            )
        # A chart's own version says less than that of the application in it.
        yield ChangeRow(
            at,
            service,
            "deploy",
            short(identity, 100),
            title,
            "Flux",
            link,
            before=_short(before.app_version or before.revision) if before else None,
            after=_short(snapshot.app_version or snapshot.revision),
            restored_by="Flux's HelmRelease" if kind.kind == "HelmRelease" else "Flux",
        )


def _title(kind: FluxKind, name: str, after: _Snapshot, before: _Snapshot | None) -> str:
    what = f"Flux {'released' if kind.kind == 'HelmRelease' else 'applied'} {short(name, 60)}: "
    what += f"chart {short(after.chart_name, 60)} " if after.chart_name else ""
    if before is not None and before.revision and before.revision != after.revision:
        what += f"{_short(before.revision)} -> "
    what += _short(after.revision)
    if after.app_version:
        what += f", app {short(after.app_version, 40)}"
    if before is not None and before.revision == after.revision:
        what += " again, with other values" if kind.kind == "HelmRelease" else " again"
    if after.state not in DONE:
        what += f" ({short(after.state, 40)})"
    return what


def _short(revision: str) -> str:
    # SHA-1 has 40 hexadecimal digits, SHA-256 has 64.
    is_hash = len(revision) >= 40 and revision.isalnum()
    return revision[:SHORT_HASH] if is_hash else short(revision, 60)
