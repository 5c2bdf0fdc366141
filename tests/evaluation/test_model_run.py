"""`eval --model` with scripted models over HTTP: the whole loop, and what is printed of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.bot.settings.investigation import ModelSettings
from faultline.evaluation.model_run import ModelRun, record_of, run_model
from tests.bot.answer.writer.openai_server import fails, serving
from tests.evaluation.scripted_models import SCRIPTED
from tests.evaluation.test_running import labelled_case


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    labelled_case(tmp_path / "shop-1", subject="checkout")
    labelled_case(tmp_path / "shop-2", subject="nowhere")
    labelled_case(tmp_path / "shop-3")
    (tmp_path / "shop-4").mkdir()
    return tmp_path


def printed(cases: Path, capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    with serving(SCRIPTED[name]) as server:
        settings = Settings(model=ModelSettings(name=name, base_url=server.url))
        run_model(cases, settings, json_=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_honest_model_is_graded(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(cases, capsys, "honest")
    assert found["graded"] == 2
    assert found["right_before"] == found["right_after"] == 1
    assert found["by_model"] == 3
    assert found["claims"] >= 3
    assert found["refused"] == found["accepted_although_false"] == found["dissented"] == 0
    assert found["cases"][3]["problem"]


def test_a_careless_model_mends_what_was_refused(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(cases, capsys, "careless")
    assert found["by_model"] == 3
    assert found["refused"] == found["accepted_although_false"] == 0


def test_nothing_of_a_hostile_model_stands(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(cases, capsys, "hostile")
    assert found["claims"] == found["inferences"] == found["led"] == found["dissented"] == 0
    assert found["accepted_although_false"] == 0
    assert found["refused"] >= 3 * 7


@pytest.mark.parametrize("name", ["silent", "looping"])
def test_a_model_that_does_not_work_costs_no_answer(
    cases: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    found = printed(cases, capsys, name)
    assert found["right_after"] == 1
    assert found["by_model"] == (3 if name == "looping" else 0)


def test_the_terminal_tells_the_sums(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SCRIPTED["expert"]) as server:
        settings = Settings(model=ModelSettings(name="expert", base_url=server.url))
        run_model(cases, settings, json_=False)
    out = capsys.readouterr().out
    assert "expert: answer right in 1 of 2 before, 1 after" in out
    assert "verdicts: 0 agree" in out


def test_a_server_that_fails_is_named(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fails(401, "no")) as server:
        settings = Settings(model=ModelSettings(name="m", base_url=server.url))
        run_model(cases, settings, json_=False)
    assert "built-in writer" in capsys.readouterr().out


def test_without_a_model_there_is_nothing_to_evaluate(cases: Path) -> None:
    with pytest.raises(SettingsError, match=r"model\.name"):
        run_model(cases, Settings(), json_=False)


def test_the_record_counts_agreement_and_verdicts_that_would_lead_by_codes_confidence() -> None:
    agrees = ModelRun("a", code_confidence=0.95, verdict="agree", verdict_right=True)
    leads = ModelRun(
        "b",
        code_confidence=0.4,
        verdict="other_cause",
        stated_confidence=0.8,
        carried=True,
        verdict_right=True,
        headline_right_before=False,
    )
    unsure = replace(leads, stated_confidence=0.6)
    refuted = replace(leads, carried=False)
    low, _, _, high = record_of([agrees, leads, unsure, refuted], 0.7)
    assert (high["agreed"], high["agreed_right"], high["verdicts"]) == (1, 1, 0)
    assert (low["verdicts"], low["verdicts_right"], low["code_right"]) == (1, 1, 0)
