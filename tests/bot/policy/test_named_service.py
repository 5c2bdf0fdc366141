"""Which service of those that exist a text means."""

from __future__ import annotations

import pytest

from faultline.bot.policy.services import service_in

KNOWN = (
    "prometheus",
    "node-exporter",
    "checkoutservice",
    "cartservice",
    "frontend",
    "product-catalog",
    "ts-order-service",
    "ts-order-other-service",
    "ts-travel-service",
    "api",
    "job",
)


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("checkout is slow since 14:19", "checkoutservice"),
        ("why is the Checkout Service throwing 504s?", "checkoutservice"),
        ("product catalog errors", "product-catalog"),
        ("what's wrong with product_catalog?", "product-catalog"),
        ("api latency since 10:05", "api"),
        ("ts-order-service is failing", "ts-order-service"),
        ("travel is slow", "ts-travel-service"),
        ("order is broken", None),
        ("the job is slow", None),
        ("is anything wrong?", None),
        ("payments times out", None),
        ("", None),
    ],
)
def test_the_service_that_a_text_means(text: str, service: str | None) -> None:
    assert service_in(text, KNOWN) == service
    assert service_in(text, ()) is None
