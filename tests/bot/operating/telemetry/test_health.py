"""A worker of which a part stands still is unhealthy and says which; a web process about to stop is
not ready."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from faultline.analysis.errors import SettingsError
from faultline.bot.operating.telemetry.listener import AT_ONCE, Listener, Page
from faultline.bot.operating.telemetry.observing import observe_worker
from faultline.bot.operating.telemetry.readiness import DrainingServer, Readiness
from faultline.bot.queue.dispatch import Dispatch
from faultline.bot.runtime.components import EVENT_LOOP, Heartbeat
from faultline.bot.settings import Settings
from faultline.bot.settings.processes import TelemetrySettings
from faultline.bot.store.store import Store

PATIENT_S = 120.0


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class _Stuck:
    """A store whose database does not answer: whoever asks waits."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def undispatched(self, limit: int) -> Sequence[str]:
        self.asked.set()
        self.go_on.wait(PATIENT_S)
        return []

    def mark_dispatched(self, ids: Sequence[str]) -> None:
        pass


def _eventually(url: str, status: int) -> httpx.Response:
    deadline = time.monotonic() + PATIENT_S
    while (answer := httpx.get(url, timeout=PATIENT_S)).status_code != status:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
    return answer


@pytest.fixture
def watched(
    store: Store, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[tuple[Heartbeat, Clock, str]]:
    """A worker's health at an address, by a clock of the test's own."""
    clock = Clock()
    heartbeat = Heartbeat(clock=clock)
    monkeypatch.setattr("faultline.bot.runtime.components.HEARTBEAT", heartbeat)
    telemetry = TelemetrySettings(worker_address="127.0.0.1:0", wedged_after_s=100)
    observing = observe_worker(Settings(telemetry=telemetry), store, heartbeat=heartbeat)
    assert observing.listener is not None
    if "never_gets_to_work" not in request.node.name:
        heartbeat.started()
    yield heartbeat, clock, f"http://{observing.listener.address}/healthz"
    observing.stop()


def test_a_dispatch_that_hangs_makes_the_worker_unhealthy(
    watched: tuple[Heartbeat, Clock, str],
) -> None:
    _, clock, url = watched
    stuck = _Stuck()
    dispatch = Dispatch(stuck, lambda _: None, every_s=0.01)
    dispatch.start()
    assert stuck.asked.wait(PATIENT_S)
    assert httpx.get(url, timeout=PATIENT_S).status_code == 200
    clock.now += 101
    answer = httpx.get(url, timeout=PATIENT_S)
    assert (answer.status_code, answer.text) == (
        503,
        "no sign of life: dispatch of _stuck for 101 s\n",
    )
    stuck.go_on.set()
    _eventually(url, 200)
    dispatch.stop()


def test_an_event_loop_that_hangs_makes_the_worker_unhealthy(
    watched: tuple[Heartbeat, Clock, str],
) -> None:
    heartbeat, clock, url = watched
    release, inside = threading.Event(), threading.Event()

    async def step() -> None:
        heartbeat.loop_runs(asyncio.get_running_loop())
        inside.set()
        release.wait(PATIENT_S)  # blocks the loop, as no step should
        heartbeat.ask_loop()
        await asyncio.sleep(0.05)

    thread = threading.Thread(target=lambda: asyncio.run(step()))
    thread.start()
    assert inside.wait(PATIENT_S)
    heartbeat.ask_loop()
    clock.now += 101
    assert f"{EVENT_LOOP} for 101 s" in httpx.get(url, timeout=PATIENT_S).text
    release.set()
    thread.join(PATIENT_S)
    assert httpx.get(url, timeout=PATIENT_S).status_code == 200


def test_a_worker_without_its_port_works_on_and_a_web_process_does_not_start(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with caplog.at_level(logging.ERROR):
            observing = observe_worker(
                Settings(telemetry=TelemetrySettings(worker_address=address)),
                store,
                heartbeat=Heartbeat(),
            )
        observing.stop()
        assert "cannot listen" in caplog.text
        with pytest.raises(SettingsError, match=r"telemetry\.metrics_address: cannot listen"):
            Listener(address, {}, key="telemetry.metrics_address")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """One page that works and one that does not."""

    def broken() -> Page:
        raise ValueError("secret")

    one = Listener("127.0.0.1:0", {"/ok": lambda: Page("ok\n"), "/broken": broken}, key="k")
    one.start()
    yield one
    one.stop()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET /ok\n\n",
        b"A" * 100_000,
        b"GET \xff HTTP/9\r\n\r\n",
    ],
)
def test_nothing_that_is_sent_stops_the_listener(listener: Listener, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", listener.port)) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except OSError:
            pass
    assert httpx.get(f"http://{listener.address}/ok", timeout=PATIENT_S).text == "ok\n"
    answer = httpx.get(f"http://{listener.address}/broken", timeout=PATIENT_S)
    assert (answer.status_code, "secret" in answer.text) == (500, False)


def test_whoever_holds_connections_open_is_rid_of(listener: Listener) -> None:
    held = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(3 * AT_ONCE)]
    deadline = time.monotonic() + PATIENT_S
    while True:
        try:
            assert httpx.get(f"http://{listener.address}/ok", timeout=PATIENT_S).status_code == 200
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    for one in held:
        one.close()


def test_ready_while_the_tables_are_there_and_it_is_not_stopping(store: Store) -> None:
    readiness = Readiness(store)
    assert asyncio.run(readiness.problem()) is None
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert (
        asyncio.run(readiness.problem()) is None
    )  # a newer release made them: this process still works beside it
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    assert asyncio.run(readiness.problem()) == "the tables are not up to date"
    readiness.stop()
    assert asyncio.run(readiness.problem()) == "stopping"


def test_told_to_stop_it_drains_first_and_told_again_it_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The MCP package ends all event streams of a process once any server in it has to stop
    monkeypatch.setattr("sse_starlette.sse.AppStatus.should_exit", False)
    said: list[str] = []
    server = DrainingServer(
        uvicorn.Config(Starlette()), drain_s=PATIENT_S, stopping=lambda: said.append("stopping")
    )
    server.handle_exit(signal.SIGTERM, None)
    assert (said, server.should_exit) == (["stopping"], False)
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
    at_once = DrainingServer(uvicorn.Config(Starlette()), drain_s=0, stopping=lambda: None)
    at_once.handle_exit(signal.SIGTERM, None)
    assert at_once.should_exit
    soon = DrainingServer(uvicorn.Config(Starlette()), drain_s=0.01, stopping=lambda: None)
    soon.handle_exit(signal.SIGTERM, None)
    deadline = time.monotonic() + PATIENT_S
    while not soon.should_exit:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_that_never_gets_to_work_is_unhealthy_and_one_that_is_told_to_stop_is_not(
    watched: tuple[Heartbeat, Clock, str],
) -> None:
    heartbeat, clock, url = watched
    clock.now += 101
    assert httpx.get(url, timeout=PATIENT_S).text == "no sign of life: start for 101 s\n"
    heartbeat.started()
    assert httpx.get(url, timeout=PATIENT_S).status_code == 200
    heartbeat.beat("takeover")
    clock.now += 101
    assert httpx.get(url, timeout=PATIENT_S).status_code == 503
    heartbeat.stop()
    assert httpx.get(url, timeout=PATIENT_S).status_code == 200
