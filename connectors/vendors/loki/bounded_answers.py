"""The answer of Loki to a query that a model wrote: lines as rows of `logs`, counts as rows of
`metrics`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.querying import LONGEST_SIGNAL, query_answer
from faultline.connectors.shared.rows.collection_builder import attributes
from faultline.connectors.shared.vendor_text import short, unexpected_response
from faultline.connectors.vendors.loki.answers import Counted, LokiStream, line_rows


class LokiAnswerData(msgspec.Struct):
    """Streams of lines or, of a metric query, series."""

    resultType: Literal["streams", "matrix"]
    result: msgspec.Raw


class LokiAnswer(msgspec.Struct):
    """The answer to any range query."""

    data: LokiAnswerData


def answer_of(
    answer: LokiAnswer, query: BoundedQuery, labels: Sequence[str], link: str
) -> Collected:
    """The rows and their item. `labels` are those that may name a service. Raises
    ConnectorError."""
    kind: EvidenceKind = "logs"
    try:
        if answer.data.resultType == "streams":
            rows, cut = _lines(answer.data.result, query, labels)
        else:
            kind = "metrics"
            rows, cut = _series(answer.data.result, query, labels)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unexpected_response("loki", "query_range", error) from error
    return query_answer(kind, rows, query, link, cut)


def _lines(
    raw: msgspec.Raw, query: BoundedQuery, labels: Sequence[str]
) -> tuple[list[tuple[Any, ...]], str | None]:
    rows: list[tuple[Any, ...]] = []
    for stream in msgspec.json.decode(raw, type=list[LokiStream]):
        stream_rows, _ = line_rows([stream], "")
        service = _service(stream.stream, query, labels)
        rows += [(at, service, *rest) for at, _, *rest in stream_rows]
    # Streams come one after the other: merge them before the cut.
    rows.sort(key=lambda row: row[0])
    cut = f"the first {query.rows} lines" if len(rows) >= query.rows else None
    return rows[: query.rows], cut


def _series(
    raw: msgspec.Raw, query: BoundedQuery, labels: Sequence[str]
) -> tuple[list[tuple[Any, ...]], str | None]:
    series = msgspec.json.decode(raw, type=list[Counted])
    signal = short(query.text, LONGEST_SIGNAL)
    rows: list[tuple[Any, ...]] = []
    for line_series in series[: query.rows]:
        service = _service(line_series.metric, query, labels)
        encoded_labels = attributes(line_series.metric)
        for at, text in line_series.values[: query.points + 2]:
            try:
                value = float(text)
            except ValueError:
                continue
            # float() also takes `NaN` and `+Inf`.
            if math.isfinite(value):
                rows.append(
                    (round(at * 1000) * 1_000_000, service, signal, value, None, encoded_labels)
                )
    cut = f"the first {query.rows} series" if len(series) > query.rows else None
    return rows, cut


def _service(
    stream_labels: Mapping[str, str], query: BoundedQuery, labels: Sequence[str]
) -> str | None:
    return next(
        (stream_labels[label] for label in labels if stream_labels.get(label)), query.service
    )
