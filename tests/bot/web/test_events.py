"""Live progress as Server-Sent Events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Site

CLIENT = httpx.Client()


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    name: str
    data: dict[str, Any]
    id: str | None


def listen(url: str, last_event_id: str | None = None) -> Iterator[Event]:
    headers = {"last-event-id": last_event_id} if last_event_id is not None else {}
    with CLIENT.stream("GET", url, headers=headers, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}


def test_a_stream_tells_lines_and_states_as_they_come_and_ends_when_done(site: Site) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.add_progress(investigation_id, "scope", "asking datadog", key="scope")

    told = []
    for event in listen(f"{site.url}/investigations/{investigation_id}/events"):
        told.append(event)
        # The work goes on once the stream has told where it stands, however busy the machine is.
        if event.name == "state" and event.data["status"] == "accepted":
            site.store.start(investigation_id)
            site.store.add_progress(investigation_id, "analyze", "7 findings", key="analyze")
        elif event.data.get("text") == "7 findings":
            site.store.finish(
                investigation_id, "done", verdict="recovered", confidence=0.7, headline="over"
            )
    assert [e.data["text"] for e in told if e.name == "progress"] == [
        "asking datadog",
        "7 findings",
    ]
    assert [e.data["status"] for e in told if e.name == "state"] == ["accepted", "running", "done"]
    assert told[-1].name == "done"


def test_a_stream_resumes_after_the_last_line_that_was_seen(site: Site) -> None:
    investigation_id = site.investigate(ALERT)
    for n in range(4):
        site.store.add_progress(investigation_id, "collect", f"line {n}", key=str(n))
    site.store.finish(investigation_id, "failed", verdict=None, confidence=None, headline="stopped")
    url = f"{site.url}/investigations/{investigation_id}/events"
    lines = [e for e in listen(url) if e.name == "progress"]
    assert [e.data["text"] for e in lines] == ["line 0", "line 1", "line 2", "line 3"]
    assert [e.data["text"] for e in listen(url, lines[1].id) if e.name == "progress"] == [
        "line 2",
        "line 3",
    ]
    assert [
        e.data["text"] for e in listen(f"{url}?after={lines[2].id}") if e.name == "progress"
    ] == ["line 3"]
    for broken in ("x", "-1", "9" * 40):
        assert len([e for e in listen(url, broken) if e.name == "progress"]) == 4


def test_hostile_lines_stay_within_their_event(site: Site) -> None:
    investigation_id = site.investigate(ALERT)
    site.store.add_progress(
        investigation_id, "collect", "a\n\nevent: done\ndata: {}\n\n\u202egnp", key="x"
    )
    site.store.finish(
        investigation_id, "done", verdict="recovered", confidence=0.7, headline="over"
    )
    told = list(listen(f"{site.url}/investigations/{investigation_id}/events"))
    assert [e.name for e in told] == ["progress", "state", "done"]
    assert "[U+202E]gnp" in told[0].data["text"]


def test_a_stream_of_nothing_known_is_a_404(site: Site) -> None:
    assert CLIENT.get(f"{site.url}/investigations/x/events").status_code == 404


def test_a_client_that_leaves_does_not_keep_the_stream_running(site: Site) -> None:
    investigation_id = site.investigate(ALERT)
    for _ in range(3):
        events = listen(f"{site.url}/investigations/{investigation_id}/events")
        assert next(events).name == "state"
        events.close()  # type: ignore[attr-defined]
    assert CLIENT.get(site.url).status_code == 200
