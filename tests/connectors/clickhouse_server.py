"""A ClickHouse that holds an incident twice: in the tables of OpenTelemetry's exporter and in those
of SigNoz. checkout fails from ONSET on, and its heap grows.

Columns and types are those of the exporter's templates and of SigNoz' migrations; indices, codecs
and the Distributed engine are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from faultline.loopback.bot_process import free_port
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.real_servers import programs
from tests.connectors.stand_ins.loki import LINES, TRACE_ID
from tests.contracts.emulators import TOOLS
from tests.debian_tools import unavailable

PYTHON = TOOLS / "clickhouse/bin/python"
PROGRAM = Path(__file__).parent / "clickhouse_http.py"
MAP = "Map(LowCardinality(String), String)"
Columns = Mapping[str, str]

OTEL_LOGS: Columns = {
    "Timestamp": "DateTime64(9)", "TraceId": "String", "SpanId": "String",
    "SeverityText": "LowCardinality(String)", "SeverityNumber": "UInt8",
    "ServiceName": "LowCardinality(String)", "Body": "String", "ResourceAttributes": MAP,
    "LogAttributes": MAP,
}  # fmt: skip
OTEL_TRACES: Columns = {
    "Timestamp": "DateTime64(9)", "TraceId": "String", "SpanId": "String",
    "ParentSpanId": "String", "SpanName": "LowCardinality(String)",
    "SpanKind": "LowCardinality(String)", "ServiceName": "LowCardinality(String)",
    "ResourceAttributes": MAP, "SpanAttributes": MAP, "Duration": "UInt64",
    "StatusCode": "LowCardinality(String)", "StatusMessage": "String",
}  # fmt: skip
OTEL_GAUGE: Columns = {
    "ResourceAttributes": MAP, "ServiceName": "LowCardinality(String)", "MetricName": "String",
    "MetricUnit": "String", "Attributes": MAP, "TimeUnix": "DateTime64(9)", "Value": "Float64",
}  # fmt: skip
OTEL_SUM: Columns = {
    **OTEL_GAUGE, "AggregationTemporality": "Int32", "IsMonotonic": "Boolean",
}  # fmt: skip
SIGNOZ_ATTRIBUTES: Columns = {
    "attributes_string": MAP, "attributes_number": "Map(LowCardinality(String), Float64)",
    "attributes_bool": "Map(LowCardinality(String), Bool)", "resources_string": MAP,
}  # fmt: skip
SIGNOZ_LOGS: Columns = {
    "ts_bucket_start": "UInt64", "timestamp": "UInt64", "id": "String", "trace_id": "String",
    "severity_text": "LowCardinality(String)", "severity_number": "UInt8", "body": "String",
    **SIGNOZ_ATTRIBUTES,
}  # fmt: skip
SIGNOZ_TRACES: Columns = {
    "ts_bucket_start": "UInt64", "timestamp": "DateTime64(9)", "trace_id": "FixedString(32)",
    "span_id": "String", "parent_span_id": "String", "name": "LowCardinality(String)",
    "kind_string": "String", "duration_nano": "UInt64", "status_message": "String",
    **SIGNOZ_ATTRIBUTES, "has_error": "Bool",
}  # fmt: skip
_NAME = "resources_string['service.name']"
SIGNOZ_SERVICE = f"`resource_string_service$$name` LowCardinality(String) DEFAULT {_NAME}"
SIGNOZ_SAMPLES: Columns = {
    "env": "LowCardinality(String)", "temporality": "LowCardinality(String)",
    "metric_name": "LowCardinality(String)", "fingerprint": "UInt64", "unix_milli": "Int64",
    "value": "Float64",
}  # fmt: skip
SIGNOZ_SERIES: Columns = {
    "env": "LowCardinality(String)", "temporality": "LowCardinality(String)",
    "metric_name": "LowCardinality(String)", "unit": "LowCardinality(String)",
    "type": "LowCardinality(String)", "is_monotonic": "Bool", "fingerprint": "UInt64",
    "unix_milli": "Int64", "labels": "String",
}  # fmt: skip

RESOURCE = {
    "service.name": "checkout",
    "deployment.environment.name": "prod",
    "host.name": "node-7",
}
LABELS = {"service_name": "checkout", "deployment.environment": "prod"}
FIRST = ALERT_AT - timedelta(hours=3)
MINUTES = [FIRST + timedelta(minutes=n) for n in range(180)]
QUEUED, PLACED = "orders.queue.size", "orders.placed"
RESTARTED = ONSET - timedelta(minutes=20)


def ns(at: datetime) -> int:
    """ns since 1970."""
    return round(at.timestamp()) * 1_000_000_000


def clock(at: datetime) -> str:
    """A time as JSONEachRow reads it."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def trace_of(at: datetime) -> str:
    """One trace a minute."""
    return f"{round(at.timestamp()):032x}"


