"""What a tool gives: one line a row, and for each row that may be cited a finding of the kind
`looked_at` with an id such as L3.

What such a finding carries, for whoever checks a sentence that cites it:

- `sentence`: what code says of the row. Foreign text in it stands between quotation marks, cut.
- `subject`, `signal`: what it is about, and which signal of that.
- `numbers`, each under the name of its role. Values of the signal, in `details.unit`: `baseline`,
  `incident` (medians), `usual_low`, `usual_high` (the 5th and 95th percentile of the baseline),
  `lowest`, `highest` (of the incident), `yesterday`, `last_week` (median of the same hours),
  `point_1` ... (in the order of `details.points`), `value` (of a calculation), `here` and
  `elsewhere` (of a comparison; of a whole zone or version also `departed`: series that left their
  usual variation), `first`, `last`, `median` (of a query's series). Others: `ratio`
  (incident to baseline), `times_the_others`, `count` and `baseline_count` (lines, spans), `p95_ms`,
  `baseline_p95_ms`, `failed_percent`, `baseline_failed_percent`, `ms` (of one span), `after_ms`
  (since its request began), `hops` (of a call), `signals`, `log_lines`, `spans`, `changes` (of
  `data`), `quoted_1` ... (numbers in foreign text, to be quoted with it and never claimed).
- `onset`: when a departure or a new kind of line began. `details.time`: when a row that is one
  moment happened (a line, a change, a span, an event), ISO 8601 in UTC.
- `details.about`: "series", "comparison", "calculation", "query_row", "log_template", "log_line",
  "operation", "span", "change", "diff_line", "call", "state", "event", "monitor", "alert_text",
  "external",
  "data" or "training_row" (whose numbers have the names of the analysis).
- `details.direction`: "rose", "fell" or "unaffected", and `details.departed`: whether it left its
  usual variation. What rose without departing is `rose` with `departed` false.
- `details.quote`: foreign text of a log line, a line of a diff, a change's title, an event or the
  alert: one line, secrets masked, no mark-up, at most QUOTE_LIMIT characters. A claim may quote any
  part of it letter by letter, by the finding's id and an offset into this text. The model sees it
  with personal data replaced by placeholders, which `Redactor.reveal` turns back.
- `details.labels`, `points`, `change`, `file`, `line`, `side`, `trace_id`, `expression`: see
  `ObservationDetails`.
- `series`: where the rows are. A series has table, service, signal and, where it is one of several,
  labels; `calculate` takes it by the finding's id.

In a result foreign text is the last part of its line, between quotation marks: whatever follows the
first of them was written by somebody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import polars as pl
from pydantic import AwareDatetime, BaseModel, ConfigDict

from faultline.analysis.case.observations import KIND
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Evidence, EvidenceKind, Finding, Window
from faultline.analysis.wording.phrases import plain, rounded
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.contract.instances import vendor_of

T = TypeVar("T")

MOST_ROWS = 40
"""Rows of one result; MAX_OBSERVATIONS lets 25 such results be cited."""
QUOTE_LIMIT = 300
BARS = "▁▂▃▄▅▆▇█"
SPARK = 32
"""Bars of a sparkline."""
NEVER_QUERIED = frozenset({"recorded", "traces", "wandb", "mlflow"})
"""A recorded case holds nothing beyond itself; files of training jobs are collected once."""


class Arguments(BaseModel):
    """Base of the tools' arguments. What is not known is refused, so that the model learns that it
    was not heard."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=400)


@dataclass(frozen=True)
class Row:
    """One line of a result. `finding` is what to cite for it; without an id it gets the next."""

    text: str
    """What code says."""
    quote: str = ""
    """What somebody else wrote."""
    finding: Finding | None = None


@dataclass(frozen=True)
class CallResult:
    """The result of a call. `provenance` says whose data it is; `note` is ours."""

    rows: Sequence[Row]
    provenance: str
    note: str = ""
    cut: str = ""
    """How many rows are not shown, and how to narrow."""
    evidence_name: str | None = None
    """Name of the new evidence that the call brought."""


class InvalidCall(Exception):
    """The call makes no sense as it is; the message says what would."""


@dataclass(frozen=True)
class Tool:
    """A tool: how the model sees it, what it does, and in which cases there is something for it."""

    name: str
    description: str
    arguments: type[Arguments]
    call: Callable[[ModelSession, Any], Awaitable[CallResult]]
    offered: Callable[[ModelSession], bool] = lambda _: True


def askable(connectors: Sequence[Connector]) -> list[Connector]:
    """Connectors that can bring something new."""
    askables = []
    for connector in connectors:
        if vendor_of(connector) not in NEVER_QUERIED and tuple(connector.kinds) != ("traces",):
            askables.append(connector)
    return askables


