"""The command on real jobs: every set is reported, or refused with one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trace_report.command import trace, trace_process

EIGHT_RANKS = "param/dlrm_kineto_8rank"
REPORTED = {
    "generated/straggler_compute": (4, "straggler"),
    "generated/dataloader_stall": (4, "dataloader_stall"),
    "generated/healthy": (4, None),
    "generated/hang_skip": (0, "flight_recorder_missing_rank"),
    EIGHT_RANKS: (8, None),
    "tracelens/mi300/resnet_act_checkpoint.json.gz": (1, None),
    "hta/cpu_only": (1, None),
    "hta/mtia_inference_trace": (1, None),
    "kineto_tb_plugin/resnet50_num_workers_4/worker0.pt.trace.json.gz": (1, None),
}
REFUSED = ("jaeger_otlp", "hta/execution_trace/benchmark_simple_add_et.json.gz")


@pytest.mark.parametrize("name", REPORTED)
def test_a_real_job_is_reported(shared: Path, tmp_path: Path, name: str) -> None:
    ranks, rule = REPORTED[name]
    page = tmp_path / "page.html"
    with_page = ("--html", page) if name == EIGHT_RANKS else ()
    # Read by several processes: those of a process of one thread start at once, with all that it
    # has loaded.
    command = trace_process if name == EIGHT_RANKS else trace
    done = command(shared / "traces" / name, "--json", *with_page)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["ranks"]) == ranks
    serious = [d["rule"] for d in found["diagnoses"] if d["severity"] == "critical"]
    assert serious[:1] == ([rule] if rule else [])
    assert found["dropped"]["analyses"] == []
    if with_page:
        assert page.stat().st_size < 3_000_000, (
            "the page of eight real ranks is small enough to send"
        )
        assert "Open in Perfetto" in page.read_text()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_is_refused_with_one_line(shared: Path, name: str) -> None:
    done = trace(shared / "traces" / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()
