"""A real training job of four ranks hangs, an alert fires, and the answer in Slack names the rank
and the line.

Needs PyTorch for the job: see tests/torch_python.py.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from faultline.analysis.traces.flight_recorder.diagnoses import MIN_PAUSES, MIN_STANDING_S
from faultline.bot.store.follow_ups import CaptureLog
from faultline.loopback.bot_process import free_port
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.torch_python import torch_python

RANKS = 4
CULPRIT = 2
JOB = """
import os, time, torch, torch._dynamo, torch.distributed as dist
from torch.distributed.debug import start_debug_server

def read_shard(step):
    time.sleep(0.01)
    if dist.get_rank() == CULPRIT and step == 5:
        with open("hangs", "w") as file:
            file.write(f"{started} {time.time()}")
        time.sleep(600)
    return torch.randn(8, 16)

def train():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    for step in range(1000):
        model(read_shard(step)).sum().backward()

ranks = []
for rank in range(int(os.environ["WORLD_SIZE"])):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ["RANK"] = str(rank)
        dist.init_process_group("gloo")
        started = time.time()
        start_debug_server(port=int(os.environ["DEBUG_PORT"]))
        train()
for process in ranks:
    os.waitpid(process, 0)
""".replace("CULPRIT", str(CULPRIT))
"""Its ranks are forked, so that PyTorch is loaded once; and with it what it loads to tell its first
stack."""
LINE = 1 + next(n for n, text in enumerate(JOB.splitlines()) if "time.sleep(600)" in text)


@contextmanager
def _hanging_job(folder: Path, debug_port: int) -> Iterator[None]:
    """The job, from when it hangs until the end of the test."""
    python = torch_python()
    (folder / "train.py").write_text(JOB)
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
    given |= {"DEBUG_PORT": str(debug_port), "OMP_NUM_THREADS": "1"}
    with (folder / "job.log").open("wb") as log:
        environment = dict(os.environ) | given
        job = subprocess.Popen(
            [python, "train.py"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait_until_it_hangs(folder, debug_port)
            _wait_until_it_stands(folder)
            yield
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _wait_until_it_hangs(folder: Path, debug_port: int) -> None:
    ends = time.monotonic() + 120
    while not (
        (folder / "hangs").exists() and (folder / "hangs").read_text() and _serves(debug_port)
    ):
        said = (folder / "job.log").read_text()
        if "No module named" in said:
            pytest.skip("PyTorch's debug server lacks a package of its own (jinja2, tabulate)")
        assert time.monotonic() < ends, said[-2000:]
        time.sleep(0.1)


def _wait_until_it_stands(folder: Path) -> None:
    """Long enough that no step of the job ever took so long."""
    started, hung = map(float, (folder / "hangs").read_text().split())
    needed = max(MIN_STANDING_S, MIN_PAUSES * (hung - started)) + 1.0
    while time.time() - hung < needed:
        time.sleep(0.2)


def _serves(port: int) -> bool:
    try:
        return (
            httpx.get(f"http://127.0.0.1:{port}/wait_counters", timeout=20).text.count("<h2>")
            >= RANKS
        )
    except httpx.TransportError:
        return False


def _settings(folder: Path, debug_port: int) -> Path:
    """The operator's settings for the job; nothing of it lies where traces are looked for."""
    (folder / "traces").mkdir()
    file = folder / "faultline.toml"
    file.write_text(
        f"""
        [jobs.llm-pretrain]
        ranks = {RANKS}
        traces = ["{folder}/traces"]
        allow_capture = true
        capture_on_alert = true
        debug_server = "http://127.0.0.1:{debug_port}"
        debug_hosts = ["{socket.gethostname()}"]
        """
    )
    return file


def _alert(story: Story, name: str) -> str:
    """Alertmanager's notification that the job stands still; gives the investigation."""
    labels = {"alertname": name, "job_name": "llm-pretrain", "severity": "critical"}
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": "no training step for 5 minutes"},
        "startsAt": datetime.now(UTC).isoformat(),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": f"{abs(hash(name)):016x}"[:16],
    }
    notification = {
        "version": "4",
        "groupKey": name,
        "status": "firing",
        "receiver": "faultline",
        "groupLabels": {},
        "commonLabels": labels,
        "commonAnnotations": alert["annotations"],
        "externalURL": "http://alertmanager.example",
        "alerts": [alert],
        "truncatedAlerts": 0,
    }
    headers = {"authorization": "Bearer am-token"}
    taken = httpx.post(
        f"{story.bot.url}/webhooks/alertmanager", json=notification, headers=headers, timeout=10
    )
    assert taken.status_code == 202
    return str(taken.json()["investigation_id"])


def _answer(story: Story, investigation: str) -> str:
    def texts() -> list[str]:
        return [
            m.text
            for m in story.answers()
            if m.channel == CHANNEL and investigation in str(m.versions)
        ]

    def ended() -> bool:
        found = story.store.get(investigation)
        return found is not None and found.status in ("done", "failed") and bool(texts())

    story.wait_for(ended, within_s=240, what="an answer in Slack")
    return texts()[-1]


@pytest.mark.timeout(900)
def test_the_answer_names_the_rank_and_the_line_that_a_hanging_job_stands_in(
    tmp_path: Path,
) -> None:
    debug_port = free_port()
    with _hanging_job(tmp_path, debug_port):
        given = {
            "FAULTLINE_CONFIG": str(_settings(tmp_path, debug_port)),
            "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": "am-token",
        }
        with bot_story(tmp_path, None, "sqlite", **given) as story:
            first = _alert(story, "TrainingStalled")
            answer = _answer(story, first)
            assert f"rank {CULPRIT}" in answer.lower()
            assert f"read_shard (train.py:{LINE})" in answer
            found = story.store.get(first)
            assert found is not None
            assert (found.verdict, found.status) == ("cause_found", "done")

            second = _alert(story, "TrainingStalledAgain")
            again = _answer(story, second)
            assert f"read_shard (train.py:{LINE})" in again
            captures = CaptureLog(story.store.engine).history("llm-pretrain")
            assert [(row.requested_by, row.status) for row in captures] == [
                (f"investigation {second}", "refused"),
                (f"investigation {first}", "recorded"),
            ]
