"""Settings of training jobs: how an alert names its job, where the job's files lie, how it may be
asked for more."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from faultline.connectors.shared.settings.settings_types import Location, Names, Section, Url
from faultline.connectors.shared.settings.shared_settings import JobLocations


class TrainingSettings(Section):
    """Which labels of an alert name its training job: docs/training-jobs.md. The first that is set
    wins."""

    job_labels: Names = ("job_name", "training_job", "slurm_job_name")
    """The job's name, as in `jobs`."""
    run_labels: Names = ("run", "run_id", "run_name", "wandb_run")
    """The run, for `{run}` in locations."""
    slurm_labels: Names = ("slurm_job_id", "slurm_jobid", "hpc_job")
    """Slurm's number of the job, for `{slurm_job_id}`."""
    pod_labels: Names = ("exported_pod", "pod", "pod_name", "kube_pod_name")
    """The pod, for `{pod}`."""
    node_labels: Names = ("Hostname", "hostname", "node", "exported_node", "host", "instance")
    """The machine, for `{node}`. A port is cut off."""
    rank_labels: Names = ("rank", "global_rank")
    """The rank the alert is about."""
    gpu_labels: Names = ("gpu", "gpu_id", "gpu_index")
    """The GPU's number on its machine."""


class JobSettings(JobLocations):
    """One training job, by the name that alerts use: docs/training-jobs.md. For captures:
    docs/capture.md."""

    hosts: Names = ()
    """Its hosts in the order of their ranks, as `name`, or `name:port` where the Dynolog daemon
    does not listen on 1778."""
    ranks_per_host: int | None = Field(default=None, ge=1)
    """Processes on each host. A capture reports where fewer recorded. Unset: any number."""
    ranks: int | None = Field(default=None, ge=1)
    """Ranks of the whole job. Missing ones are reported. Unset: `hosts` times `ranks_per_host`."""
    allow_capture: bool = False
    """Whether its machines may be asked to record at all."""
    capture_on_alert: bool = False
    """Whether an alert about the job may start a capture, if no trace of the incident was found."""
    slurm_job_id: int = Field(default=0, ge=0)
    """Slurm's number of the job, by which a daemon finds its processes. 0 outside Slurm."""
    debug_server: Url | None = None
    """Rank 0's page of `torch.distributed.debug`, for example `http://node-a:25999`. Asked before
    Dynolog."""
    debug_hosts: Names = ()
    """Hosts whose debug servers may be contacted, besides `hosts` and that of `debug_server`."""
    debug_ports: str = "32768-60999"
    """Ports of the ranks' debug servers, as `first-last` or one number. The default is where Linux
    puts a server that asks for any port."""
    job_directory: str | None = None
    """A directory that exists on every host of the job, into which its processes write their
    traces."""
    trace_location: Location | None = None
    """The same storage as this machine sees it: a directory or `s3://bucket/prefix`. Unset:
    `job_directory`."""
    cooldown_minutes: float = Field(default=30, ge=0)
    """Least time between the starts of two captures."""
    captures_per_day: int = Field(default=6, ge=0)
    """Most captures in 24 hours."""
    longest_seconds: float = Field(default=10, gt=0, le=600)
    """Longest recording that may be asked for."""
    most_iterations: int = Field(default=10, ge=1, le=1000)
    """Most iterations that may be asked for."""
    wait_seconds: float = Field(default=300, gt=0, le=3600)
    """How long to wait for the files after the recording should have ended."""

    @field_validator("debug_ports")
    @classmethod
    def _is_a_range(cls, value: str) -> str:
        if not _ports(value):
            raise ValueError("must be a port, or first-last, within 1-65535")
        return value

    @property
    def ports_of_debug_servers(self) -> range:
        """`debug_ports`, as numbers."""
        return _ports(self.debug_ports)

    @field_validator("job_directory")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or not value.isprintable()):
            raise ValueError("must be an absolute path")
        return value


def _ports(text: str) -> range:
    """The ports, or an empty range for what names none."""
    # Otherwise `\d` matches digits of every script.
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    if match is None:
        return range(0)
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if 1 <= first <= last <= 65535 else range(0)
