"""Incidents to word: diagnoses in the very sentences that the analyzers write, one of each kind of
outcome."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Impact, Verdict
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS, with_verdict

MORNING = datetime(2026, 4, 2, 10, 12, tzinfo=UTC)
NIGHT = datetime(2026, 9, 7, 5, 34, 36, tzinfo=UTC)
DEPLOYED = "7dacc6c8a3c3fe7053afd5d8518ffef1f9843baa"


def _finding(
    id: str, subject: str, sentence: str, *, onset: datetime | None, **fields: Any
) -> Finding:
    given = {"kind": "metric_shift", "strength": 0.9, "evidence": ("E1",), **fields}
    return Finding(id=id, subject=subject, sentence=sentence, onset=onset, **given)


def _shift(
    id: str,
    subject: str,
    signal: str,
    before: float,
    after: float,
    said: str,
    onset: datetime,
    **numbers: float,
) -> Finding:
    verb = "rose" if after > before else "fell"
    return _finding(
        id,
        subject,
        f"{subject} {signal} {verb} from {before:g} to {after:g} ({said}).",
        onset=onset,
        signal=signal,
        numbers={"baseline": before, "incident": after, **numbers},
    )


TOKENS = Diagnosis(
    verdict=Verdict.CAUSE_FOUND,
    confidence=0.83,
    causes=(
        Cause(
            rank=1,
            subject="gatewayservice",
            kind="deploy",
            change=DEPLOYED,
            confidence=0.83,
            onset=MORNING,
            summary="gatewayservice logs that a token or credential has expired: 29 lines, none "
            "in the baseline: "
            '"jwt validation failed: token is expired". Deploy 7dacc6c8a3c3 of gatewayservice, '
            '"refactor(auth): simplify expiry validation", came 7 min before the onset.',
            next_step=f"Roll back {DEPLOYED} of gatewayservice, or turn it off, and watch whether "
            f"the signal returns.",
            findings=("F2", "F1", "F3"),
        ),
        Cause(
            rank=2,
            subject="orderservice",
            kind="code_error",
            confidence=0.05,
            summary="orderservice fails, and gatewayservice may explain it: "
            "orderservice http_401_ratio rose from 0.0045 to 0.4905 (109x).",
            next_step="Read the errors that orderservice answers with since the onset, and its "
            "own log.",
            findings=("F5",),
            contradicting=("F7",),
        ),
    ),
    findings=(
        _shift(
            "F1", "gatewayservice", "http_401_ratio", 0.0047, 0.6105, "130x", MORNING, ratio=130.0
        ),
        _finding(
            "F2",
            "gatewayservice",
            "gatewayservice logs that a token or credential has expired: 29 lines, none in the "
            "baseline: "
            '"jwt validation failed: token is expired".',
            onset=MORNING,
            kind="failure_signature",
            signal="logs",
            numbers={"lines": 29.0},
            details={"example": "jwt validation failed: token is expired"},
        ),
        _finding(
            "F3",
            "gatewayservice",
            'Deploy 7dacc6c8a3c3 of gatewayservice, "refactor(auth): simplify expiry validation", '
            "came 7 min before the onset.",
            onset=MORNING - timedelta(minutes=7),
            kind="change_near",
            signal="deploy",
            numbers={"minutes": 7.0},
            details={"change": DEPLOYED, "title": "refactor(auth): simplify expiry validation"},
        ),
        _finding(
            "F4",
            "gatewayservice",
            "Flag strict_audience_check of gatewayservice came 2 min before the onset; "
            "7dacc6c8a3c3 fits better.",
            onset=MORNING - timedelta(minutes=2),
            kind="change_ruled_out",
            signal="flag",
            numbers={"minutes": 2.0},
            details={"change": "strict_audience_check"},
        ),
        _shift(
            "F5",
            "orderservice",
            "http_401_ratio",
            0.0045,
            0.4905,
            "109x",
            MORNING + timedelta(minutes=2),
            ratio=109.0,
        ),
        _finding(
            "F6",
            "frontend",
            "100 % of frontend GET /api/orders spans fail, 0 % in the baseline.",
            onset=MORNING + timedelta(minutes=6),
            kind="span_errors",
            signal="errors",
            numbers={"percent": 100.0, "baseline_percent": 0.0},
        ),
        _shift(
            "F7",
            "users-db",
            "cpu_percent",
            61,
            44,
            "-27.9 %",
            MORNING + timedelta(minutes=3),
            percent=-27.9,
        ),
    ),
    impact=Impact(
        sentence="gatewayservice http_401_ratio rose from 0.0047 to 0.6105 (130x); about 782000 "
        "requests failed since "
        "the onset (55 %); 2 other services show symptoms (frontend, orderservice).",
        since=MORNING,
        services=("gatewayservice", "orderservice", "frontend"),
        numbers={
            "baseline": 0.0047,
            "incident": 0.6105,
            "ratio": 130.0,
            "failed_percent": 55.0,
            "failed_requests": 782000.0,
            "other_services": 2.0,
        },
        findings=("F1", "F5", "F6"),
    ),
)
TOKENS_ALERT = Alert(
    source="datadog",
    title="gatewayservice 401 ratio above 5 %",
    service="gatewayservice",
    signal="http_401_ratio",
    started_at=MORNING + timedelta(minutes=4),
)

SLOW_RANK = Diagnosis(
    verdict=Verdict.CAUSE_FOUND,
    confidence=0.95,
    causes=(
        Cause(
            rank=1,
            subject="rank 2",
            kind="straggler",
            change="cfg-4127",
            confidence=0.95,
            onset=NIGHT,
            summary="rank 2 delays 8 of 8 steps: the other ranks wait 78 ms of each 103 ms step "
            "for it; its data "
            "loading takes 86 ms where the others take 1.3 ms (65x). Config cfg-4127 of "
            "pretrain-ranker, "
            '"Move shard-2 to the object store", came 3 s before the onset.',
            next_step="Roll back cfg-4127 of pretrain-ranker, or turn it off, and watch whether "
            "the signal returns.",
            findings=("F2", "F1", "F3"),
        ),
    ),
    findings=(
        _shift(
            "F1",
            "pretrain-ranker/rank 2",
            "data_ms",
            0.5486,
            81.17,
            "148x",
            NIGHT,
            ratio=148.0,
        ),
        _finding(
            "F2",
            "rank 2",
            "rank 2 delays 8 of 8 steps: the other ranks wait 78 ms of each 103 ms step for it; "
            "its data loading "
            "takes 86 ms where the others take 1.3 ms (65x).",
            onset=None,
            kind="straggler",
            signal="wait at collectives",
            numbers={
                "worst_rank": 2.0,
                "steps_blamed": 8.0,
                "steps": 8.0,
                "wait_ms_per_step": 78.0,
                "step_ms": 103.0,
                "phase_ms": 86.0,
                "others_phase_ms": 1.3,
                "ratio": 65.0,
            },
        ),
        _finding(
            "F3",
            "pretrain-ranker",
            'Config cfg-4127 of pretrain-ranker, "Move shard-2 to the object store", came 3 s '
            "before the onset.",
            onset=NIGHT - timedelta(seconds=3),
            kind="change_near",
            signal="config",
            numbers={"seconds": 3.0},
            details={"change": "cfg-4127", "title": "Move shard-2 to the object store"},
        ),
        _shift("F4", "pretrain-ranker", "step_time_ms", 34.79, 104.5, "3x", NIGHT, ratio=3.0),
        _shift(
            "F5", "pretrain-ranker/rank 1", "backward_ms", 32.34, 102.1, "3.16x", NIGHT, ratio=3.16
        ),
    ),
    impact=Impact(
        sentence="pretrain-ranker step_time_ms rose from 34.79 to 104.5 (3x); about 67 % of the "
        "training's speed is "
        "lost, 2.67 of 4 rank-hours every hour.",
        since=NIGHT,
        services=("pretrain-ranker",),
        numbers={
            "baseline": 34.79,
            "incident": 104.5,
            "ratio": 3.0,
            "lost_percent": 67.0,
            "lost_rate": 2.67,
            "ranks": 4.0,
        },
        findings=("F4",),
    ),
)
SLOW_RANK_ALERT = Alert(
    source="alertmanager",
    title="Training step time above objective: pretrain-ranker",
    service="pretrain-ranker",
    signal="step_time_ms",
    started_at=NIGHT + timedelta(minutes=1),
)

QUIET = Diagnosis(
    verdict=Verdict.NO_ACTIVE_INCIDENT,
    confidence=0.85,
    causes=(),
    findings=(
        _finding(
            "F1",
            "pretrain-ranker",
            "pretrain-ranker step_time_ms was above the alert's threshold of 26 ms in 76 % of the "
            "baseline: "
            "the threshold lies in its normal range.",
            onset=None,
            kind="threshold_in_normal_range",
            signal="step_time_ms",
            numbers={"threshold": 26.0, "percent_of_baseline": 76.0},
        ),
        _finding(
            "F2",
            "pretrain-ranker",
            "nothing wrong: 8 steps of 33 ms on 4 ranks; no rank delays the others "
            "persistently, the most is rank 2 "
            "with 25 % of the time, in 1 step",
            onset=None,
            kind="training_healthy",
            numbers={
                "step_ms": 33.0,
                "steps": 8.0,
                "ranks": 4.0,
                "rank": 2.0,
                "blame_percent": 25.0,
            },
        ),
    ),
    impact=Impact(sentence="No effect on a user-facing signal was found.", findings=("F1",)),
)

INCIDENTS: dict[str, tuple[Diagnosis, Alert]] = {
    "checkout": (DIAGNOSIS, ALERT),
    "tokens": (TOKENS, TOKENS_ALERT),
    "slow-rank": (SLOW_RANK, SLOW_RANK_ALERT),
    "recovered": (with_verdict(Verdict.RECOVERED), ALERT),
    "quiet": (QUIET, SLOW_RANK_ALERT),
    "unknown": (
        with_verdict(
            Verdict.INSUFFICIENT_EVIDENCE,
            confidence=0.2,
            missing=("Needed: logs of the affected services.",),
        ),
        ALERT,
    ),
}
