"""A name server that fails, by what several services log: whoever serves names is often outside of
what is collected, and none of the services that can't look anything up is to blame."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import log_windows
from faultline.analysis.kinds.state_faults import RESOLVER_FAILING, STATE_FAULTS
from faultline.analysis.logs.failure_signatures import SIGNATURES
from faultline.analysis.states.state_fact import StateFact

_NO_ANSWER = frozenset({"dns_servfail", "dns_timeout"})
"""Failures of the name server. That a name does not exist (NXDOMAIN) may be the name's fault."""
SUBJECT = "DNS"
ENOUGH_SERVICES = 2
"""What a single service can't look up may be its own resolver's fault, or its node's."""
ENOUGH_LINES = 3
"""Fewer lines of a service are an accident, as in `changes.alternative_lines`."""
BASELINE_SHARE = 1 / 3
"""As often before is no news, as in `changes.symptoms`."""


def resolver_facts(case: Case, facts: Sequence[StateFact]) -> list[StateFact]:
    """One fact for each service whose lookups get no answer since the incident; none where a name
    server's own metrics tell of it."""
    if not case.logs.height or any(fact.fault.name == RESOLVER_FAILING for fact in facts):
        return []
    pattern = "|".join(sign.pattern.pattern for sign in SIGNATURES if sign.name in _NO_ANSWER)
    windows = log_windows(case)
    lines = case.logs.filter(
        pl.col("service").is_not_null(), pl.col("message").fill_null("").str.contains(pattern)
    ).with_columns(
        windows.in_search("time").alias("now"), windows.in_baseline("time").alias("before")
    )
    failing = (
        lines.group_by("service")
        .agg(
            pl.col("now").sum(),
            pl.col("before").sum(),
            pl.col("time").filter("now").min().alias("since"),
            pl.col("evidence").filter("now").drop_nulls().first(),
        )
        .filter(pl.col("now") >= ENOUGH_LINES, pl.col("before") < BASELINE_SHARE * pl.col("now"))
        .sort("service")
    )
    if failing.height < ENOUGH_SERVICES:
        return []
    queries = {item.id: item.query for item in case.evidence}
    rows = []
    for row in failing.iter_rows(named=True):
        rows.append(
            StateFact(
                fault=STATE_FAULTS[RESOLVER_FAILING],
                kind="Resolver",
                name=SUBJECT,
                namespace="",
                service=row["service"],
                place=None,
                field="logs",
                value=f"lookups of {failing.height} services get no answer",
                expected="",
                since=row["since"],
                query=queries.get(row["evidence"] or "", ""),
                restored_by="",
            )
        )
    return rows
