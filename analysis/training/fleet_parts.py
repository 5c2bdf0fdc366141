"""The machines of a training job: which took part, and which an answer blames."""

from __future__ import annotations

import io
import ipaddress
import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import polars as pl

from faultline.analysis.analyzers import fault_of, phrase_of
from faultline.analysis.case.earlier import FLEET, HostIncident, HostRecord
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import (
    EarlierDetails,
    GpuDetails,
    JobDetails,
    StateFactDetails,
    TestedRow,
)
from faultline.analysis.kinds.state_faults import OF_NODES
from faultline.analysis.kinds.training_causes import GPU_CAUSES
from faultline.analysis.vocabulary import (
    Cause,
    Diagnosis,
    Finding,
    Frozen,
    JobIdentity,
    Scope,
    Verdict,
)
from faultline.analysis.wording.phrases import plain

# Whether a machine was to blame more often than chance would have it.
#
# If machines are alike, each of the m machines of a job is as likely to be the one that an answer
# blames. The number of jobs in which a given machine is blamed then has a Poisson binomial
# distribution (Wang, "On the number of successes in independent trials", Statistica Sinica 1993),
# with the chance (blamed machines / machines) for each job that it took part in.

MIN_BLAMED = 2
"""Once is no pattern, however many machines the job has."""
BY_CHANCE = 0.05
"""Usual level of a single test (Fisher 1925). Where all machines of a fleet are looked through, it
is divided by their number (Bonferroni)."""


class BlamedPart(Frozen):
    """A machine that an answer blames, and which part of it: `gpu3`, `mlx5_0`, or "" for the
    whole."""

    host: str
    part: str = ""
    fault: str


def by_chance(blamed: int, chances: Sequence[float]) -> float:
    """The probability that a machine like all others is blamed at least so often, in [0, 1]."""
    # counts[k] is the probability of k successes so far; the last entry takes all beyond.
    counts = [1.0] + [0.0] * blamed
    for raw_chance in chances if blamed else ():
        chance = min(1.0, max(0.0, raw_chance))
        counts[blamed] += counts[blamed - 1] * chance
        for k in range(blamed - 1, 0, -1):
            counts[k] = counts[k] * (1 - chance) + counts[k - 1] * chance
        counts[0] *= 1 - chance
    return min(1.0, counts[blamed])


def is_repeated(blamed: int, probability: float, tested: int = 1) -> bool:
    """Whether this is more than chance, where that many machines were looked through."""
    return blamed >= MIN_BLAMED and probability * max(1, tested) < BY_CHANCE


def majority_part(parts: Iterable[str]) -> str:
    """The part that most of them name; empty where they name several equally often, or none."""
    counted: dict[str, int] = {}
    total = 0
    for part in parts:
        total += 1
        if part:
            counted[part] = counted.get(part, 0) + 1
    most = max(counted, key=lambda part: (counted[part], part), default="")
    return most if most and 2 * counted[most] > total else ""


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


# What memory says of the machine that an answer blames: that it was to blame before, more often
# than chance would have it.
#
# Like all of memory it decides nothing: it is computed from the answer that stands.

STRENGTH = 0.1
"""Below every finding that was measured, as the rest of memory."""


def repeated_host_finding(case: Case, diagnosis: Diagnosis, number: int) -> Finding | None:
    """The finding with the id F`number`; None where the blamed machine has no such record.

    The alert at hand chose the machine, and the record is of earlier ones alone: it is one test.
    """
    for part in blamed_parts(diagnosis, case.scope):
        for record in case.earlier.fleet:
            if record.host == part.host and is_repeated(record.blamed, record.by_chance):
                return _finding(record, case.earlier.asked_at, number)
    return None


def _finding(record: HostRecord, requested_at: datetime | None, number: int) -> Finding:
    host = plain(record.host, 60)
    numbers: dict[str, float] = {"blamed": record.blamed, "took_part": record.took_part}
    part = ""
    if record.part:
        part = f", mostly {plain(record.part, 20)}"
        index = record.part.removeprefix("gpu")
        if index.isdecimal():
            numbers["gpu"] = float(index)
    last = ""
    if record.incidents:
        at = record.incidents[0].at
        numbers["day"] = at.day
        last = f", last on {at.day} {at:%b}"
        if requested_at is not None and requested_at.year != at.year:
            numbers["year"] = at.year
            last += f" {at.year}"
    percent = 100 * record.by_chance
    # A chance of zero would read as a proof.
    chance = "under 0.1 %"
    numbers["percent"] = 0.1
    if percent >= 0.1:
        numbers["percent"] = round(percent, 1)
        chance = f"{numbers['percent']:g} %"
    return Finding(
        id=f"F{number}",
        kind=FLEET,
        subject=record.host,
        strength=STRENGTH,
        sentence=f"Drain {host}: it was also to blame in {record.blamed} of {record.took_part} "
        f"earlier incidents of jobs on it{part}{last} (by chance: {chance}).",
        numbers=numbers,
        details=EarlierDetails(
            investigation=record.incidents[0].id if record.incidents else "",
            outcome="to blame before",
            tested=tuple(_row(record, incident) for incident in record.incidents),
        ),
    )


def _row(record: HostRecord, incident: HostIncident) -> TestedRow:
    where = plain(f"{record.host}/{incident.part}" if incident.part else record.host, 100)
    return TestedRow(
        investigation=incident.id,
        when=f"{incident.at:%Y-%m-%d %H:%M} UTC",
        alert=plain(incident.job),
        recalled_for="same machine",
        cause=f"{where} {phrase_of(incident.fault).split(',')[0]}",
        outcome="to blame then, as now",
    )
