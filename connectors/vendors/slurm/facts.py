"""What the state of a job and of its nodes says, as rows of the table `states`.

States: slurm.schedmd.com, squeue "JOB STATE CODES" and sinfo "NODE STATE CODES".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.slurm.answers import SlurmJob, SlurmNode, node_names, time_at

JOB_KIND = "Slurm job"
NOT_STARTED = frozenset({"BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED", "SPECIAL_EXIT"})
OUT_OF_TIME = frozenset({"TIMEOUT", "DEADLINE"})
LOST = frozenset({"DOWN", "ERROR", "FAIL", "FAILING", "NOT_RESPONDING", "INVALID_REG", "UNKNOWN"})
"""Node states in which it runs no job, or cannot be relied on."""
POWERED_OFF = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP"})
"""States of a node that a cluster switches off while nobody needs it."""
_ENDINGS: tuple[tuple[frozenset[str], str, tuple[str, ...]], ...] = (
    (frozenset({"NODE_FAIL"}), "job_lost_node", ("failed node",)),
    (frozenset({"OUT_OF_MEMORY"}), "killed_for_memory", ("exit", "requeued")),
    (OUT_OF_TIME, "job_out_of_time", ("limit",)),
    (frozenset({"PREEMPTED"}), "job_preempted", ("reason", "requeued")),
    (NOT_STARTED, "job_failed", ("states", "reason")),
    (frozenset({"FAILED"}), "job_failed", ("exit", "reason", "requeued")),
    (frozenset({"CANCELLED"}), "job_cancelled", ("killed by",)),
)
"""States in which an attempt ends, the fact, and what its value consists of. A job may have several
states; the first of these counts."""
NOT_A_FAULT = frozenset({"", "None", "Priority", "Dependency", "BeginTime", "JobHeldUser"})
"""Reasons of a waiting job that mean its turn has not come, or that its user wants it to wait."""
MOST_NODES = 512
"""Nodes of a job that are looked up."""
MOST_ROWS = 64


def job_rows(jobs: Sequence[SlurmJob], service: str) -> list[StateRow]:
    """One row for each attempt of the job that did not end well, waits, or was requeued."""
    rows: list[StateRow] = []
    for job in jobs:
        fact, value, since = _fact(job)
        if fact is None:
            continue
        rows.append(
            StateRow(
                kind=JOB_KIND,
                name=str(job.id),
                fact=fact,
                service=service,
                place=short(job.failed_node, 100) or None,
                field="state",
                value=short(value, 200) or None,
                since=since,
            )
        )
    return rows[:MOST_ROWS]


def job_nodes(jobs: Sequence[SlurmJob]) -> list[str]:
    """The nodes on which these attempts ran, each once."""
    names: dict[str, None] = {}
    for job in jobs:
        for name in (job.failed_node, *node_names(job.nodes, MOST_NODES)):
            # Slurm's words for no node.
            if name and name not in ("None assigned", "(null)") and len(names) < MOST_NODES:
                names[name] = None
    return list(names)


def node_rows(
    nodes: Sequence[SlurmNode], names: Collection[str], partitions: Collection[str], service: str
) -> list[StateRow]:
    """Rows for the nodes of these names that are drained or down; for a job that waits also for
    the others of its `partitions`."""
    rows = []
    for node in nodes:
        concerned = node.name in names or bool(set(partitions) & set(node.partitions))
        fact = node_fact(node.state)
        if fact is None or not concerned:
            continue
        states = "+".join(node.state)
        rows.append(
            StateRow(
                kind="Node",
                name=short(node.name, 100),
                fact=fact,
                service=service,
                field="state",
                value=short(f"{node.reason} ({states})" if node.reason else states, 200),
                since=time_at(node.reason_changed_at.value),
            )
        )
    # Those that the job ran on say most, and a partition may have thousands.
    rows.sort(key=lambda row: row.name not in names)
    return rows[:MOST_ROWS]


def node_fact(states: Collection[str]) -> str | None:
    """What is wrong with a node in these states; None where it works."""
    if LOST & set(states):
        return "node_not_ready"
    if "DRAIN" in states and not POWERED_OFF & set(states):
        return "node_drained"
    return None


def _fact(job: SlurmJob) -> tuple[str | None, str, datetime | None]:
    """(fact, value, since) of one attempt."""
    states = set(job.states)
    requeued = f"requeued {job.restarts} times" if job.restarts > 1 else ""
    if job.restarts == 1:
        requeued = "requeued once"
    values = {
        "exit": job.exit,
        "failed node": job.failed_node,
        "killed by": job.killed_by,
        "limit": "" if job.limit_min is None else f"{job.limit_min} min",
        "reason": job.reason,
        "requeued": requeued,
        "states": "+".join(job.states),
    }
    for ending, fact, parts in _ENDINGS:
        if ending & states:
            # What never started may have no end either.
            never_ended = ending is NOT_STARTED and job.ended is None
            since = job.started if never_ended else job.ended
            return fact, _joined(*(values[part] for part in parts)), since
    if "PENDING" in states and job.reason not in NOT_A_FAULT:
        return "unschedulable", _joined(job.reason, requeued), job.submitted
    if "RUNNING" in states and requeued:
        return "job_requeued", requeued, job.started
    return None, "", None


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part and part != "None")
