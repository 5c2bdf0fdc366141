"""Changes that metrics show by themselves, without any source of changes.

kube-state-metrics has the image of each container, the generation and the replicas of each
workload, and the resource version of each ConfigMap and Secret. What differs between the window's
start and its end is asked for first, and only that is then dated.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import polars as pl

from faultline.analysis.case.alert_place import place_labels
from faultline.analysis.case.tables import CHANGES
from faultline.analysis.changes.versions import tag_of
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import ChangeRow, StateRow, rows_table
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.evidence_items import EvidenceItems
from faultline.connectors.vendors.prometheus.exporter_facts import service_in
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import names_pattern, quoted, spelt, written
from faultline.connectors.vendors.prometheus.series import InstantSeries

LOOKBACK = timedelta(hours=6)
"""No older change is weighed (`analysis/changes/nearby.py`, MAX_CHANGE_AGE)."""
MOST_OBJECTS = 60
"""Of one metric, those that are dated."""
MOST_STEPS = 10
"""What is written more often in the window is written by a machine, as leases are."""
ROLLS_OUT_FOR = timedelta(minutes=10)
"""A Deployment's generation rises when it is written; its pods follow within that time
(`progressDeadlineSeconds`, 600 by default)."""
TOGETHER = timedelta(minutes=2)
COUNTED_S = 600
IMAGES, PODS = "kube_pod_container_info", "kube_pod_info"
SCALERS = "kube_horizontalpodautoscaler_info"
CREATED = "kube_pod_created"
SCHEDULED = "kube_cronjob_status_last_schedule_time"
_SCALING_JOB = re.compile(r"scal|sleep|hibernat|downtime|night|weekend|replica|start|stop|wake")
"""Names of CronJobs that set replicas: one that merely runs at that minute is no reason."""
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_OF_DEPLOYMENT = re.compile(rf"(.+)-[{_SAFE}]{{1,10}}")
"""A ReplicaSet's name: the Deployment's, and the hash of its template."""


@dataclass(frozen=True)
class WorkloadMetrics:
    """The metrics of one kind of workload (kube-state-metrics, docs/metrics/workload)."""

    kind: str
    label: str
    generation: str
    replicas: str = ""


WORKLOADS = (
    WorkloadMetrics(
        "Deployment",
        "deployment",
        "kube_deployment_metadata_generation",
        "kube_deployment_spec_replicas",
    ),
    WorkloadMetrics(
        "StatefulSet",
        "statefulset",
        "kube_statefulset_metadata_generation",
        "kube_statefulset_replicas",
    ),
    WorkloadMetrics("DaemonSet", "daemonset", "kube_daemonset_metadata_generation"),
)
CONFIGURATION = (
    ("ConfigMap", "configmap", "kube_configmap_metadata_resource_version"),
    ("Secret", "secret", "kube_secret_metadata_resource_version"),
)


@dataclass(frozen=True)
class ValueStep:
    """A value that changed at a time."""

    namespace: str
    name: str
    at: datetime
    before: float
    after: float
    query: str


@dataclass(frozen=True)
class Workload:
    """An object that runs pods."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Rollout:
    workload: Workload
    containers: Mapping[str, tuple[str, str]]
    """By container, its image before ("" of a new workload) and after."""
    owner: str
    """Who made the new pods: a ReplicaSet, or the workload itself."""


