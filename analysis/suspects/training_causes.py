"""What a training job's findings are as causes: one entry per rule of the trace doctor that may
accuse."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingCause:
    """How one kind of finding speaks as a cause."""

    weight: float
    """How far it speaks for its subject at full strength, of 1."""
    phrase: str
    """What its subject does: "rank 2 {phrase}"."""
    held_up: bool = False
    """Every other rank waits for the subject, so their troubles are its effect."""


TRAINING_CAUSES = {
    "dead_rank": TrainingCause(0.95, "ended, and the others wait for it", held_up=True),
    "flight_recorder_missing_rank": TrainingCause(
        0.95, "does not join the others' collective", held_up=True
    ),
    "flight_recorder_mismatch": TrainingCause(
        0.95, "does not match the others in a collective", held_up=True
    ),
    "flight_recorder_device_stuck": TrainingCause(
        0.95, "has a device that does not finish", held_up=True
    ),
    "flight_recorder_deadlock": TrainingCause(0.9, "waits in a circle"),
    "flight_recorder_all_joined": TrainingCause(
        0.8, "hangs in a collective that all ranks have joined"
    ),
    "stack_outlier": TrainingCause(
        0.85, "stands outside of the collective that the others wait in", held_up=True
    ),
    "stuck_rank": TrainingCause(
        0.85, "stands elsewhere than the ranks that wait for it", held_up=True
    ),
    "all_ranks_stuck": TrainingCause(0.7, "stands still on all ranks"),
    "out_of_memory": TrainingCause(0.9, "ran out of memory"),
    "hardware_error": TrainingCause(0.9, "has a hardware error"),
    "ecc_error": TrainingCause(0.9, "has memory errors"),
    "ib_error": TrainingCause(0.85, "has errors on its network links"),
    "disk_full": TrainingCause(0.85, "has no space left on its disk"),
    "known_failure": TrainingCause(0.85, "has a known failure"),
    "exception": TrainingCause(0.85, "failed"),
    "nan_loss": TrainingCause(0.85, "has a loss that is NaN or infinite"),
    "straggler": TrainingCause(0.95, "makes the other ranks wait", held_up=True),
    "slow_step": TrainingCause(0.6, "had a slow step"),
    "slow_step_everywhere": TrainingCause(0.6, "had a step that was slow on all ranks"),
    "all_ranks_idle": TrainingCause(0.6, "stands still on all ranks at once"),
    "slow_kernels": TrainingCause(0.6, "runs the same kernels slower than the other ranks"),
    "dataloader_stall": TrainingCause(0.7, "waits for its data loader"),
    "communication": TrainingCause(0.6, "spends its time in communication"),
    "no_overlap": TrainingCause(0.6, "does not hide its communication behind computation"),
    "fsdp_exposed": TrainingCause(0.6, "waits for sharded parameters"),
    "host_syncs": TrainingCause(0.6, "waits for its accelerator in every step"),
    "pageable_copies": TrainingCause(0.5, "copies from memory that is not pinned"),
    "long_copies": TrainingCause(0.5, "spends its time in copies to the accelerator"),
    "tiny_kernels": TrainingCause(0.6, "runs very many small operations"),
    "gpu_idle": TrainingCause(0.5, "leaves the accelerator idle"),
    "memory_growth": TrainingCause(0.6, "holds more memory with every step"),
    "allocator_calls": TrainingCause(0.5, "allocates memory anew in every step"),
    "memory_fragmentation": TrainingCause(0.5, "cannot use much of the memory that it reserved"),
    "time_outside_phases": TrainingCause(0.5, "spends its steps outside of loading and computing"),
    "memory_pressure": TrainingCause(0.5, "is short of memory"),
    "recompiles": TrainingCause(0.6, "spends its steps compiling"),
    "run_ended": TrainingCause(0.5, "ended before it was done"),
    "loss_spike": TrainingCause(0.4, "has a loss that jumps"),
    "throughput_drop": TrainingCause(0.4, "became slower"),
    "gpu_xid": TrainingCause(0.9, "has an error that its driver reports", held_up=True),
    "gpu_ecc_error": TrainingCause(0.9, "has memory errors", held_up=True),
    "gpu_missing": TrainingCause(0.85, "is gone", held_up=True),
    "gpu_throttled": TrainingCause(0.85, "runs below its clock", held_up=True),
    "gpu_idle_alone": TrainingCause(0.75, "does nothing while the others wait", held_up=True),
    "gpu_spinning": TrainingCause(0.7, "hangs in a collective"),
    "gpu_row_remap": TrainingCause(0.6, "has faulty memory"),
    "gpu_nvlink_errors": TrainingCause(0.7, "has errors on its NVLinks"),
    "gpu_pcie_replays": TrainingCause(0.6, "has errors on its PCIe link"),
    "gpu_single_bit_errors": TrainingCause(0.5, "has many corrected memory errors"),
    "gpu_hot": TrainingCause(0.5, "is hot"),
    "training_gap": TrainingCause(0.5, "leaves the device idle"),
}
"""By kind of finding; each is a kind of trouble by its own name."""
