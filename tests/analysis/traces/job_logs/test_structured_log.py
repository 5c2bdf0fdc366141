"""TorchTitan's structured log: who stands still and where, who waits for input, numbers; and what
may stand in it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.analysis.traces.job_logs.metrics import read_metrics
from faultline.analysis.traces.job_logs.structured_log import RankSpans, read_structured_logs
from faultline.analysis.traces.reading.file_kinds import kind_of, rank_in_name
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given
from tests.analysis.traces.job_logs.structured_logs import START_US, StructuredLog

LATER = START_US + 3600 * 10**6


def spans(folder: Path) -> list[RankSpans]:
    return read_structured_logs(sort_job_files([folder]).of("structured_log", "log"))


def told(folder: Path, until_us: int | None = LATER) -> list[JobDiagnosis]:
    found = diagnoses_of_files(sort_job_files([folder]), until_us)
    assert all(quoted_numbers_are_given(d.statement, dict(d.numbers)) for d in found)
    return found


def a_job(
    folder: Path, ranks: int = 4, steps: int = 12, slow: int | None = None
) -> list[StructuredLog]:
    logs = [StructuredLog(rank) for rank in range(ranks)]
    for log in logs:
        log.train(range(1, steps + 1), data_ms=42.0 if log.rank == slow else 2.0)
    return logs


def test_a_structured_log_is_known_by_its_first_line_and_its_rank_by_its_name(
    tmp_path: Path,
) -> None:
    log = StructuredLog(11)
    log.train([1])
    path = log.write(tmp_path)
    assert (kind_of(path, path.read_bytes()), rank_in_name(path)) == ("structured_log", 11)


def test_steps_and_waits_for_batches_are_read_by_rank(tmp_path: Path) -> None:
    for log in a_job(tmp_path, ranks=2, steps=3):
        log.write(tmp_path)
    first, second = spans(tmp_path)
    assert (first.rank, second.rank) == (0, 1)
    assert first.step_ms == {1: 100.0, 2: 100.0, 3: 100.0}
    assert first.data_ms == {1: 2.0, 2: 2.0, 3: 2.0}
    assert first.open == ()


def test_the_rank_that_still_waits_for_its_batch_holds_up_the_others(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(41, "fetching_batch" if log.rank == 2 else "fwd_bwd")
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert (found.rule, found.severity, found.ranks, found.steps) == (
        "stuck_rank",
        "critical",
        (2,),
        (41,),
    )
    assert found.statement.startswith(
        "rank 2 stands in fetching_batch of step 41, while 3 other ranks wait in fwd_bwd of step "
        "41; nothing has moved"
    )
    assert found.details["at"].startswith("2026-11-21T")


def test_a_rank_in_an_earlier_step_is_named(tmp_path: Path) -> None:
    for log in a_job(tmp_path, ranks=2):
        log.stop_in(40 if log.rank == 0 else 41, "optim")
        log.write(tmp_path)
    assert [d.ranks for d in told(tmp_path)] == [(0,)]


def test_a_rank_whose_spans_all_ended_is_named_where_the_others_stand(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        if log.rank != 3:
            log.stop_in(13, "optim")
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert found.ranks == (3,)
    assert "outside of all spans, after step 12" in found.statement


def test_between_two_phases_is_said_so(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        if log.rank == 1:
            log.stop_in(13, "fetching_batch")
        else:
            log.step = 13
            log.begin("step")
        log.write(tmp_path)
    assert "3 other ranks wait between the phases of step 13" in told(tmp_path)[0].statement


def test_all_ranks_in_one_place_blame_nobody(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(13, "fwd_bwd")
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert (found.rule, found.ranks) == ("all_ranks_stuck", ())


def test_logs_of_a_job_that_may_be_running_accuse_nobody(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(13, "fetching_batch" if log.rank == 2 else "fwd_bwd")
        log.write(tmp_path)
    for until in (None, START_US + 10 * 10**6):
        assert [d.severity for d in told(tmp_path, until)] == ["info"]


def test_a_collective_that_timed_out_says_that_the_job_hangs(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(13, "fetching_batch" if log.rank == 2 else "fwd_bwd")
        log.write(tmp_path)
    line = (
        "[rank0]: [E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
        "OpType=ALLREDUCE) ran for 1 ms"
    )
    (tmp_path / "rank_0.log").write_text(line)
    assert ("stuck_rank", "critical") in [(d.rule, d.severity) for d in told(tmp_path, None)]


def test_a_finished_job_stands_nowhere(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.write(tmp_path)
    assert told(tmp_path) == []


def test_a_rank_that_waits_for_its_batches_is_a_straggler(tmp_path: Path) -> None:
    for log in a_job(tmp_path, slow=2, steps=30):
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert (found.rule, found.severity, found.ranks) == ("straggler", "critical", (2,))
    assert found.statement == (
        "rank 2 waits 42 ms of a step of 100 ms for the next batch, the others 2 ms, in 29 steps"
    )


def test_one_long_wait_makes_no_straggler(tmp_path: Path) -> None:
    logs = a_job(tmp_path)
    logs[1].train([13], data_ms=5000.0)
    for log in logs:
        if log.rank != 1:
            log.train([13])
        log.write(tmp_path)
    assert told(tmp_path) == []


def test_all_ranks_that_wait_for_input_are_one_stall(tmp_path: Path) -> None:
    for rank in range(4):
        log = StructuredLog(rank)
        log.train(range(1, 12), data_ms=40.0, compute_ms=57.0)
        log.write(tmp_path)
    assert [(d.rule, d.severity, d.ranks) for d in told(tmp_path)] == [
        ("dataloader_stall", "warning", ())
    ]


def test_scalars_and_step_lengths_are_metrics(tmp_path: Path) -> None:
    log = StructuredLog(3)
    log.train([1])
    log.scalar("train.loss", 2.5)
    log.scalar("grad_norm", float("nan"))
    log.scalar("local_valid_tokens", 8192)
    log.write(tmp_path)
    (found,) = read_metrics(sort_job_files([tmp_path]).of("structured_log"))
    assert (found.rank, found.values["loss"], found.values["step_ms"]) == (3, {1: 2.5}, {1: 100.0})
    assert found.values["grad_norm"][1] != found.values["grad_norm"][1]


def test_the_exception_that_ended_a_span_is_told(tmp_path: Path) -> None:
    logs = a_job(tmp_path, ranks=3)
    logs[1].record(
        "event",
        "fwd_bwd_error",
        message="[step 12] fwd_bwd_error: ValueError: bad shape <!channel>",
    )
    for log in logs:
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert (found.rule, found.ranks, found.statement) == (
        "exception",
        (1,),
        "rank 1 raises ValueError",
    )


def test_a_restart_goes_on_where_the_first_log_ended(tmp_path: Path) -> None:
    for log in a_job(tmp_path, ranks=2, steps=5):
        path = log.write(tmp_path)
        path.rename(path.with_name(path.name.replace("112023", "101500")))
        again = StructuredLog(log.rank)
        again.now_us = log.now_us + 60 * 10**6
        again.train(range(4, 9))
        again.write(tmp_path)
    first = spans(tmp_path)[0]
    assert sorted(first.step_ms) == list(range(1, 9))


def test_of_several_programs_the_one_that_trains_stands_for_the_job(tmp_path: Path) -> None:
    for log in a_job(tmp_path, ranks=2):
        log.write(tmp_path)
    other = StructuredLog(0, source="rl_generator")
    for step in range(50):
        other.step = step
        other.span("rl_generate", 400.0)
    other.write(tmp_path)
    assert [len(own.step_ms) for own in spans(tmp_path)] == [12, 12]


def test_lines_among_a_console_log_are_read(tmp_path: Path) -> None:
    for log in a_job(tmp_path, ranks=2):
        lines = [
            x
            for n, line in enumerate(log.lines)
            for x in (f"[titan] 2026-11-21 - root - INFO - line {n}", line)
        ]
        (tmp_path / f"rank_{log.rank}.log").write_text("\n".join(lines))
    assert [f.kind for f in sort_job_files([tmp_path]).files] == ["log", "log"]
    assert [len(own.step_ms) for own in spans(tmp_path)] == [12, 12]


def test_an_investigation_accuses_the_rank_that_stands_still(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(13, "fetching_batch" if log.rank == 2 else "fwd_bwd")
        log.write(tmp_path / "traces")
    alert = {
        "source": "x",
        "title": "no progress",
        "started_at": "2026-11-21T12:40:00Z",
        "labels": {"job_name": "j"},
    }
    (tmp_path / "alert.json").write_text(json.dumps(alert))
    found = diagnose(read_case(tmp_path))
    assert (found.verdict, found.causes[0].kind, found.causes[0].subject) == (
        "cause_found",
        "stuck_rank",
        "rank 2",
    )


def test_titans_metrics_tell_of_input_and_memory(tmp_path: Path) -> None:
    rows = [
        {
            "step": s,
            "time_metrics/data_loading(%)": 31.0,
            "memory/max_reserved(%)": 98.5,
            "memory/num_alloc_retries": s,
        }
        for s in range(1, 40)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(json.dumps(r) for r in rows))
    assert {(d.rule, d.severity) for d in told(tmp_path)} == {
        ("dataloader_stall", "warning"),
        ("memory_pressure", "critical"),
    }


def test_titans_console_line_tells_how_full_memory_is(tmp_path: Path) -> None:
    line = (
        "step: {}  loss:  7.00000  grad_norm:  1.2000  memory: 75.10GiB(94.10%)  tps: 5,000  "
        "tflops: 1.0  mfu: 40.00%"
    )
    (tmp_path / "rank_0.log").write_text("\n".join(line.format(s) for s in range(1, 9)))
    (found,) = told(tmp_path)
    assert (found.rule, found.severity, found.numbers["percent"]) == (
        "memory_pressure",
        "warning",
        94.1,
    )


def test_validation_is_no_training_step(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(
        "validate step: 10  loss: 99.0  memory: 75.10GiB(94.10%)  tps: 5,000"
    )
    assert read_metrics(sort_job_files([tmp_path]).files) == []


HOSTILE = (
    '{"log_type_name": "step_start", "time_us"',
    '{"log_type_name": "step_end", "time_us": 1, "step": "two", "value": 5}',
    '{"log_type_name": "step_end", "time_us": 1, "step": 2, "value": "long"}',
    '{"log_type_name": "step_end", "time_us": 1, "step": ' + "9" * 400 + ', "value": 5}',
    '{"log_type_name": "step_end", "time_us": ' + "9" * 5000 + "}",
    '{"log_type_name": "step_end", "time_us": NaN, "step": 2, "value": 1}',
    '{"log_type_name": "step_end", "time_us": -5, "step": 2, "value": 1}',
    '{"log_type_name": "step_end", "time_us": 1e300, "step": 2, "value": 1}',
    '{"log_type_name": "step_end", "time_us": 7, "step": 2, "value": Infinity}',
    '{"log_type_name": "step_end", "time_us": 7, "step": 2, "value": -3}',
    '{"log_type_name": "metric_value", "log_type": "instant", "event_name": "loss", "time_us": 7, "step": 1, "value": '  # noqa: E501
    + "9" * 400
    + "}",
    '{"log_type_name": null, "time_us": 7}',
    '{"log_type_name": ["step_end"], "time_us": 7}',
    '{"log_type_name": "_start", "time_us": 7, "rank": -4}',
    '{"log_type_name": "_start", "time_us": 7, "rank": 99999999999}',
    '{"log_type_name": "_error", "time_us": 7, "rank": 0, "message": "_error: "}',
    '{"log_type_name": "step_start", "time_us": 7, "rank": 0, "step": -1}',
    '{"log_type_name": "' + "[" * 9000 + '"}',
    '{"log_type_name": ' + "[" * 9000,
    '"log_type_name"',
    "\x00\x1b[31m{\"log_type_name\": \"\ud800\"}",
)  # fmt: skip


def test_hostile_lines_cost_nothing_but_themselves(tmp_path: Path) -> None:
    logs = a_job(tmp_path, ranks=2)
    for log in logs:
        log.lines[20:20] = HOSTILE
        place = log.write(tmp_path / "plain").parent
        text = "\n".join(log.lines)[:-40]
        (place / f"training.global_rank_{log.rank}.20261121-112023-5EPIWD.jsonl").write_bytes(
            text.encode("utf-8", "surrogatepass")
        )
    found = spans(tmp_path)
    assert [own.rank for own in found] == [0, 1]
    assert all(own.step_ms[s] == 100.0 for own in found for s in range(4, 12))
    assert all(step < 10**6 for own in found for step in own.step_ms)
    read_metrics(sort_job_files([tmp_path]).files)
    told(tmp_path)


def test_names_that_want_to_be_markup_stay_inert(tmp_path: Path) -> None:
    for log in a_job(tmp_path):
        log.stop_in(13, "<!channel>`\x1b[m" + "x" * 5000 if log.rank == 2 else "fwd_bwd")
        log.write(tmp_path)
    (found,) = told(tmp_path)
    assert not set("<>`\x1b") & set(found.statement)
    assert len(found.statement) < 300


def test_spans_that_never_end_stay_bounded(tmp_path: Path) -> None:
    log = StructuredLog(0)
    for n in range(5_000):
        log.begin(f"a{n}")
        log.lines[-1] = log.lines[-1].replace('"tid": 1971', f'"tid": {n % 700}')
    log.write(tmp_path)
    (own,) = spans(tmp_path)
    assert len(own.open) <= 64


@pytest.mark.parametrize("kind", ["steps", "junk"])
def test_a_quarter_of_a_million_lines_are_read_in_bounded_time(tmp_path: Path, kind: str) -> None:
    log = StructuredLog(0)
    log.train([1])
    line = (
        log.lines[-1]
        if kind == "steps"
        else json.dumps({"log_type_name": "x" * 200, "time_us": "y" * 200})
    )
    place = tmp_path / "structured_logs"
    place.mkdir()
    with (place / "training.global_rank_0.20261121-112023-5EPIWD.jsonl").open("w") as file:
        file.write(log.lines[0] + "\n")
        for _ in range(25):
            file.write((line + "\n") * 10_000)
    begun = time.process_time()
    spans(tmp_path)
    assert time.process_time() - begun < 15
