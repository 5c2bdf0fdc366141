"""Where failing requests fail first: the deepest failing span, whose own calls do not fail.

An error travels from callee to caller, so a failing span above another failing one only passes it
on. The exception is a span that gave up waiting (a timeout, a passed deadline, a cancelled call):
what it waited for is to blame, followed down to the visit that was not itself waiting, though no
span there need have failed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.case.windows import Windows
from faultline.analysis.kinds.finding_details import RequestPathDetails
from faultline.analysis.kinds.finding_kinds import ERROR_ORIGIN
from faultline.analysis.metrics.series import labels_of
from faultline.analysis.requests.critical_path import MAX_DEPTH_BITS
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

# Calls to what sends no spans: an external provider, a database, a queue, a cache.
#
# They are known from the caller's client spans, whose attributes name the other side.

PEER_ATTRIBUTES = (
    "peer.service",
    "upstream_cluster.name",
    "server.address",
    "net.peer.name",
    "out.host",
    "db.name",
)
"""What names the other side, the most telling first: OpenTelemetry's semantic conventions, current
and former, Envoy's and Datadog's."""
MENTIONS_PEER = "|".join(re.escape(f'"{name}"') for name in PEER_ATTRIBUTES)
CLIENT = r"\"span\.kind\":\s?\"(?i:client|producer|span_kind_client|span_kind_producer)\""
NOT_CALLING = frozenset(
    {"server", "consumer", "internal", "span_kind_server", "span_kind_consumer"}
)

CALLS: dict[str, pl.DataType | type[pl.DataType]] = {
    "caller": pl.String,
    "callee": pl.String,
    "start": pl.Datetime("ns", "UTC"),
    "duration_us": pl.Float64,
    "status": pl.String,
}


def peer_calls(visits: pl.DataFrame) -> pl.DataFrame:
    """One row per call below which no other service sent a span: caller, callee, start, duration
    (us) and status. `visits` are spans with their visits."""
    names_peers = pl.col("attributes").str.contains(MENTIONS_PEER)
    if not visits.select(names_peers.any()).item():
        return pl.DataFrame(schema=CALLS)
    book = AddressBook(set(visits["service"].unique()) - {""})
    answered = visits.filter("entry")["parent"].drop_nulls().unique()
    # A span by which a request enters may name the host that was asked for: its own.
    calling = ~pl.col("entry") | pl.col("attributes").str.contains(CLIENT)
    naming = visits.filter(names_peers, ~pl.col("row").is_in(answered.implode()), calling)
    texts = naming["attributes"].unique().to_list()
    peers = {text: peer_named(text, book) for text in texts}
    callee = pl.col("attributes").replace_strict(peers, default=None, return_dtype=pl.String)
    calls = naming.with_columns(callee.alias("callee"))
    calls = calls.filter(pl.col("callee").is_not_null(), pl.col("callee") != pl.col("service"))
    return calls.select(pl.col("service").alias("caller"), *list(CALLS)[1:])


def peer_named(attributes: str, book: AddressBook) -> str | None:
    """The callee of a client span; None for spans of other kinds, bare addresses and unreadable
    attributes."""
    labels = labels_of(attributes)
    if labels.get("span.kind", "").lower() in NOT_CALLING:
        return None
    for name in PEER_ATTRIBUTES:
        if labels.get(name):
            return book.service_at(labels[name])
    return None


KIND = ERROR_ORIGIN.name
FAILED = r"(?i)^(error|status_code_error|2|5\d\d|fail.*)$"
"""A span's status as vendors write it: OpenTelemetry's Error (2, STATUS_CODE_ERROR), an HTTP
code."""
GAVE_UP = (
    r"(?i)time[sd]?[ _-]?out|deadline[ _-]?exceeded|cancell?ed"
    r"|\"rpc\.grpc\.status_code\":\s?\"?[14]\b"
    r"|\"http\.(?:response\.)?status_code\":\s?\"?(?:408|499|504)\b"
)
"""gRPC's CANCELLED (1) and DEADLINE_EXCEEDED (4); HTTP's 408 and 504, and 499 of nginx."""
WAITED = 0.5
"""A span waits for the call that takes at least this share of its time."""
MIN_FAILING = 3
MIN_RISE = 0.02
MIN_SIGMAS = 3.0
"""Requests fail there more often: 2 of 100 more, and three standard errors."""
MIN_SHARE = 0.1
"""A place where fewer of the failing requests fail first is left out."""
MAX_FINDINGS = 3


def error_origins(
    spans: pl.DataFrame, calls: pl.DataFrame, windows: Windows, evidence: tuple[str, ...]
) -> list[Finding]:
    """At most three findings, most requests first; `spans` and `calls` are those of
    faultline.analysis.requests.critical_path."""
    failed = pl.col("status").fill_null("").str.contains(FAILED)
    side = windows.side("start", searched=1, baseline=0)
    marked = spans.with_columns(failed.alias("failed"), side.alias("now")).filter(
        pl.col("now").is_not_null()
    )
    bad = marked.filter("failed")
    # Without a failing span in the incident there is no origin to look for.
    if not bad.filter(pl.col("now") == 1).height:
        return []
    # A failing span above another failing one only passes its error on.
    passing_on = bad["parent"].drop_nulls().unique()
    first = bad.filter(~pl.col("row").is_in(passing_on.implode()))
    blamed = _blamed(first, spans, calls)
    requests = dict(marked.group_by("now").agg(pl.col("trace_id").n_unique()).iter_rows())
    failing = bad.filter(pl.col("now") == 1)["trace_id"].n_unique()
    rows = _rising(blamed, requests, failing)
    return [_finding(row, evidence) for row in rows.head(MAX_FINDINGS).iter_rows(named=True)]


def _blamed(first: pl.DataFrame, spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The first failing spans with the service and operation to blame, and whether for being waited
    for."""
    text = pl.concat_str("status", "attributes", separator=" ", ignore_nulls=True).fill_null("")
    services = set(spans["service"].unique()) - {""}
    attributes = first["attributes"].drop_nulls().unique().to_list()
    book = AddressBook(services)
    peers = {attribute: peer_named(attribute, book) for attribute in attributes}
    peer = pl.col("attributes").replace_strict(peers, default=None, return_dtype=pl.String)
    first = first.with_columns(text.str.contains(GAVE_UP).alias("gave_up"), peer.alias("peer"))
    first = _with_slow_visits(first, spans, calls)

    service, slow_service = pl.col("service"), pl.col("slow_service")
    waits = pl.col("gave_up") & slow_service.is_not_null() & (slow_service != service)
    calls_a_peer = pl.col("peer").is_not_null() & (pl.col("peer") != service)
    left_a_trace = pl.col("row").is_in(calls["parent"].unique().implode())
    # An entry span was reached; only a call that left no span may have been lost.
    unreached = calls_a_peer & ~left_a_trace & ~pl.col("entry")
    sends_spans = pl.col("peer").is_in(list(services))
    blamed = pl.when(waits).then("slow_service").when(unreached).then("peer").otherwise("service")
    at = pl.when(waits).then("slow_op").otherwise("operation")
    how = (
        pl.when(waits)
        .then(pl.lit("waited"))
        .when(unreached & sends_spans)
        .then(pl.lit("unreached"))
        .when(unreached)
        .then(pl.lit("outside"))
        .otherwise(pl.lit("own"))
    )
    return first.select(
        "trace_id", "now", "start", blamed.alias("blamed"), at.alias("at"), how.alias("how")
    )


