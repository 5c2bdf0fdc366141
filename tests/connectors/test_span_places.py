"""Tags of a service's spans in which Jaeger can be searched for the alert's place."""

from __future__ import annotations

import json

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.rows.collection_builder import SpanTableRow
from faultline.connectors.vendors.jaeger.span_places import place_tags
from tests.connectors.conftest import ALERT_AT


def span(service: str, **tags: str) -> SpanTableRow:
    attributes = json.dumps({name.replace("__", "."): value for name, value in tags.items()})
    return SpanTableRow("t", "s", None, service, "GET /", 0, 1, "ok", attributes)


def alert(**labels: str) -> Alert:
    return Alert(source="x", title="t", started_at=ALERT_AT, service="cart", labels=labels)


def test_the_narrowest_place_comes_first() -> None:
    spans = [
        span("cart", k8s__namespace__name="prod", deployment__environment="live"),
        span("cart", k8s__namespace__name="staging", deployment__environment="test"),
    ]
    assert place_tags(spans, "cart", alert(namespace="prod", env="live")) == [
        {"k8s.namespace.name": "prod", "deployment.environment": "live"},
        {"deployment.environment": "live"},
    ]


def test_spans_of_one_place_alone_need_no_bound() -> None:
    spans = [span("cart", k8s__namespace__name="prod"), span("db", k8s__namespace__name="data")]
    assert place_tags(spans, "cart", alert(namespace="prod")) == []
