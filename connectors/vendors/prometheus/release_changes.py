"""Releases that metrics show besides the objects of a cluster: versions in labels, Helm's secrets,
Argo CD's syncs, and processes that were all started again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from faultline.analysis.errors import FaultlineError
from faultline.connectors.shared.contract.base import Missing
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.promql import (
    SERVICE_LABELS,
    names_pattern,
    service_named,
)
from faultline.connectors.vendors.prometheus.series import InstantSeries
from faultline.connectors.vendors.prometheus.workload_changes import (
    IMAGES,
    MOST_OBJECTS,
    ROLLS_OUT_FOR,
    WorkloadChanges,
)

MOST_METRICS = 20
INFO = re.compile(r"(?:.+_)?build_info|target_info|app(?:lication)?_info|up")
"""Metrics whose labels say what runs: client libraries' `*_build_info` (prometheus/common,
version.NewCollector), OpenTelemetry's `target_info`, and labels that scraping adds to targets."""
VERSION_LABELS = (
    "version",
    "service_version",
    "app_version",
    "app_kubernetes_io_version",
    "image_tag",
    "git_commit",
    "commit",
    "revision",
)
NO_VERSION = frozenset({"", "unknown", "(devel)", "devel", "none", "dev", "latest"})
NAMED_RELEASES = {
    "helm_chart_info": ("release", "appVersion"),
    "gotk_resource_info": ("name", "revision"),
    "flux_resource_info": ("name", "revision"),
}
"""Metrics of sstarcher/helm-exporter and of Flux (fluxcd/flux2-monitoring-example, Flux Operator):
whose release it is, and what was released."""
SYNCS, APPLICATIONS = "argocd_app_sync_total", "argocd_app_info"
"""Argo CD, "Metrics"."""
SECRETS = "kube_secret_created"
HELM_SECRET = re.compile(r"sh\.helm\.release\.v1\.(.{1,53})\.v(\d{1,6})")
"""How Helm names the secret of a revision (helm.sh/helm/v3, storage/driver)."""
STARTS = "process_start_time_seconds"
BEGAN_WITHIN_S = 600.0


@dataclass(frozen=True)
class _Versions:
    """What a service ran at one time."""

    by_service: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, series: Iterable[InstantSeries], subject: str, version: str) -> _Versions:
        versions: dict[str, dict[str, None]] = defaultdict(dict)
        for labels in (instant.metric for instant in series):
            name, value = labels.get(subject, ""), labels.get(version, "")
            if name and value.lower() not in NO_VERSION:
                versions[name][value] = None
        return cls({name: tuple(values) for name, values in versions.items()})


async def read_releases(changes: WorkloadChanges, service_labels: Iterable[str]) -> None:
    """Add what these metrics show to the changes of a collection."""
    try:
        await read_helm(changes)
        await read_argo(changes)
        for metric, (subject, version) in NAMED_RELEASES.items():
            if metric in changes.names:
                await _read_versions(changes, metric, subject, version)
        infos = sorted(name for name in changes.names if INFO.fullmatch(name))
        for metric in infos[:MOST_METRICS]:
            labels = await changes.labels_of(metric)
            usual = (*service_labels, *SERVICE_LABELS)
            subject = next((label for label in usual if label in labels), "")
            version = next((label for label in VERSION_LABELS if label in labels), "")
            if subject and version:
                await _read_versions(changes, metric, subject, version)
        if STARTS in changes.names and IMAGES not in changes.names:
            await read_starts(changes, service_labels)
    except FaultlineError as error:
        changes.missing.append(Missing("changes", "versions in labels", str(error)))


async def _read_versions(changes: WorkloadChanges, metric: str, subject: str, version: str) -> None:
    """Services with a version at the end that they did not run at the start."""
    where = await changes.where(metric)
    text = f"group by ({subject}, {version}) ({metric}{{{where}}})"
    window = changes.window
    old = _Versions.of(await changes.earlier(text), subject, version)
    new = _Versions.of(await changes.api.instant(text, window.end), subject, version)
    count = 0
    for name, versions in list(new.by_service.items()):
        before = old.by_service.get(name, ())
        added = [value for value in versions if value not in before]
        service = changes.service_of(service_named(subject, name))
        if not before or not added or service is None or count >= MOST_OBJECTS:
            continue
        there = f'{subject}=~"{names_pattern([name])}", {version}=~"{names_pattern(added)}"'
        inside = ", ".join(filter(None, (where, there)))
        query = f"group by ({version}) ({metric}{{{inside}}})"
        answer = await changes.api.range(query, window, changes.step_s)
        times = [at for series in answer.data.result for at, _ in series.values[:1]]
        if not times:
            continue
        at = datetime.fromtimestamp(min(times), UTC) - await changes.delay(metric)
        count += 1
        title = f"{short(name, 80)} runs {short(added[0], 60)}, before {short(before[0], 60)}"
        identity = short(f"{name} {added[0]}", 200)
        row = ChangeRow(at, service, "deploy", identity, f"{title} ({metric})")
        row = row._replace(before=short(before[0], 60), after=short(added[0], 60))
        _add(changes, row)
    changes.add_item(text, count)


