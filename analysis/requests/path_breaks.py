"""The steps at which visits leave the path that the baseline's visits took.

Of the visits that reach step A, which share also takes B, the step that nearly always comes with
it? Each step is judged only on the visits that reach the one before it, so the first step that is
missing is the break, and what would have followed it is not. The baseline's share is standardised
to the contexts (who called, after which step) in which the incident's visits were called, so that
another mix of callers is no break.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import FlowBreakDetails
from faultline.analysis.kinds.finding_kinds import FLOW_BREAK
from faultline.analysis.requests.paths import BEFORE, END, NOW, START, RequestPaths, request_paths
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

ALWAYS = 0.9
"""B belongs to A when this share of the visits that reach A is expected to take B."""
BROKEN = 0.25
"""And is broken when the share falls by at least this much."""
MIN_SHARE = 0.5
"""Less often than this, in the baseline as a whole, B is not looked at: the contexts differ too
much."""
MIN_VISITS = 4
MIN_SIGMAS = 3.0
"""Two shares differ when their difference, less the continuity correction (Yates), is three
standard errors: some hundreds of pairs are compared."""
PRIOR = 2.0
"""A context's share is drawn towards the overall one as if by this many more visits."""
USUAL_ERROR = 0.5
"""An error that this share of an operation's visits meets is its usual path."""
ERROR_SURGE = 2.0
"""An error explains what it does to a request unless this many times the baseline's share of
requests meet it."""
MIN_UNEXPLAINED = 0.5
"""A break is a service's own when no callee explains at least this share of the broken visits."""
MIN_CALLERS = 2
MAX_HOPS = 64
PAIR = ("service", "operation", "step", "then")


@dataclass(frozen=True)
class Breaks:
    """Broken pairs of steps, the clearest first: of a service by itself, and of the callers of one
    callee.

    Both hold service, operation, step, then; n_before, n (visits that reach the step); expected,
    share (of those that take `then`; with `ended`, that do not end at the step); sigmas; own (share
    of the broken visits that neither a broken visit below them nor an accused callee explains).
    """

    in_service: pl.DataFrame
    behind: pl.DataFrame
    """With `callee`: the service after whose calls requests of two or more services break."""


def request_breaks(paths: RequestPaths) -> Breaks:
    """Where the incident's visits break and no callee's break in the same request explains it."""
    visits = _undisturbed(paths)
    pairs, broken = _broken(visits, paths.steps)
    # A break below explains those above it in the same request.
    above = _above(broken["visit"].unique(), visits)
    broken = broken.with_columns(pl.col("visit").is_in(above.implode()).alias("explained"))
    rows = _unexplained_pairs(pairs, broken)

    callees = pl.DataFrame(
        {"step": list(paths.callees), "callee": list(paths.callees.values())},
        schema={"step": pl.String, "callee": pl.String},
    )
    behind = rows.join(callees, on="step", how="inner", maintain_order="left").filter(
        pl.col("service").n_unique().over("callee") >= MIN_CALLERS
    )
    last = (
        paths.steps.filter(pl.col("next") == END).join(callees, on="step").select("visit", "callee")
    )
    # Visits that end after a call to an accused callee are explained by it.
    accused = last.join(behind.select("callee").unique(), on="callee", how="semi")["visit"]
    broken = broken.with_columns(pl.col("explained") | pl.col("visit").is_in(accused.implode()))
    return Breaks(_unexplained_pairs(pairs, broken), behind)


def _unexplained_pairs(pairs: pl.DataFrame, broken: pl.DataFrame) -> pl.DataFrame:
    shares = broken.group_by(*PAIR, "ended").agg((~pl.col("explained")).mean().alias("own"))
    rows = pairs.join(shares, on=[*PAIR, "ended"], how="inner").filter(
        pl.col("own") >= MIN_UNEXPLAINED
    )
    return rows.sort("sigmas", *PAIR, "ended", descending=[True, *[False] * 5])


