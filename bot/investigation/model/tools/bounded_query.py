"""`query`: a query in a connector's own language, for what no other tool can ask.

Only connectors that refuse whatever has no bounds take one
(`faultline.connectors.shared.queries.query_bounds`). What it brings is evidence with its query and
link, and each row can be cited; but the rows enter no table, so they change neither findings nor
ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import polars as pl
from pydantic import AwareDatetime, ConfigDict, Field

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding, Window
from faultline.analysis.wording.amounts import amount, unit_of
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.investigation.model.bench import Bench, QueryAnswer
from faultline.bot.investigation.model.tools.found import (
    MOST_ROWS,
    Arguments,
    Found,
    NotFound,
    Row,
    Tool,
    clock,
    first_of,
    iso,
    known_service,
    moment,
    observation,
    quoted,
    span_of,
    window_of,
)
from faultline.bot.investigation.model.tools.metric_rows import labels_in, shown_labels
from faultline.bot.investigation.model.tools.queries import MAX_ASKS
from faultline.connectors.shared.contract.abilities import AnswersQueries, BoundedQuery
from faultline.connectors.shared.queries.querying import RECORD

LONGEST = timedelta(hours=6)
EARLIEST = timedelta(days=8)
"""Before the incident: the same hours of last week can be asked for."""
MOST_POINTS = 60
LONGEST_QUERY = 1_000


class QueryArguments(Arguments):
    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST_QUERY)

    connector: str = Field(description="Name of a connector that takes queries.")
    query: str = Field(
        description="In the connector's language; selectors must name something. Read-only. "
        "In KQL and Logs Insights a new column is named like n or p99, and code adds the limit."
    )
    start: AwareDatetime | None = Field(
        default=None, description="ISO 8601; null with end for the incident. At most 6 hours."
    )
    end: AwareDatetime | None = Field(default=None, description="ISO 8601, or null.")
    service: str | None = Field(
        default=None, description="Whom rows are about that name no service, or null."
    )


async def query(bench: Bench, asked: QueryArguments) -> Found:
    """Each series, or each line."""
    able = bench.answering
    connector = next((c for c in able if c.name == asked.connector), None)
    if connector is None:
        names = ", ".join(c.name for c in able) or "none"
        raise NotFound(f"no connector of that name takes queries; there are {names}")
    service = known_service(bench, asked.service) if asked.service else None
    window = _window(bench, asked)
    if bench.queries_made >= MAX_ASKS:
        raise NotFound(f"{MAX_ASKS} new queries were made, which is the limit")
    bounded = BoundedQuery(asked.query, window, MOST_ROWS, MOST_POINTS, service)
    answer = await bench.query(connector, bounded)
    if not answer.ask:
        # One failure is a gap of each kind that was asked for.
        reasons = dict.fromkeys(gap.reason for gap in answer.gaps)
        raise NotFound("; ".join(reasons) or "nothing came back")
    rows = [*_series(answer, asked.query), *_lines(answer, asked.query)]
    shown, cut = first_of(rows, "aggregate, or name more in the selector")
    evidence = answer.evidence
    item = f", {evidence.id}" if evidence is not None else ""
    where = f"{connector.name}{item}, {span_of([window])}; quoted parts are foreign text"
    note = "" if rows else "the query is right and matches nothing in that time"
    server_cut = evidence.cut if evidence is not None else None
    parts = [part for part in (cut, server_cut) if part]
    return Found(shown, where, note, "; ".join(parts), asked=answer.ask)


def _window(bench: Bench, asked: QueryArguments) -> Window:
    window = window_of(bench, asked.start, asked.end, LONGEST)
    incident = bench.case.scope.incident
    first, last = incident.start - EARLIEST, incident.end + timedelta(hours=1)
    if not first <= window.start < window.end <= last:
        raise NotFound(f"the time must lie between {moment(first)} and {moment(last)}")
    return window


def _evidence(answer: QueryAnswer) -> tuple[str, ...]:
    return (answer.evidence.id,) if answer.evidence is not None else ()


def _series(answer: QueryAnswer, text: str) -> list[Row]:
    table = answer.tables.get("metrics")
    if table is None:
        return []
    rows = []
    keyed = table.with_columns(pl.col("service", "labels").fill_null(""))
    for (service, signal, labels), own in keyed.sort("time").group_by(
        ["service", "signal", "labels"], maintain_order=True
    ):
        finding = _one_series(answer, text, (str(service), str(signal), str(labels)), own)
        if finding is not None:
            values = " ".join(number(value, 3) for value in own["value"].drop_nulls())
            first, last = own["time"][0], own["time"][-1]
            sentence = finding.sentence.rstrip(".")
            if own.height > 1:
                sentence += f"; {own.height} points from {clock(first)} to {clock(last)}: {values}"
            rows.append(Row(sentence, finding=finding))
    return rows


def _one_series(
    answer: QueryAnswer, text: str, key: tuple[str, str, str], own: pl.DataFrame
) -> Finding | None:
    service, signal, labels = key
    known = own.filter(pl.col("value").is_finite())
    if not known.height:
        return None
    values = known["value"]
    numbers = {
        "first": float(values[0]),
        "last": float(values[-1]),
        "lowest": float(values.min()),  # type: ignore[arg-type]
        "highest": float(values.max()),  # type: ignore[arg-type]
        "median": float(values.median()),  # type: ignore[arg-type]
    }
    points = list(known.select("time", "value").iter_rows())
    numbers |= {f"point_{n}": value for n, (_, value) in enumerate(points, start=1)}
    unit = unit_of(signal, None, list(values))
    phrase = f"{plain(service)} {plain(signal, 120)}{shown_labels(labels)}: "
    if len(points) == 1:
        phrase += amount(numbers["last"], unit)
    else:
        phrase += ", ".join(f"{n} {amount(numbers[n], unit)}" for n in ("first", "last"))
        phrase += f", {amount(numbers['lowest'], unit)} to {amount(numbers['highest'], unit)}"
    return observation(
        service,
        signal,
        f"{phrase.strip()}.",
        ObservationDetails(
            about="query_row",
            labels=labels_in(labels),
            points=tuple((iso(at), value) for at, value in points),
            expression=text,
        ),
        evidence=_evidence(answer),
        numbers=numbers,
        series={
            "table": "query",
            "ask": answer.ask,
            "service": service,
            "signal": signal,
            "labels": labels,
        },
    )


def _lines(answer: QueryAnswer, text: str) -> list[Row]:
    table = answer.tables.get("logs")
    if table is None:
        return []
    rows = []
    for row in table.sort("time").iter_rows(named=True):
        service, quote = row["service"] or "", quoted(row["message"] or "")
        level = f" {plain(row['level'], 12)}" if row["level"] else ""
        # The columns of another table's row are no line that somebody logged.
        is_record = row["attributes"] == RECORD
        about, logged = ("query_row", "had") if is_record else ("log_line", "logged")
        finding = observation(
            service,
            "logs",
            f'{plain(service)} {logged} at {moment(row["time"])}{level}: "{plain(quote, 120)}".',
            ObservationDetails(
                about=about,
                time=iso(row["time"]),
                quote=quote,
                trace_id=plain(row["trace_id"] or "", 64),
                expression=text,
            ),
            evidence=_evidence(answer),
        )
        text_of_row = f"{row['time']:%H:%M:%S.%f}"[:-3] + f" {plain(service)}{level}"
        rows.append(Row(text_of_row, quote, finding))
    return rows


def query_tool(able: Sequence[AnswersQueries]) -> Tool:
    """The tool, naming who takes which language."""
    names = "; ".join(f"{c.name}: {c.query_language}" for c in able)
    return Tool(
        "query",
        "A read-only query in a connector's own language, for what no other tool asks: at most "
        f"{MOST_ROWS} series or lines, 6 hours, {LONGEST_QUERY} characters. Its rows can be cited "
        f"but change no finding. {names}.",
        QueryArguments,
        query,
    )
