"""The machines of a training job: which took part, and which an answer blames."""

from __future__ import annotations

import io
import ipaddress
import json
from collections.abc import Iterable

import polars as pl

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import GpuDetails, JobDetails, StateFactDetails
from faultline.analysis.kinds.state_faults import OF_NODES
from faultline.analysis.kinds.training_causes import GPU_CAUSES
from faultline.analysis.training.repeated_hosts import BlamedPart
from faultline.analysis.vocabulary import Cause, Diagnosis, Finding, JobIdentity, Scope, Verdict

MACHINE_FAULTS = OF_NODES | frozenset(
    {
        *GPU_CAUSES,
        "straggler",
        "slow_step",
        "slow_kernels",
        "slow_link",
        "stuck_rank",
        "dead_rank",
        "flight_recorder_missing_rank",
        "flight_recorder_device_stuck",
        "hardware_error",
        "ecc_error",
        "ib_error",
        "disk_full",
        "job_lost_node",
    }
)
"""Faults that a machine brings about. An exception or a mismatch of collectives follows the code:
it appears on whichever machine runs that rank."""
MOST_HOSTS = 4096
LONGEST_HOST = 253
"""RFC 1035."""
RANK = "rank "


def host_key(name: str) -> str:
    """One spelling per machine: without its domain, in lower case. Addresses stay whole."""
    name = name.strip().casefold()[:LONGEST_HOST]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return name


def blamed_parts(diagnosis: Diagnosis, scope: Scope) -> tuple[BlamedPart, ...]:
    """The machine that the first cause blames, if it blames one for a fault of machines.

    A cause on several hosts blames the job and none of them.
    """
    cause = diagnosis.first_cause
    verdicts = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
    if cause is None or scope.job is None or diagnosis.verdict not in verdicts:
        return ()
    for finding in diagnosis.findings:
        if finding.id in cause.findings and finding.subject == cause.subject:
            fault = fault_of(finding)
            if fault is not None and fault.name in MACHINE_FAULTS:
                blamed = _blamed(cause, finding, fault.name, scope.training)
                return (blamed,) if blamed is not None else ()
    return ()


def _blamed(
    cause: Cause, finding: Finding, fault: str, job: JobIdentity | None
) -> BlamedPart | None:
    gpu = GpuDetails.of(finding)
    if gpu is not None and gpu.hosts:
        # With several hosts, none of them is to blame by itself.
        if len(gpu.hosts) > 1:
            return None
        # With several GPUs on one host, blame the host.
        part = gpu.gpus[0].rpartition("/")[2] if len(gpu.gpus) == 1 else ""
        named = f"gpu{part}" if part.isdigit() else part
        return BlamedPart(host=host_key(gpu.hosts[0]), part=named, fault=fault)
    state = StateFactDetails.of(finding)
    if state is not None:
        if fault in OF_NODES:
            return BlamedPart(host=host_key(cause.subject), fault=fault)
        if len(state.places) == 1:
            return BlamedPart(host=host_key(state.places[0]), fault=fault)
        return None
    details = JobDetails.of(finding)
    if details is not None and details.host:
        return BlamedPart(host=host_key(details.host), fault=fault)
    rank = cause.subject.removeprefix(RANK)
    if job is not None and cause.subject.startswith(RANK) and rank.isdecimal():
        host = job.host_of(int(rank))
        if host is not None:
            return BlamedPart(host=host_key(host), fault=fault)
    return None


def hosts_of_job(scope: Scope, diagnosis: Diagnosis, metrics: bytes | None) -> tuple[str, ...]:
    """The machines that are known to have taken part: those of the settings and the alert, of the
    findings, and of the GPUs' series (`metrics` is the case's Parquet file)."""
    names: list[str] = []
    if scope.training is not None:
        names += scope.training.hosts
        names += [scope.training.node] if scope.training.node else []
    for finding in diagnosis.findings:
        gpu, details = GpuDetails.of(finding), JobDetails.of(finding)
        names += gpu.hosts if gpu is not None else ()
        names += [details.host] if details is not None and details.host else []
    names += [part.host for part in blamed_parts(diagnosis, scope)]
    names += _with_gpus(metrics) if metrics else ()
    keys = dict.fromkeys(host_key(name) for name in names if name.strip())
    return tuple(keys)[:MOST_HOSTS]


def _with_gpus(metrics: bytes) -> Iterable[str]:
    labels = pl.read_parquet(io.BytesIO(metrics), columns=["labels"])["labels"]
    # Sorted, so that the cut keeps the same hosts in every run.
    for text in labels.drop_nulls().unique().sort():
        try:
            label_map = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(label_map, dict) and label_map.get("gpu") is not None:
            host = label_map.get("host")
            if isinstance(host, str):
                yield host
