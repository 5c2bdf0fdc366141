"""Jobs and CronJobs of a cluster, as kube-state-metrics shows them (docs/metrics/workload): which
there are, and which of them started in the window."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from faultline.analysis.errors import FaultlineError
from faultline.connectors.shared.contract.base import Missing
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.prometheus.promql import names_pattern
from faultline.connectors.vendors.prometheus.workload_changes import MOST_OBJECTS, WorkloadChanges

STARTED, ACTIVE = "kube_job_status_start_time", "kube_job_status_active"
OWNERS = "kube_job_owner"
_OF_CRONJOB = re.compile(r"(.+)-\d{8,10}")
"""A CronJob's controller names a job by the minutes since 1970 at which it is due
(kubernetes/pkg/controller/cronjob, getJobName)."""
MOST_STARTS = 2
"""What starts more often in the window starts at any time, as health checks do."""


@dataclass(frozen=True)
class BatchJob:
    """A CronJob, or a Job of nobody's."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def of(cls, namespace: str, run: str, cronjob: str) -> BatchJob:
        """The job behind a run, by the CronJob that is known to own it, or by its name."""
        match = _OF_CRONJOB.fullmatch(run)
        cronjob = cronjob or (match[1] if match else "")
        return cls(namespace, "CronJob" if cronjob else "Job", cronjob or run)

    def change(self, at: datetime, run: str) -> ChangeRow:
        """A run of it began."""
        title = f"{self.kind} {short(self.namespace, 60)}/{short(self.name, 80)} started"
        if run != self.name:
            title += f" {short(run, 100)}"
        return ChangeRow(at, short(self.name, 120), "job", short(run, 120), title)


async def read_jobs(changes: WorkloadChanges) -> list[BatchJob]:
    """The jobs of the window; those that seldom start are added to the changes."""
    metric = STARTED if STARTED in changes.names else ACTIVE
    if metric not in changes.names:
        return []
    try:
        space = await changes.spelling(metric, "namespace")
        label = await changes.spelling(metric, "job_name")
        starts = await job_starts(changes, metric, space, label)
        owners = await job_owners(changes)
    except FaultlineError as error:
        changes.missing.append(Missing("changes", metric, str(error)))
        return []
    by_job: dict[BatchJob, list[tuple[datetime, str]]] = defaultdict(list)
    for (namespace, run), at in starts.items():
        by_job[BatchJob.of(namespace, run, owners.get((namespace, run), ""))].append((at, run))
    rows = []
    for job, runs in by_job.items():
        recent = [(at, run) for at, run in runs if at > changes.window.start]
        if len(recent) <= MOST_STARTS:
            rows += [job.change(at, run) for at, run in recent]
    latest = sorted(rows, key=lambda row: (row.time, row.id))[-MOST_OBJECTS:]
    changes.rows += latest
    return sorted(by_job, key=lambda job: (job.namespace, job.name))


async def job_starts(
    changes: WorkloadChanges, metric: str, space: str, label: str
) -> Mapping[tuple[str, str], datetime]:
    """By namespace and name of a run, when it started."""
    where = await changes.where(metric)
    by = f"{space}, {label}"
    window = changes.window
    # Finished jobs are deleted: what was there at any time counts.
    inside = f"{metric}{{{where}}}[{round(window.seconds)}s]"
    text = f"max by ({by}) (max_over_time({inside})) > 0"
    series = await changes.api.instant(text, window.end)
    changes.add_item(text, len(series))
    if metric == STARTED:
        return {_run(job.metric, space, label): _time(job.number) for job in series}
    names = sorted({job.metric.get(label, "") for job in series})[:MOST_OBJECTS]
    there = ", ".join(filter(None, (where, f'{label}=~"{names_pattern(names)}"')))
    text = f"max by ({by}) ({metric}{{{there}}}) > 0"
    answer = await changes.api.range(text, window, changes.step_s)
    delay = await changes.delay(metric)
    starts = {}
    for active in answer.data.result:
        starts[_run(active.metric, space, label)] = _time(active.values[0][0]) - delay
    return starts


def _run(labels: Mapping[str, str], space: str, label: str) -> tuple[str, str]:
    return labels.get(space, ""), labels.get(label, "")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def job_owners(changes: WorkloadChanges) -> Mapping[tuple[str, str], str]:
    """By namespace and name of a run, the CronJob that made it."""
    if OWNERS not in changes.names:
        return {}
    space = await changes.spelling(OWNERS, "namespace")
    label = await changes.spelling(OWNERS, "job_name")
    where = ", ".join(filter(None, (await changes.where(OWNERS), 'owner_kind="CronJob"')))
    inside = f"{OWNERS}{{{where}}}[{round(changes.window.seconds)}s]"
    text = f"group by ({space}, {label}, owner_name) (last_over_time({inside}))"
    owners = {}
    for series in await changes.api.instant(text, changes.window.end):
        owners[_run(series.metric, space, label)] = series.metric.get("owner_name", "")
    return owners


def jobs_by_name(jobs: Iterable[BatchJob]) -> Mapping[str, BatchJob]:
    """The jobs by their names in small letters; of one name in two namespaces the first."""
    by_name: dict[str, BatchJob] = {}
    for job in jobs:
        by_name.setdefault(job.name.lower(), job)
    return by_name
