"""The command on real jobs: every set is reported, or refused with one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bot.traces.command import trace

REPORTED = {
    "generated/straggler_compute": (4, "straggler"),
    "generated/dataloader_stall": (4, "dataloader_stall"),
    "generated/healthy": (4, None),
    "generated/hang_skip": (0, "flight_recorder_missing_rank"),
    "param/dlrm_kineto_8rank": (8, None),
    "tracelens/mi300/resnet_act_checkpoint.json.gz": (1, None),
    "hta/cpu_only": (1, None),
    "hta/mtia_inference_trace": (1, None),
    "kineto_tb_plugin/resnet50_num_workers_4": (4, None),
}
REFUSED = ("jaeger_otlp", "hta/execution_trace/benchmark_simple_add_et.json.gz")


@pytest.mark.parametrize("name", REPORTED)
def test_a_real_job_is_reported(shared: Path, name: str) -> None:
    ranks, rule = REPORTED[name]
    done = trace(shared / "traces" / name, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["ranks"]) == ranks
    serious = [d["rule"] for d in found["diagnoses"] if d["severity"] == "critical"]
    assert serious[:1] == ([rule] if rule else [])
    assert found["dropped"]["analyses"] == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_trace_is_refused_with_one_line(shared: Path, name: str) -> None:
    done = trace(shared / "traces" / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()


def test_the_page_of_eight_real_ranks_is_small_enough_to_send(shared: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert trace(shared / "traces/param/dlrm_kineto_8rank", "--html", page).returncode == 0
    assert page.stat().st_size < 3_000_000
    assert "Open in Perfetto" in page.read_text()
