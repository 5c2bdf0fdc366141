"""docs/trace-engine/rules.md, written from the rules themselves: `python -m
faultline.analysis.traces.doctor.rules_page`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from faultline.analysis.traces.doctor.rule import DoctorRule
from faultline.analysis.traces.doctor.rules import RULES

OTHER_FILES: tuple[DoctorRule, ...] = (
    DoctorRule(
        "dead_rank",
        "a rank without a dump whose log, exit code or peers say that it ended",
        "others wait for it",
        "flight recorder dumps, logs and exit codes beside each other",
        "Read that rank's log first.",
    ),
    DoctorRule(
        "flight_recorder_missing_rank",
        "a rank that others wait for in a collective or a receive, while it waits for nobody",
        "the root of the wait-for graph; information from a single answer of the debug server",
        "own; compared with torch's fr_trace",
        "Look at the code line where its stack stands.",
    ),
    DoctorRule(
        "flight_recorder_mismatch",
        "ranks that call another operation, size or type at the same place of their group",
        "the minority",
        "torch's fr_trace (match states); minority: own",
        "Branches that differ between ranks, uneven last batches.",
    ),
    DoctorRule(
        "flight_recorder_device_stuck",
        "a collective that has ended on other ranks and not here",
        "at most half of the group",
        "own",
        "Xid and ECC errors of that device; drain the node.",
    ),
    DoctorRule(
        "flight_recorder_deadlock",
        "ranks that wait for one another in a circle",
        "any circle without a root",
        "own",
        "Call collectives of several groups in one order on all ranks.",
    ),
    DoctorRule(
        "flight_recorder_all_joined",
        "a collective that every rank has joined and that does not end",
        "no root, no mismatch, no stuck device",
        "own",
        "The network between the ranks.",
    ),
    DoctorRule(
        "stack_outlier",
        "ranks whose stacks stand outside of torch.distributed while all others wait in it, where "
        "dumps name nobody",
        "at most a third of the ranks",
        "own",
        "See what holds them there.",
    ),
    DoctorRule(
        "stuck_rank",
        "a rank whose innermost open span in TorchTitan's structured log is another than the "
        "others', or of an earlier "
        "step, when the log ends",
        "at most half of the ranks; information unless a collective timed out, or the log had "
        "been silent for 10 usual "
        "steps and 300 s when it was collected",
        "own",
        "See what holds it there.",
    ),
    DoctorRule(
        "all_ranks_stuck",
        "the same span on all ranks, in a structured log that has stopped",
        "as stuck_rank",
        "own",
        "Flight recorder dumps and stacks.",
    ),
    DoctorRule(
        "flight_recorder_incomplete",
        "dumps that are missing, empty or cut off",
        "any; information",
        "dumps found beside each other",
        "Collect the dumps of all ranks.",
    ),
    DoctorRule(
        "nan_loss",
        "the first rank and step at which loss or gradient norm is NaN or infinite, in metrics",
        "one value of the loss; gradient norms that last more than 3 steps",
        "loss scaling recovers within 1 to 3 steps",
        "That rank's batch, learning rate and loss scaling.",
    ),
    DoctorRule(
        "loss_spike",
        "a step whose loss is far above those before, in metrics",
        "2x the median of the 20 steps before, and 10 robust deviations",
        "own",
        "The data and the learning rate around that step.",
    ),
    DoctorRule(
        "throughput_drop",
        "a lasting loss of speed, in metrics",
        "20 %, and 3 robust deviations, 20 steps on each side",
        "own; TraceML calls 8 % between runs large",
        "Look at what changed at that step.",
    ),
    DoctorRule(
        "out_of_memory",
        "out-of-memory errors in logs",
        "one",
        "PyTorch's messages",
        "As memory_pressure.",
    ),
    DoctorRule(
        "hardware_error",
        "Xid errors in logs",
        "one of the hardware's",
        "NVIDIA, XID Errors",
        "As NVIDIA's table says.",
    ),
    DoctorRule(
        "ecc_error",
        "uncorrectable memory errors in logs",
        "one",
        "the driver's messages",
        "Replace the device.",
    ),
    DoctorRule(
        "ib_error",
        "errors of InfiniBand links in logs",
        "one",
        "NCCL's messages",
        "Check cables, ports, and routes.",
    ),
    DoctorRule(
        "time_outside_phases",
        "time of TraceML's steps that lies outside input, forward, backward and optimizer",
        "10 % of the step",
        "TraceML (RESIDUAL_HEAVY: 10 %, 20 %)",
        "Logging, saves, evaluation and other work of the training loop between the phases.",
    ),
    DoctorRule(
        "disk_full", "writes without space in logs", "one", "the system's messages", "Free space."
    ),
    DoctorRule(
        "known_failure",
        "other failures of a GPU, a host or the scheduler that logs name",
        "one line of a signature of weight 0.7 that follows from no other failure",
        "[failure signatures](../failure-signatures.md)",
        "As the signature says.",
    ),
    DoctorRule(
        "exception",
        "exceptions in logs that follow from no other rank's failure",
        "one",
        "logs of all ranks beside each other",
        "Read the traceback.",
    ),
)
"""Rules on what is next to traces; their code is in analysis/traces/flight_recorder and
analysis/traces/job_logs."""

_HEAD = """# Rules of the trace doctor

What `faultline trace`, and an investigation of a training job, can diagnose, in order of precedence.
`python -m faultline.analysis.traces.doctor.rules_page` writes this page from the code.

- An unreliable capture, or fewer than 2 steps, turns what later rules find into information.
- Dead ranks and hangs in dumps and logs come next, then single slow steps, stragglers, and causes that all ranks share.
- A straggler silences the rules on communication and idle devices, because its victims wait in collectives.
- Information (`info`) blames nobody. "own" thresholds were measured on labelled recordings.
- Findings from TraceML, wandb and memory snapshots follow the same rules: [what is read of them](telemetry.md). A memory
  snapshot can blame `memory_fragmentation`, which is only information in a profiler trace.
"""  # noqa: E501


def rules_page() -> str:
    """The page as Markdown."""
    return "\n".join(
        [
            _HEAD,
            "## On profiler traces",
            "",
            *_table(RULES),
            "",
            "## On dumps, stacks, metrics, telemetry and logs",
            "",
            *_table(OTHER_FILES),
            "",
        ]
    )


def _table(rules: Sequence[DoctorRule]) -> list[str]:
    rows = [
        # A line break would end the table's row.
        " | ".join(["", f"`{r.name}`", r.sees, r.threshold, r.source, r.fix, ""])
        .strip()
        .replace("\n", " ")
        for r in rules
    ]
    return [
        "| rule | what it sees | threshold | source | what to do |",
        "|---|---|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    sys.stdout.write(rules_page())