def _undisturbed(paths: RequestPaths) -> pl.DataFrame:
    """The visits, less those that met an error that the baseline's requests met as often, whatever
    the service.

    Their callers up to the root go with them. An error on the usual path of an operation disturbs
    nothing.
    """
    visits = paths.visits
    if not paths.errors.height:
        return visits
    names = visits["service"].unique().sort().to_list()
    # The name of a service differs in lines that say the same: take it out before comparing.
    kind = pl.col("masked").str.replace_many(names, ["<service>"] * len(names), leftmost=True)
    met = paths.errors.join(visits, on="visit").with_columns(kind.alias("kind"))
    requests = dict(visits.group_by("side").agg(pl.col("trace_id").n_unique()).iter_rows())
    share = {
        side: pl.col("trace_id").filter(pl.col("side") == side).n_unique() / requests.get(side, 1)
        for side in (BEFORE, NOW)
    }
    usual_kinds = met.group_by("kind").agg(**share)
    usual_kinds = usual_kinds.filter(
        (pl.col(BEFORE) > 0) & (pl.col(NOW) < ERROR_SURGE * pl.col(BEFORE))
    )
    # Kinds of errors that half of an operation's visits meet, in both windows.
    by = ["service", "operation", "side"]
    total = visits.group_by(by).agg(pl.len().alias("total"))
    shares = met.group_by(*by, "kind").agg(pl.col("visit").n_unique().alias("n")).join(total, on=by)
    often = shares.filter(pl.col("n") >= USUAL_ERROR * pl.col("total"))
    both = often.group_by("service", "operation", "kind").agg(
        pl.col("side").n_unique().alias("sides")
    )
    met = met.join(usual_kinds, on="kind", how="semi").join(
        both.filter(pl.col("sides") == 2), on=[*PAIR[:2], "kind"], how="anti"
    )
    disturbed = met["visit"].unique()
    away = pl.concat([disturbed, _above(disturbed, visits)])
    return visits.filter(~pl.col("visit").is_in(away.implode()))


