"""What watching costs: CPU of an investigation with metrics, traces, JSON logs and scrapes, and
without any of them.

    python benchmarks/telemetry_overhead.py [--alerts 40] [--rounds 3]

The real bot on this machine, Slack, PagerDuty and an OpenTelemetry collector on loopback, both
processes scraped once a second. CPU is that of web process, worker and the worker's own children,
after one alert to warm them up. Runs with and without alternate; compare figures of one machine
only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.loopback.bot_process import child_pids, free_port
from tests.bot.operating.telemetry.collector import collecting
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

TICKS = os.sysconf("SC_CLK_TCK")
WITHIN_S = 900.0


def cpu_s(pid: int) -> float:
    """User and system time of a process and of all below it, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    process_s = (int(fields[11]) + int(fields[12])) / TICKS
    return process_s + sum(cpu_s(child) for child in child_pids(pid))


def all_on(collector_url: str, web: int, worker: int) -> dict[str, str]:
    """Settings with everything that can be watched."""
    return {
        "FAULTLINE_TELEMETRY__METRICS_ADDRESS": f"127.0.0.1:{web}",
        "FAULTLINE_TELEMETRY__WORKER_ADDRESS": f"127.0.0.1:{worker}",
        "FAULTLINE_TELEMETRY__OTLP_ENDPOINT": collector_url,
        "FAULTLINE_TELEMETRY__LOGS": "json",
        "FAULTLINE_TELEMETRY__LOG_LEVEL": "info",
        "FAULTLINE_TELEMETRY__CLOUDWATCH_NAMESPACE": "Faultline",
    }


@contextmanager
def scraped(*ports: int) -> Iterator[None]:
    """Somebody scrapes each of them once a second."""
    stopping = threading.Event()

    def scrape() -> None:
        with httpx.Client() as client:
            while not stopping.wait(1.0):
                for port in ports:
                    try:
                        client.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
                    except httpx.TransportError:
                        continue

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


def measured(story: Story, alerts: int) -> float:
    """CPU seconds per investigation."""
    story.page_out("PWARM")
    story.wait_for(
        lambda: len(story.answers()) == 1 and len(story.pagerduty.notes) == 1, within_s=WITHIN_S
    )
    before = cpu_s(story.bot.pid)
    for number in range(alerts):
        story.page_out(f"P{number:05d}", f"checkout p99 latency above {900 + number} ms")
    done = alerts + 1
    story.wait_for(
        lambda: len(story.answers()) == done and len(story.pagerduty.notes) == done,
        within_s=WITHIN_S,
    )
    return (cpu_s(story.bot.pid) - before) / alerts


def run(alerts: int, *, on: bool) -> float:
    """One bot from start to end."""
    with (
        tempfile.TemporaryDirectory(prefix="faultline-overhead-") as folder,
        collecting() as collector,
    ):
        directory, web, worker = Path(folder), free_port(), free_port()
        case = write_small_case(directory / "case")
        environ = all_on(collector.url, web, worker) if on else {}
        log = directory / "log"
        with (
            bot_story(directory, case, "sqlite", log=log, **environ) as story,
            scraped(*([web, worker] if on else [])),
        ):
            return measured(story, alerts)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alerts", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    cpu_seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(args.rounds):
        for on in (False, True) if number % 2 == 0 else (True, False):
            cpu_seconds[on].append(run(args.alerts, on=on))
            print(
                f"{'watched' if on else 'not watched':12} {1000 * cpu_seconds[on][-1]:7.0f} ms "
                "CPU per "
                f"investigation",
                flush=True,
            )
    off, on_ = (statistics.median(cpu_seconds[on]) for on in (False, True))
    print(
        f"median: {1000 * off:.0f} ms without, {1000 * on_:.0f} ms with; "
        f"{100 * (on_ / off - 1):+.1f} %"
    )


if __name__ == "__main__":
    main()
