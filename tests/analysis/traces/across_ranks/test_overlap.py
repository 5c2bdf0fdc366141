from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.across_ranks.wait_transfer import all_reduce_overlap, uses_fsdp
from tests.analysis.traces.across_ranks.written_jobs import gpu_job, launch, nccl, summaries_of
from tests.analysis.traces.written_traces import event, job


def test_gradients_reduced_inside_the_backward_pass_overlap(tmp_path: Path) -> None:
    found = [all_reduce_overlap(s) for s in summaries_of(tmp_path, gpu_job())]
    assert all(o is not None and o.after_backward == 0.0 and not o.none_overlaps for o in found)
    on_host = [all_reduce_overlap(s) for s in summaries_of(tmp_path, job())]
    assert all(o is not None and not o.none_overlaps for o in on_host)


def test_gradients_reduced_after_it_do_not(tmp_path: Path) -> None:
    for summary in summaries_of(tmp_path, gpu_job(after_backward=True)):
        found = all_reduce_overlap(summary)
        assert found is not None
        assert found.none_overlaps
        assert found.count == 6
        assert found.step_share == 0.1


def test_a_small_all_reduce_of_the_loss_after_it_does_not_count(tmp_path: Path) -> None:
    traces = gpu_job()
    for events in traces:
        for step, mark in enumerate([e for e in events if e["name"].startswith("ProfilerStep")]):
            at = mark["ts"] + 15_000.0
            told = {
                "Collective name": "allreduce",
                "Seq": 900 + step,
                "Process Group Name": "0",
                "dtype": "Float",
            }
            events += [
                launch(at, 50_000 + step),
                nccl("AllReduce", at + 10.0, at + 90.0, 50_000 + step, **told),
            ]
            events[-1]["args"]["In msg nelems"] = 1
    found = all_reduce_overlap(summaries_of(tmp_path, traces)[0])
    assert found is not None
    assert (found.count, found.none_overlaps) == (12, False)


def test_without_a_backward_pass_or_steps_nothing_is_said(tmp_path: Path) -> None:
    traces = [
        [e for e in events if not e["name"].startswith("## backward")] for events in gpu_job()
    ]
    assert all_reduce_overlap(summaries_of(tmp_path, traces)[0]) is None
    stepless = [
        [e for e in events if not e["name"].startswith(("ProfilerStep", "Optimizer"))]
        for events in gpu_job()
    ]
    assert all_reduce_overlap(summaries_of(tmp_path, stepless)[0]) is None


def test_gathering_parameters_in_the_forward_pass_is_fsdp(tmp_path: Path) -> None:
    traces = gpu_job()
    assert not uses_fsdp(summaries_of(tmp_path, traces))
    for events in traces:
        for step, mark in enumerate([e for e in events if e["name"] == "## forward ##"]):
            at, number = mark["ts"] + 10.0, 60_000 + step
            events += [
                launch(at, number),
                nccl("AllGather", at + 20.0, at + 80.0, number, Seq=700 + step),
            ]
    assert uses_fsdp(summaries_of(tmp_path, traces))


def test_a_collective_that_waits_for_its_thread_was_launched_when_it_was_called(
    tmp_path: Path,
) -> None:
    traces = job()
    for events in traces:
        calls = [e for e in events if e["name"] == "gloo:all_reduce"]
        events += [event("c10d::allreduce_", e["ts"], 20.0) for e in calls]
        for e in calls:
            e["ts"], e["dur"] = e["ts"] + 1_200.0, 10.0
    for summary in summaries_of(tmp_path, traces):
        assert (summary.collectives.start - summary.collectives.launch == 1_200_000).all()
        found = all_reduce_overlap(summary)
        assert found is not None
        assert found.after_backward == 0.0
