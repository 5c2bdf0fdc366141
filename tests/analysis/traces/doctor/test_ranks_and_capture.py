"""Rules that compare ranks, precedence between rules, and captures that cannot be relied on."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.doctor.nothing_wrong import nothing_wrong
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.across_ranks.written_jobs import gpu_job
from tests.analysis.traces.doctor.written_ranks import (
    accused,
    gpu_steps,
    informed,
    job_from,
    one_rank,
    quoted_numbers_are_given,
    the,
)
from tests.analysis.traces.written_traces import document, event, job

LATE = {(2, step): 6_000.0 for step in range(8)}


def test_a_healthy_job_gets_one_sentence_with_its_numbers(tmp_path: Path) -> None:
    found = job_from(tmp_path, job())
    assert diagnose(found) == []
    assert nothing_wrong(found) == (
        "nothing wrong: 8 steps of 10 ms on 4 ranks; no rank delays the others"
    )


def test_a_straggler_carries_its_collectives_and_its_cause(tmp_path: Path) -> None:
    found = the("straggler", job_from(tmp_path, job(late_us=LATE, late_in="aten::tanh")))
    assert (found.severity, found.subject, found.ranks) == ("critical", "rank 2", (2,))
    assert found.details["cause"] == "computation"
    assert {e.rank for e in found.events} == {2}
    assert {e.name for e in found.events} == {"all_reduce"}
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_a_straggler_without_any_operation_is_laid_to_its_host(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    traces[2] = [e for e in traces[2] if e["name"] != "aten::mm"]
    found = the("straggler", job_from(tmp_path, traces))
    assert found.details["cause"] == "host"
    assert "no recorded operation explains it" in found.statement


def test_a_straggler_whose_loader_is_slow_is_laid_to_its_input(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    for e in traces[2]:
        if e["name"].startswith("enumerate"):
            e["dur"] += 6_000
        elif e["name"] in ("## forward ##", "aten::mm"):
            e["ts"] += 6_000
            e["dur"] -= 6_000
    diagnoses = diagnose(job_from(tmp_path, traces))
    assert [d.rule for d in diagnoses] == ["straggler"]
    assert (diagnoses[0].details["cause"], diagnoses[0].details["phase"]) == (
        "input",
        "data loading",
    )
    assert diagnoses[0].events[0].name.startswith("enumerate")


def test_a_straggler_silences_communication(tmp_path: Path) -> None:
    assert accused(job_from(tmp_path, gpu_job(late_us={1: 8_000.0}, after_backward=True))) == [
        "straggler"
    ]


def test_gradients_reduced_after_the_backward_pass_are_told(tmp_path: Path) -> None:
    found = the("no_overlap", job_from(tmp_path, gpu_job(after_backward=True)))
    assert found.subject == "all ranks"
    assert "only after the backward pass" in found.statement
    assert found.events
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_a_device_that_runs_the_same_kernels_slower_is_told(tmp_path: Path) -> None:
    def slower(factor: float) -> list[dict[str, Any]]:
        made = gpu_steps(busy_us=8_000 * factor, kernels=10)
        for i, e in enumerate(e for e in made if e["cat"] == "kernel"):
            e["name"] = f"gemm_{i % 10}"
        return made

    found = the(
        "slow_kernels", job_from(tmp_path, [slower(1.0), slower(1.0), slower(1.2), slower(1.0)])
    )
    assert found.ranks == (2,)
    assert "1.2x as long as the others for 10 kernels" in found.statement
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_one_long_pause_is_one_step_with_the_save_that_took_it(tmp_path: Path) -> None:
    traces = job(late_us={(1, 4): 90_000.0})
    pause = next(e for e in traces[1] if e["name"] == "aten::mm" and e["dur"] > 50_000)
    traces[1].append(event("torch.save", pause["ts"] + 10, 89_000.0))
    found = diagnose(job_from(tmp_path, traces))
    assert [(d.rule, d.subject, d.steps) for d in found] == [("slow_step", "rank 1", (4,))]
    assert [e.name for e in found[0].events] == ["torch.save"]
    assert "async_save" in found[0].fix


def test_a_pause_in_which_nothing_was_recorded_says_so(tmp_path: Path) -> None:
    traces = job(late_us={(1, 4): 90_000.0})
    for e in traces[1]:
        if e["name"] in ("aten::mm", "## forward ##") and e["dur"] > 50_000:
            e["dur"] -= 90_000
    found = the("slow_step", job_from(tmp_path, traces))
    assert "nothing was recorded on that rank" in found.statement
    assert "garbage collection" in found.fix
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_evidence_of_a_slow_step_lies_in_it_where_the_others_wait_in_the_next(
    tmp_path: Path,
) -> None:
    traces = job(late_us={(1, 5): 90_000.0}, late_in="write_shards")
    # The rank pauses behind its last collective of step 4: the others wait in step 5.
    for events in traces:
        four = next(e for e in events if e["name"] == "ProfilerStep#4")
        five = next(e for e in events if e["name"] == "ProfilerStep#5")
        if events is traces[1]:
            four["dur"] += 91_000.0
            five["ts"] += 91_000.0
            five["dur"] -= 91_000.0
    found = the("slow_step", job_from(tmp_path, traces))
    assert (found.subject, found.steps) == ("rank 1", (4,))
    (paused,) = [e for e in traces[1] if e["name"] == "write_shards" and e["dur"] > 50_000]
    first = found.events[0]
    assert (first.name, first.event) == ("write_shards", traces[1].index(paused))
    assert {e.step for e in found.events} == {4}


def test_a_step_that_is_slow_everywhere_blames_nobody(tmp_path: Path) -> None:
    everywhere = {(rank, 5): 300_000.0 for rank in range(4)}
    found = the("slow_step_everywhere", job_from(tmp_path, job(late_us=everywhere)))
    assert (found.ranks, found.steps) == ((), (5,))
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_ranks_that_stand_still_together_are_told(tmp_path: Path) -> None:
    found = job_from(tmp_path, gpu_job(pause_us={2: 900_000.0, 4: 800_000.0}, steps=8))
    rules = {d.rule for d in diagnose(found)}
    assert rules & {"all_ranks_idle", "slow_step_everywhere"}
    assert "straggler" not in rules


def test_one_step_is_too_few_to_accuse(tmp_path: Path) -> None:
    found = one_rank(tmp_path, gpu_steps(busy_us=500, steps=1))
    assert accused(found) == []
    assert (
        "1 step recorded, so nothing can be called usual" in the("capture_limited", found).statement
    )


def test_ranks_without_a_trace_and_unrecorded_devices_are_said(tmp_path: Path) -> None:
    found = job_from(tmp_path, job(ranks=2), world=16)
    statement = the("capture_limited", found).statement
    assert "2 ranks of 16 recorded" in statement
    assert accused(found) == []


def test_a_profiler_that_costs_too_much_turns_accusations_into_information(tmp_path: Path) -> None:
    def heavy(step: int, at: float) -> list[dict[str, Any]]:
        return [event("Activity Buffer Request", at + 5_000, 2_000, cat="overhead", tid=5)]

    found = one_rank(tmp_path, gpu_steps(heavy, busy_us=1_000))
    assert accused(found) == ["profiler_overhead"]
    assert "gpu_idle" in informed(found)
    assert "20 % of the recorded time" in the("profiler_overhead", found).statement


def cut_off(folder: Path, share: float) -> TrainingJob:
    packed = gzip.compress(json.dumps(document(gpu_steps(), world=1)).encode())
    path = folder / "rank0.json.gz"
    path.write_bytes(packed[: int(len(packed) * share)])
    return job_of([summarise(read_trace(path))])


def test_traces_that_are_cut_off_before_they_hold_steps_cannot_be_relied_on(tmp_path: Path) -> None:
    assert accused(cut_off(tmp_path, 0.3)) == ["capture_unusable"]
    longer = cut_off(tmp_path, 0.8)
    assert accused(longer) == []
    assert "end early" in the("capture_limited", longer).statement


def test_what_other_files_tell_comes_first(tmp_path: Path) -> None:
    hang = JobDiagnosis(
        "flight_recorder_missing_rank",
        "critical",
        "rank 3",
        "rank 3 is missing",
        "",
        "",
        ranks=(3,),
    )
    drop = JobDiagnosis("throughput_drop", "warning", "the job", "slower", "", "")
    base = job_from(tmp_path, job(late_us=LATE))
    found = diagnose(job_of(base.summaries, [drop, hang]))
    assert [d.rule for d in found] == [
        "flight_recorder_missing_rank",
        "straggler",
        "throughput_drop",
    ]


def test_no_trace_at_all_is_no_fault() -> None:
    assert diagnose(job_of([])) == []
    assert "nothing wrong" in nothing_wrong(job_of([]))
