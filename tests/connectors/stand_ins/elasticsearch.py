"""Elasticsearch: checkout logs an order every ten seconds, and from ONSET on errors of a separate
kind. It evaluates the clauses that a search of ours may hold, and refuses others."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.loki import LINES, TRACE_ID

INDICES = "logs-*,filebeat-*,logstash-*"
SEARCH = f"/{INDICES}/_search"
FIELDS = f"/{INDICES}/_field_caps"
READING_POSTS = frozenset({SEARCH})
KEYWORDS = ("service.name", "log.level", "trace.id", "orchestrator.cluster.name", "host.name")

Document = dict[str, Any]


def settings(url: str) -> dict[str, Any]:
    """With an API key and links to Kibana."""
    own = {"url": url, "api_key": "k", "kibana_url": "https://kibana.example.com/s/ops"}
    return {"elasticsearch": own}


def document(at: datetime, level: str, text: str) -> Document:
    """As the Elastic Common Schema has it."""
    return {
        "@timestamp": at.isoformat(),
        "message": text,
        "service": {"name": "checkout"},
        "log": {"level": level},
        "trace": {"id": TRACE_ID},
        "orchestrator": {"cluster": {"name": "prod-eu"}},
        "host": {"name": "node-7"},
    }


DOCUMENTS = [(round(at.timestamp() * 1000), document(at, level, text)) for at, level, text in LINES]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    version = {
        "number": "9.1.4",
        "build_flavor": "default",
        "build_type": "docker",
        "build_hash": "0b7fe68d2e369469ff9e9f344ab6df64ab9c5293",
        "build_date": "2026-01-16T22:05:25Z",
        "build_snapshot": False,
        "lucene_version": "10.2.2",
        "minimum_wire_compatibility_version": "8.19.0",
        "minimum_index_compatibility_version": "8.0.0",
    }
    root = {
        "name": "node-1",
        "cluster_name": "logs-prod",
        "cluster_uuid": "x8nYbSxvQ3",
        "version": version,
        "tagline": "You Know, for Search",
    }
    server.on("/", Reply(root))
    server.on(FIELDS, Reply(field_caps()))
    server.on(SEARCH, answer)


def field_caps() -> dict[str, Any]:
    """Fields of two data streams."""
    fields = {"@timestamp": _type("date"), "message": _type("match_only_text", aggregatable=False)}
    fields |= {name: _type("keyword") for name in KEYWORDS}
    return {"indices": ["logs-app-prod", "logs-nginx-prod"], "fields": fields}


def _type(name: str, aggregatable: bool = True) -> dict[str, Any]:
    own = {
        "type": name,
        "metadata_field": False,
        "searchable": True,
        "aggregatable": aggregatable,
    }
    return {name: own}


def answer(asked: Asked) -> Reply:
    """What a search finds."""
    body = json.loads(asked.body)
    found = [one for one in DOCUMENTS if _holds(body["query"], *one)]
    hits = [_hit(number, *one) for number, one in enumerate(found[: body["size"]])]
    said: dict[str, Any] = {
        "took": 4,
        "timed_out": False,
        "_shards": {"total": 2, "successful": 2, "skipped": 0, "failed": 0},
        "hits": {"max_score": None, "hits": hits},
    }
    if "aggs" in body:
        said["aggregations"] = {name: _counted(one, found) for name, one in body["aggs"].items()}
    return Reply(said)


def _hit(number: int, at_ms: int, source: Document) -> dict[str, Any]:
    return {
        "_index": ".ds-logs-app-prod-2026.03.02-000001",
        "_id": f"d{number}",
        "_score": None,
        "_source": source,
        "sort": [at_ms * 1_000_000],
    }


def value_of(source: Document, field: str) -> Any:
    """What a field of a document holds."""
    value: Any = source
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _holds(clause: dict[str, Any], at_ms: int, source: Document) -> bool:
    ((kind, own),) = clause.items()
    if kind == "bool":
        required = all(_holds(one, at_ms, source) for one in own.get("filter", ()))
        either = own.get("should")
        return required and (not either or any(_holds(one, at_ms, source) for one in either))
    ((field, value),) = own.items()
    if kind == "range":
        assert value["format"] == "epoch_millis"
        return bool(value["gte"] <= at_ms < value["lt"])
    held = value_of(source, field)
    if kind == "terms":
        return held in value
    if kind == "term":
        wanted = value["value"]
        if value.get("case_insensitive"):
            return str(held).lower() == wanted.lower()
        return bool(held == wanted)
    assert kind == "match", kind
    words = str(held).lower().split()
    return any(word in words for word in value["query"].lower().split())


def _counted(aggregation: dict[str, Any], found: list[tuple[int, Document]]) -> dict[str, Any]:
    if "terms" in aggregation:
        own = aggregation["terms"]
        held = [(value_of(one[1], own["field"]) or own.get("missing"), one) for one in found]
        buckets = []
        for key, count in Counter(key for key, _ in held if key).most_common(own["size"]):
            inside = [one for name, one in held if name == key]
            within = {
                name: _counted(one, inside) for name, one in aggregation.get("aggs", {}).items()
            }
            buckets.append({"key": key, "doc_count": count, **within})
        return {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": 0,
            "buckets": buckets,
        }
    step_ms = int(aggregation["date_histogram"]["fixed_interval"].removesuffix("s")) * 1000
    counts = Counter(at // step_ms * step_ms for at, _ in found)
    steps = [
        {
            "key_as_string": datetime.fromtimestamp(key / 1000, UTC).isoformat(),
            "key": key,
            "doc_count": count,
        }
        for key, count in sorted(counts.items())
    ]
    return {"buckets": steps}
