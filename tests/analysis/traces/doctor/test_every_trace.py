"""What the doctor says of every recorded trace at hand: who is accused of what, and that all others
are left alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from faultline.analysis.traces.across_ranks.rank_summary import summarise
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given

DEMO = Path(__file__).resolve().parents[4] / "demo" / "cases"
SETS = ("hta", "kineto_tb_plugin", "param", "tracelens", "dynolog_on_demand")
JOBS = ("hta/trace_filter", "param/dlrm_kineto_8rank", "debug_server")
"""Folders that hold the ranks of one job; every other file is a separate recording."""
ACCUSED = {
    "kineto_tb_plugin/resnet50_num_workers_0": ["dataloader_stall"],
    "param/resnet_kineto.json.gz": ["dataloader_stall", "pageable_copies"],
    "param/linear_kineto.json.gz": ["gpu_idle"],
    "hta/nccl_parser_config": ["gpu_idle"],
    "hta/negative_queue_length_values_check": ["gpu_idle"],
    "hta/timeline_analysis": ["gpu_idle"],
    "hta/trace_filter": ["gpu_idle"],
    "tracelens/mi300/resnet_act_checkpoint": ["communication_bound"],
    "debug_server": ["communication_bound"],
}
"""By the beginning of the path. A loader in the training process, which the plugin's own sample is
made to show; one that starves its GPU for half of each step; GPUs that are busy 24 to 45 % of the
time with many long gaps; a rank of eight, and two ranks on a CPU, that spend more than 40 % of
their time in exposed communication. Nothing else is accused."""


def job_from(paths: Iterable[Path]) -> TrainingJob:
    files = sort_job_files(paths)
    summaries = []
    for number, file in enumerate(files.of("profiler_trace")):
        trace = read_trace(file.path, order=number)
        assert (len(trace) > 0, trace.dropped) == (True, {}), file.path
        summaries.append(summarise(trace))
    return job_of(summaries, hang_diagnoses(files))


def accusations(diagnoses: Iterable[JobDiagnosis]) -> list[str]:
    return [d.rule for d in diagnoses if d.severity != "info"]


def recordings(root: Path) -> list[tuple[str, list[Path]]]:
    jobs = [root / name for name in JOBS]
    alone = [f.path for name in SETS for f in sort_job_files([root / name]).of("profiler_trace")]
    alone = [path for path in alone if not any(path.is_relative_to(job) for job in jobs)]
    return [(str(p.relative_to(root)), [p]) for p in alone] + [
        (name, [root / name]) for name in JOBS
    ]


def test_of_all_unlabelled_recordings_only_those_with_a_reason_are_accused(shared: Path) -> None:
    seen = 0
    for name, paths in recordings(shared / "traces"):
        expected = next((rules for start, rules in ACCUSED.items() if name.startswith(start)), [])
        found = diagnose(job_from(paths))
        assert accusations(found) == expected, name
        for d in found:
            assert quoted_numbers_are_given(d.statement, dict(d.numbers)), d.statement
        seen += 1
    assert seen >= 50


CAUSES = {
    "straggler_compute": "straggler",
    "dataloader": "dataloader_stall",
    "launch_overhead": "tiny_kernels",
    "no_overlap": "no_overlap",
    "checkpoint": "slow_step",
    "nan": "nan_loss",
    "desync_missing": "flight_recorder_missing_rank",
    "desync_type": "flight_recorder_mismatch",
}


def test_every_labelled_recording_gets_its_cause_and_its_culprits(shared: Path) -> None:
    labels = sorted((shared / "traces" / "generated").glob("*/label.json"))
    assert len(labels) >= 11
    for label in labels:
        told = json.loads(label.read_text())
        found = [d for d in diagnose(job_from([label.parent])) if d.severity != "info"]
        if told["cause"] == "none":
            # Nothing was injected, but communication over gloo takes half of some of these jobs.
            assert accusations(found) in ([], ["communication_bound"]), label.parent.name
            continue
        assert found[0].rule == CAUSES[told["cause"]], label.parent.name
        assert found[0].ranks == tuple(told["culprit_ranks"] or ()), label.parent.name
        others = [rule for rule in accusations(found[1:]) if rule != "communication_bound"]
        assert others == [], label.parent.name
        assert quoted_numbers_are_given(found[0].statement, dict(found[0].numbers)), found[
            0
        ].statement


@pytest.mark.parametrize(
    ("case", "expected"),
    [("healthy-training", ["communication_bound"]), ("slow-rank", ["straggler"])],
)
def test_the_recorded_cases_of_the_demo(case: str, expected: list[str]) -> None:
    found = job_from([DEMO / case / "traces"])
    assert accusations(diagnose(found)) == expected
