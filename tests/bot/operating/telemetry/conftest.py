"""One running bot that has answered an alert, with everything on that it can say about itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.loopback.bot_process import free_port, incident_event, signed_webhook
from tests.bot.operating.telemetry.collector import Collector, collecting
from tests.scenarios.bot_story import SECRET, Story, bot_story
from tests.scenarios.small_case import write_small_case

HOSTILE = 'checkout slow\n{"level": "error"}\x1b[31m\u202e"} faultline_fake_total 1'
"""The title of the alert: it would end a line, steer a terminal, and stand as a metric, if it were
let."""
PATIENT_S = 180.0


@dataclass
class Observed:
    """The bot, and what it said."""

    story: Story
    investigation: str
    metrics_port: int
    worker_port: int
    log_file: Path
    collector: Collector

    def scrape(self, port: int, path: str = "/metrics") -> httpx.Response:
        """One of the listeners."""
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60)

    def log(self) -> list[dict[str, Any]]:
        """The log so far, each line as the object that it must be."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def wait_for_metric(self, port: int, pattern: str) -> str:
        """Scrape until a line matches; the whole page."""
        deadline = time.monotonic() + PATIENT_S
        while not re.search(pattern, page := self.scrape(port).text, re.MULTILINE):
            assert time.monotonic() < deadline, f"no {pattern} in\n{page}"
            time.sleep(0.1)
        return page


def _webhook() -> tuple[bytes, dict[str, str]]:
    event = incident_event(
        incident="PINC1",
        title=HOSTILE,
        service="checkout",
        at=datetime.now(UTC),
        base="https://acme.pagerduty.com",
    )
    return signed_webhook(SECRET, event)


@pytest.fixture(scope="package")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """It has answered one alert in Slack and PagerDuty."""
    folder = tmp_path_factory.mktemp("observed")
    metrics_port, worker_port, log = free_port(), free_port(), folder / "log"
    with (
        collecting() as collector,
        bot_story(
            folder,
            write_small_case(folder / "case"),
            "sqlite",
            log=log,
            FAULTLINE_TELEMETRY__METRICS_ADDRESS=f"127.0.0.1:{metrics_port}",
            FAULTLINE_TELEMETRY__WORKER_ADDRESS=f"127.0.0.1:{worker_port}",
            FAULTLINE_TELEMETRY__OTLP_ENDPOINT=collector.url,
            FAULTLINE_TELEMETRY__OTLP_HEADERS="authorization=Bearer otlp-secret",
            FAULTLINE_TELEMETRY__LOGS="json",
            FAULTLINE_TELEMETRY__LOG_LEVEL="info",
            FAULTLINE_TELEMETRY__CLOUDWATCH_NAMESPACE="Faultline",
        ) as story,
    ):
        story.pagerduty.open_incident("PINC1", HOSTILE, "checkout")
        body, headers = _webhook()
        answer = httpx.post(
            f"{story.bot.url}/webhooks/pagerduty", content=body, headers=headers, timeout=60
        )
        story.wait_for(lambda: bool(story.answers()), what="an answer in Slack")
        story.wait_for(lambda: bool(story.pagerduty.notes), what="a note")
        for content in (body, b"{}"):  # the same delivery again, and one with another's signature
            httpx.post(
                f"{story.bot.url}/webhooks/pagerduty", content=content, headers=headers, timeout=60
            )
        seen = Observed(
            story, answer.json()["investigation_id"], metrics_port, worker_port, log, collector
        )
        seen.wait_for_metric(
            worker_port,
            r'^faultline_posts_total\{kind="answer",outcome="posted",place="pagerduty"\} 1',
        )
        yield seen