@dataclass
class WorkloadChanges:
    """The changes of one collection; `place` is the alert's, `services` are those with metrics."""

    api: PrometheusApi
    names: Collection[str]
    place: Mapping[str, str]
    services: Collection[str]
    window: Window
    baseline_start: datetime
    step_s: float
    items: EvidenceItems
    rows: list[ChangeRow] = field(default_factory=list)
    states: list[StateRow] = field(default_factory=list)
    evidence: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _scalers: dict[Workload, str] = field(default_factory=dict)
    _scheduled: list[ValueStep] = field(default_factory=list)

    async def read(self) -> None:
        """All changes of workloads and of their configuration."""
        queries: list[tuple[str, str]] = []
        for metrics in WORKLOADS:
            queries += [(metrics.replicas, metrics.label), (metrics.generation, metrics.label)]
        queries += [(metric, label) for _, label, metric in CONFIGURATION]
        try:
            rollouts, _, steps = await asyncio.gather(
                self._read_rollouts(),
                self._read_scalers(),
                asyncio.gather(*(self.steps(metric, label) for metric, label in queries)),
            )
            self._scheduled = await self.steps(SCHEDULED, "cronjob")
            by_metric = dict(zip((metric for metric, _ in queries), steps, strict=True))
            created = {rollout.workload: await self._first_pod(rollout) for rollout in rollouts}
        except FaultlineError as error:
            self.missing.append(Missing("changes", "kube-state-metrics", str(error)))
            return
        for metrics in WORKLOADS:
            for step in by_metric[metrics.replicas]:
                self._add_scaling(Workload(step.namespace, metrics.kind, step.name), step)
            writes = by_metric[metrics.generation]
            self._add_workloads(metrics.kind, writes, rollouts, created)
        for rollout in rollouts:
            # Without its generation, when its first new pod was made.
            of_workload = [row for row in self.rows if self._is_of(row, rollout.workload)]
            if not any(row.kind == "deploy" for row in of_workload):
                self._add_rollout(rollout, created[rollout.workload])
        for kind, _, metric in CONFIGURATION:
            self._add_configuration(kind, by_metric[metric])

    @property
    def table(self) -> pl.DataFrame:
        """The table `changes`."""
        return rows_table(self.rows, CHANGES.columns)

    # --- Reading ----------------------------------------------------------------------------------

    async def _read_scalers(self) -> None:
        if SCALERS not in self.names:
            return
        space = await self.spelling(SCALERS, "namespace")
        target = "scaletargetref_kind", "scaletargetref_name", "horizontalpodautoscaler"
        where = await self.where(SCALERS)
        text = f"group by ({', '.join((space, *target))}) ({SCALERS}{{{where}}})"
        for series in await self.api.instant(text, self.window.end):
            kind, name, scaler = (series.metric.get(label, "") for label in target)
            workload = Workload(series.metric.get(space, ""), kind, name)
            self._scalers[workload] = f"HorizontalPodAutoscaler {short(scaler, 60)}"

    async def _read_rollouts(self) -> list[Rollout]:
        """The workloads whose pods have another image at the end than at the start."""
        if IMAGES not in self.names or PODS not in self.names:
            return []
        space, pod, container = [
            await self.spelling(IMAGES, label) for label in ("namespace", "pod", "container")
        ]
        # The image of the status is empty until it is pulled.
        image = "image_spec" if "image_spec" in await self.labels_of(IMAGES) else "image"
        where = await self.where(IMAGES)
        by = f"{space}, {pod}"
        owners = "created_by_kind, created_by_name"
        # Grouped first: kube-state-metrics may run twice.
        text = (
            f"group by ({space}, {container}, {image}, {owners}) ("
            f"group by ({by}, {container}, {image}) ({IMAGES}{{{where}}}) * on ({by}) "
            f"group_left ({owners}) group by ({by}, {owners}) ({PODS}{{{where}}}))"
        )
        before, after = await asyncio.gather(
            self.earlier(text), self.api.instant(text, self.window.end)
        )
        # Without a past, nothing is known to be new.
        if not before:
            return []
        old, new = (
            images_by_workload(series, space, container, image) for series in (before, after)
        )
        rollouts = []
        for workload, containers in new.items():
            rollout = rollout_of(workload, old.get(workload, {}), containers)
            if rollout is not None:
                rollouts.append(rollout)
        self.add_item(text, len(rollouts))
        return rollouts[:MOST_OBJECTS]

    async def steps(self, metric: str, label: str) -> list[ValueStep]:
        """When the values of a metric changed, by namespace and object."""
        if not metric or metric not in self.names:
            return []
        space = await self.spelling(metric, "namespace")
        where = await self.where(metric)
        inside = f"{metric}{{{where}}}[{round(self.window.seconds)}s]"
        by = f"{space}, {label}"
        extremes = [f"{edge} by ({by}) ({edge}_over_time({inside}))" for edge in ("max", "min")]
        changed = await self.api.instant(" != ".join(extremes), self.window.end)
        keys = {(series.metric.get(space, ""), series.metric.get(label, "")) for series in changed}
        # Those of services that have metrics come first.
        ordered = sorted(keys, key=lambda key: (self.service_of(key[1]) is None, key))
        selection = ordered[:MOST_OBJECTS]
        if not selection:
            return []
        there = f'{label}=~"{names_pattern({name for _, name in selection})}"'
        text = f"max by ({by}) ({metric}{{{', '.join(filter(None, (where, there)))}}})"
        answer = await self.api.range(text, self.window, self.step_s)
        delay = await self.delay(metric)
        steps = []
        for series in answer.data.result:
            key = series.metric.get(space, ""), series.metric.get(label, "")
            series_steps = steps_of(*key, series.values, delay, text)
            if key in keys and len(series_steps) <= MOST_STEPS:
                steps += series_steps
        self.add_item(text, len(steps))
        return steps

    async def _first_pod(self, rollout: Rollout) -> datetime:
        """When the first of the new pods was made."""
        metric = CREATED if CREATED in self.names else IMAGES
        space, pod = [await self.spelling(metric, label) for label in ("namespace", "pod")]
        # An owner's name cannot hold a quote, yet a label of a foreign exporter may.
        there = f'{pod}=~"{names_pattern([rollout.owner])}-.+"'
        where = f'{space}="{quoted(rollout.workload.namespace)}", {there}'
        if metric == CREATED:
            # Pods of a StatefulSet keep their names: the latest is the one that was replaced.
            edge = "min" if rollout.workload.kind == "Deployment" else "max"
            inside = f"{CREATED}{{{where}}}[{round(self.window.seconds)}s]"
            series = await self.api.instant(f"{edge}({edge}_over_time({inside}))", self.window.end)
            for value in series:
                return datetime.fromtimestamp(value.number, UTC)
        images = names_pattern({after for _, after in rollout.containers.values()})
        label = "image_spec" if "image_spec" in await self.labels_of(IMAGES) else "image"
        text = f'group({IMAGES}{{{where}, {label}=~"{images}"}})'
        answer = await self.api.range(text, self.window, self.step_s)
        times = [at for images_seen in answer.data.result for at, _ in images_seen.values]
        first = min(times, default=self.window.end.timestamp())
        return datetime.fromtimestamp(first, UTC) - await self.delay(IMAGES)

    async def earlier(self, query: str) -> Sequence[InstantSeries]:
        """What a query brings at the window's start, else where the baseline starts: the data may
        not go further back."""
        for start in (self.window.start, self.baseline_start):
            series = await self.api.instant(query, start)
            if series:
                return series
        return ()

    # --- What a metric carries --------------------------------------------------------------------

    async def labels_of(self, metric: str) -> Mapping[str, str]:
        """The labels of a metric."""
        if metric not in self._labels:
            self._labels[metric] = spelt(await self.api.labels_of([metric], [self.window]))
        return self._labels[metric]

    async def spelling(self, metric: str, label: str) -> str:
        """The label under which the exporter's own value is: Prometheus renames it where the target
        has one of that name (`honor_labels`)."""
        labels = await self.labels_of(metric)
        renamed = f"exported_{label}"
        return renamed if renamed in labels else label

    async def where(self, metric: str) -> str:
        """Matchers for the alert's place, in the labels of this metric."""
        labels = place_labels(self.place, await self.labels_of(metric))
        return ", ".join(f'{written(name)}="{quoted(value)}"' for name, value in labels.items())

    async def delay(self, metric: str) -> timedelta:
        """Half of the time between two scrapes: a change is seen that much later on average."""
        text = f"max(count_over_time({metric}[{COUNTED_S}s]))"
        for series in await self.api.instant(text, self.window.end):
            return timedelta(seconds=COUNTED_S / max(1.0, series.number) / 2)
        return timedelta(0)

    # --- Rows -------------------------------------------------------------------------------------

    def service_of(self, name: str, containers: Iterable[str] = ()) -> str | None:
        """The service that an object belongs to; None where its name is no service's."""
        for candidate in (name, *containers):
            if candidate in self.services:
                return candidate
        return service_in(name, self.services)

    def _add_rollout(self, rollout: Rollout, at: datetime) -> None:
        if not self.window.start <= at <= self.window.end:
            return
        workload = rollout.workload
        parts = []
        for before, after in rollout.containers.values():
            parts.append(f"image {_last(before)} -> {_last(after)}" if before else _last(after))
        first_before, first_after = next(iter(rollout.containers.values()))
        named = self.service_of(workload.name, rollout.containers)
        row = ChangeRow(
            at,
            named or short(workload.name, 120),
            "deploy",
            short(f"{workload.name} {tag_of(first_after)}", 200),
            short(f"Rollout of {workload.name}: {', '.join(parts)} ({workload})", 400),
            before=tag_of(first_before) if first_before else None,
            after=tag_of(first_after),
        )
        self.rows.append(row)

    def _add_workloads(
        self,
        kind: str,
        writes: Iterable[ValueStep],
        rollouts: Sequence[Rollout],
        created: Mapping[Workload, datetime],
    ) -> None:
        by_workload = {rollout.workload: rollout for rollout in rollouts}
        for step in writes:
            workload = Workload(step.namespace, kind, step.name)
            if any(self._is_of(row, workload, step.at) for row in self.rows):
                continue
            rollout = by_workload.get(workload)
            if rollout is not None:
                follows = created[workload] - step.at
                # Pods of a StatefulSet are replaced one after the other.
                is_late = kind == "Deployment" and follows > ROLLS_OUT_FOR
                if follows >= -TOGETHER and not is_late:
                    self._add_rollout(rollout, min(created[workload], step.at))
                    continue
            self._add_write(workload, step, same_images=rollout is None)

    def _add_configuration(self, kind: str, steps: Iterable[ValueStep]) -> None:
        for step in steps:
            service = self.service_of(step.name)
            if service is None:
                continue
            # A release or a restart of the pods with it is one change; what was written says more
            # than that the settings changed.
            beside = [row for row in self.rows if row.service == service]
            beside = [row for row in beside if abs(row.time - step.at) <= TOGETHER]
            if any(row.kind == "deploy" for row in beside):
                continue
            self.rows = [row for row in self.rows if row not in beside or row.kind != "config"]
            where = f"{step.namespace}/{short(step.name, 100)}"
            identity = f"{kind.lower()} {short(step.name, 100)} {step.at:%H:%M:%S}"
            title = f"{kind} {where} written"
            self.rows.append(ChangeRow(step.at, service, "config", identity, title))

    def _add_scaling(self, workload: Workload, step: ValueStep) -> None:
        service = self.service_of(workload.name) or short(workload.name, 120)
        scaler = self._scalers.get(workload)
        schedules = {
            run.name
            for run in self._scheduled
            if run.namespace == workload.namespace
            and _SCALING_JOB.search(run.name)
            and abs(run.after - step.at.timestamp()) <= TOGETHER.total_seconds()
        }
        schedule = f"CronJob {short(schedules.pop(), 60)}" if len(schedules) == 1 else None
        title = f"Replicas of {workload} set from {step.before:g} to {step.after:g}"
        row = ChangeRow(
            step.at,
            service,
            "scale",
            f"{short(workload.name, 100)} scale {step.at:%H:%M:%S}",
            title,
            "autoscaler" if scaler else schedule,
            before=f"{step.before:g}",
            after=f"{step.after:g}",
            restored_by=scaler or schedule,
        )
        self.rows.append(row)
        self.states = [state for state in self.states if state.name != workload.name]
        if step.after == 0:
            fact = StateRow(
                workload.kind, short(workload.name, 120), "scaled_to_zero",
                short(workload.namespace, 100), service, field="spec.replicas", value="0",
                since=step.at,
                query=step.query,
            )  # fmt: skip
            self.states.append(fact)

    def _add_write(self, workload: Workload, step: ValueStep, *, same_images: bool) -> None:
        service = self.service_of(workload.name)
        if service is None:
            return
        title = f"Settings of {workload} changed"
        title += ", its images as before" if same_images else ""
        title += f" (generation {step.before:g} -> {step.after:g})"
        identity = f"{short(workload.name, 100)} generation {step.after:g}"
        self.rows.append(ChangeRow(step.at, service, "config", identity, title))

    def _is_of(self, row: ChangeRow, workload: Workload, at: datetime | None = None) -> bool:
        """Whether a row is about this workload, and of that time."""
        if not re.search(rf"{re.escape(str(workload))}(?=[ )])", row.title):
            return False
        within = ROLLS_OUT_FOR if row.kind == "deploy" else TOGETHER
        return at is None or abs(row.time - at) <= within

    def add_item(self, query: str, rows: int) -> None:
        """A query that was asked, and how many changes it showed."""
        link = self.items.link(query)
        self.evidence.append(Item("changes", query, self.window, link, rows=rows))


