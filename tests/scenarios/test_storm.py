"""An alert storm over real HTTP: one investigation, and one message that counts all of its
alerts."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

ALERTS = 50
PATIENCE_S = 400
SERVICES = ("payments", "checkout", "frontend")
CATALOGUE = """
[services.frontend]
depends_on = ["checkout"]

[services.checkout]
depends_on = ["payments"]

[services.payments]
"""


def send(story: Story, number: int) -> None:
    """One Alertmanager notification, tried again while the bot is away, as Alertmanager does."""
    service = SERVICES[0] if number == 0 else SERVICES[number % 3]
    labels = {"alertname": f"Symptom{number}", "service": service, "severity": "page"}
    one = {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": f"symptom {number} of {service}"},
        "startsAt": datetime.now(UTC).isoformat(),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example/graph",
        "fingerprint": f"{number:016x}",
    }
    body: dict[str, Any] = {
        "version": "4",
        "status": "firing",
        "receiver": "faultline",
        "groupKey": f"g{number}",
        "alerts": [one],
    }
    body |= {
        "groupLabels": {},
        "commonLabels": labels,
        "commonAnnotations": {},
        "externalURL": "http://am.example",
    }
    deadline = time.monotonic() + 120
    while True:
        try:
            headers = {"authorization": "Bearer am-token"}
            answer = httpx.post(
                f"{story.bot.url}/webhooks/alertmanager", json=body, headers=headers, timeout=20
            )
            if answer.status_code == 202:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline
        time.sleep(0.2)


def counted(story: Story) -> int:
    """How many alerts the one message speaks of."""
    texts = [json.dumps(m.blocks) for m in story.slack.posts]
    return max(
        (n for n in range(1, ALERTS + 1) for t in texts if f"{n} more alert" in t), default=0
    )


def test_fifty_alerts_of_one_incident_are_one_investigation_and_one_message(tmp_path: Path) -> None:
    config = tmp_path / "faultline.toml"
    config.write_text(CATALOGUE, encoding="utf-8")
    more = {
        "FAULTLINE_CONFIG": str(config),
        "FAULTLINE_ALERTS__GROUPS": "on",
        "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": "am-token",
    }
    case = write_small_case(tmp_path / "case")
    with bot_story(tmp_path, case, "sqlite", **more) as story, ThreadPoolExecutor(8) as senders:
        for number in range(3):  # it spreads from callee to caller
            send(story, number)
        list(senders.map(lambda n: send(story, n), range(3, 30)))
        story.wait_for(lambda: bool(story.answers()), what="the answer", within_s=PATIENCE_S)
        list(senders.map(lambda n: send(story, n), range(30, ALERTS)))
        story.wait_for(
            lambda: counted(story) == ALERTS - 1,
            what="a message that counts all",
            within_s=PATIENCE_S,
        )
        [investigation] = story.store.latest()
        joined = {one.alert.title for one in investigation.related}
        assert joined | {investigation.alert.title} == {f"Symptom{n}" for n in range(ALERTS)}
        assert {one.why.partition(",")[0] for one in investigation.related} >= {
            "both are about payments"
        }
        story.wait_for(lambda: story.store.count("done") == 1, what="the end")
        assert len(story.slack.posts) == 1, "one message, edited"
