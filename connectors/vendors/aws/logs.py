"""Logs from the log groups of one service: error lines, their number by minute, and their number
by pattern."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, LogWords, Scope, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.log_windows import merged
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import insights_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, moment, words
from faultline.connectors.vendors.aws.insights import GB, InsightsResult, Row, ScanBudget, ask
from faultline.connectors.vendors.aws.session import AwsPlace

MOST_LINES = 1_000
MOST_PATTERNS = 40
MOST_GROUPS = 20
"""Of one service; Logs Insights takes 50 in a query."""
LONGEST_LINE = 4_000
ERROR_WORDS = (
    "error",
    "exception",
    "fatal",
    "panic",
    "critical",
    "traceback",
    "timed out",
    "timeout",
    "out of memory",
    "oomkilled",
    "refused",
    "denied",
    "failed",
)
FILTER = f"filter @message like /(?i)({'|'.join(ERROR_WORDS)})/"
LINES = (
    f"fields @timestamp, @message, @logStream, @log\n| {FILTER}\n| "
    f"sort @timestamp desc\n| limit {MOST_LINES}"
)
# 10,000 rows, the most of one query, are a week of minutes.
COUNTS = (
    f"{FILTER}\n| stats count(*) as lines by bin(1m) as minute\n| sort minute asc\n| limit 10000"
)
PATTERNS = f"{FILTER}\n| pattern @message\n| sort @sampleCount desc\n| limit {MOST_PATTERNS}"
"""docs.aws.amazon.com/AmazonCloudWatch/latest/logs: CWL_QuerySyntax, its commands `stats` and
`pattern`."""
SIGNAL, UNIT = "log_error_lines", "1/min"


@dataclass(frozen=True)
class ServiceLogs:
    """The log groups of a service in one place."""

    service: str
    place: AwsPlace
    groups: tuple[str, ...]


async def logs_of(
    calls: AwsCalls, logs: ServiceLogs, scope: Scope, budget: ScanBudget
) -> AwsEvidence:
    """Lines and patterns of each window, counts over all of them."""
    aws_evidence = AwsEvidence()
    groups = await existing_groups(calls, logs, aws_evidence)
    if not groups:
        return aws_evidence
    service_logs = ServiceLogs(logs.service, logs.place, groups)
    windows = (scope.incident, *scope.logs_before)
    await asyncio.gather(
        *(_lines(calls, service_logs, window, budget, aws_evidence) for window in windows),
        *(
            _lines(calls, service_logs, w, budget, aws_evidence, words)
            for words in filter(None, [scope.log_words])
            for w in windows
        ),
        *(_patterns(calls, service_logs, window, budget, aws_evidence) for window in windows),
        *(
            _counts(calls, service_logs, span, budget, aws_evidence)
            for span in merged((*scope.baseline, scope.incident))
        ),
    )
    return aws_evidence


async def existing_groups(
    calls: AwsCalls, logs: ServiceLogs, aws_evidence: AwsEvidence
) -> tuple[str, ...]:
    """The groups that are there: a query that names one that is not fails for all."""

    async def there(group: str) -> str | None:
        query = f"DescribeLogGroups {logs.place} {group}"
        try:
            # Groups come sorted by name, so an exact match is the first of its prefix.
            answer = await calls.call(
                logs.place, "logs", "DescribeLogGroups", logGroupNamePrefix=group, limit=1
            )
        except FaultlineError as error:
            aws_evidence.lacks("logs", query, error)
            return None
        if any(
            log_group.get("logGroupName") == group for log_group in objects(answer.get("logGroups"))
        ):
            return group
        aws_evidence.lacks("logs", query, "no log group of that name")
        return None

    if len(logs.groups) > MOST_GROUPS:
        aws_evidence.lacks(
            "logs",
            f"{logs.service} {logs.place}",
            f"{len(logs.groups) - MOST_GROUPS} log groups left out",
        )
    return tuple(g for g in await asyncio.gather(*map(there, logs.groups[:MOST_GROUPS])) if g)


async def _lines(
    calls: AwsCalls,
    logs: ServiceLogs,
    window: Window,
    budget: ScanBudget,
    aws_evidence: AwsEvidence,
    words: LogWords | None = None,
) -> None:
    """Error lines, or those that hold words that runbooks look for."""
    query = LINES if words is None else _with_words(words)
    answer = await _run_query(calls, logs, query, window, budget, aws_evidence)
    if answer is None:
        return
    rows = [row for line in answer.rows if (row := _line(line, logs.service)) is not None]
    cut = None
    if answer.matched > len(answer.rows):
        which = "error lines" if words is None else "lines with these words"
        cut = f"the latest {len(answer.rows):,} of {answer.matched:,.0f} {which}"
    aws_evidence.add("logs", rows)
    item = _item(logs, query, window, answer, len(rows), cut).holding(rows)
    aws_evidence.items.append(replace(item, details={"asked_by": words.by}) if words else item)


def _with_words(words: LogWords) -> str:
    # Words are meant literally, so they must not act as a pattern.
    text = "|".join(re.sub(r"([\\.+*?()|\[\]{}^$/])", r"\\\1", word) for word in words.words)
    return LINES.replace(FILTER, f"filter @message like /(?i)({text})/")


async def _counts(
    calls: AwsCalls,
    logs: ServiceLogs,
    window: Window,
    budget: ScanBudget,
    aws_evidence: AwsEvidence,
) -> None:
    answer = await _run_query(calls, logs, COUNTS, window, budget, aws_evidence)
    if answer is None:
        return
    counted = {}
    for row in answer.rows:
        at, lines = moment(row.get("minute")), row.get("lines", "")
        # A count comes as text.
        if at is not None and lines.isdigit() and len(lines) < 16:
            counted[at] = float(lines)
    labels = msgspec.json.encode({"log_groups": ", ".join(logs.groups)}).decode()
    # A minute without such lines has no row, and counts as zero.
    rows = [
        (at, logs.service, SIGNAL, counted.get(at, 0.0), UNIT, labels) for at in _minutes(window)
    ]
    aws_evidence.add("metrics", rows)
    item = _item(logs, COUNTS, window, answer, len(rows), None, "metrics")
    aws_evidence.items.append(item.holding(rows))


async def _patterns(
    calls: AwsCalls,
    logs: ServiceLogs,
    window: Window,
    budget: ScanBudget,
    aws_evidence: AwsEvidence,
) -> None:
    answer = await _run_query(calls, logs, PATTERNS, window, budget, aws_evidence)
    if answer is None:
        return
    details = {}
    for number, row in enumerate(answer.rows[:MOST_PATTERNS], start=1):
        if row.get("@pattern"):
            details[f"pattern {number}, {words(row.get('@sampleCount'), 20)} lines"] = words(
                row["@pattern"]
            )
    aws_evidence.items.append(
        replace(_item(logs, PATTERNS, window, answer, len(details), None), details=details)
    )


async def _run_query(
    calls: AwsCalls,
    logs: ServiceLogs,
    query: str,
    window: Window,
    budget: ScanBudget,
    aws_evidence: AwsEvidence,
) -> InsightsResult | None:
    try:
        return await ask(calls, logs.place, logs.groups, query, window, budget)
    except FaultlineError as error:
        aws_evidence.lacks("logs", _text(logs, query), error)
        return None


def _line(row: Row, service: str) -> tuple[object, ...] | None:
    at = moment(row.get("@timestamp"))
    if at is None or "@message" not in row:
        return None
    origin = {k.removeprefix("@"): words(row[k]) for k in ("@log", "@logStream") if row.get(k)}
    attributes = msgspec.json.encode(origin, order="sorted").decode() if origin else None
    return at, service, row["@message"].strip()[:LONGEST_LINE], None, None, attributes


def _minutes(window: Window) -> list[datetime]:
    """The whole minutes of a window, by their beginning."""
    # Take whole minutes only: a part of one would look like a drop.
    first = math.ceil(window.start.timestamp() / 60)
    last = math.floor(window.end.timestamp() / 60)
    return [datetime.fromtimestamp(60 * minute, UTC) for minute in range(first, last)]


def _item(
    logs: ServiceLogs,
    query: str,
    window: Window,
    answer: InsightsResult,
    rows: int,
    cut: str | None,
    kind: EvidenceKind = "logs",
) -> Item:
    link = insights_link(logs.place.region, logs.groups, query, window)
    text = f"{_text(logs, query)} ({answer.scanned_bytes / GB:.3f} GB scanned)"
    return Item(kind, text, window, link, rows=rows, cut=cut)


def _text(logs: ServiceLogs, query: str) -> str:
    return f"Logs Insights {logs.place} {', '.join(logs.groups)}: {query}"


def task_log_groups(definitions: Sequence[object]) -> tuple[str, ...]:
    """The log groups that the containers of task definitions write to (ECS guide, the `awslogs` log
    driver)."""
    groups = []
    for definition in objects(list(definitions)):
        for container in objects(definition.get("containerDefinitions")):
            how = container.get("logConfiguration") or {}
            options = how.get("options") if how.get("logDriver") == "awslogs" else None
            if isinstance(options, dict) and isinstance(options.get("awslogs-group"), str):
                groups.append(options["awslogs-group"])
    return tuple(dict.fromkeys(groups))
