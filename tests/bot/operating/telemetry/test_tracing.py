"""One trace for each investigation, whoever works on it; nothing goes elsewhere, nothing waits for
the collector."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.bot.runtime import tracing
from faultline.bot.runtime.instrumentation import post_outcome, watched
from faultline.bot.settings.processes import TelemetrySettings
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.rate_limiter import RateLimiter
from tests.bot.operating.telemetry.collector import Collector, SeenSpan, collecting
from tests.forked import ForkedProcess, tell_modules

ID = "20261120-120000-abcdef"


@contextmanager
def _traced(url: str, headers: str = "") -> Iterator[None]:
    settings = TelemetrySettings(
        otlp_endpoint=url, otlp_headers=SecretStr(headers) if headers else None
    )
    tracing.start_tracing(settings, "worker", "worker-1")
    try:
        yield
    finally:
        tracing.stop_tracing()


async def _collect(_: str) -> str:
    async with RateLimiter(Limits(), "datadog").permit(Deadline.after(60)) as asked:
        asked.status = 503
    with tracing.child_span("model round"):
        pass
    return "done"


async def _fails(_: str) -> str:
    raise ConnectorError("slack", "post", "the customer's text")


@pytest.fixture
def spans() -> list[SeenSpan]:
    """Of one investigation that two workers worked on, one after the other."""
    with collecting() as collector:
        for _ in range(2):
            with _traced(collector.url):
                asyncio.run(watched("collect datadog", _collect)(ID))
                tracing.root_span(
                    ID, datetime(2026, 11, 20, 12, tzinfo=UTC), datetime.now(UTC), "probable_cause"
                )
                with pytest.raises(ConnectorError):
                    asyncio.run(watched("announce slack", _fails)(ID))
        assert b"customer" not in b"".join(collector.bodies)
        return collector.spans


def test_two_workers_write_into_one_trace_below_one_root(spans: list[SeenSpan]) -> None:
    assert {span.trace for span in spans} == {f"{tracing.trace_id_of(ID):032x}"}
    roots = [span for span in spans if span.name == "investigation"]
    assert {(span.id, span.parent) for span in roots} == {(f"{tracing.root_id_of(ID):016x}", "")}
    steps = [span for span in spans if span.name == "collect"]
    assert len({span.id for span in steps}) == 2
    assert {span.parent for span in steps} == {roots[0].id}


def test_what_a_step_asked_for_is_below_it(spans: list[SeenSpan]) -> None:
    steps = {span.id for span in spans if span.name == "collect"}
    asked = [span for span in spans if span.name == "ask datadog"]
    assert {span.parent for span in asked} == steps
    assert {(span.attributes["http.response.status_code"], span.failed) for span in asked} == {
        (503, True)
    }
    assert {span.parent for span in spans if span.name == "model round"} == steps


def test_a_step_that_fails_says_so_by_its_class(spans: list[SeenSpan]) -> None:
    failed = [span for span in spans if span.name == "announce"]
    assert {(span.failed, span.attributes["error.type"]) for span in failed} == {
        (True, "ConnectorError")
    }


def test_ids_are_the_same_in_every_process_and_differ_between_investigations() -> None:
    program = f"from faultline.bot.runtime.tracing import trace_id_of; print(trace_id_of({ID!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=300
    )
    assert int(done.stdout) == tracing.trace_id_of(ID)
    assert tracing.trace_id_of(ID) != tracing.trace_id_of(ID + "x")
    assert 0 < tracing.root_id_of(ID) < 2**64


def test_a_collector_that_redirects_or_is_gone_costs_nothing() -> None:
    with collecting() as collector:
        collector.status = 302
        with _traced(collector.url, "authorization=Bearer s"):
            assert asyncio.run(watched("open", _collect)(ID)) == "done"
        assert len(collector.headers) >= 1
    with _traced("http://127.0.0.1:9"):
        assert asyncio.run(watched("open", _collect)(ID)) == "done"


def test_opentelemetry_is_loaded_only_where_it_is_switched_on() -> None:
    bot = ForkedProcess(tell_modules)
    bot.kill()
    assert {"faultline.bot.processes.server", "faultline.bot.processes.worker"} <= set(bot.said)
    assert [name for name in bot.said if name.startswith("opentelemetry.sdk")] == []


@pytest.mark.parametrize("headers", ["no mark", "=secret", "a=b\nc: d", "a=ü"])
def test_headers_that_are_none_are_refused_without_being_shown(headers: str) -> None:
    settings = TelemetrySettings(
        otlp_endpoint="http://127.0.0.1:9", otlp_headers=SecretStr(headers)
    )
    with pytest.raises(SettingsError) as refused:
        tracing.start_tracing(settings, "worker", "w")
    assert headers not in str(refused.value)


@pytest.mark.parametrize(
    ("verb", "result", "outcome"),
    [
        ("reply", {"again": False, "why": "posted"}, "posted"),
        ("reply", {"again": True, "why": "away"}, "again"),
        ("reply", {"again": False, "why": "no channel"}, "refused"),
        ("announce", "announced", "posted"),
        ("announce", "slack: no", "refused"),
        ("analyze", {"verdict": "x"}, None),
    ],
)
def test_what_became_of_a_post(verb: str, result: Any, outcome: str | None) -> None:
    assert post_outcome(verb, result) == outcome


def test_the_collector_of_these_tests_refuses_what_is_no_otlp() -> None:
    assert Collector().take("/other", {}, b"") == 404
