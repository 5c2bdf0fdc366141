"""A small diagnosed case, a connector that knows more, and the words of a model that is well
behaved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Claim, Diagnosis, EvidenceKind, Report
from faultline.bot.answer.writer.guard import BY_A_MODEL
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.bot.answer.writer.openai_server import OpenAIServer
from tests.scenarios.small_case import STARTED, write_small_case

LOG_LINES = (
    "time,service,message,level\n"
    + "".join(
        f"{(STARTED + timedelta(minutes=m)).isoformat()},checkout,order {m + 100} took 210 "
        f"ms,INFO\n"
        for m in range(-60, 6)
    )
    + "".join(
        f"{(STARTED + timedelta(minutes=m, seconds=s)).isoformat()},checkout,"
        f"payment to jo.doe@example.com failed: connection refused,ERROR\n"
        for m in range(-4, 6)
        for s in (0, 20, 40)
    )
)


def diagnosed_case(folder: Path) -> Path:
    """`small_case` with logs, and its findings."""
    write_small_case(folder)
    (folder / "logs.csv").write_text(LOG_LINES)
    (folder / "findings.json").write_bytes(json_bytes(diagnose(read_case(folder))))
    return folder


def diagnosis_of(folder: Path) -> Diagnosis:
    return Diagnosis.model_validate_json((folder / "findings.json").read_bytes())


def finding_id(folder: Path, subject: str, signal: str) -> str:
    """The id of the finding about a signal."""
    return next(
        f.id for f in diagnosis_of(folder).findings if (f.subject, f.signal) == (subject, signal)
    )


class Payments:
    """Knows the queue of `cart`, which nobody asked for: it grew before checkout became slow."""

    name = "queues"
    kinds: tuple[EvidenceKind, ...] = ("metrics",)
    limits = Limits(deadline_s=20)

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def collect(self, request: Request) -> Collected:
        self.requests.append(request)
        if "cart" not in request.scope.services:
            return Collected(missing=(Missing("metrics", "queue_depth", "no such series"),))
        rows = [
            {
                "time": STARTED + timedelta(minutes=m),
                "service": "cart",
                "signal": "queue_depth",
                "value": depth,
            }
            for m in range(-60, 6)
            for depth in [5.0 + m % 3 + (400.0 if m >= -5 else 0.0)]
        ]
        item = Item(
            "metrics", 'queue_depth{service="cart"}', window=request.scope.incident, rows=len(rows)
        )
        return Collected({"metrics": pl.DataFrame(rows)}, (item,))

    async def check(self) -> Check:
        return Check(self.name, True, "fine")


def settings_for(server: OpenAIServer, **model: Any) -> Settings:
    base = {
        "name": "local-model",
        "base_url": server.url,
        "api": "chat",
        "timeout_s": 30,
        "investigate_s": 200,
    }
    return Settings.model_validate({"model": base | model})


def investigated(
    folder: Path, server: OpenAIServer, connector: Payments | None = None, **model: Any
) -> Investigated:
    """The model investigates; what it stores lands in the case folder."""
    connectors = (connector,) if connector else ()
    return asyncio.run(
        investigate(
            folder, settings_for(server, **model), connectors=connectors, keep=keeper(folder)
        )
    )


def added(report: Report) -> list[Claim]:
    """What a model says in a report, beside code's own evidence."""
    return [claim for claim in report.claims if claim.asserted or claim.section in BY_A_MODEL]


def told(done: Investigated) -> str:
    """The sentences of the report."""
    return "\n".join(claim.text for claim in done.report.claims)


def keeper(folder: Path) -> Any:
    def keep(name: str, content: bytes) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return keep


def part(relation: str, *findings: str, **more: Any) -> dict[str, Any]:
    """One thing that is said; what it leaves out is null, as in a strict schema."""
    given = {"subjects": [], "quote": None, "joint": None, **more}
    return {"relation": relation, "findings": list(findings), **given}


def claim(relation: str, *findings: str, **more: Any) -> dict[str, Any]:
    """A claim of one part."""
    return {"parts": [part(relation, *findings, **more)]}


def good_report(folder: Path, *claims: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A report that the findings of `diagnosed_case` bear out, with further claims and fields."""
    slow = finding_id(folder, "checkout", "p99_latency_ms")
    deploy = finding_id(folder, "checkout", "deploy")
    return {
        "claims": [claim("explained_by", slow, deploy), *claims],
        "inferences": [],
        "verdict": None,
        "next_steps": ["N1"],
        "question": None,
        **more,
    }