def has(*kinds: EvidenceKind) -> Callable[[ModelSession], bool]:
    """Whether the case holds rows of one of these tables, or a connector may bring some."""

    def offered(model_session: ModelSession) -> bool:
        for kind in kinds:
            if getattr(model_session.case, kind).height:
                return True
            if any(kind in connector.kinds for connector in askable(model_session.connectors)):
                return True
        return False

    return offered


def observation(
    subject: str,
    signal: str,
    sentence: str,
    details: ObservationDetails,
    *,
    evidence: Sequence[str],
    numbers: Mapping[str, float] | None = None,
    onset: datetime | None = None,
    series: Mapping[str, str] | None = None,
) -> Finding:
    """A row as a finding without an id, which accuses nobody. Numbers are rounded as they are
    quoted."""
    return Finding(
        id="",
        kind=KIND,
        subject=subject,
        signal=signal,
        onset=onset,
        strength=0.0,
        sentence=sentence,
        numbers={name: rounded(number) for name, number in (numbers or {}).items()},
        evidence=tuple(evidence),
        series=series or {},
        details=details,
    )


def quoted(text: str, limit: int = QUOTE_LIMIT) -> str:
    """Foreign text as it may be shown and quoted."""
    # Mask before cutting: half a secret is not recognised. The slice only bounds the work.
    return neutral(masked(text[: 20 * limit]), limit)


def first_of(rows: Sequence[T], how: str, most: int = MOST_ROWS) -> tuple[Sequence[T], str]:
    """The first rows, and what is said of the others."""
    left_out = len(rows) - most
    return rows[:most], f"{left_out} more; {how}" if left_out > 0 else ""


def case_service(model_session: ModelSession, name: str) -> str:
    """The service as the case spells it. Raises NotFound, naming like ones."""
    services = model_session.services()
    if name in services:
        return name
    # The model may write a name in other letters, or as it was shown without mark-up.
    for shown in (str.casefold, neutral):
        alike = {shown(s): s for s in sorted(services)}
        if shown(name) in alike:
            return alike[shown(name)]
    folded = name.casefold()
    like = [s for s in sorted(services) if folded in s.casefold() or s.casefold() in folded]
    shown_names = ", ".join((like or sorted(services))[:20])
    raise InvalidCall(f"no service of that name is known here; known are: {shown_names}")


def from_evidence(evidence: Sequence[Evidence], kind: str) -> str:
    """Where a table's rows came from."""
    items = [e for e in evidence if e.kind == kind]
    sources = ", ".join(sorted({e.source for e in items}))
    ids = ", ".join(e.id for e in items[:6]) + (", ..." if len(items) > 6 else "")
    return f"{kind} from {sources} ({ids})" if items else f"{kind} of the case"


def sparkline(times: pl.Series, values: pl.Series, start: datetime, end: datetime) -> str:
    """The values from start to end as a row of bars, each the mean of its part; a dot where there
    are none."""
    width = (end - start) / SPARK
    if width.total_seconds() <= 0 or not len(values):
        return ""
    # A point at the very end belongs to the last bar.
    part = (
        (times - start).dt.total_microseconds() // max(1, int(width.total_seconds() * 1e6))
    ).clip(0, SPARK - 1)
    means = (
        pl.DataFrame({"part": part, "value": values}).group_by("part").agg(pl.col("value").mean())
    )
    by_part = {int(p): v for p, v in means.iter_rows() if v is not None}
    low, high = min(by_part.values(), default=0.0), max(by_part.values(), default=0.0)
    # A flat series would divide by zero.
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(
        BARS[round((by_part[n] - low) / step)] if n in by_part else "·" for n in range(SPARK)
    )


def moment(at: datetime) -> str:
    """A time as findings write it."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: datetime) -> str:
    """The time of day, for rows of a result whose day is known."""
    return at.astimezone(UTC).strftime("%H:%M:%S")


def iso(at: datetime) -> str:
    """A time as details hold it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def span_of(windows: Iterable[Window]) -> str:
    """Windows in words."""
    return "; ".join(f"{w.start:%Y-%m-%d %H:%M:%S} to {w.end:%H:%M:%S} UTC" for w in windows)


def window_of(
    model_session: ModelSession,
    start: AwareDatetime | None,
    end: AwareDatetime | None,
    longest: timedelta,
) -> Window:
    """The times that were asked for, those in which an onset is looked for where they were not.
    Raises NotFound."""
    incident = metric_windows(model_session.case).search
    first, last = start or incident.start, end or incident.end
    if not first < last:
        raise InvalidCall("`start` must be before `end`")
    if last - first > longest:
        raise InvalidCall(f"at most {longest.total_seconds() / 3600:g} hours at once")
    return Window(start=first, end=last)


def short_names(names: Iterable[str], most: int = 12) -> str:
    """Names in a line, and how many more there are."""
    distinct_names = sorted(set(names))
    more = f" and {len(distinct_names) - most} more" if len(distinct_names) > most else ""
    return ", ".join(plain(name, 60) for name in distinct_names[:most]) + more