def placed(at: datetime) -> float:
    """A counter of 60 a minute, which a restart sets back to 0."""
    since = RESTARTED if at >= RESTARTED else FIRST
    return (at - since) / timedelta(seconds=1)


def otel_rows() -> Iterator[tuple[str, Columns, list[dict[str, Any]]]]:
    """The tables of the exporter, with their rows."""
    logs = []
    for at, level, said in LINES:
        logs.append(
            {
                "Timestamp": clock(at),
                "TraceId": TRACE_ID if level == "error" else "",
                "SeverityText": "",
                "SeverityNumber": 17 if level == "error" else 9,
                "ServiceName": "checkout",
                "Body": said,
                "ResourceAttributes": RESOURCE,
                "LogAttributes": {"thread": "main"},
            }
        )
    yield "otel_logs", OTEL_LOGS, logs
    spans, gauges, sums = [], [], []
    for at in MINUTES:
        late = at >= ONSET
        root = {
            "Timestamp": clock(at), "TraceId": trace_of(at), "SpanId": "00f067aa0ba902b7",
            "SpanName": "POST /orders", "SpanKind": "Server", "ServiceName": "checkout",
            "ResourceAttributes": RESOURCE, "Duration": 2_090_000_000 if late else 90_000_000,
            "SpanAttributes": {"http.response.status_code": "503" if late else "200"},
            "StatusCode": "Error" if late else "Unset", "StatusMessage": "no stock" if late else "",
        }  # fmt: skip
        call = root | {
            "SpanId": "00f067aa0ba902b8", "ParentSpanId": "00f067aa0ba902b7",
            "SpanName": "SELECT stock", "SpanKind": "Client", "Duration": 5_000_000,
            "StatusCode": "Unset", "StatusMessage": "",
        }  # fmt: skip
        spans += [root, call]
        point = {
            "ResourceAttributes": RESOURCE, "ServiceName": "checkout", "TimeUnix": clock(at),
            "Attributes": {},
        }  # fmt: skip
        gauges.append(
            point | {"MetricName": QUEUED, "MetricUnit": "{order}", "Value": 900 if late else 3}
        )
        sums.append(
            point
            | {
                "MetricName": PLACED,
                "MetricUnit": "1",
                "Value": placed(at),
                "AggregationTemporality": 2,
                "IsMonotonic": True,
            }
        )
    yield "otel_traces", OTEL_TRACES, spans
    yield "otel_metrics_gauge", OTEL_GAUGE, gauges
    yield "otel_metrics_sum", OTEL_SUM, sums


