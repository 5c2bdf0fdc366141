"""Budgets of a day and of a channel, shared by all workers through the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine

from faultline.bot.answer.writer.model_use import model_use_line
from faultline.bot.investigation.model.answering import answer_question
from faultline.bot.investigation.model.budget import day_budget
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings.investigation import ModelSettings
from faultline.bot.store.quotas import ModelSpending
from tests.bot.answer.writer.openai_server import (
    USAGE,
    OpenAIServer,
    calls,
    counts_nothing,
    says,
    serving,
)
from tests.bot.investigation.model.cases import good_report, keeper, settings_for
from tests.bot.investigation.model.test_investigating import DONE
from tests.databases import store_engine

PER_ANSWER = USAGE["input"] + USAGE["output"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = store_engine(f"sqlite:///{tmp_path}/budgets.sqlite")
    yield found
    found.dispose()


def within(
    case: Path, server: OpenAIServer, engine: Engine, channel: str = "C1", **model: Any
) -> Investigated:
    settings = settings_for(server, **model)
    day = day_budget(settings.model, engine, channel)
    return asyncio.run(investigate(case, settings, keep=keeper(case), day=day))


def test_each_answer_counts_for_the_day_and_the_channel(case: Path, engine: Engine) -> None:
    prices: dict[str, Any] = {"price_per_million_input": 10, "price_per_million_output": 10}
    with serving(DONE, says(good_report(case))) as server:
        done = within(case, server, engine, max_tokens_per_day=10**6, **prices)
    assert done.report.written_by == "local-model"
    day, channel = ModelSpending(engine).spent("C1")
    assert day == channel
    assert day.tokens == 2 * PER_ANSWER
    assert day.cost_usd == pytest.approx(2 * PER_ANSWER * 10 / 1e6)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_tokens_per_day": 5000}, "the model's budget for today is used up (5,000 tokens)"),
        (
            {"max_cost_usd_per_day": 2, "price_per_million_input": 1},
            "the model's budget for today is used up ($2.00)",
        ),
        (
            {"max_tokens_per_channel_day": 5000},
            "the model's budget for this channel today is used up (5,000 tokens)",
        ),
        (
            {"max_cost_usd_per_channel_day": 2, "price_per_million_input": 1},
            "the model's budget for this channel today is used up ($2.00)",
        ),
    ],
)
def test_a_budget_that_is_used_up_leaves_the_built_in_report_and_says_so(
    case: Path, engine: Engine, limits: dict[str, Any], said: str
) -> None:
    ModelSpending(engine).add("C1", 5000, 2.0)
    with serving(DONE) as server:
        done = within(case, server, engine, **limits)
        assert server.requests == []
        answered = asyncio.run(
            answer_question(
                "why?",
                case,
                settings_for(server, **limits),
                day=day_budget(settings_for(server, **limits).model, engine, "C1"),
            )
        )
        assert server.requests == []
    assert done.report.written_by == "built-in"
    assert f"the model's report: {said}; the built-in report stands" in done.report.dropped
    assert done.report.model_use is not None
    assert model_use_line(done.report.model_use) == (
        f"local-model was not asked: {said}; the built-in report stands"
    )
    assert answered.claims == ()
    assert said in answered.use.ended


def test_another_channel_still_has_its_own(case: Path, engine: Engine) -> None:
    ModelSpending(engine).add("C1", 5000, 2.0)
    with serving(DONE, says(good_report(case))) as server:
        done = within(case, server, engine, "C2", max_tokens_per_channel_day=5000)
    assert done.report.written_by == "local-model"


def test_a_budget_that_another_worker_uses_up_ends_the_rounds_and_the_report_is_written(
    case: Path, engine: Engine
) -> None:
    other = ModelSpending(engine)

    def asked(body: dict[str, Any]) -> Any:
        other.add("C9", 100_000, 0.0)
        return calls(("series", {"service": "cart"}))(body)

    with serving(asked, says(good_report(case))) as server:
        done = within(case, server, engine, max_tokens_per_day=100_000)
    use = done.report.model_use
    assert use is not None
    assert use.ended == "the model's budget for today is used up (100,000 tokens)"
    assert done.report.written_by == "local-model"
    assert use.rounds == 2


def test_a_server_that_counts_nothing_is_counted_by_the_estimate(
    case: Path, engine: Engine
) -> None:
    with serving(counts_nothing(DONE), counts_nothing(says(good_report(case)))) as server:
        within(case, server, engine, max_tokens_per_day=10**6)
    assert ModelSpending(engine).spent("C1")[0].tokens > 2000


def test_a_database_that_fails_costs_no_report(case: Path, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE model_spending")
    with serving(DONE, says(good_report(case))) as server:
        done = within(case, server, engine, max_tokens_per_day=10**6)
    assert done.report.written_by == "local-model"


def test_where_there_is_no_channel_only_the_day_counts(case: Path, engine: Engine) -> None:
    ModelSpending(engine).add("", 5000, 0.0)
    with serving(DONE, says(good_report(case))) as server:
        done = within(case, server, engine, "", max_tokens_per_channel_day=5000)
    assert done.report.written_by == "local-model"


def test_without_limits_nothing_is_counted(engine: Engine) -> None:
    assert day_budget(ModelSettings(name="m"), engine, "C1") is None


@pytest.mark.parametrize("key", ["max_cost_usd_per_day", "max_cost_usd_per_channel_day"])
def test_a_limit_in_dollars_without_prices_is_a_mistake(key: str) -> None:
    with pytest.raises(ValidationError, match="needs price_per_million_input"):
        ModelSettings.model_validate({"name": "m", key: 5})
