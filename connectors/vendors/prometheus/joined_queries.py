"""Several queries asked as one: the series of each carry a mark by which they are distinguished."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

MARK = "faultline_query"
LONGEST_QUERY = 2500
"""Characters of one query; escaped in an address they may be three times as many, and proxies
refuse addresses beyond 8 KiB."""

MOST_SERIES = 100
"""Of one query: joining compares each series with each, at each step."""


def marked(texts: Sequence[str]) -> str:
    """One query for all of them."""
    parts = []
    for number, text in enumerate(texts):
        parts.append(f'label_replace({text}, "{MARK}", "{number}", "", "")')
    # In pairs: one after the other the server would copy the first as often as there are more.
    while len(parts) > 1:
        joined = []
        for first, second in zip(parts[::2], parts[1::2], strict=False):
            joined.append(f"({first} or {second})")
        # The odd one is paired in the next round.
        if len(parts) % 2:
            joined.append(parts[-1])
        parts = joined
    return parts[0]


def by_mark(series: Iterable[PrometheusSeries], count: int) -> list[list[PrometheusSeries]]:
    """The series of each query, in the order of the queries, without the mark."""
    prometheus_series: list[list[PrometheusSeries]] = [[] for _ in range(count)]
    for metric_series in series:
        mark = metric_series.metric.pop(MARK, "")
        if mark.isdecimal() and int(mark) < count:
            prometheus_series[int(mark)].append(metric_series)
    return prometheus_series


def chunks(texts: Sequence[str], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Places of the texts that are asked together. `sizes` are how many series each will have."""
    chunk: list[int] = []
    length = series = 0
    for number, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        if chunk and (length + len(text) > LONGEST_QUERY or series + size > MOST_SERIES):
            yield chunk
            chunk, length, series = [], 0, 0
        chunk.append(number)
        length += len(text)
        series += size
    if chunk:
        yield chunk


async def marked_series(
    api: PrometheusApi, texts: Sequence[str], window: Window, step_s: float
) -> list[list[PrometheusSeries] | None]:
    """The series of each query; None for those that the server did not answer."""

    async def ask(chunk: Sequence[int]) -> Sequence[list[PrometheusSeries] | None]:
        try:
            answer = await api.range(marked([texts[n] for n in chunk]), window, step_s)
        except FaultlineError:
            return [None] * len(chunk)
        return by_mark(answer.data.result, len(chunk))

    sizes = [1] * len(texts)
    series: list[list[PrometheusSeries] | None] = []
    for answer in await asyncio.gather(*(ask(chunk) for chunk in chunks(texts, sizes))):
        series += answer
    return series