def signoz_rows() -> Iterator[tuple[str, str, Columns, list[dict[str, Any]]]]:
    """The databases and tables of SigNoz, with the same incident."""
    by_name = {name: rows for name, _, rows in otel_rows()}
    bucket = {"attributes_number": {}, "attributes_bool": {}, "resources_string": RESOURCE}
    logs = []
    for (at, level, said), one in zip(LINES, by_name["otel_logs"], strict=True):
        logs.append(
            bucket
            | {
                "ts_bucket_start": round(at.timestamp()) // 1800 * 1800,
                "timestamp": ns(at),
                "trace_id": one["TraceId"],
                "severity_text": level.upper(),
                "body": said,
                "attributes_string": one["LogAttributes"],
                "attributes_number": {"retries": 2},
            }
        )
    yield "signoz_logs", "distributed_logs_v2", SIGNOZ_LOGS, logs
    spans = []
    for one in by_name["otel_traces"]:
        at = datetime.fromisoformat(f"{one['Timestamp']}+00:00")
        spans.append(
            bucket
            | {
                "ts_bucket_start": round(at.timestamp()) // 1800 * 1800,
                "timestamp": one["Timestamp"],
                "trace_id": one["TraceId"],
                "span_id": one["SpanId"],
                "parent_span_id": one.get("ParentSpanId", ""),
                "name": one["SpanName"],
                "kind_string": one["SpanKind"],
                "duration_nano": one["Duration"],
                "status_message": one["StatusMessage"],
                "attributes_string": {},
                "has_error": one["StatusCode"] == "Error",
                "attributes_number": {"http.response.status_code": 503},
            }
        )
    yield "signoz_traces", "distributed_signoz_index_v3", SIGNOZ_TRACES, spans
    samples, series = [], []
    for number, kind in enumerate(("Gauge", "Sum")):
        table = by_name["otel_metrics_gauge" if kind == "Gauge" else "otel_metrics_sum"]
        own = {
            "env": "prod", "temporality": "Unspecified" if kind == "Gauge" else "Cumulative",
            "metric_name": table[0]["MetricName"], "fingerprint": number + 1,
        }  # fmt: skip
        for one in table:
            at = datetime.fromisoformat(f"{one['TimeUnix']}+00:00")
            samples.append(own | {"unix_milli": ns(at) // 1_000_000, "value": one["Value"]})
            described = {
                "unit": one["MetricUnit"], "type": kind, "is_monotonic": kind == "Sum",
                "unix_milli": ns(at) // 3_600_000_000_000 * 3_600_000,
                "labels": json.dumps(LABELS),
            }  # fmt: skip
            series.append(own | described)
    yield "signoz_metrics", "distributed_samples_v4", SIGNOZ_SAMPLES, samples
    yield "signoz_metrics", "distributed_time_series_v4", SIGNOZ_SERIES, series


def statements(folder: Path) -> Iterator[str]:
    """What makes the tables and fills them."""
    tables = [("otel", *one) for one in otel_rows()] + list(signoz_rows())
    for database, name, columns, rows in tables:
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        more = f", {SIGNOZ_SERVICE}" if columns is SIGNOZ_TRACES else ""
        names = ", ".join(columns)
        yield f"CREATE DATABASE IF NOT EXISTS {database}"
        yield f"CREATE TABLE {database}.{name} ({listed}{more}) ENGINE MergeTree ORDER BY tuple()"
        source = f"file('{file}', JSONEachRow, '{listed}')"
        yield f"INSERT INTO {database}.{name} ({names}) SELECT {names} FROM {source}"
    # The exporter with `json: true`.
    json_columns = {name: "JSON" if kind == MAP else kind for name, kind in OTEL_LOGS.items()}
    listed = ", ".join(f"{column} {kind}" for column, kind in json_columns.items())
    names = ", ".join(json_columns)
    source = f"file('{folder / 'otel_logs.jsonl'}', JSONEachRow, '{listed}')"
    yield "CREATE DATABASE as_json"
    yield f"CREATE TABLE as_json.otel_logs ({listed}) ENGINE MergeTree ORDER BY tuple()"
    yield f"INSERT INTO as_json.otel_logs ({names}) SELECT {names} FROM {source}"
    yield from two_namespaces()


def two_namespaces() -> Iterator[str]:
    """A database whose tables have every row twice: of checkout in shop, and in staging."""
    yield "CREATE DATABASE two_namespaces"
    space = "arrayJoin(['shop', 'staging'])"
    copies = {
        f"otel.{name}": (
            f"mapUpdate(ResourceAttributes, map('{attribute}', {space})) AS ResourceAttributes"
        )
        for name, attribute in (
            ("otel_logs", "k8s.namespace.name"),
            ("otel_traces", "service.namespace"),
            ("otel_metrics_gauge", "k8s.namespace.name"),
            ("otel_metrics_sum", "k8s.namespace.name"),
        )
    }
    resource = f"mapUpdate(resources_string, map('k8s.namespace.name', {space}))"
    copies["signoz_logs.distributed_logs_v2"] = f"{resource} AS resources_string"
    copies["signoz_traces.distributed_signoz_index_v3"] = f"{resource} AS resources_string"
    for source, replaced in copies.items():
        table = f"two_namespaces.{source.partition('.')[2]}"
        yield f"CREATE TABLE {table} AS {source}"
        yield f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM {source}"
    for name in ("distributed_samples_v4", "distributed_time_series_v4"):
        table = f"two_namespaces.{name}"
        yield f"CREATE TABLE {table} AS signoz_metrics.{name}"
        for namespace, more in (("shop", 0), ("staging", 10)):
            replaced = f"fingerprint + {more} AS fingerprint"
            if name == "distributed_time_series_v4":
                label = f', "k8s_namespace_name": "{namespace}"}}'
                replaced += f", replaceOne(labels, '}}', '{label}') AS labels"
            yield (f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM signoz_metrics.{name}")


@contextmanager
def clickhouse_server(folder: Path) -> Iterator[str]:
    """Its address."""
    if not PYTHON.exists():
        unavailable("chDB is not installed: ./run test does that")
    port = free_port()
    with programs(folder) as running:
        (folder / "first.sql").write_text("\n".join(statements(folder)) + "\n")
        running.start(PYTHON, PROGRAM, str(port), folder)
        url = f"http://127.0.0.1:{port}"
        running.until_answers(url)
        yield url
