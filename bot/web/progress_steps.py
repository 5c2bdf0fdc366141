"""The lines of progress as the few steps that every investigation takes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.bot.policy.values import ENDED
from faultline.bot.queue.backlog import ASSEMBLED
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.store import Progress, Store
from faultline.bot.web.text import clock, visible

StepState = Literal["done", "now", "to do"]

NOTES = 8


@dataclass(frozen=True)
class _Step:
    name: str
    words: frozenset[str]
    """The first words of its lines of progress."""
    end: str
    """The one of them that is written when the step has ended."""


STEPS = (
    _Step("Read the alert", frozenset({"scope", "runbooks", "announce"}), "scope"),
    _Step("Collect evidence", frozenset({"collect", "learned", ASSEMBLED}), ASSEMBLED),
    _Step("Compare with normal times", frozenset({"traces", "analyze"}), "analyze"),
    _Step("Write the answer", frozenset({"model", "write", "preview"}), "write"),
    _Step("Send it", frozenset({"reply", "done"}), "done"),
)


@dataclass(frozen=True)
class ProgressStep:
    """One step; `notes` are the newest of its lines."""

    name: str
    state: StepState
    notes: tuple[str, ...]


def progress_steps(lines: Sequence[Progress], *, started: bool) -> tuple[ProgressStep, ...]:
    """All steps, in order. While the investigation waits none is under way."""
    words = [(line.stage.split() or [""])[0] for line in lines]
    current = _current(words) if started else len(STEPS)
    steps = []
    for place, step in enumerate(STEPS):
        notes = [line.text for line, word in zip(lines, words, strict=True) if word in step.words]
        state: StepState = "to do"
        if place == current:
            state = "now"
        elif started and place < current:
            state = "done"
        steps.append(ProgressStep(step.name, state, tuple(notes[-NOTES:])))
    return tuple(steps)


def _current(words: Sequence[str]) -> int:
    """The furthest step that has a line, or the next one where that step has ended. What people
    did meanwhile belongs to no step."""
    furthest = 0
    for place, step in enumerate(STEPS):
        if step.words.intersection(words):
            furthest = place
    if STEPS[furthest].end in words:
        furthest += 1
    return furthest


# Live progress of one investigation as Server-Sent Events.
#
# Events: `progress` (its id is the line's `seq`; data: at, stage, text), `state` (data: status,
# stage) whenever one of the two changed, and `done`, after which the stream ends. A client that
# lost the connection resumes with Last-Event-ID.

POLL_S = 0.5
HEARTBEAT_S = 15.0
"""Shorter than the idle timeouts of common proxies (60 s for nginx and AWS load balancers)."""
LONGEST_S = 900.0
"""A stream ends then; browsers reconnect by themselves and resume."""

Gone = Callable[[], Awaitable[bool]]


async def progress_events(
    store: Store, investigation_id: str, after: int, gone: Gone
) -> AsyncIterator[str]:
    """The stream from the line after `after`, until the investigation is over or the client is
    `gone`."""
    began = last_event = time.monotonic()
    state: tuple[str, str] | None = None
    stage = ""
    # Milliseconds after which a browser connects again.
    yield "retry: 2000\n\n"
    while time.monotonic() - began < LONGEST_S and not await gone():
        # The state first: once it says that all is over, every line can be read.
        investigation = await in_store(store.get, investigation_id)
        lines = await in_store(store.progress, investigation_id, after)
        for line in lines:
            after, stage = line.seq, line.stage
            yield _event("progress", _line(line), seq=line.seq)
        status = investigation.status if investigation else "failed"
        if (status, stage) != state:
            state = (status, stage)
            yield _event("state", {"status": status, "stage": stage})
            last_event = time.monotonic()
        if status in ENDED:
            yield _event("done", {"status": status})
            return
        if time.monotonic() - last_event > HEARTBEAT_S:
            last_event = time.monotonic()
            # A line that begins with a colon is a comment: it keeps proxies from closing.
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S)


def resume_point(*positions: str | None) -> int:
    """The `seq` a client has seen, from the first of its answers that is a number; 0 when there is
    none."""
    for value in positions:
        # Up to 18 digits fit in the database's 64-bit integers.
        if value and value.isdecimal() and len(value) < 19:
            return int(value)
    return 0


def _line(line: Progress) -> dict[str, object]:
    return {
        "seq": line.seq,
        "at": line.at.isoformat(),
        "clock": clock(line.at),
        "stage": visible(line.stage),
        "text": visible(line.text),
    }


def _event(name: str, data: dict[str, object], *, seq: int | None = None) -> str:
    mark = f"id: {seq}\n" if seq is not None else ""
    return f"{mark}event: {name}\ndata: {json.dumps(data)}\n\n"
