"""The faults of training jobs: one entry per rule of the trace doctor that may accuse.

The faults of GPUs, read from their counters, are among them. Each is also a kind of finding of the
same name, see `faultline.analysis.kinds.finding_kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.kinds.evidence_kinds import EvidenceKind
from faultline.analysis.kinds.fault_kinds import FaultKind


def _fault(
    name: str,
    weight: float,
    phrase: str,
    *,
    next_step: str = "",
    delays_peers: bool = False,
    hangs: bool = False,
    tables: tuple[EvidenceKind, ...] = ("metrics",),
    predicts: Mapping[EvidenceKind, str] | None = None,
) -> FaultKind:
    """A rank or a job has each of these by itself, and the ranks that wait for it feel it."""
    return FaultKind(
        name=name,
        weight=weight,
        phrase=phrase,
        next_step=next_step,
        inherent=True,
        delays_peers=delays_peers,
        hangs=hangs,
        training=True,
        tables=tables,
        predicts=predicts or {},
    )


_BY_RULE = (
    _fault(
        "dead_rank",
        0.95,
        "ended, and the others wait for it",
        delays_peers=True,
        hangs=True,
        predicts={"logs": "its last lines tell why it ended"},
    ),
    _fault(
        "flight_recorder_missing_rank",
        0.95,
        "does not join the others' collective",
        delays_peers=True,
        hangs=True,
    ),
    _fault(
        "flight_recorder_mismatch",
        0.95,
        "does not match the others in a collective",
        delays_peers=True,
        hangs=True,
    ),
    _fault(
        "flight_recorder_device_stuck",
        0.95,
        "has a GPU that does not finish its work",
        delays_peers=True,
        hangs=True,
    ),
    _fault("flight_recorder_deadlock", 0.9, "is deadlocked", hangs=True),
    _fault(
        "flight_recorder_all_joined",
        0.8,
        "hangs in a collective that all ranks have joined",
        hangs=True,
    ),
    _fault(
        "stack_outlier",
        0.85,
        "is outside the collective that the others wait in",
        delays_peers=True,
        hangs=True,
    ),
    _fault(
        "stuck_rank",
        0.85,
        "is stuck elsewhere than the ranks that wait for it",
        delays_peers=True,
        hangs=True,
    ),
    _fault("all_ranks_stuck", 0.7, "has stopped on all ranks", hangs=True),
    _fault("out_of_memory", 0.9, "ran out of memory"),
    _fault("hardware_error", 0.9, "has a hardware error"),
    _fault("ecc_error", 0.9, "has memory errors"),
    _fault("ib_error", 0.85, "has errors on its network links"),
    _fault("disk_full", 0.85, "has no space left on its disk"),
    _fault("known_failure", 0.85, "has a known failure", tables=("logs",)),
    _fault("exception", 0.85, "failed"),
    _fault("nan_loss", 0.85, "has a NaN or infinite loss"),
    _fault(
        "straggler",
        0.95,
        "makes the other ranks wait",
        delays_peers=True,
        next_step="Compare the host, the input and the code of {subject} with another rank's.",
        predicts={
            "metrics": "only its host's CPU, disk or GPU clock differs from the others'",
            "traces": "it comes last to the collectives, and one phase of its steps is longer "
            "than the others'",
        },
    ),
    _fault("slow_step", 0.6, "had a slow step"),
    _fault("slow_step_everywhere", 0.6, "had a step that was slow on all ranks"),
    _fault("all_ranks_idle", 0.6, "pauses on all ranks at once"),
    _fault(
        "slow_kernels",
        0.6,
        "runs the same kernels slower than the other ranks",
        predicts={"traces": "the same kernels take longer on it than on the others"},
    ),
    _fault(
        "dataloader_stall",
        0.7,
        "waits for its data loader",
        next_step="Give {subject} more loader workers, or cache its input.",
        predicts={"traces": "all ranks wait for data at the start of their steps"},
    ),
    _fault(
        "communication",
        0.6,
        "spends its time in communication",
        next_step="Check the links and the collective settings of {subject}.",
        predicts={
            "metrics": "network throughput of all ranks' hosts falls together",
            "traces": "all ranks come to the collectives together and spend their time inside",
        },
    ),
    _fault(
        "slow_link",
        0.6,
        "gets little out of its links",
        next_step="Run nccl-tests on the hosts of {subject}, and look at the state of the links.",
        predicts={"traces": "large collectives take long on all ranks of a host alike"},
    ),
    _fault("no_overlap", 0.6, "does not hide its communication behind computation"),
    _fault("fsdp_exposed", 0.6, "waits for sharded parameters"),
    _fault("host_syncs", 0.6, "waits for its GPU in every step"),
    _fault("pageable_copies", 0.5, "copies from memory that is not pinned"),
    _fault("long_copies", 0.5, "spends its time copying to the GPU"),
    _fault("tiny_kernels", 0.6, "runs too many small kernels"),
    _fault(
        "gpu_idle",
        0.5,
        "leaves the GPU idle",
        predicts={"traces": "the device waits for the host between kernels"},
    ),
    _fault("memory_growth", 0.6, "holds more memory with every step"),
    _fault("allocator_calls", 0.5, "allocates memory again in every step"),
    _fault("memory_fragmentation", 0.5, "cannot use much of the memory that it reserved"),
    _fault("time_outside_phases", 0.5, "spends its steps outside loading and computing"),
    _fault("memory_pressure", 0.5, "is short of memory"),
    _fault("recompiles", 0.6, "spends its steps compiling"),
    _fault("loss_spike", 0.4, "has a loss spike"),
    _fault("throughput_drop", 0.4, "is slower"),
    _fault("training_gap", 0.5, "leaves the GPU idle"),
)
_BY_COUNTERS = (
    _fault("gpu_xid", 0.9, "has an Xid error", delays_peers=True),
    _fault("gpu_ecc_error", 0.9, "has memory errors", delays_peers=True),
    _fault("gpu_missing", 0.85, "has stopped reporting", delays_peers=True),
    _fault(
        "gpu_throttled",
        0.85,
        "is throttled",
        delays_peers=True,
        predicts={"metrics": "its SM clock falls, with a reason given"},
    ),
    _fault("gpu_idle_alone", 0.75, "does nothing while the others wait", delays_peers=True),
    _fault("gpu_spinning", 0.7, "hangs in a collective", hangs=True),
    _fault("gpu_row_remap", 0.6, "has faulty memory"),
    _fault("gpu_nvlink_errors", 0.7, "has errors on its NVLinks"),
    _fault("gpu_pcie_replays", 0.6, "has errors on its PCIe link"),
    _fault("gpu_single_bit_errors", 0.5, "has many corrected memory errors"),
    _fault("gpu_hot", 0.5, "is hot"),
)
_BY_TRACKER = (_fault("run_ended", 0.5, "ended early"),)
RULE_CAUSES: Mapping[str, FaultKind] = {fault.name: fault for fault in _BY_RULE}
"""By name, those that rules of the trace doctor tell."""
GPU_CAUSES: Mapping[str, FaultKind] = {fault.name: fault for fault in _BY_COUNTERS}
"""By name, those that the counters of GPUs tell."""
TRAINING_CAUSES: Mapping[str, FaultKind] = {
    **RULE_CAUSES,
    **GPU_CAUSES,
    **{fault.name: fault for fault in _BY_TRACKER},
}
"""All of them by name."""