def _with_slow_visits(
    first: pl.DataFrame, spans: pl.DataFrame, calls: pl.DataFrame
) -> pl.DataFrame:
    """The spans with `slow`, `slow_service` and `slow_op`: the visit that each waited for in the
    end."""
    # A client span waits for the call below it, an entry span for the longest call of its visit.
    under = calls.select("parent", pl.col("row").alias("callee_visit"), "callee_us")
    longest = under.sort("callee_us", "callee_visit", descending=[True, False])
    rename = longest.unique("parent", keep="first", maintain_order=True).rename({"parent": "row"})
    waits_for_call = pl.col("callee_us") >= WAITED * pl.col("duration_us")
    waited = pl.when(waits_for_call).then("callee_visit").otherwise(pl.when("entry").then("visit"))
    entries = spans.filter("entry").select(
        pl.col("visit").alias("slow"),
        pl.col("service").alias("slow_service"),
        pl.col("operation").alias("slow_op"),
    )
    first = first.join(rename, on="row", how="left", maintain_order="left")
    first = first.with_columns(waited.alias("callee_visit")).join(
        _waited_for(spans, calls),
        left_on="callee_visit",
        right_on="visit",
        how="left",
        maintain_order="left",
    )
    return first.join(entries, on="slow", how="left", maintain_order="left")


