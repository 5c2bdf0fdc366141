"""Reports of Nsight Systems are exported by `nsys`, bounded and alone; without it one line says
what to type."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.nsight.export import read_export
from faultline.trace_report import nsight_reports
from faultline.trace_report.nsight_reports import export_command, exported
from faultline.trace_report.sources import opened
from tests.trace_report.command import trace
from tests.trace_report.nsight_tool import no_nsys, nsys_that, small_export

ROOM = 1 << 30


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "job" / "run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(b"\0a report of some kind")
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def test_a_report_is_read_like_its_export(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_that(tmp_path, f'cp {small_export(tmp_path / "real.sqlite")} "$output"', monkeypatch)
    done = trace(report.parent, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(r["rank"], r["file"], r["events"]) for r in found["ranks"]] == [(0, "run.nsys-rep", 2)]
    assert found["dropped"]["files"] == []
    assert sorted(p.name for p in report.parent.iterdir()) == ["run.nsys-rep"]


def test_a_real_export_comes_through(
    shared: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real.sqlite"
    real.write_bytes(
        gzip.decompress((shared / "traces/nsys_sqlite/h100_2gpu_1s.sqlite.gz").read_bytes())
    )
    nsys_that(tmp_path, f'cp {real} "$output"', monkeypatch)
    with opened([str(report)]) as sources:
        (file,) = sources.files
        assert sources.problems == ()
        assert [len(t) for t in read_export(file.path)] == [len(t) for t in read_export(real)]
    assert not file.path.exists()


def test_without_nsys_one_line_says_what_to_type(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_nsys(monkeypatch, tmp_path)
    done = trace(report)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    typed = (
        f"nsys export --type=sqlite --force-overwrite=true "
        f"--output={report.with_suffix('.sqlite')} {report}"
    )
    assert typed in done.stderr


def test_the_command_stays_whole_however_long_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("a" * 120) / ("b" * 120) / "run.nsys-rep"
    deep.parent.mkdir(parents=True)
    deep.write_bytes(b"\0report")
    no_nsys(monkeypatch, tmp_path)
    assert trace(deep).stderr.rstrip().endswith(f"--output={deep.with_suffix('.sqlite')} {deep}")


def test_an_export_beside_the_report_is_read_and_nothing_is_run(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_export(report.with_suffix(".sqlite"))
    nsys_that(tmp_path, f"touch {tmp_path / 'ran'}; exit 1", monkeypatch)
    with opened([str(report.parent)]) as sources:
        assert ([f.name for f in sources.files], sources.problems) == (["run.sqlite"], ())
    assert not (tmp_path / "ran").exists()


def test_an_export_that_bears_a_reports_name_is_an_export(report: Path) -> None:
    small_export(report.parent / "other.sqlite").replace(report)
    with opened([str(report)]) as sources:
        assert [f.path for f in sources.files] == [report]


def test_the_options_are_nvidias_and_nothing_of_the_environment_is_handed_on(
    report: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    real = small_export(tmp_path / "real.sqlite")
    monkeypatch.setenv("PAGERDUTY_TOKEN", "secret")
    nsys_that(
        tmp_path,
        f'printf "%s\\n" "$@" > {told}; env > {told}.env; cp {real} "$output"',
        monkeypatch,
    )
    copy = exported(report, scratch, name="run.nsys-rep", most_bytes=ROOM)
    assert told.read_text().splitlines() == [
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={copy}",
        str(report),
    ]
    names = {line.partition("=")[0] for line in Path(f"{told}.env").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "TMPDIR", "LANG"}


def test_a_name_is_never_taken_for_an_option_or_a_command(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "--output=x; touch y.nsys-rep"
    odd.write_bytes(b"\0report")
    real = small_export(tmp_path / "real.sqlite")
    nsys_that(
        tmp_path,
        f'for last; do :; done; echo "$last" > {tmp_path / "last"}; cp {real} "$output"',
        monkeypatch,
    )
    exported(odd, scratch, name=odd.name, most_bytes=ROOM)
    assert (tmp_path / "last").read_text() == f"{odd}\n"
    assert export_command(odd.name) == (
        "nsys export --type=sqlite --force-overwrite=true '--output=./--output=x; touch y.sqlite' "
        "'./--output=x; touch y.nsys-rep'"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo starting >&2; echo 'Unknown \033[31mversion' >&2; exit 3",
            r"exit status 3 \(Unknown  ?\[31mversion\)",
        ),
        ("exit 0", "wrote no SQLite file"),
        ('head -c 100000 /dev/zero > "$output"', "wrote no SQLite file"),
        ('mkdir "$output"', "wrote no SQLite file"),
    ],
)
def test_an_nsys_that_fails_or_writes_garbage_is_one_line_and_leaves_nothing(
    script: str,
    said: str,
    report: Path,
    scratch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nsys_that(tmp_path, script, monkeypatch)
    with pytest.raises(
        EvidenceError, match=f"{said}; run it where the report was made: nsys export"
    ) as caught:
        exported(report, scratch, name="run.nsys-rep", most_bytes=ROOM)
    assert "\x1b" not in str(caught.value)
    assert list(scratch.iterdir()) == []


def test_garbage_that_looks_like_a_database_is_a_problem_of_that_file(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_that(
        tmp_path,
        '{ printf "SQLite format 3\\0"; head -c 9000 /dev/urandom; } > "$output"',
        monkeypatch,
    )
    done = trace(report)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "run.nsys-rep" in done.stderr


def test_an_nsys_that_hangs_is_ended_with_all_that_it_started(
    report: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_that(tmp_path, f"sleep 600 & echo $! > {tmp_path / 'child'}; wait", monkeypatch)
    with pytest.raises(EvidenceError, match="did not end within 5 s"):
        exported(report, scratch, name="run.nsys-rep", most_bytes=ROOM, limit_s=5)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)
    assert list(scratch.iterdir()) == []


def test_an_nsys_that_fills_the_disk_is_ended(
    report: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_that(tmp_path, 'head -c 200000 /dev/zero > "$HOME/cache"; sleep 600', monkeypatch)
    with pytest.raises(EvidenceError, match="more than the 100,000 bytes of disk"):
        exported(report, scratch, name="run.nsys-rep", most_bytes=100_000)
    assert list(scratch.iterdir()) == []


def test_a_report_that_hangs_nsys_does_not_cost_the_other_files(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_export(report.parent / "other.sqlite")
    shutil.copy(report, report.parent / "second.nsys-rep")
    nsys_that(tmp_path, "sleep 600", monkeypatch)
    monkeypatch.setattr(nsight_reports, "EXPORT_SECONDS", 0.5)
    with opened([str(report.parent)]) as sources:
        assert [f.name for f in sources.files] == ["other.sqlite"]
        assert [name for name, _ in sources.problems] == ["run.nsys-rep", "second.nsys-rep"]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
