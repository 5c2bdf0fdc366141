"""Which training job an alert is about: from its labels, by the settings, to hosts, ranks and
places of files.

What an alert says is hostile: a value that becomes part of a path is a plain name, or is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from faultline.analysis.vocabulary import Alert, JobIdentity, same_host
from faultline.bot.settings import Settings
from faultline.bot.settings.investigation import JobSettings

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What a training job's name, run or pod may look like: it becomes part of paths and queries."""
_NODE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})(?::\d{1,5})?")
_NUMBER = re.compile(r"\d{1,6}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MOST_NAME = 256


def identify_job(alert: Alert, settings: Settings, services_job: str | None) -> JobIdentity | None:
    """The job the alert is about, or None. `services_job` is the catalogue's, for alerts that name
    a service."""
    job_labels = _job_labels(alert.labels, settings)
    name = _name(alert, job_labels, settings, services_job)
    if name is None:
        return None
    table = settings.jobs.get(name, JobSettings())
    slurm = job_labels.get("slurm_job_id") or (
        str(table.slurm_job_id) if table.slurm_job_id else None
    )
    hosts = tuple(plain_host(host) for host in table.hosts)
    everybody = len(hosts) * table.ranks_per_host if hosts and table.ranks_per_host else None
    job = JobIdentity(
        name=name,
        run=job_labels.get("run"),
        slurm_job_id=slurm,
        pod=job_labels.get("pod"),
        node=job_labels.get("node"),
        gpu=_number(job_labels.get("gpu")),
        rank=_number(job_labels.get("rank")),
        hosts=hosts,
        ranks_per_host=table.ranks_per_host,
        ranks=table.ranks or everybody,
    )
    # A rank that is not named follows from the machine and its GPU.
    if job.rank is not None or job.node is None or job.gpu is None:
        with_rank = job
    else:
        with_rank = job.model_copy(update={"rank": job.rank_of(job.node, job.gpu)})
    return _with_places(with_rank, table)


def plain_host(host: str) -> str:
    """The name of `name`, `name:port`, `[v6 address]:port` or a bare v6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _job_labels(labels: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What the labels say, by placeholder; a value that is no plain name is left out."""
    names = settings.training
    node = _first(labels, names.node_labels)
    machine = _NODE.fullmatch(node)
    # NVIDIA's exporter calls a device "nvidia0".
    gpu = _first(labels, names.gpu_labels).removeprefix("nvidia")
    job_labels = {
        "run": _safe(_first(labels, names.run_labels)),
        "slurm_job_id": _safe(_first(labels, names.slurm_labels)),
        "pod": _safe(_first(labels, names.pod_labels)),
        "node": machine[1] if machine else "",
        "rank": _first(labels, names.rank_labels),
        "gpu": gpu,
    }
    return {key: value for key, value in job_labels.items() if value}


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name].strip() for name in names if labels.get(name, "").strip()), "")


def _safe(value: str) -> str:
    return value if SAFE_NAME.fullmatch(value) else ""


def _number(value: str | None) -> int | None:
    # `\d` also matches digits of other scripts.
    return int(value) if value and _NUMBER.fullmatch(value) and value.isascii() else None


def _name(
    alert: Alert, job_labels: Mapping[str, str], settings: Settings, services_job: str | None
) -> str | None:
    """By name first, then by what the job runs as, then by the machine where only one job runs
    there."""
    jobs = settings.jobs
    name = _first(alert.labels, settings.training.job_labels)
    for word in (name, alert.service or ""):
        job_name = _named(word, jobs)
        if job_name is not None:
            return job_name
    if _safe(name):
        return name
    for key in ("pod", "slurm_job_id", "node"):
        value = job_labels.get(key)
        if value:
            running = [job_name for job_name, job in jobs.items() if _runs_as(job, key, value)]
            # With several candidates nobody knows which one is meant.
            if len(running) == 1:
                return running[0]
    return _safe(services_job or "") or None


def _runs_as(job: JobSettings, key: str, value: str) -> bool:
    """Whether the job may have this label, by the settings."""
    if key == "pod":
        return _like(value, job.pods)
    if key == "slurm_job_id":
        return value == str(job.slurm_job_id)
    return any(same_host(plain_host(host), value) for host in job.hosts)


def _named(word: str, jobs: Mapping[str, JobSettings]) -> str | None:
    if not word:
        return None
    exact = [name for name in jobs if name.casefold() == word.casefold()]
    alike = [name for name, job in jobs.items() if _like(word, job.aliases)]
    return next(iter((*exact, *alike)), None)


def _like(word: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches; only `*` is special."""
    plain = word.casefold()[:_MOST_NAME]
    return any(
        # fnmatch also knows `?` and `[...]`.
        fnmatchcase(plain, pattern.casefold().replace("[", "[[]").replace("?", "[?]"))
        for pattern in patterns
    )


def _with_places(job: JobIdentity, table: JobSettings) -> JobIdentity:
    filled, unknown = {}, []
    values = {
        "job": job.name,
        "run": job.run,
        "slurm_job_id": job.slurm_job_id,
        "pod": job.pod,
        "node": job.node,
    }
    for kind, locations in (("traces", table.traces), ("dumps", table.dumps), ("logs", table.logs)):
        places = []
        for location in locations:
            missing = [key for key in _PLACEHOLDER.findall(location) if not values.get(key)]
            if missing:
                unknown.append(
                    f"{location}: the alert does not say {' and '.join(dict.fromkeys(missing))}"
                )
            else:
                places.append(_PLACEHOLDER.sub(lambda match: values[match[1]] or "", location))
        filled[kind] = tuple(places)
    return job.model_copy(update={**filled, "unknown": tuple(unknown)})
