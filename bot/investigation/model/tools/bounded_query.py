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
from faultline.bot.investigation.model.model_session import ModelSession, QueryAnswer
from faultline.bot.investigation.model.tools.contract import (
    MOST_ROWS,
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    clock,
    first_of,
    iso,
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


async def query(model_session: ModelSession, arguments: QueryArguments) -> CallResult:
    """Each series, or each line."""
    able = model_session.answering
    connector = next((c for c in able if c.name == arguments.connector), None)
    if connector is None:
        names = ", ".join(c.name for c in able) or "none"
        raise InvalidCall(f"no connector of that name takes queries; there are {names}")
    service = case_service(model_session, arguments.service) if arguments.service else None
    window = _window(model_session, arguments)
    if model_session.queries_made >= MAX_ASKS:
        raise InvalidCall(f"{MAX_ASKS} new queries were made, which is the limit")
    bounded = BoundedQuery(arguments.query, window, MOST_ROWS, MOST_POINTS, service)
    answer = await model_session.query(connector, bounded)
    if not answer.ask:
        # One failure is a gap of each kind that was asked for.
        reasons = dict.fromkeys(gap.reason for gap in answer.gaps)
        raise InvalidCall("; ".join(reasons) or "nothing came back")
    rows = [*_series(answer, arguments.query), *_lines(answer, arguments.query)]
    shown, cut = first_of(rows, "aggregate, or name more in the selector")
    evidence = answer.evidence
    item, server_cut = "", None
    if evidence is not None:
        item, server_cut = f", {evidence.id}", evidence.cut
    where = f"{connector.name}{item}, {span_of([window])}; quoted parts are foreign text"
    note = "" if rows else "the query is right and matches nothing in that time"
    cuts = "; ".join(filter(None, (cut, server_cut)))
    return CallResult(shown, where, note, cuts, evidence_name=answer.ask)


def _window(model_session: ModelSession, arguments: QueryArguments) -> Window:
    window = window_of(model_session, arguments.start, arguments.end, LONGEST)
    incident = model_session.case.scope.incident
    first, last = incident.start - EARLIEST, incident.end + timedelta(hours=1)
    if not first <= window.start < window.end <= last:
        raise InvalidCall(f"the time must lie between {moment(first)} and {moment(last)}")
    return window


def _evidence(answer: QueryAnswer) -> tuple[str, ...]:
    return (answer.evidence.id,) if answer.evidence is not None else ()


def _series(answer: QueryAnswer, text: str) -> list[Row]:
    table = answer.tables.get("metrics")
    if table is None:
        return []
    rows = []
    # In the key, a null would become the text "None".
    keyed = table.with_columns(pl.col("service", "labels").fill_null(""))
    for (service, signal, labels), series_rows in keyed.sort("time").group_by(
        ["service", "signal", "labels"], maintain_order=True
    ):
        finding = _series_finding(
            answer, text, (str(service), str(signal), str(labels)), series_rows
        )
        if finding is not None:
            values = " ".join(number(value, 3) for value in series_rows["value"].drop_nulls())
            first, last = series_rows["time"][0], series_rows["time"][-1]
            sentence = finding.sentence.rstrip(".")
            if series_rows.height > 1:
                sentence += (
                    f"; {series_rows.height} points from {clock(first)} to {clock(last)}: {values}"
                )
            rows.append(Row(sentence, finding=finding))
    return rows


def _series_finding(
    answer: QueryAnswer, text: str, key: tuple[str, str, str], series_rows: pl.DataFrame
) -> Finding | None:
    service, signal, labels = key
    finite_rows = series_rows.filter(pl.col("value").is_finite())
    if not finite_rows.height:
        return None
    values = finite_rows["value"]
    numbers = {
        "first": float(values[0]),
        "last": float(values[-1]),
        "lowest": float(values.min()),  # type: ignore[arg-type]
        "highest": float(values.max()),  # type: ignore[arg-type]
        "median": float(values.median()),  # type: ignore[arg-type]
    }
    points = list(finite_rows.select("time", "value").iter_rows())
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
        # `%f` gives microseconds: keep the milliseconds.
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
