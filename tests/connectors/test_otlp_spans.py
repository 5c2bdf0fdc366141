"""Spans of OTLP's and Jaeger's JSON as rows: real samples, and what vendors write differently."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.case.tables import conform
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, SpanTableRow
from faultline.connectors.shared.rows.otlp_spans import TracesData, hex_id, span_rows
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.jaeger.spans import JaegerTrace, trace_rows

TRACE, SPAN, PARENT = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173"


def span(**changed: Any) -> dict[str, Any]:
    """One span as the specification writes it."""
    plain = {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": PARENT,
        "name": "GET /cart",
        "kind": 2,
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": "1544712660250000000",
    }
    return plain | changed


def resource(*spans: dict[str, Any], service: str = "cart") -> dict[str, Any]:
    """A process's spans."""
    named = [{"key": "service.name", "value": {"stringValue": service}}]
    return {"resource": {"attributes": named}, "scopeSpans": [{"spans": list(spans)}]}


def rows(
    *spans: dict[str, Any], names: ServiceNames | None = None
) -> tuple[list[SpanTableRow], int]:
    """Rows of these spans."""
    data = msgspec.convert({"resourceSpans": [resource(*spans)]}, TracesData)
    return span_rows(data, names or ServiceNames())


def test_a_span_of_the_specification() -> None:
    (row,), dropped = rows(span())
    assert row[:8] == (
        TRACE,
        SPAN,
        PARENT,
        "cart",
        "GET /cart",
        1544712660000000000,
        250_000.0,
        "ok",
    )
    assert dropped == 0


def test_ids_in_base64_and_enumerations_by_name_are_the_same_span() -> None:
    def base64_of(text: str) -> str:
        return base64.b64encode(bytes.fromhex(text)).decode()

    tempos = span(
        traceId=base64_of(TRACE),
        spanId=base64_of(SPAN),
        parentSpanId=base64_of(PARENT),
        kind="SPAN_KIND_SERVER",
        status={"code": "STATUS_CODE_ERROR", "message": "no stock"},
    )
    (row,), _ = rows(tempos)
    (plain,), _ = rows(span(status={"code": 2, "message": "no stock"}))
    assert row == plain
    assert row[7] == "error"
    assert '"status.message":"no stock"' in row[8]


def test_batches_and_instrumentation_library_spans_are_read_too() -> None:
    old = resource(span())
    old["instrumentationLibrarySpans"] = old.pop("scopeSpans")
    found, _ = span_rows(msgspec.convert({"batches": [old]}, TracesData), ServiceNames())
    assert len(found) == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"traceId": ""},
        {"spanId": "zz"},
        {"startTimeUnixNano": "-1"},
        {"endTimeUnixNano": None},
        {"spanId": "0" * 16},
    ],
)
def test_a_span_without_a_readable_id_or_time_is_left_out_and_counted(
    broken: dict[str, Any],
) -> None:
    found, dropped = rows(span(), span(**broken))
    assert (len(found), dropped) == (1, 1)


def test_a_root_has_no_parent_and_a_service_its_own_name() -> None:
    names = ServiceNames({"basket": ("Cart",)})
    (row,), _ = rows(span(parentSpanId="0000000000000000"), names=names)
    assert (row[2], row[3]) == (None, "basket")


def test_a_short_id_of_a_search_is_the_whole_one() -> None:
    assert hex_id("d6e9329d67b6146a", 16) == "0000000000000000d6e9329d67b6146a"


def test_an_exception_of_a_span_is_kept() -> None:
    event = {
        "name": "exception",
        "attributes": [{"key": "exception.type", "value": {"stringValue": "PoolTimeout"}}],
    }
    (row,), _ = rows(span(events=[event]))
    assert "PoolTimeout" in row[8]


def test_real_otlp_and_what_jaeger_makes_of_it_are_the_same_spans(shared: Path) -> None:
    folder = shared / "traces/jaeger_otlp"
    given = msgspec.json.decode(
        (folder / "fixtures__otlp2jaeger-multi-in-combined.json").read_bytes(), type=TracesData
    )
    made = msgspec.json.decode((folder / "fixtures__oltp2jaeger-multi-out.json").read_bytes())
    ours, _ = span_rows(given, ServiceNames())
    theirs, _ = trace_rows(msgspec.convert(made["data"], list[JaegerTrace]), ServiceNames())
    assert len(ours) == 4
    assert {row[:5] for row in ours} == {row[:5] for row in theirs}
    assert {row[5] // 1000 for row in ours} == {row[5] // 1000 for row in theirs}


def test_every_real_sample_is_read_whole(shared: Path) -> None:
    folder = shared / "traces/jaeger_otlp"
    counts = {}
    for file in sorted(folder.glob("*.json")):
        read = msgspec.json.decode(file.read_bytes())
        if "resourceSpans" in read:
            found, dropped = span_rows(msgspec.convert(read, TracesData), ServiceNames())
        else:
            traces = read.get("data", read)
            found, dropped = trace_rows(
                msgspec.convert(
                    traces if isinstance(traces, list) else [traces], list[JaegerTrace]
                ),
                ServiceNames(),
            )
        counts[file.stem] = (len(found), dropped)
    assert all(number and not dropped for number, dropped in counts.values()), counts


@given(st.text(max_size=80))
def test_any_text_is_an_id_or_none(text: str) -> None:
    found = hex_id(text, 16)
    assert found == "" or (len(found) == 32 and set(found) <= set("0123456789abcdef"))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["key", "value", "a"]), inner)
    ),
    max_leaves=8,
)
SPANS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*span(), "status", "attributes", "events"), JSON)
)


@given(st.lists(SPANS.map(lambda changed: span(**changed)), max_size=3))
def test_any_values_in_a_span_are_refused_left_out_or_rows(spans: list[dict[str, Any]]) -> None:
    try:
        data = msgspec.convert({"resourceSpans": [resource(*spans)]}, TracesData)
    except msgspec.ValidationError:
        return
    found, dropped = span_rows(data, ServiceNames())
    collection = CollectionBuilder()
    collection.add("spans", found)
    conform(collection.collected().tables["spans"], "spans", "spans")
    assert len(found) + dropped == len(spans)
