"""Whole captures through stand-in daemons on loopback: several ports are several hosts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.investigation.capture.captured import CaptureResult, plan_capture
from faultline.bot.investigation.capture.run import run_capture
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.follow_ups import CaptureLog, CaptureRecord
from faultline.loopback.preloaded import run_preloaded
from tests.bot.investigation.capture.recording_job import hosts, job_settings, recording
from tests.bot.investigation.capture.test_dynolog import TRAINING
from tests.dynolog_daemon import DynologDaemon, environment
from tests.torch_python import torch_python
from tests.trace_report.command import faultline


def captured(settings: Settings, output: Path, **wanted: Any) -> CaptureResult:
    store = open_store(settings)
    plan = plan_capture(settings, "llm", **wanted)
    try:
        return asyncio.run(
            run_capture(plan, CaptureLog(store.engine), output, requested_by="a test")
        )
    finally:
        store.engine.dispose()


def record(settings: Settings) -> list[CaptureRecord]:
    store = open_store(settings)
    try:
        return CaptureLog(store.engine).history("llm")
    finally:
        store.engine.dispose()


def triggers(daemon: DynologDaemon) -> list[dict[str, str]]:
    asked = [r["config"] for r in daemon.requests if r["fn"] == "setKinetOnDemandRequest"]
    return [dict(line.split("=", 1) for line in config.split("\n")) for config in asked]


def gaps(result: CaptureResult) -> str:
    return "\n".join(f"{gap.where}: {gap.why}" for gap in result.gaps)


def test_all_hosts_record_the_same_moment_and_their_files_come_together(tmp_path: Path) -> None:
    with hosts((10, 11), (10, 12)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons, ranks_per_host=2)
        result = captured(settings, tmp_path / "out")
        told = [triggers(daemon)[0] for daemon in daemons]
    assert (result.status, result.gaps) == ("recorded", ())
    assert told[0]["PROFILE_START_TIME"] == told[1]["PROFILE_START_TIME"]
    assert int(told[0]["PROFILE_START_TIME"]) / 1000 > time.time()
    assert sorted((file.pid, file.rank) for file in result.files) == [
        (10, 0),
        (10, 0),
        (11, 1),
        (12, 2),
    ]
    assert len({file.path.name for file in result.files}) == 4
    assert {f.path.name for f in result.files} | {"capture.json"} == {
        p.name for p in result.folder.iterdir()
    }
    assert len(json.loads((result.folder / "capture.json").read_text())["files"]) == 4


def test_what_was_asked_is_on_record(tmp_path: Path) -> None:
    with hosts((10,)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons)
        result = captured(settings, tmp_path / "out")
        (row,) = record(settings)
        assert row.hosts == f"127.0.0.1:{daemons[0].port}"
    assert (row.id, row.status, row.requested_by, row.requested) == (
        result.id,
        "recorded",
        "a test",
        "0.5 s",
    )
    assert (row.result, row.counts) == ("files: 1, gaps: 0", True)


def test_the_cool_down_keeps_the_job_in_peace(tmp_path: Path) -> None:
    with hosts((10,)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons, cooldown_minutes=30)
        assert captured(settings, tmp_path / "out").status == "recorded"
        second = captured(settings, tmp_path / "out")
        assert len(triggers(daemons[0])) == 1
    assert second.refusal is not None
    assert "30 min of cool-down left" in second.refusal
    assert [row.status for row in record(settings)] == ["refused", "recorded"]


def test_of_two_workers_at_once_one_asks(tmp_path: Path) -> None:
    with hosts((10,)) as daemons, recording(daemons):
        settings = job_settings(tmp_path, daemons, cooldown_minutes=30)
        open_store(settings).engine.dispose()
        with ThreadPoolExecutor(2) as workers:
            results = list(workers.map(lambda _: captured(settings, tmp_path / "out"), range(2)))
        assert len(triggers(daemons[0])) == 1
    assert sorted(result.status for result in results) == ["recorded", "refused"]


def test_a_job_that_is_recorded_already_is_left_alone_on_all_hosts(tmp_path: Path) -> None:
    with hosts((10,), (11,)) as daemons:
        daemons[0].processes[10].config = "ACTIVITIES_LOG_FILE=/tmp/another.json"
        settings = job_settings(tmp_path, daemons, cooldown_minutes=30)
        result = captured(settings, tmp_path / "out")
        assert triggers(daemons[1]) == []
        daemons[0].processes[10].config = ""
        with recording(daemons):
            assert captured(settings, tmp_path / "out").status == "recorded", (
                "a refusal costs no cool-down"
            )
    assert result.refusal is not None
    assert (
        "1 processes are being recorded already and the other hosts were not asked"
        in result.refusal
    )
    assert not result.folder.exists()


def test_a_host_that_is_busy_later_is_a_gap(tmp_path: Path) -> None:
    with hosts((10,), (11,)) as daemons:
        daemons[1].processes[11].config = "ACTIVITIES_LOG_FILE=" + str(
            tmp_path / "traces/other.json"
        )
        settings = job_settings(tmp_path, daemons, ranks_per_host=1)
        with ThreadPoolExecutor(1) as aside:
            running = aside.submit(captured, settings, tmp_path / "out")
            while not triggers(daemons[1]):
                time.sleep(0.02)
            time.sleep(0.2)
            with recording(daemons):
                result = running.result()
    assert (result.status, [file.pid for file in result.files]) == ("partial", [10])
    assert "1 of 1 processes are being recorded already" in gaps(result)


def test_missing_processes_are_reported(tmp_path: Path) -> None:
    with hosts((10, 11), (), job=77) as daemons, recording(daemons):
        result = captured(
            job_settings(tmp_path, daemons, ranks_per_host=4, slurm_job_id=77), tmp_path / "out"
        )
    assert len(result.files) == 2
    assert "2 processes are registered, 4 are expected" in gaps(result)
    assert "no process of Slurm job 77 is registered with the daemon" in gaps(result)


def test_processes_of_another_job_are_not_asked(tmp_path: Path) -> None:
    with hosts((10,), job=5) as daemons:
        result = captured(job_settings(tmp_path, daemons, slurm_job_id=77), tmp_path / "out")
        assert daemons[0].processes[10].config == ""
    assert (result.status, result.files) == ("failed", ())


def test_a_host_that_is_gone_does_not_keep_the_others_from_recording(tmp_path: Path) -> None:
    with hosts((10,)) as gone:
        pass
    with hosts((11,)) as daemons, recording(daemons):
        result = captured(job_settings(tmp_path, gone + daemons), tmp_path / "out")
    assert [file.pid for file in result.files] == [11]
    assert "Connection refused" in gaps(result)


def test_no_daemon_at_all_is_one_line_and_costs_no_cool_down(tmp_path: Path) -> None:
    with hosts((10,), (11,)) as gone:
        pass
    settings = job_settings(tmp_path, gone, cooldown_minutes=30)
    for _ in range(2):
        refusal = captured(settings, tmp_path / "out").refusal
        assert refusal is not None
        assert refusal.startswith("no Dynolog daemon answers: 127.0.0.1:")
    assert [row.counts for row in record(settings)] == [False, False]


class _ClosesWhenAsked(DynologDaemon):
    def _set(self, request: dict[str, Any]) -> Any:
        return None


def test_a_daemon_that_dies_while_it_is_asked_counts_as_asked(tmp_path: Path) -> None:
    with _ClosesWhenAsked() as daemon:
        settings = job_settings(tmp_path, [daemon])
        result = captured(settings, tmp_path / "out")
    assert "may have been asked: the daemon closed the connection" in gaps(result)
    assert [(row.status, row.counts) for row in record(settings)] == [("failed", True)]


def test_a_file_that_never_comes_is_a_gap(tmp_path: Path) -> None:
    with hosts((10, 11)) as daemons, recording(daemons, silent=(11,)):
        result = captured(
            job_settings(tmp_path, daemons, wait_seconds=3), tmp_path / "out", iterations=2
        )
    assert [file.pid for file in result.files] == [10]
    assert "process 11: no faultline-" in gaps(result)
    assert result.status == "partial"


def test_a_file_that_is_still_being_written_is_not_taken(tmp_path: Path) -> None:
    with hosts((10,)) as daemons:
        settings = job_settings(tmp_path, daemons, wait_seconds=3)
        with ThreadPoolExecutor(1) as aside:
            running = aside.submit(captured, settings, tmp_path / "out", iterations=2)
            while not triggers(daemons[0]):
                time.sleep(0.02)
            name = Path(triggers(daemons[0])[0]["ACTIVITIES_LOG_FILE"]).stem
            (tmp_path / "traces" / f"{name}_10.json.tmp").write_text("{")
            result = running.result()
    assert (result.status, result.files) == ("failed", ())
    assert "was not finished within 3 s" in gaps(result)


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    with hosts((10,)) as daemons:
        settings = job_settings(tmp_path, daemons, wait_seconds=3)
        with ThreadPoolExecutor(1) as aside:
            running = aside.submit(captured, settings, tmp_path / "out", iterations=2)
            while not triggers(daemons[0]):
                time.sleep(0.02)
            name = Path(triggers(daemons[0])[0]["ACTIVITIES_LOG_FILE"]).stem
            (tmp_path / "traces" / f"{name}_10.json").symlink_to(tmp_path / "secret.json")
            assert running.result().files == ()


def test_a_directory_that_the_job_sees_under_another_name(tmp_path: Path) -> None:
    seen_here = tmp_path / "mounted"
    seen_here.mkdir()
    with hosts((10,)) as daemons, recording(daemons, at=seen_here):
        settings = job_settings(
            tmp_path, daemons, job_directory="/scratch/traces", trace_location=str(seen_here)
        )
        result = captured(settings, tmp_path / "out")
        assert triggers(daemons[0])[0]["ACTIVITIES_LOG_FILE"].startswith(
            "/scratch/traces/faultline-"
        )
    assert result.status == "recorded"


def test_storage_that_cannot_be_read_is_found_before_anything_is_asked(tmp_path: Path) -> None:
    with hosts((10,)) as daemons:
        result = captured(
            job_settings(tmp_path, daemons, trace_location=str(tmp_path / "absent")),
            tmp_path / "out",
        )
        assert daemons[0].requests == []
    assert result.refusal is not None
    assert "nothing was asked of the job" in result.refusal


def test_an_output_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with hosts((10,)) as daemons:
        with pytest.raises(SettingsError, match="cannot be written to"):
            captured(job_settings(tmp_path, daemons), tmp_path / "file" / "out")
        assert daemons[0].requests == []


def test_one_that_is_interrupted_is_on_record_and_counts(tmp_path: Path) -> None:
    with hosts((10,)) as daemons:
        settings = job_settings(tmp_path, daemons, cooldown_minutes=30)
        store = open_store(settings)

        async def interrupted() -> None:
            plan = plan_capture(settings, "llm")
            running = asyncio.create_task(
                run_capture(plan, CaptureLog(store.engine), tmp_path / "out", requested_by="x")
            )
            while not triggers(daemons[0]):
                await asyncio.sleep(0.02)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        asyncio.run(interrupted())
        store.engine.dispose()
    (row,) = record(settings)
    assert (row.status, row.counts, row.result) == ("failed", True, "ended early (CancelledError)")


def test_the_command_without_permission_exits_2_and_names_the_setting(tmp_path: Path) -> None:
    config = tmp_path / "faultline.toml"
    config.write_text("[jobs.llm]\nhosts = ['127.0.0.1']\njob_directory = '/tmp'\n")
    done = run_preloaded(["capture", "--job", "llm", "--config", str(config)])
    assert done.returncode == 2
    assert (
        done.stderr
        == "faultline: jobs.llm.allow_capture: is false: this job's machines are not asked for "
        "anything\n"
    )


def test_the_command_captures_and_shows_its_history(tmp_path: Path) -> None:
    config = tmp_path / "faultline.toml"
    with hosts((10,)) as daemons, recording(daemons):
        config.write_text(
            f"[store]\ndirectory = '{tmp_path}/store'\n[jobs.llm]\nallow_capture = true\n"
            f"hosts = ['127.0.0.1:{daemons[0].port}']\njob_directory = '{tmp_path}'\n"
        )
        done = _command("--job", "llm", "--config", str(config), "--output", str(tmp_path / "out"))
        again = _command("--job", "llm", "--config", str(config))
    history = _command("--history", "--config", str(config)).stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "rank 0, process 10 on 127.0.0.1" in done.stdout
    assert again.returncode == 1
    assert "cool-down" in again.stderr
    assert [line.split()[3] for line in history] == ["refused", "recorded"]


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return faultline("capture", *arguments)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_real_job_of_two_processes_is_captured(tmp_path: Path) -> None:
    python = torch_python()
    with tempfile.TemporaryDirectory(prefix="fl-") as short, DynologDaemon(Path(short)) as daemon:
        command = [python, "-c", textwrap.dedent(TRAINING)]
        environ = environment(Path(short))
        ranks = [
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        try:
            # They register as soon as they load PyTorch, before there is a step to record.
            assert [_first_line(rank) for rank in ranks] == ["trains\n", "trains\n"]
            ends = time.monotonic() + 60
            while len(daemon.processes) < 2 and time.monotonic() < ends:
                time.sleep(0.1)
            settings = job_settings(tmp_path, [daemon], ranks_per_host=2, wait_seconds=45)
            result = captured(settings, tmp_path / "out", seconds=2.0)
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
    assert (result.status, result.gaps) == ("recorded", ())
    assert {file.pid for file in result.files} == {rank.pid for rank in ranks}
    assert all(b"aten::linear" in file.path.read_bytes() for file in result.files)
