"""`faultline trace PATH...` as people and programs call it: what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.native import lane as native
from tests.analysis.traces.written_traces import document, event, job, write_trace
from tests.trace_report.command import STRAGGLER, trace, trace_process, write_job

KEYS = ["ranks", "summary", "analyses", "diagnoses", "dropped"]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def answer(*arguments: object) -> dict[str, Any]:
    done = trace(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout, parse_constant=refuse)
    assert list(found) == KEYS
    return found


def test_a_straggler_is_named_first(tmp_path: Path) -> None:
    done = trace_process(write_job(tmp_path, STRAGGLER))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 ranks of 4 · 8 steps · ")
    first = next(line for line in lines[1:] if line)
    assert first.split() == ["critical", "rank", "2"]
    assert "fix:" in done.stdout
    assert "look at:" in done.stdout


def test_a_healthy_job_is_not_accused(tmp_path: Path) -> None:
    found = answer(write_job(tmp_path))
    assert found["summary"]["verdict"] == "nothing_wrong"
    assert [d for d in found["diagnoses"] if d["severity"] != "info"] == []


def test_what_is_piped_has_no_colour_and_fits_100_columns(tmp_path: Path) -> None:
    done = trace(write_job(tmp_path, STRAGGLER))
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert len(done.stdout.splitlines()) <= 45


def test_json_holds_ranks_summary_analyses_diagnoses_and_what_was_dropped(tmp_path: Path) -> None:
    found = answer(write_job(tmp_path, STRAGGLER))
    assert [r["rank"] for r in found["ranks"]] == [0, 1, 2, 3]
    assert found["summary"]["verdict"] == "something_wrong"
    first = found["diagnoses"][0]
    assert set(first) == {
        "rule",
        "severity",
        "subject",
        "statement",
        "cost_ns",
        "evidence",
        "fix",
        "source",
    }
    assert set(first["evidence"]) == {"ranks", "steps", "numbers", "events", "details"}
    assert (first["rule"], first["subject"], first["evidence"]["ranks"]) == (
        "straggler",
        "rank 2",
        [2],
    )
    assert {e["rank"] for e in first["evidence"]["events"]} == {2}
    assert {"temporal", "operators", "critical_path", "collectives", "blame"} <= set(
        found["analyses"]
    )
    assert all(isinstance(rows, list) for rows in found["analyses"].values())
    assert found["dropped"]["files"] == []


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write_job(tmp_path, STRAGGLER)
    found = trace_process(folder, "--json").stdout
    assert found == trace(folder, "--json", "--jobs", 1).stdout
    assert json.loads(found)["ranks"]


def test_only_the_analyses_and_the_rank_that_are_asked_for_are_given(tmp_path: Path) -> None:
    found = answer(write_job(tmp_path), "--only", "operators,temporal", "--rank", 1)
    assert set(found["analyses"]) == {"operators", "temporal"}
    assert {row["rank"] for rows in found["analyses"].values() for row in rows} == {1}


def test_analyses_of_one_step_count_what_began_in_it(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    whole = answer(folder, "--analyses", "operators", "--rank", 0)["analyses"]["operators"]
    step = answer(folder, "--analyses", "operators", "--rank", 0, "--step", 3)["analyses"][
        "operators"
    ]
    calls = {row["name"]: row["calls"] for row in whole if "name" in row}
    assert {row["name"]: row["calls"] for row in step if row.get("name") == "aten::mm"} == {
        "aten::mm": 1
    }
    assert calls["aten::mm"] == 8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--analyses", "vibes"], "no analysis is called 'vibes'"),
        (["--rank", "9"], "there is no rank 9; there are 0, 1, 2, 3"),
        (["--html", "/nowhere/at/all.html"], "/nowhere/at/all.html: cannot be written"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, options: list[str], said: str) -> None:
    done = trace(write_job(tmp_path), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_page_is_not_written_over_a_trace(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", ranks=1)
    (file,) = folder.iterdir()
    before = file.read_bytes()
    (tmp_path / "page.html").symlink_to(file)
    for target in (file, tmp_path / "page.html"):
        done = trace(folder, "--html", target)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "is one of the traces" in done.stderr
    assert file.read_bytes() == before


def test_kernels_that_took_no_time_have_a_page(tmp_path: Path) -> None:
    kernels = [event("gemm", 5.0, 0.0, cat="kernel", tid=7, stream=7) for _ in range(5)]
    done = trace(
        write_trace(tmp_path / "rank0.json", document(kernels)), "--html", tmp_path / "page.html"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gemm" in (tmp_path / "page.html").read_text()


def test_very_many_unreadable_files_are_told_in_a_few_lines(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"rank{number}.json").write_bytes(b'{"a": [1]}')
    done = trace(tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 22
    assert "40 more files could not be read" in done.stderr


def test_the_name_of_a_single_unreadable_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    odd = tmp_path / "a\n\x1b[31mrank0.json"
    odd.write_bytes(b'{"a": [1]}')
    for arguments in ((odd,), ("diff", odd, odd)):
        done = trace(*arguments)
        assert done.returncode == 2
        assert "\x1b" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.json", b"", "is empty"),
        ("rank0.json", b'{"a": [1, 2]}', "is not a profiler trace"),
        ("notes.md", b"# what we saw", "notes.md"),
        ("broken.zip", b"PK\x03\x04 nothing", "is not an archive"),
        ("rank0.json.gz", b"\x1f\x8b\x08\x00 no gzip", "rank0.json.gz"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_code_2(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = trace(tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_path_that_is_not_there_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = trace(tmp_path / "absent.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"faultline: {tmp_path}/absent.json: no such file\n"


def test_files_that_cannot_be_read_do_not_keep_the_others_from_it(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job")
    (folder / "rank7.pt.trace.json").write_bytes(b"[1, 2, 3]")
    done = trace(folder, tmp_path / "absent", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert len(found["ranks"]) == 4
    assert [d["file"] for d in found["dropped"]["files"]] == [
        str(tmp_path / "absent"),
        "rank7.pt.trace.json",
    ]
    assert len(done.stderr.splitlines()) == 2


def test_a_truncated_trace_gives_what_comes_before_and_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(document(job(ranks=1, steps=50)[0])).encode())
    (tmp_path / "rank0.json.gz").write_bytes(whole[: len(whole) // 2])
    done = trace(tmp_path)
    assert done.returncode == 0
    assert "gzip data end early" in done.stdout


HOSTILE = (
    "[red]x[/red] \x1b[31m\r\n\x07 </script><img src=x onerror=alert(1)> \u202e\ud800 '\" 漢字 "
    + "y" * 5000
)


def test_names_out_of_a_trace_are_text_and_nothing_else(tmp_path: Path) -> None:
    events = [
        {**e, "name": HOSTILE if e["name"] == "aten::mm" else e["name"]} for e in job(ranks=1)[0]
    ]
    write_trace(tmp_path / "rank0.json", document(events, host=HOSTILE))
    done = trace(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[red]x[/red]" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\x07", "\u202e", "\r"}
    assert max(map(len, done.stdout.splitlines())) <= 100
    found = answer(tmp_path)
    assert any("[red]x[/red]" in row.get("name", "") for row in found["analyses"]["operators"])


@pytest.mark.parametrize(
    "events",
    [
        [],
        [event("aten::mm", 0.0, 0.0)],
        [event("k", 5.0, 3.0, cat="kernel", stream=7)],
        [event("ProfilerStep#0", 0.0, 0.0, cat="user_annotation")],
    ],
)
def test_traces_with_next_to_nothing_in_them_are_reported(
    tmp_path: Path, events: list[dict[str, Any]]
) -> None:
    write_trace(tmp_path / "rank0.json", document(events, None))
    for options in ([], ["--json"], ["--html", tmp_path / "page.html"]):
        done = trace(tmp_path / "rank0.json", *options)
        assert done.returncode == 0, done.stderr


def test_the_newest_capture_of_a_rank_counts_and_the_others_are_named(tmp_path: Path) -> None:
    for name, start in (("a_rank0.json", 0.0), ("b_rank0.json", 1e6), ("c_rank0.json", 5e5)):
        write_trace(tmp_path / name, document([event("aten::mm", start, 10.0)], 0))
    found = answer(tmp_path)
    assert [r["file"] for r in found["ranks"]] == ["b_rank0.json"]
    assert found["dropped"]["older_captures"] == ["a_rank0.json", "c_rank0.json"]


@pytest.mark.parametrize(("severity", "code"), [("critical", 1), ("warning", 1)])
def test_a_pipeline_can_fail_on_what_is_wrong(tmp_path: Path, severity: str, code: int) -> None:
    assert trace(write_job(tmp_path / "slow", STRAGGLER), "--fail-on", severity).returncode == code
    assert trace(write_job(tmp_path / "well"), "--fail-on", severity).returncode == 0


def test_a_file_called_diff_is_given_with_its_folder(tmp_path: Path) -> None:
    write_trace(tmp_path / "diff", document(job(ranks=1)[0]))
    assert trace(f"{tmp_path}/diff").returncode == 0
    assert trace("--", f"{tmp_path}/diff").returncode == 0
    assert "Missing argument" in trace("diff").stderr


def test_help_names_both_commands() -> None:
    said = trace("--help").stdout
    assert "--html" in said
    assert "faultline trace diff BASE NEW" in said
    assert "--fail-over" in trace("diff", "--help").stdout


def test_an_archive_of_traces_is_a_job(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job", STRAGGLER)
    archive = shutil.make_archive(str(tmp_path / "traces"), "zip", folder)
    found = answer(archive)
    assert [r["file"] for r in found["ranks"]] == [
        f"traces.zip/rank{n}.pt.trace.json.gz" for n in range(4)
    ]
    assert found["diagnoses"][0]["rule"] == "straggler"


def test_on_a_terminal_a_long_run_shows_how_far_it_is_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    for rank, events in enumerate(job(ranks=2, steps=50)):
        write_trace(tmp_path / f"rank{rank}.json", document(events, rank, 2))
    main, other = pty.openpty()
    soon = (
        "from faultline.bot.cli import main as cli; from faultline.trace_report "
        "import progress, workers; "
        "progress.AFTER_S = 0.01; workers.SMALL_BYTES = 1_000; "
        "cli.main()"
    )
    command = [sys.executable, "-c", soon, "trace", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=other) as running:
        os.close(other)
        shown = b""
        with contextlib.suppress(OSError):
            while block := os.read(main, 65536):
                shown += block
        assert running.wait(timeout=110) == 0
    os.close(main)
    assert b"/2" in shown
    assert b"rank" in shown


def test_without_the_compiled_library_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "EDITABLE_FOLDER", "no_such_package")
    native.library.cache_clear()
    try:
        done = trace(write_job(tmp_path))
    finally:
        native.library.cache_clear()
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("faultline: traces are read in Python, many times slower: there is no")
