"""What a service tells of itself: metrics for Prometheus, JSON lines in a file, spans by OTLP."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from faultline.lab.shop.pod import ShopPod

BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0,
)  # fmt: skip
SENT_EVERY_S = 1.0
MOST_WAITING = 2_000
"""Spans that wait to be sent; more are lost, as in every exporter."""
SERVER, CLIENT = 2, 3


class PodMetrics:
    """The metrics of one process, under the names that Prometheus' client libraries use."""

    def __init__(self, pod: ShopPod) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        registry = self.registry
        Gauge("build_info", "The running version.", ["version"], registry=registry).labels(
            pod.version
        ).set(1)
        self.requests = Counter(
            "http_requests", "Requests served.", ["route", "method", "status"], registry=registry
        )
        self.durations = Histogram(
            "http_request_duration_seconds",
            "Time to serve a request.",
            ["route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.calls = Counter(
            "http_client_requests", "Requests to others.", ["peer", "status"], registry=registry
        )
        self.call_durations = Histogram(
            "http_client_request_duration_seconds",
            "Time until others answered.",
            ["peer"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.pool_used = Gauge("db_pool_connections_in_use", "In use.", registry=registry)
        self.pool_size = Gauge("db_pool_connections_max", "The pool's size.", registry=registry)
        self.pool_wait = Histogram(
            "db_pool_wait_seconds", "Waiting for a connection.", buckets=BUCKETS, registry=registry
        )
        self.cache = Counter("cache_requests", "Keys read.", ["cache", "result"], registry=registry)
        self.jobs = Counter("jobs_processed", "Jobs done.", ["status"], registry=registry)


@dataclass
class TraceContext:
    """Where in which trace this task is."""

    trace_id: str
    span_id: str
    sampled: bool

    @property
    def header(self) -> str:
        """As W3C's traceparent."""
        # Two digits: W3C's flags are a byte in hexadecimal.
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02d}"

    @classmethod
    def of(cls, header: str, sampled: float) -> TraceContext:
        """The caller's context, or the beginning of a new trace, kept with that probability."""
        # Without a valid header the trace begins here.
        parts = header.split("-")
        if len(parts) == 4:
            return cls(parts[1], parts[2], parts[3] == "01")
        return cls(secrets.token_hex(16), "", random.random() < sampled)


CURRENT: ContextVar[TraceContext | None] = ContextVar("trace", default=None)


@dataclass
class UnfinishedSpan:
    """A span that has not ended; `failed` is said when it has."""

    attributes: dict[str, str] = field(default_factory=dict)
    failed: str = ""


class SpanSender:
    """Collects spans and sends them in batches: OTLP as JSON over HTTP."""

    def __init__(self, pod: ShopPod) -> None:
        self._pod = pod
        self._waiting: list[dict[str, Any]] = []

    @contextmanager
    def span(self, name: str, kind: int, above: TraceContext | None) -> Iterator[UnfinishedSpan]:
        """Time what happens inside, and make it the context of what is called from there."""
        if above is None:
            yield UnfinishedSpan()
            return
        here = TraceContext(above.trace_id, secrets.token_hex(8), above.sampled)
        token = CURRENT.set(here)
        opened, began = UnfinishedSpan(), time.time_ns()
        try:
            yield opened
        finally:
            CURRENT.reset(token)
            # Drop spans rather than let the queue grow without limit.
            if here.sampled and len(self._waiting) < MOST_WAITING:
                self._waiting.append(_as_otlp(name, kind, above.span_id, here, began, opened))

    async def run(self) -> None:
        """Send until cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                await asyncio.sleep(SENT_EVERY_S)
                with suppress(aiohttp.ClientError, TimeoutError):
                    await self._send(session)

    async def _send(self, session: aiohttp.ClientSession) -> None:
        # Take them before sending: spans that end meanwhile belong to the next batch.
        spans, self._waiting = self._waiting, []
        if not spans:
            return
        resource = {
            "service.name": self._pod.service,
            "service.version": self._pod.version,
            "k8s.pod.name": self._pod.name,
            "cloud.region": self._pod.cluster,
        }
        group = {
            "resource": {"attributes": _key_values(resource)},
            "scopeSpans": [{"spans": spans}],
        }
        url = f"{self._pod.collector}/v1/traces"
        async with session.post(url, json={"resourceSpans": [group]}) as answer:
            await answer.read()


def _as_otlp(
    name: str, kind: int, parent: str, here: TraceContext, began: int, opened: UnfinishedSpan
) -> dict[str, Any]:
    span = {
        "traceId": here.trace_id,
        "spanId": here.span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": _key_values(opened.attributes),
    }
    if opened.failed:
        span["status"] = {"code": 2, "message": opened.failed[:300]}
    return span


def _key_values(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


class JsonLog:
    """One JSON object a line, in a file of the process' own."""

    def __init__(self, pod: ShopPod, folder_name: str) -> None:
        folder = pod.room / folder_name
        folder.mkdir(exist_ok=True)
        # Buffer one line at most: others read the file while it grows.
        self._file = (folder / f"{pod.name}.jsonl").open("a", buffering=1, encoding="utf-8")
        self._pod = pod

    def info(self, message: str) -> None:
        """What happens every day."""
        self._write("info", message)

    def warning(self, message: str) -> None:
        """What somebody should look at some day."""
        self._write("warning", message)

    def error(self, message: str) -> None:
        """What went wrong."""
        self._write("error", message)

    def _write(self, level: str, message: str) -> None:
        here = CURRENT.get()
        line = {
            "ts": time.time_ns(),
            "level": level,
            "service": self._pod.service,
            "cluster": self._pod.cluster,
            "pod": self._pod.name,
            "message": message,
        }
        if here is not None:
            line["trace_id"] = here.trace_id
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            sys.stderr.write(f"{self._pod.name}: cannot log: {error}\n")
