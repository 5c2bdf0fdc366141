"""`faultline trace diff BASE NEW`: a pipeline fails on what grew, and people see what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.traces.written_traces import document, job, write_trace
from tests.bot.traces.command import trace, write_job

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
    assert found["base"] == {"path": str(base), "ranks": 4, "samples": 32}
    assert found["regressions"][0]["name"] == "step time"
    assert {"measures", "names"} <= set(found)


def test_a_job_without_traces_is_one_line_and_exit_code_2(base: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("nothing here")
    for there, said in ((tmp_path / "absent", "no such file"), (tmp_path / "notes", "holds no trace")):
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
    write_trace(tmp_path / "evil" / "rank0.json", document(job(ranks=1, late_us=late, late_in=evil)[0], 0, 1))
    done = trace("diff", base, tmp_path / "evil")
    assert done.returncode == 0, done.stderr
    assert "[red]x[/red]" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\u202e"}