def _waited_for(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Per visit the one that it waited for in the end (`slow`): the longest call, its longest call,
    and so on."""
    by_length = calls.sort("callee_us", "row", descending=[True, False])
    longest = by_length.unique("caller_visit", keep="first").select(
        pl.col("caller_visit").alias("visit"), pl.col("row").alias("next"), "callee_us"
    )
    visits = spans.filter("entry").select("visit", "duration_us")
    visits = visits.join(longest, on="visit", how="left", maintain_order="left")
    waits = pl.col("callee_us") >= WAITED * pl.col("duration_us")
    visits = visits.with_columns(pl.when(waits).then("next").otherwise("visit").alias("next"))
    places = pl.DataFrame({"next": visits["visit"], "at": np.arange(visits.height)})
    at = visits.join(places, on="next", how="left", maintain_order="left")["at"]
    below = np.where(at.is_null().to_numpy(), np.arange(visits.height), at.fill_null(0).to_numpy())
    # Each pass doubles the number of calls that are followed.
    for _ in range(MAX_DEPTH_BITS):
        further = below[below]
        if np.array_equal(further, below):
            break
        below = further
    return visits.select("visit", pl.Series("slow", visits["visit"].to_numpy()[below]))


def _rising(blamed: pl.DataFrame, requests: Mapping[int, int], failing: int) -> pl.DataFrame:
    """Per service its commonest place: blamed, at, how, n (requests that fail first there),
    n_before, onset, rates."""
    now = pl.col("now") == 1
    total, total_before = requests.get(1, 0), requests.get(0, 0)
    places = blamed.group_by("blamed", "at", "how").agg(
        pl.col("trace_id").filter(now).n_unique().alias("n"),
        pl.col("trace_id").filter(~now).n_unique().alias("n_before"),
        pl.col("start").filter(now).min().alias("onset"),
    )
    requests_now, requests_before = max(1, total), max(1, total_before)
    rate, rate_before = pl.col("n") / requests_now, pl.col("n_before") / requests_before
    # One more of each outcome, so that a rate of 0 or 1 has an error as well.
    pooled = (pl.col("n") + pl.col("n_before") + 1) / (total + total_before + 2)
    error = (pooled * (1 - pooled) * (1 / requests_now + 1 / requests_before)).sqrt()
    rises = (rate - rate_before >= MIN_RISE) & (rate - rate_before >= MIN_SIGMAS * error)
    enough = (pl.col("n") >= MIN_FAILING) & (pl.col("n") >= MIN_SHARE * failing)
    rising = places.filter(enough & rises).with_columns(
        pl.lit(failing).alias("failing"), pl.lit(total_before).alias("requests_before")
    )
    rising = rising.sort("n", "blamed", "at", "how", descending=[True, False, False, False])
    return rising.unique("blamed", keep="first", maintain_order=True)


def _finding(row: Mapping[str, Any], evidence: tuple[str, ...]) -> Finding:
    service, at = plain(row["blamed"]), plain(row["at"], 60)
    percent = rounded(100 * row["n"] / row["failing"], 3)
    how = {
        "own": f"fail first in {service} {at}, where no call of it fails",
        "waited": f"give up waiting for {service} {at}",
        "unreached": f"fail first in a call to {service} ({at}) that left no trace there",
        "outside": f"fail first in a call to {service} ({at}), which sends no spans",
    }[row["how"]]
    numbers: dict[str, float] = {"percent": percent, "failing": row["failing"]}
    before = ""
    if row["requests_before"]:
        numbers |= {
            "baseline_failing": row["n_before"],
            "baseline_requests": row["requests_before"],
        }
        before = f"; in the baseline {row['n_before']} of {row['requests_before']} requests did"
    sure = 1.0 - math.exp(-row["n"] / 3.0)
    return Finding(
        id="",
        kind=KIND,
        subject=row["blamed"],
        signal="errors",
        onset=row["onset"],
        effect=percent,
        effect_unit="% of failing requests",
        strength=round(min(1.0, math.sqrt(row["n"] / row["failing"]) * sure), 4),
        sentence=f"{number(percent, 3)} % of the {row['failing']} failing requests {how}{before}.",
        numbers=numbers,
        evidence=evidence,
        series={"table": "spans", "service": row["blamed"], "operation": row["at"]},
        details=RequestPathDetails(
            signal_class="errors",
            bad=True,
            direction="up",
            how=row["how"],
            requests=row["n"],
        ),
    )
