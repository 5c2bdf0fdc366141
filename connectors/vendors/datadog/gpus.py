"""GPU metrics of a training job from Datadog's `dcgm` check (integrations-core, dcgm): by host and
GPU, bounded."""

from __future__ import annotations

from faultline.analysis.metrics import series as gs
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Missing
from faultline.connectors.shared.training.gpu_metrics import (
    DATADOG,
    DATADOG_INCREASES,
    DATADOG_SCALE,
    LEAST_POINTS,
    MOST_GPUS,
    ROWS_PER_WINDOW,
    about_gpus,
)
from faultline.connectors.shared.vendor_text import first_of
from faultline.connectors.vendors.datadog.inquiry import DatadogEvidence, DatadogInquiry
from faultline.connectors.vendors.datadog.metrics import DatadogQuestion, timeseries
from faultline.connectors.vendors.datadog.values import metric_tag

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
    # Stop at the first place that has series: the next ones are less certain.
    for where in tried:
        evidence = await timeseries(inquiry, _questions(scope.job, where), windows, POINTS)
        if evidence.items:
            return evidence
    places = " or ".join(f"{{{where}}}" for where in tried) or "no host, job or pod is known"
    gap = Missing("metrics", "dcgm.*", f"no GPU series: looked for {places}")
    return DatadogEvidence(missing=[gap])


def _scopes(inquiry: DatadogInquiry) -> list[str]:
    """Where the series may be, most certain first: the job's hosts, its number, its pods, the
    alert's host."""
    scope, job = inquiry.request.scope, inquiry.request.scope.training
    scopes: list[str] = []
    if job and job.hosts:
        hosts = [metric_tag("", host).removeprefix(":") for host in job.hosts[:MOST_HOSTS]]
        scopes.append(f"host IN ({','.join(hosts)})")
    if job and job.slurm_job_id:
        scopes.append(metric_tag("hpc_job", job.slurm_job_id))
    if scope.job:
        # Pods are named after the job, with a number behind it.
        scopes.append(f"{metric_tag('pod_name', scope.job)}*")
    host = first_of(inquiry.request.alert.labels, ("host", "hostname"))
    if host:
        scopes.append(metric_tag("host", host))
    return scopes


def _questions(job: str | None, where: str) -> list[DatadogQuestion]:
    questions = []
    by = f"{{{where}}} by {{host,gpu,uuid}}"
    for signal, metrics in DATADOG.items():
        query, formula = f"max:{metrics[0]}{by}", "m"
        if signal in DATADOG_INCREASES:
            query, formula = f"sum:{metrics[0]}{by}.as_count()", "cumsum(m)"
        question = DatadogQuestion(
            signal,
            gs.SIGNALS[signal].unit or None,
            formula,
            {"m": query},
            job,
            DATADOG_SCALE.get(signal, 1.0),
            optional=True,
            most=MOST_GPUS,
        )
        questions.append(question)
    return questions
