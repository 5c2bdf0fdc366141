"""A query of Logs Insights that a model wrote, over the log groups of one service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.pipe_queries import INSIGHTS, pipe_query
from faultline.connectors.shared.queries.record_answers import RecordColumns, records_answer
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.console import insights_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence
from faultline.connectors.vendors.aws.insights import Row, ScanBudget, ask
from faultline.connectors.vendors.aws.logs import ServiceLogs, existing_groups
from faultline.connectors.vendors.aws.session import VENDOR

COLUMNS = RecordColumns(message="@message")


async def log_answer(
    calls: AwsCalls, logs: Sequence[ServiceLogs], query: BoundedQuery, budget: ScanBudget
) -> Collected:
    """The rows of every place that has some of the groups, place by place.

    Raises ConnectorError, BudgetExceeded.
    """
    taken = pipe_query(INSIGHTS, VENDOR, query)
    gaps = AwsEvidence()
    groups = await asyncio.gather(*(existing_groups(calls, log, gaps) for log in logs))
    there = [(log, names) for log, names in zip(logs, groups, strict=True) if names]
    if not there:
        why = "; ".join(dict.fromkeys(f"{gap.query}: {gap.reason}" for gap in gaps.missing))
        raise ConnectorError(VENDOR, "StartQuery", why or "the service has no log groups")
    answers = await asyncio.gather(
        *(
            ask(calls, service_logs.place, names, taken.text, query.window, budget)
            for service_logs, names in there
        )
    )
    rows: list[Row] = []
    for (service_logs, _), answer in zip(there, answers, strict=True):
        where = {"place": str(service_logs.place)} if len(there) > 1 else {}
        rows += [{**row, **where} for row in answer.rows]
    first, names = there[0]
    link = insights_link(first.place.region, names, taken.text, query.window)
    # A group that is in another place is not missed.
    lacking = (f"{gap.query}: {gap.reason}" for gap in gaps.missing if len(logs) == 1)
    cut = "; ".join(lacking) or None
    return await asyncio.to_thread(records_answer, query, taken, rows, COLUMNS, link=link, cut=cut)
