"""`faultline ask` in a real terminal (a pty), against a real Prometheus and no settings at all."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from faultline.analysis.case.folder import read_diagnosis
from tests.connectors.conftest import ALERT_AT, RunningPrometheus, prometheus

__all__ = ["prometheus"]

PROGRAM = (sys.executable, "-m", "faultline.bot.cli.main", "ask")
SINCE = ("--since", f"{ALERT_AT.isoformat()}")
WITHIN_S = 120.0


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    home = {"HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    return {**kept, **home, "COLUMNS": "110", "TERM": "xterm"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_an_answer_from_an_address_alone(prometheus: RunningPrometheus, tmp_path: Path) -> None:
    case = tmp_path / "kept"
    asked = ["checkout is slow", *SINCE, "--prometheus", prometheus.url]
    told = run(tmp_path, *asked, "--json", "--case", str(case))
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer["verdict"] == "cause_found"
    assert answer["causes"][0]["subject"] == "checkout"
    assert "asking prometheus" in told.stderr
    assert read_diagnosis(case).first_cause is not None
    assert (case / "answered.json").is_file(), "the case is whole"
    assert not (case / "parts").exists()
    again = run(tmp_path, *asked, "--case", str(case))
    assert (again.returncode, again.stdout) == (2, "")
    assert "is not empty" in again.stderr
    assert not list(tmp_path.glob(".faultline*")), "nothing is left behind"


def test_the_answer_as_a_page(prometheus: RunningPrometheus, tmp_path: Path) -> None:
    file = tmp_path / "answer.html"
    asked = ["checkout is slow", *SINCE, "--prometheus", prometheus.url]
    refused = run(tmp_path, *asked, "--html", str(tmp_path / "nowhere" / "a.html"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--html" in refused.stderr
    assert refused.stderr.count("\n") == 1, "it is refused before anything is asked"
    told = run(tmp_path, *asked, "--html", str(file))
    assert told.returncode == 0, told.stderr
    page = file.read_text(encoding="utf-8")
    assert "checkout is " in page
    assert "histogram_quantile(0.99" in page
    assert "default-src &#39;none&#39;" in page
    assert f"Written as a page: {file}" in told.stdout


def test_questions_go_on_in_the_same_terminal(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "checkout is slow", *SINCE, "--prometheus", prometheus.url],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        shown = _until(ours, "Ask about it")
        assert "cause found" in shown
        assert "⠒" in shown, "the chart"
        os.write(ours, b"since when?\n")
        since = _until(ours, "Ask about it")
        assert "11:50" in since
        assert "alert" not in shown + since, "nothing alerted: somebody asked"
        os.write(ours, b"\n")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_without_a_source_one_line_says_what_to_give(tmp_path: Path) -> None:
    told = run(tmp_path, "checkout is slow")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.count("\n") == 1
    assert "--prometheus http://localhost:9090" in told.stderr


def _until(terminal: int, words: str) -> str:
    shown, deadline = "", time.monotonic() + WITHIN_S
    while words not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown
