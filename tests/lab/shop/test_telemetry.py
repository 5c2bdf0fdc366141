"""What the shop's processes say of themselves: the spans of the traces that are kept."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.telemetry import MOST_WAITING, SERVER, SpanSender, TraceContext
from tests.connectors.local_http import LocalServer, Reply

KEPT = TraceContext("1" * 32, "2" * 16, sampled=True)
NOT_KEPT = TraceContext("3" * 32, "4" * 16, sampled=False)


def sent(*spans: tuple[str, TraceContext | None]) -> list[str]:
    """Names of the spans that reach the collector at the first time of sending."""
    with LocalServer() as collector:
        collector.on("/v1/traces", Reply({}))
        pod = ShopPod("web-1", "web", "service", "a", 0, "", collector=collector.url)
        sender = SpanSender(pod)
        for name, above in spans:
            with sender.span(name, SERVER, above):
                pass

        async def send_once() -> None:
            running = asyncio.create_task(sender.run())
            while not collector.asked:
                await asyncio.sleep(0.05)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

        asyncio.run(asyncio.wait_for(send_once(), 60))
        (request,) = collector.asked
    (resource,) = json.loads(request.body)["resourceSpans"]
    return [span["name"] for span in resource["scopeSpans"][0]["spans"]]


def test_only_spans_of_traces_that_are_kept_are_sent() -> None:
    assert sent(("GET /cart", KEPT), ("GET /", NOT_KEPT), ("no trace", None)) == ["GET /cart"]


def test_no_more_wait_than_a_collector_takes_at_once() -> None:
    assert len(sent(*[("GET /", KEPT)] * (MOST_WAITING + 1))) == MOST_WAITING
