"""Jobs of several ranks written by the tests, read and summarised as a user's would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faultline.analysis.traces.across_ranks.comparison import RankComparison, compare
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary, summarise
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import BASE_NS, document, event, write_trace

STEP_US, REDUCE_US = 20_000.0, 2_000.0
FORWARD_US, BACKWARD_US, OPTIMIZER_US = 3_000.0, 4_000.0, 500.0
GROUP = {"Process Group Name": "0", "Process Group Description": "default_pg"}
COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 20


def summaries_of(
    folder: Path,
    traces: Sequence[list[dict[str, Any]]],
    hosts: Sequence[str] | None = None,
    world: int | None = None,
) -> list[RankSummary]:
    """One summary per rank."""
    found = []
    for rank, events in enumerate(traces):
        host = hosts[rank] if hosts else "node-a"
        written = document(events, rank, world or len(traces), host)
        found.append(summarise(read_trace(write_trace(folder / f"rank{rank}.json", written))))
    return found


def comparison_of(
    folder: Path,
    traces: Sequence[list[dict[str, Any]]],
    hosts: Sequence[str] | None = None,
    world: int | None = None,
) -> RankComparison:
    """The ranks compared."""
    return compare(summaries_of(folder, traces, hosts, world))


def nccl(name: str, start: float, end: float, correlation: int, **args: Any) -> dict[str, Any]:
    """A kernel of NCCL."""
    told = {"stream": COMMUNICATION_STREAM, "correlation": correlation, **args}
    return event(
        f"ncclDevKernel_{name}_RING_LL",
        start,
        end - start,
        cat="kernel",
        tid=COMMUNICATION_STREAM,
        **told,
    )


def launch(at: float, correlation: int) -> dict[str, Any]:
    """The host's call that launches a kernel."""
    return event("cudaLaunchKernel", at, 5.0, cat="cuda_runtime", correlation=correlation)


def kernel(name: str, start: float, dur: float, correlation: int) -> dict[str, Any]:
    """A kernel that computes."""
    shape = {"grid": [8, 1, 1], "block": [128, 1, 1]}
    told = {"stream": COMPUTE_STREAM, "correlation": correlation, **shape}
    return event(name, start, dur, cat="kernel", tid=COMPUTE_STREAM, **told)


def gpu_job(
    *,
    ranks: int = 4,
    steps: int = 6,
    late_us: Mapping[int, float] | None = None,
    slower: Mapping[int, float] | None = None,
    after_backward: bool = False,
    pause_us: Mapping[int, float] | None = None,
    elements: int = 1_000_000,
) -> list[list[dict[str, Any]]]:
    """A DDP job on GPUs: forward, backward, one all_reduce of all gradients, optimizer.

    `late_us[rank]` lies between backward and all_reduce on the device; `slower[rank]` stretches its
    kernels; `pause_us[step]` is a time before the step's forward pass in which no rank does
    anything.
    """
    traces: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    at = 1_000.0
    for step in range(steps):
        pause = (pause_us or {}).get(step, 0.0)
        stretch = [(slower or {}).get(rank, 1.0) for rank in range(ranks)]
        begin = at + 200.0 + pause
        computed = [begin + 100.0 + (FORWARD_US + BACKWARD_US) * s for s in stretch]
        arrive = [c + (late_us or {}).get(rank, 0.0) for rank, c in enumerate(computed)]
        done = max(arrive) + REDUCE_US
        end = max(done + OPTIMIZER_US * max(stretch) + 100.0, at + STEP_US + pause)
        for rank, events in enumerate(traces):
            events.extend(
                _gpu_step(
                    step, at, end, begin, pause, stretch[rank], arrive[rank], done, after_backward
                )
            )
            reduced = {
                "In msg nelems": elements,
                "Out msg nelems": elements,
                "Group size": ranks,
                "dtype": "Float",
            }
            told = {"Collective name": "allreduce", "Seq": step + 40, **GROUP, **reduced}
            events.append(nccl("AllReduce_Sum_f32", arrive[rank], done, 1000 * step + 3, **told))
        at = end
    return traces


def _gpu_step(
    step: int,
    at: float,
    end: float,
    begin: float,
    pause: float,
    stretch: float,
    arrive: float,
    done: float,
    after_backward: bool,
) -> list[dict[str, Any]]:
    first = 1000 * step
    backward = begin + 1_100.0
    reduce = backward + (1_500.0 if after_backward else 500.0)
    note = "user_annotation"
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    return [
        event(f"ProfilerStep#{step}", at, end - at, cat=note),
        event(loader, at, 200.0 + pause, cat=note),
        event("## forward ##", begin, 1_000.0, cat=note),
        launch(begin + 50.0, first + 1),
        event("## backward ##", backward, 1_000.0, cat=note),
        launch(backward + 50.0, first + 2),
        launch(reduce, first + 3),
        event("Optimizer.step#AdamW.step", backward + 2_000.0, 300.0, cat=note),
        launch(backward + 2_050.0, first + 4),
        kernel("gemm_forward", begin + 100.0, FORWARD_US * stretch, first + 1),
        kernel(
            "gemm_backward", begin + 100.0 + FORWARD_US * stretch, BACKWARD_US * stretch, first + 2
        ),
        kernel("adam_kernel", done, OPTIMIZER_US * stretch, first + 4),
    ]


def nanoseconds(us: float) -> int:
    """The moment on the written traces' clock."""
    return BASE_NS + round(us * 1000)