async def read_helm(changes: WorkloadChanges) -> None:
    """Releases, by the secrets in which Helm keeps them."""
    if SECRETS not in changes.names:
        return
    where = await changes.where(SECRETS)
    inside = ", ".join(filter(None, (where, 'secret=~"sh[.]helm[.]release[.]v1[.].+"')))
    text = f"{SECRETS}{{{inside}}} > {changes.window.start.timestamp():.0f}"
    count = 0
    for series in await changes.api.instant(text, changes.window.end):
        release = HELM_SECRET.fullmatch(series.metric.get("secret", ""))
        service = changes.service_of(release[1]) if release else None
        if release is None or service is None:
            continue
        at, number = datetime.fromtimestamp(series.number, UTC), int(release[2])
        title = f"Helm released {release[1]}: revision {number}"
        identity = f"{release[1]} (release {number})"
        row = ChangeRow(at, service, "deploy", identity, title, "Helm")
        if number > 1:
            row = row._replace(before=f"revision {number - 1}", after=f"revision {number}")
        _add(changes, row)
        count += 1
    changes.add_item(text, count)


async def read_argo(changes: WorkloadChanges) -> None:
    """Syncs, and which services Argo CD syncs by itself."""
    for step in await changes.steps(SYNCS, "name"):
        service = changes.service_of(step.name)
        if service is not None and step.after > step.before:
            title = f"Argo CD synced {short(step.name, 80)}"
            identity = f"{short(step.name, 80)} sync {step.at:%H:%M:%S}"
            _add(changes, ChangeRow(step.at, service, "deploy", identity, title, "Argo CD"))
    if APPLICATIONS not in changes.names:
        return
    text = f'group by (name) ({APPLICATIONS}{{autosync_enabled="true"}})'
    synced = set()
    for series in await changes.api.instant(text, changes.window.end):
        synced.add(changes.service_of(series.metric.get("name", "")))
    rows = []
    for row in changes.rows:
        by = row.restored_by or ("Argo CD" if row.service in synced else None)
        rows.append(row._replace(restored_by=by))
    changes.rows = rows


async def read_starts(changes: WorkloadChanges, service_labels: Iterable[str]) -> None:
    """Services of which all processes were started again within minutes: without a cluster, that
    is how a deploy shows. Processes that began several times were not deployed."""
    labels = await changes.labels_of(STARTS)
    usual = (*service_labels, *SERVICE_LABELS)
    subject = next((label for label in usual if label in labels), "")
    if not subject:
        return
    where = await changes.where(STARTS)
    by = f"{subject}, instance"
    text = f"max by ({by}) ({STARTS}{{{where}}})"
    window = changes.window
    inside = f"{STARTS}{{{where}}}[{round(window.seconds)}s]"
    again = f"max by ({subject}) (changes({inside})) > 1"
    before = await changes.earlier(text)
    restless = await changes.api.instant(again, window.end)
    skipped = {series.metric.get(subject, "") for series in restless}
    ran_before = {series.metric.get(subject, "") for series in before}
    starts: dict[str, list[float]] = defaultdict(list)
    for series in await changes.api.instant(text, window.end):
        starts[series.metric.get(subject, "")].append(series.number)
    count = 0
    for name, times in sorted(starts.items()):
        service = changes.service_of(name)
        is_new = min(times) > window.start.timestamp() and max(times) - min(times) < BEGAN_WITHIN_S
        # A single process that starts again has crashed as often.
        if (
            service is None
            or name in skipped
            or name not in ran_before
            or len(times) < 2
            or not is_new
        ):
            continue
        at = datetime.fromtimestamp(min(times), UTC)
        title = f"All {len(times)} processes of {short(name, 80)} were started again"
        identity = f"{short(name, 80)} start {at:%H:%M:%S}"
        _add(changes, ChangeRow(at, service, "restart", identity, title))
        count += 1
    changes.add_item(text, count)


def _add(changes: WorkloadChanges, row: ChangeRow) -> None:
    """Add a deploy or a restart, unless it is known from another metric as a deploy; then only what
    that lacks."""
    for number, other in enumerate(changes.rows):
        same = (other.service, other.kind) == (row.service, "deploy")
        if same and abs(other.time - row.time) <= ROLLS_OUT_FOR + timedelta(minutes=1):
            changes.rows[number] = other._replace(
                author=other.author or row.author,
                before=other.before or row.before,
                after=other.after or row.after,
            )
            return
    if changes.window.start <= row.time <= changes.window.end:
        changes.rows.append(row)
