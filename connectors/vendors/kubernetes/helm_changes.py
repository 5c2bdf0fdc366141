"""Releases of Helm that made the workloads in scope, as deploys, by the labels of the secrets in
which Helm records them.

Only metadata is asked for (PartialObjectMetadata): the release itself, with its chart and values,
stays in the secret's data. Labels: helm/helm, pkg/storage/driver/secrets.go (`owner`, `name`,
`version`, `status`, `modifiedAt` in Unix seconds). Helm 3.2 and later names the release in
annotations of every object that it makes (`meta.helm.sh/release-name`), and a chart's own template
usually names chart and version in the label `helm.sh/chart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import Meta, Named
from faultline.connectors.vendors.kubernetes.flux_changes import KINDS, MOST_OBJECTS, Link
from faultline.connectors.vendors.kubernetes.session import replayed
from faultline.connectors.vendors.kubernetes.state_inquiry import ListObjects
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload

NAME, SPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
CHART = "helm.sh/chart"
PREFIX = "sh.helm.release.v1."
DONE = frozenset({"deployed", "superseded"})
"""States of a release that are no trouble. Helm has also: failed, pending-install, pending-upgrade,
pending-rollback, uninstalling, uninstalled, unknown."""


@dataclass
class HelmInquiry:
    """The releases of one collection."""

    fetch: ListObjects
    link: Link
    window: Window
    rows: list[ChangeRow] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    async def read(self, workloads: Sequence[ObservedWorkload]) -> None:
        """What annotations of workloads name."""
        services: dict[tuple[str, str], list[str]] = {}
        charts: dict[tuple[str, str], str] = {}
        for workload in workloads:
            key = _release_of(workload)
            if key is None:
                continue
            service = services.setdefault(key, [])
            if workload.ref.service not in service:
                service.append(workload.ref.service)
            charts.setdefault(key, (workload.meta.labels or {}).get(CHART, ""))
        for key in list(services)[:MOST_OBJECTS]:
            await self._read(key, services[key], charts[key])

    async def _read(self, key: tuple[str, str], services: Sequence[str], chart: str) -> None:
        space, name = key
        path = f"/api/v1/namespaces/{quote(space, safe='')}/secrets"
        selection = {"labelSelector": f"owner=helm,name={name}"}
        listed = await self.fetch("changes", path, Named, selection, names_only=True)
        if listed is None:
            return
        rows: list[ChangeRow] = []
        link = self.link(space, "Secret", "")
        for secret in listed[0]:
            for service in services:
                row = _row(secret.metadata, name, service, link, self.window)
                rows += [row] if row is not None else []
        self.rows += rows
        query = replayed(path, selection)
        # Not in the titles: a chart's version is no contradiction to the version of an image.
        details = {short(name, 80): f"chart {short(chart, 80)}"} if chart else {}
        cut = listed[1]
        item = Item("changes", query, self.window, link, rows=len(rows), cut=cut, details=details)
        self.items.append(item.holding(rows))


def _release_of(workload: ObservedWorkload) -> tuple[str, str] | None:
    """Namespace and name of the release that made a workload. Of one that Flux made, Flux's own
    history says more."""
    labels, notes = workload.meta.labels or {}, workload.meta.annotations or {}
    if any(f"{kind.group}/name" in labels for kind in KINDS):
        return None
    space, name = notes.get(SPACE, ""), notes.get(NAME, "")
    # A comma or a parenthesis would be more of the selector.
    is_name = len(name) <= 63 and name.replace("-", "").replace(".", "").isalnum()
    return (space, name) if space and is_name and name.isascii() else None


def _row(meta: Meta, name: str, service: str, link: str | None, window: Window) -> ChangeRow | None:
    """The change that a release's secret tells of; None where it is not in the window."""
    labels = meta.labels or {}
    version, status = short(labels.get("version", ""), 20), short(labels.get("status", ""), 40)
    # It is made when a release begins, and written again when its state changes.
    at = meta.created
    if at is None or not meta.name.startswith(PREFIX) or not version:
        return None
    if not window.start <= at <= window.end:
        return None
    title = f"Helm released {short(name, 60)}: revision {version}"
    if status not in DONE:
        text = labels.get("modifiedAt", "")
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            since = ""
        else:
            since = f" since {datetime.fromtimestamp(int(text), UTC):%H:%M} UTC"
        title += f" ({status or 'state unknown'}{since})"
    identity = f"{short(name, 60)} (release {version})"
    return ChangeRow(at, service, "deploy", identity, title, "Helm", link)
