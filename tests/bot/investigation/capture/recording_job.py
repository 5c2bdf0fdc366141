"""Fake hosts: daemons on their own ports, with processes behind them that write what
they are asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from faultline.bot.investigation.capture.dynolog import output_of
from faultline.bot.settings import Settings, StoreSettings
from faultline.bot.settings.investigation import JobSettings
from tests.dynolog_daemon import DynologDaemon, Process


@contextmanager
def hosts(*pids: tuple[int, ...], job: int = 0) -> Iterator[list[DynologDaemon]]:
    """One daemon for each tuple of process ids."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(DynologDaemon()) for _ in pids]
        for daemon, own in zip(daemons, pids, strict=True):
            daemon.processes = {pid: Process(pid, job) for pid in own}
        yield daemons


@contextmanager
def recording(
    daemons: list[DynologDaemon], *, at: Path | None = None, silent: tuple[int, ...] = ()
) -> Iterator[None]:
    """The processes poll their daemons and write as libkineto does: a `.tmp`, then the file. `at`:
    instead of the given directory, as on shared storage that is mounted elsewhere."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(0.05):
            for daemon in daemons:
                for process in list(daemon.processes.values()):
                    config, process.config = process.config, ""
                    if config and process.pid not in silent:
                        _write(config, process.pid, at)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write(config: str, pid: int, at: Path | None) -> None:
    told = dict(line.split("=", 1) for line in config.split("\n") if "=" in line)[
        "ACTIVITIES_LOG_FILE"
    ]
    target = Path(output_of(told, pid))
    target = at / target.name if at else target
    part = target.with_name(target.name + ".tmp")
    part.write_text(
        json.dumps({"distributedInfo": {"backend": "gloo", "rank": pid % 10}, "traceEvents": []})
    )
    part.replace(target)


def job_settings(tmp_path: Path, daemons: list[DynologDaemon], **values: object) -> Settings:
    """One job `llm` on these daemons, allowed, without cool-down; its files lie in
    `tmp_path`/traces."""
    traces = tmp_path / "traces"
    traces.mkdir(exist_ok=True)
    given: dict[str, object] = {
        "allow_capture": True,
        "hosts": [f"127.0.0.1:{daemon.port}" for daemon in daemons],
        "job_directory": str(traces),
        "cooldown_minutes": 0,
        "wait_seconds": 15,
    }
    job = JobSettings.model_validate(given | values)
    return Settings(store=StoreSettings(directory=tmp_path / "store"), jobs={"llm": job})
