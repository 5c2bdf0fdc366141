"""`faultline trace diff BASE NEW`: a pipeline fails on what grew, and people see what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.traces.written_traces import document, job, write_trace
from tests.trace_report.command import trace, write_job

SLOWER = {(rank, step): 9_000.0 for rank in range(4) for step in range(8)}
"""Every rank computes 9 ms more in every step; a step was 10 ms, of which 6 ms were idle."""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_job(tmp_path / "base")


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return write_job(tmp_path / "slower", SLOWER)


def test_the_same_job_passes(base: Path) -> None:
    done = trace("diff", base, base, "--fail-over", "5%")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing grew by more than 5 %" in done.stdout


def test_a_slower_job_fails_and_what_grew_is_named(base: Path, slower: Path) -> None:
    done = trace("diff", base, slower, "--fail-over", "5%")
    assert done.returncode == 1
    assert "Step time grew by" in done.stdout
    assert "aten::mm" in done.stdout
    assert "\x1b" not in done.stdout
    assert trace("diff", slower, base, "--fail-over", "5%").returncode == 0


def test_without_a_limit_it_only_tells(base: Path, slower: Path) -> None:
    assert trace("diff", base, slower).returncode == 0


def test_json_says_whether_it_fails_and_why(base: Path, slower: Path) -> None:
    done = trace("diff", base, slower, "--json", "--fail-over", "10")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["fails"], found["fail_over_percent"]) == (True, 10.0)
    assert found["base"] == {"path": str(base), "ranks": 4, "runs": 1, "samples": 32}
    assert found["regressions"][0]["name"] == "step time"
    assert {"measures", "names"} <= set(found)


def test_the_ranges_that_are_steps_can_be_named(base: Path, slower: Path) -> None:
    asked = ("diff", base, slower, "--json", "--steps")
    assert json.loads(trace(*asked, "ProfilerStep#*").stdout)["base"]["samples"] == 32
    assert json.loads(trace(*asked, "epoch *").stdout)["base"]["samples"] == 4, "whole traces"


def test_a_job_without_traces_is_one_line_and_exit_code_2(base: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("nothing here")
    for there, said in (
        (tmp_path / "absent", "no such file"),
        (tmp_path / "notes", "holds no trace"),
    ):
        done = trace("diff", base, there)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("limit", ["much", "-5%", "5%%", "1e3", ""])
def test_what_is_no_percentage_is_one_line_and_exit_code_2(base: Path, limit: str) -> None:
    done = trace("diff", base, base, f"--fail-over={limit}")
    assert done.returncode == 2
    assert "is no percentage" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_names_are_text_and_nothing_else(base: Path, tmp_path: Path) -> None:
    evil = "[red]x[/red]\x1b[31m\n\u202e"
    late = {(0, step): 9_000.0 for step in range(8)}
    write_trace(
        tmp_path / "evil" / "rank0.json",
        document(job(ranks=1, late_us=late, late_in=evil)[0], 0, 1),
    )
    done = trace("diff", base, tmp_path / "evil")
    assert done.returncode == 0, done.stderr
    assert "[red]x[/red]" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\u202e"}


def write_runs(folder: Path, late_us: list[float]) -> Path:
    """One run of one rank per entry; each is so much slower in all of its steps."""
    for number, extra in enumerate(late_us):
        write_job(folder / f"run{number}", {(0, step): extra for step in range(8)}, ranks=1)
    return folder


def test_runs_that_differ_are_noise_and_a_growth_beyond_it_fails(tmp_path: Path) -> None:
    base = write_runs(tmp_path / "base", [0, 400, 1_500])
    same = write_runs(tmp_path / "same", [1_400, 1_000, 300])
    slower = write_runs(tmp_path / "slower", [30_000, 31_000, 30_500])
    assert trace("diff", base, same, "--repeats", "--fail-over", "5%").returncode == 0
    done = trace("diff", base, slower, "--repeats", "--fail-over", "5%", "--json")
    found = json.loads(done.stdout)
    assert (
        done.returncode,
        found["base"]["runs"],
        found["base"]["ranks"],
        found["base"]["samples"],
    ) == (1, 3, 1, 24)


def test_without_folders_the_captures_of_a_rank_are_its_runs(tmp_path: Path) -> None:
    for number in range(3):
        events = job(ranks=1)[0]
        for each in events:
            each["ts"] += number * 1e9
        write_trace(tmp_path / "base" / f"host_1.{number}.pt.trace.json", document(events, 0, 1))
    done = trace("diff", tmp_path / "base", tmp_path / "base", "--json")
    assert json.loads(done.stdout)["base"]["runs"] == 1
    done = trace("diff", tmp_path / "base", tmp_path / "base", "--json", "--repeats")
    assert (
        json.loads(done.stdout)["base"]["runs"],
        json.loads(done.stdout)["base"]["samples"],
    ) == (3, 24)


def test_markdown_says_what_grew_and_names_are_inert_in_it(base: Path, tmp_path: Path) -> None:
    late = {(0, step): 9_000.0 for step in range(8)}
    evil = "a|b`@all\n![x][y]"
    new = write_trace(
        tmp_path / "evil" / "rank0.json",
        document(job(ranks=1, late_us=late, late_in=evil)[0], 0, 1),
    )
    summary = tmp_path / "summary.md"
    assert trace("diff", base, new, "--fail-over", "5%", "--markdown", summary).returncode == 1
    lines = summary.read_text().splitlines()
    assert lines[0].startswith("### Step time grew by ")
    assert any(
        line.startswith("| step time, ms |") and line.endswith("| **grew** |") for line in lines
    )
    row = next(line for line in lines if "@all" in line and line.startswith("|"))
    assert row.count("|") == 6
    assert row.endswith("`a¦b'@all\N{REPLACEMENT CHARACTER}![x][y]` |")
    assert all(line.count("`") % 2 == 0 for line in lines)
    assert lines[-1] == "Base: 1 run, 4 ranks, 32 steps. New: 1 run, 1 rank, 8 steps."


def test_markdown_of_a_job_that_did_not_grow_says_so(base: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    assert trace("diff", base, base, "--fail-over", "5%", "--markdown", summary).returncode == 0
    assert summary.read_text().startswith("### Nothing grew by more than 5 % and the noise\n")


def test_markdown_that_cannot_be_written_is_one_line(base: Path, tmp_path: Path) -> None:
    done = trace("diff", base, base, "--markdown", tmp_path / "absent" / "summary.md")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
