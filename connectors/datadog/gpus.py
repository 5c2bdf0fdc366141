"""GPU metrics of a training job from Datadog's `dcgm` check (integrations-core, dcgm): by host and
GPU, bounded."""

from __future__ import annotations

from analysis.metrics import gpu_signals as gs
from analysis.vocabulary import Window
from connectors.base import Missing
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from connectors.datadog.metrics import DatadogQuestion, timeseries
from connectors.datadog.values import metric_tag
from connectors.gpu_metrics import DATADOG, DATADOG_INCREASES, DATADOG_SCALE
from connectors.prometheus.gpu_outliers import MOST_GPUS
from connectors.prometheus.gpus import LEAST_POINTS, ROWS_PER_WINDOW, about_gpus

MOST_HOSTS = 64
"""Hosts that are named in one query."""
POINTS = max(LEAST_POINTS, ROWS_PER_WINDOW // MOST_GPUS)
"""Points of each window."""


async def gpus(inquiry: DatadogInquiry) -> DatadogEvidence:
    """The GPU signals of the job, of the alert's host, or nothing where the alert is about
    neither."""
    scope = inquiry.request.scope
    if scope.job is None and not about_gpus(inquiry.request.alert):
        return DatadogEvidence()
    windows: tuple[Window, ...] = (*inquiry.baselines, inquiry.incident)
    tried = _scopes(inquiry)
    for where in tried:
        found = await timeseries(inquiry, _asked(scope.job, where), windows, POINTS)
        if found.items:
            return found
    said = " or ".join(f"{{{where}}}" for where in tried) or "no host, job or pod is known"
    return DatadogEvidence(
        missing=[Missing("metrics", "dcgm.*", f"no GPU series: looked for {said}")]
    )


def _scopes(inquiry: DatadogInquiry) -> list[str]:
    """Where the series may be, most certain first: the job's hosts, its number, its pods, the
    alert's host."""
    scope, job = inquiry.request.scope, inquiry.request.scope.training
    tried: list[str] = []
    if job and job.hosts:
        hosts = ",".join(metric_tag("", h).removeprefix(":") for h in job.hosts[:MOST_HOSTS])
        tried.append(f"host IN ({hosts})")
    if job and job.slurm_job_id:
        tried.append(metric_tag("hpc_job", job.slurm_job_id))
    if scope.job:
        tried.append(f"{metric_tag('pod_name', scope.job)}*")
    host = inquiry.request.alert.labels.get("host") or inquiry.request.alert.labels.get("hostname")
    return [*tried, *([metric_tag("host", host)] if host else [])]


def _asked(job: str | None, where: str) -> list[DatadogQuestion]:
    asked = []
    for signal, metrics in DATADOG.items():
        by = f"{{{where}}} by {{host,gpu,uuid}}"
        increase = signal in DATADOG_INCREASES
        query = f"sum:{metrics[0]}{by}.as_count()" if increase else f"max:{metrics[0]}{by}"
        formula = "cumsum(m)" if increase else "m"
        unit, scale = gs.SIGNALS[signal].unit or None, DATADOG_SCALE.get(signal, 1.0)
        asked.append(
            DatadogQuestion(
                signal, unit, formula, {"m": query}, job, scale, optional=True, most=MOST_GPUS
            )
        )
    return asked