def _broken(visits: pl.DataFrame, steps: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The broken pairs, and the incident's visits that broke at each."""
    reached = steps.join(
        visits.select("visit", "side", "context", "service", "operation"), on="visit"
    )
    then_steps = steps.select(
        "visit", pl.col("step").alias("then"), pl.lit(value=True).alias("held")
    )
    judged = reached.join(_usual_pairs(reached), on=PAIR[:3]).join(
        then_steps, on=["visit", "then"], how="left"
    )
    judged = judged.with_columns(pl.col("held").fill_null(value=False))
    ends = ~pl.col("held") & (pl.col("next") == END)
    lost = _compared(judged, pl.col("held")).filter(pl.col("expected") >= ALWAYS)
    ended = _compared(judged.filter("likeliest"), ~ends)
    pairs = pl.concat([lost.with_columns(ended=False), ended.with_columns(ended=True)])
    drop = pl.col("expected") - pl.col("share")
    pairs = pairs.filter((drop >= BROKEN) & (pl.col("sigmas") >= MIN_SIGMAS))
    failed = judged.filter((pl.col("side") == NOW) & ~pl.col("held")).join(
        pairs.select(*PAIR, "ended"), on=PAIR
    )
    return pairs, failed.filter(~pl.col("ended") | (pl.col("next") == END)).select(
        "visit", *PAIR, "ended"
    )


def _usual_pairs(reached: pl.DataFrame) -> pl.DataFrame:
    """Each step of the baseline with the one that most often came right before it, and with its
    likeliest next.

    Only steps that belong to the one before in half its visits: so there are no more pairs than
    steps in two visits.
    """
    by = list(PAIR)
    taken = reached.filter(pl.col("side") == BEFORE)
    counts = (
        taken.filter(pl.col("next") != END)
        .group_by("service", "operation", "step", pl.col("next").alias("then"))
        .agg(pl.len().alias("n"))
        .sort("n", *by, descending=[True, False, False, False, False])
    )
    visits = taken.group_by("service", "operation", "step").agg(pl.len().alias("n_step"))
    then = visits.rename({"step": "then", "n_step": "n_then"})
    before = counts.unique(["service", "operation", "then"], keep="first", maintain_order=True)
    before = before.join(visits, on=by[:3], maintain_order="left").join(
        then, on=[*by[:2], "then"], maintain_order="left"
    )
    before = before.filter(pl.col("n_then") >= MIN_SHARE * pl.col("n_step")).select(by)
    after = counts.unique(
        ["service", "operation", "step"], keep="first", maintain_order=True
    ).select(by)
    both = pl.concat([before, after]).unique(maintain_order=True)
    likeliest = after.with_columns(pl.lit(value=True).alias("likeliest"))
    return both.join(likeliest, on=by, how="left").with_columns(
        pl.col("likeliest").fill_null(value=False)
    )


def _compared(judged: pl.DataFrame, holds: pl.Expr) -> pl.DataFrame:
    """Per pair: the share of the incident's visits, the one expected, and how far below it is, in
    standard errors."""
    before = pl.col("side") == BEFORE
    contexts = judged.group_by(*PAIR, "context").agg(
        before.sum().alias("n_before"),
        (~before).sum().alias("n"),
        (before & holds).sum().alias("k_before"),
        (~before & holds).sum().alias("k"),
    )
    overall = pl.col("k_before").sum().over(PAIR) / pl.col("n_before").sum().over(PAIR)
    likely = (pl.col("k_before") + PRIOR * overall) / (pl.col("n_before") + PRIOR)
    # A context with few visits says little by itself: draw it towards the others.
    pairs = (
        contexts.with_columns((pl.col("n") * likely).alias("expected"))
        .group_by(PAIR)
        .agg(pl.col("n_before", "n", "k", "expected").sum())
        .filter((pl.col("n_before") >= MIN_VISITS) & (pl.col("n") >= MIN_VISITS))
        .with_columns(pl.col("expected") / pl.col("n"), (pl.col("k") / pl.col("n")).alias("share"))
    )
    total = pl.col("n_before") + pl.col("n")
    pooled = (pl.col("expected") * pl.col("n_before") + pl.col("k")) / total
    # A share of exactly 0 or 1 would have no error at all.
    pooled = pooled.clip(1 / (total + 1), 1 - 1 / (total + 1))
    inverse = 1 / pl.col("n_before") + 1 / pl.col("n")
    # The continuity correction makes up for shares of few visits moving in steps.
    distance = pl.col("expected") - pl.col("share") - inverse / 2
    return pairs.with_columns(
        (distance / (pooled * (1 - pooled) * inverse).sqrt()).alias("sigmas")
    ).drop("k")


def _above(visits: pl.Series, all_visits: pl.DataFrame) -> pl.Series:
    """The visits that called these, up to the request's root."""
    called = all_visits.filter(pl.col("caller_visit").is_not_null()).select("visit", "caller_visit")
    above = visits.clear()
    level = visits
    for _ in range(MAX_HOPS):
        level = called.filter(pl.col("visit").is_in(level.implode()))["caller_visit"].unique()
        if not level.len():
            break
        above = above.append(level)
    return above.unique()


# Where requests stop following their usual path: a step that always came after another no longer
# comes.
#
# Comparing the event patterns of requests with those of a fault-free phase, and taking the deepest
# break for the culprit's, are the ideas of Nezha (Yu et al., FSE 2023). Requests that stop right
# after their calls to one service, in two or more of its callers, accuse that service: else each
# caller's own code would have to have broken at once.

KIND = FLOW_BREAK.name
MAX_PER_SERVICE = 3
MAX_FINDINGS = 30
"""Findings in all, the clearest breaks first."""
STEP_TEXT = 120
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def flow_breaks(case: Case) -> list[Finding]:
    """At most three findings per service, the clearest breaks; empty without spans on both
    sides."""
    paths = request_paths(case)
    if paths is None:
        return []
    breaks = request_breaks(paths)
    evidence = (*case.evidence_ids("spans"), *case.evidence_ids("logs"))
    clearest = _clearest(breaks.in_service.iter_rows(named=True))[:MAX_FINDINGS]
    findings = [_in_service(row, evidence) for row in clearest]
    return findings + _behind_callers(breaks.behind, evidence)


ANALYZER = Analyzer(flow_breaks, kinds=(FLOW_BREAK,))


def _clearest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each service the first rows, each step once."""
    clearests: list[dict[str, Any]] = []
    steps_by_service: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        observed_steps = steps_by_service.setdefault(row["service"], set())
        # Report a missing step once, not again as the step before the next one.
        steps = {(row["operation"], row["step"]), (row["operation"], row["then"])}
        if steps & observed_steps or len(observed_steps) >= 2 * MAX_PER_SERVICE:
            continue
        observed_steps |= steps
        clearests.append(row)
    return clearests


def _in_service(row: Mapping[str, Any], evidence: tuple[str, ...]) -> Finding:
    service, operation = plain(row["service"]), plain(row["operation"], 60)
    step, then = _words(row["step"]), _words(row["then"])
    percent, before = _percents(row)
    reaching, on = f' that reach "{step}"', "go on"
    # Nothing comes before the start, so there is no step to quote.
    if row["step"] == START:
        reaching, on = "", "get past their start"
    how = on if row["ended"] else f'come to "{then}"'
    sentence = (
        f"{number(percent, 3)} % of the {service} requests through {operation}{reaching} {how}, "
        f"where the baseline predicts {number(before, 3)} %."
    )
    return _finding(row["service"], [row], sentence, evidence, _strength(row))


def _behind_callers(rows: pl.DataFrame, evidence: tuple[str, ...]) -> list[Finding]:
    """One finding per service after whose calls the requests of two or more callers break."""
    findings = []
    clearest = rows.unique(["callee", "service"], keep="first", maintain_order=True)
    by_callee = clearest.partition_by("callee", as_dict=True, maintain_order=True)
    for (callee,), callers in by_callee.items():
        row, two = callers.head(2).iter_rows(named=True)
        (a, a_before), (b, b_before) = _percents(row), _percents(two)
        sentence = (
            f"{number(a, 3)} % of the requests of {plain(row['service'])} and {number(b, 3)} % of "
            "those of "
            f"{plain(two['service'])} go on after their calls to {plain(str(callee))}, where the "
            "baseline predicts "
            f"{number(a_before, 3)} % and {number(b_before, 3)} %."
        )
        findings.append(_finding(str(callee), [row, two], sentence, evidence, _strength(row)))
    return findings


def _finding(
    subject: str,
    rows: list[dict[str, Any]] | list[Mapping[str, Any]],
    sentence: str,
    evidence: tuple[str, ...],
    strength: float,
) -> Finding:
    numbers: dict[str, float] = {}
    for i, row in enumerate(rows):
        after = f"_{i + 1}" if i else ""
        numbers[f"percent{after}"], numbers[f"baseline_percent{after}"] = _percents(row)
    # Every number in a sentence must be known, those in quoted log lines too.
    quotations = " ".join(re.findall(r'"[^"]*"', sentence))
    for i, quoted in enumerate(_NUMBER.findall(quotations), start=1):
        numbers[f"quoted_{i}"] = float(quoted)
    row = rows[0]
    return Finding(
        id="",
        kind=KIND,
        subject=subject,
        signal="request flow",
        effect=rounded(numbers["percent"] - numbers["baseline_percent"], 3),
        effect_unit="percentage points",
        strength=strength,
        sentence=sentence,
        numbers=numbers,
        evidence=evidence,
        series={"table": "spans", "service": row["service"], "operation": row["operation"]},
        details=FlowBreakDetails(
            signal_class="other",
            bad=True,
            after=_words(row["step"]),
            event=_words(row["then"]),
            callers=tuple(r["service"] for r in rows) if len(rows) > 1 else (),
            requests=row["n"],
            baseline_requests=row["n_before"],
        ),
    )


def _strength(row: Mapping[str, Any]) -> float:
    """In [0, 1]: how much of the path is lost by the service's own doing, and how sure that is."""
    sure = 1.0 - math.exp(-(row["sigmas"] - 2.0))
    lost = max(0.0, (row["expected"] - row["share"]) * row["own"])
    return round(min(1.0, math.sqrt(lost) * sure), 4)


def _percents(row: Mapping[str, Any]) -> tuple[float, float]:
    return rounded(100 * row["share"], 3), rounded(100 * row["expected"], 3)


def _words(step: str) -> str:
    text, at, place = step.rpartition(" @")
    step = f"{text.replace(place, '')} at {place}" if at and place else step
    return plain(step.replace("<*>", "*").replace('"', "'"), STEP_TEXT)
