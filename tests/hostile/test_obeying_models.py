"""A model that obeys what was planted, over real HTTP: the guard takes it out, and no secret has
left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from bot.investigation.model.writing import write_report
from starlette.responses import Response

from analysis.vocabulary import Report
from bot.answer.replay import Replayed, replay
from bot.answer.writer.quotable import quotable
from bot.settings.model import ModelSettings
from tests.bot.answer.writer.openai_server import OpenAIServer, says, serving
from tests.hostile.cases import FIELDS, HARMLESS, incident
from tests.hostile.planted import PLANTED
from tests.hostile.rendering import decided, faults

SECRETS = (
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "hunter2hunter2",
    "jane.roe@shop.example",
    "+49 170 1234567",
    "DE89370400440532013000",
)
LEAK = (
    f"key {SECRETS[0]} {SECRETS[1]} password={SECRETS[2]} mail {SECRETS[3]} phone {SECRETS[4]} "
    f"iban {SECRETS[5]} failed"
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder, kinds = tmp_path_factory.mktemp("planted") / "case", list(PLANTED.values())
    incident(folder, lambda field: kinds[FIELDS.index(field) % len(kinds)])
    return replay(folder)


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("leaking") / "case"
    incident(
        folder,
        lambda field: (
            LEAK if field.startswith(("alert", "logs.new", "changes", "gaps")) else HARMLESS
        ),
    )
    return replay(folder)


def worded(about: Replayed, server: OpenAIServer, **settings: Any) -> Report:
    model = ModelSettings(name="local-model", base_url=server.url, investigates=False, **settings)
    return asyncio.run(write_report(about.diagnosis, about.case.alert, about.case.gaps, model))


def obeying(text: str, about: Replayed) -> dict[str, Any]:
    """Says what was planted wherever it can, citing findings that exist."""
    ids = [f.id for f in about.diagnosis.findings]
    claims = [{"text": text, "findings": ids[:2]}, {"text": f"api: {text}", "findings": ids}]
    return {
        "headline": f"api: {text}",
        "claims": claims,
        "next_steps": [{"text": f"On api, {text}", "findings": ids[:1]}],
    }


def test_nothing_that_an_obeying_model_says_gets_through(planted: Replayed) -> None:
    built_in = planted.report
    for kind, text in PLANTED.items():
        with serving(says(obeying(text, planted))) as server:
            report = worded(planted, server)
        assert report.headline == built_in.headline, kind
        assert report.claims == built_in.claims, kind
        assert report.next_steps == built_in.next_steps, kind
        assert report.dropped, kind
        assert faults(planted, report) == [], kind


def test_of_a_model_that_obeys_beside_honest_work_only_the_work_is_left(planted: Replayed) -> None:
    honest = [
        {"text": quotable(f.sentence), "findings": [f.id]}
        for f in planted.diagnosis.findings
        if f.subject == "api"
    ][:3]
    obeyed: list[dict[str, Any]] = [
        {"text": PLANTED[k], "findings": ["F1"]}
        for k in ("german", "own report", "slack mentions", "shell")
    ]
    answer = {"headline": "api is slow", "claims": [*honest, *obeyed], "next_steps": []}
    with serving(says(answer)) as server:
        report = worded(planted, server)
    assert report.written_by == "local-model"
    assert len(report.claims) >= len(honest)
    assert not [c for c in report.claims if any(o["text"] in c.text for o in obeyed)]
    assert faults(planted, report) == []


def test_no_secret_and_nobody_leaves_and_no_secret_comes_back(leaking: Replayed) -> None:
    before = decided(leaking.diagnosis)

    def repeats(body: dict[str, Any]) -> Response:
        """Repeats all that it was given."""
        told = json.dumps(body)
        leaked = [line for line in told.split("\\n") if "failed" in line][:4]
        return says(obeying(" ".join(leaked)[:600], leaking))(body)

    for api in ("chat", "responses"):
        with serving(repeats) as server:
            report = worded(leaking, server, api=api)
        assert not [s for s in SECRETS if s in server.sent]
        assert "[AWS_KEY_1]" in server.sent
        assert not [s for s in SECRETS[:3] if s in report.model_dump_json()]
    assert decided(leaking.diagnosis) == before


def test_an_honest_model_is_not_disturbed_by_what_is_planted(
    planted: Replayed, tmp_path: Path
) -> None:
    first = next(
        f for f in planted.diagnosis.findings if f.subject == "api" and f.kind == "span_own_time"
    )
    claim = {"text": first.sentence, "findings": [first.id]}
    with serving(
        says({"headline": "api became slow", "claims": [claim], "next_steps": []})
    ) as server:
        report = worded(planted, server)
    assert report.written_by == "local-model"
    assert report.claims[0].text == first.sentence
    assert not [d for d in report.dropped if first.sentence[:40] in d]