def images_by_workload(
    series: Iterable[InstantSeries], space: str, container: str, image: str
) -> dict[Workload, dict[str, dict[str, str]]]:
    """By workload and container, the images with the owner of a pod that runs them."""
    workloads: dict[Workload, dict[str, dict[str, str]]] = {}
    for labels in (instant.metric for instant in series):
        owner, kind = labels.get("created_by_name", ""), labels.get("created_by_kind", "")
        name = owner
        if kind == "ReplicaSet":
            match = _OF_DEPLOYMENT.fullmatch(owner)
            kind, name = "Deployment", match[1] if match else owner
        # A job makes new pods each time; a pod without an owner is rolled out by nobody.
        if kind not in ("Deployment", "StatefulSet", "DaemonSet") or not labels.get(image):
            continue
        containers = workloads.setdefault(Workload(labels.get(space, ""), kind, name), {})
        containers.setdefault(labels.get(container, ""), {})[labels[image]] = owner
    return workloads


def rollout_of(
    workload: Workload,
    old: Mapping[str, Mapping[str, str]],
    new: Mapping[str, Mapping[str, str]],
) -> Rollout | None:
    """What differs; None where nothing does."""
    changed: dict[str, tuple[str, str]] = {}
    owner = ""
    # The container that is called like its workload says most, a sidecar least.
    for container in sorted(new, key=lambda name: (name != workload.name, name)):
        images = [image for image in new[container] if image not in old.get(container, {})]
        # A container that is new in an old workload is a sidecar that somebody injects.
        if not images or (old and container not in old):
            continue
        before = next(iter(old.get(container, ())), "")
        changed[container] = before, images[0]
        owner = owner or new[container][images[0]]
    return Rollout(workload, changed, owner) if changed else None


def steps_of(
    namespace: str, name: str, values: Sequence[tuple[float, str]], delay: timedelta, query: str
) -> list[ValueStep]:
    """Each change of a series' value, that much earlier than it shows."""
    steps = []
    numbers = [(at, float(text)) for at, text in values]
    for (_, before), (at, after) in pairwise(numbers):
        if before != after:
            moment = datetime.fromtimestamp(at, UTC) - delay
            steps.append(ValueStep(namespace, name, moment, before, after, query))
    return steps


def _last(image: str) -> str:
    """An image without its registry and path."""
    return short(image.rpartition("/")[2], 120)
