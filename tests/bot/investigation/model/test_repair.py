"""What does not hold goes back to the model once, with the reasons; whichever draft says more
stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bot.answer.writer.openai_server import (
    Answer,
    OpenAIServer,
    answers_raw,
    fails,
    refuses,
    runs_out,
    says,
    says_text,
    serving,
    sleeps,
)
from tests.bot.investigation.model.cases import added, claim, good_report, investigated, told
from tests.bot.investigation.model.test_answering import ask
from tests.bot.investigation.model.test_investigating import APIS, DONE

FELL = claim("fell", "F1")
"""Does not hold: it rose."""
ROSE = claim("rose", "F1")


def entries_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The history that a request carries, in order."""
    history: list[dict[str, Any]] = body.get("messages") or body["input"]
    return history


def reports(server: OpenAIServer) -> list[dict[str, Any]]:
    """The requests that asked for the report."""
    return [b for b in server.requests if b.get("response_format") or "format" in b.get("text", {})]


@pytest.mark.parametrize("api", APIS)
def test_what_is_refused_goes_back_once_with_the_reason(case: Path, api: str) -> None:
    first, second = good_report(case, FELL), good_report(case, ROSE)
    with serving(DONE, says(first), says(second)) as server:
        done = investigated(case, server, api=api)
    assert len(server.requests) == 3
    assert [e["role"] for e in entries_of(server.requests[2])[-2:]] == ["assistant", "user"]
    own, note = (str(e["content"]) for e in entries_of(server.requests[2])[-2:])
    assert '"fell"' in own, "the model sees its own draft"
    assert "claim 2 (fell F1): F1 did not fall" in note
    assert "claim 1" not in note, "what holds is not sent back"
    assert done.report.dropped == ()
    assert [one.asserted[0].relation for one in added(done.report)] == ["explained_by", "rose"]
    use = done.report.model_use
    assert use is not None
    assert (use.rounds, use.ended) == (3, "answered")


def test_a_report_that_holds_costs_no_second_round(case: Path) -> None:
    with serving(DONE, says(good_report(case)), fails(500)) as server:
        assert investigated(case, server).report.written_by == "local-model"
    assert len(server.requests) == 2


def test_it_goes_back_once_only_and_what_never_holds_is_told(case: Path) -> None:
    with serving(DONE, says(good_report(case, FELL))) as server:
        done = investigated(case, server)
    assert len(server.requests) == 3
    assert done.report.written_by == "local-model"
    assert done.report.dropped == ("claim 2 (fell F1): F1 did not fall",)


def test_every_kind_of_refusal_is_told_and_none_of_them_renders(case: Path) -> None:
    refused = good_report(
        case,
        claim("shows", "F77"),
        claim("<!channel>", "F1"),
        inferences=[{"text": "See https://evil.example", "because": ["F1"]}],
        verdict={"kind": "other_cause", "subject": "payments-db", "confidence": 0.9},
        question="Who is <@U1>?",
    )
    with serving(DONE, says(refused)) as server:
        done = investigated(case, server)
    note = str(entries_of(server.requests[2])[-1]["content"])
    for reason in (
        "claim 2 (shows F77): there is no finding F77",
        "there is no relation",
        "inference 1: it holds a link",
        "the verdict: payments-db is no service, place or rank of this case",
        "the question: it holds a mention",
    ):
        assert reason in note
        assert any(reason in one for one in done.report.dropped)
    assert "<!" not in note + "".join(done.report.dropped)
    assert "evil.example" not in note


def test_the_first_stands_where_the_second_is_worse(case: Path) -> None:
    worse = {"claims": [FELL, claim("shows", "F77"), claim("first", "F3")]}
    with serving(DONE, says(good_report(case, ROSE, FELL)), says(worse)) as server:
        done = investigated(case, server)
    assert [one.asserted[0].relation for one in added(done.report)] == ["explained_by", "rose"]
    assert done.report.dropped == ("claim 3 (fell F1): F1 did not fall",)


def test_a_correction_that_lacks_what_held_does_not_take_it_away(case: Path) -> None:
    """Asked for the whole object, some models send the corrected claim alone."""
    first = good_report(case, claim("shows", "F2"), claim("changed", "F3"), FELL)
    with serving(DONE, says(first), says({"claims": [ROSE]})) as server:
        done = investigated(case, server)
    said = [one.asserted[0].relation for one in added(done.report)]
    assert said == ["explained_by", "changed"]


def test_an_answer_that_is_emptied_does_not_take_away_what_held(case: Path) -> None:
    with serving(DONE, says({"claims": [ROSE, FELL]}), says({"claims": []})) as server:
        answered = ask(case, server, "what happened?")
    assert [one.asserted[0].relation for one in answered.claims] == ["rose"]
    assert len(answered.dropped) == 1


@pytest.mark.parametrize(
    "second",
    [
        fails(401),
        fails(400, "This model's maximum context length is 4096 tokens."),
        refuses,
        runs_out,
        says_text("I would rather chat."),
        says_text(""),
        says({"claims": []}),
        answers_raw("[]"),
        answers_raw("not json"),
        answers_raw('{"output": "x", "choices": "x", "object": 3}'),
        sleeps(1.5),
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_the_first_stands_where_no_second_is_to_be_had(
    case: Path, api: str, second: Answer
) -> None:
    with serving(DONE, says(good_report(case, FELL)), second) as server:
        done = investigated(case, server, api=api, timeout_s=1)
    assert done.report.written_by == "local-model", done.report.dropped
    assert "because of deploy 4f2a9c1" in told(done)
    assert done.report.dropped == ("claim 2 (fell F1): F1 did not fall",)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_rounds": 3},
        {"max_tokens": 7_000},
        {"max_cost_usd": 0.03, "price_per_million_input": 10},
    ],
)
def test_without_room_for_it_nothing_goes_back(case: Path, limits: dict[str, Any]) -> None:
    with serving(says(good_report(case, FELL))) as server:
        done = investigated(case, server, **limits)
    assert len(reports(server)) == 1
    assert done.report.written_by == "local-model"
    assert len(done.report.dropped) == 1


def test_a_worker_that_takes_over_pays_for_no_draft_twice(case: Path) -> None:
    with serving(DONE, says(good_report(case, FELL)), says(good_report(case, ROSE))) as server:
        first = investigated(case, server)
    with serving(fails(500)) as server:
        again = investigated(case, server)
    assert server.requests == []
    assert again.report.claims == first.report.claims
    assert again.report.dropped == ()
    assert first.report.model_use is not None
    assert again.report.model_use is not None
    assert again.report.model_use.rounds == first.report.model_use.rounds == 3


def test_a_worker_that_takes_over_between_the_drafts_keeps_the_first(case: Path) -> None:
    with serving(DONE, says(good_report(case, FELL)), says(good_report(case, ROSE))) as server:
        investigated(case, server)
    transcript = case / "model/transcript.jsonl"
    lines = transcript.read_text().splitlines()
    drafts = [n for n, line in enumerate(lines) if json.loads(line).get("reports")]
    assert len(drafts) == 2
    transcript.write_text("\n".join(lines[: drafts[0] + 1]) + "\n")
    with serving(fails(500)) as server:
        done = investigated(case, server)
    assert server.requests == []
    assert done.report.written_by == "local-model"
    assert done.report.dropped == ("claim 2 (fell F1): F1 did not fall",)


def test_an_answer_to_a_question_is_repaired_as_well(case: Path) -> None:
    with serving(DONE, says({"claims": [FELL]}), says({"claims": [ROSE]})) as server:
        answered = ask(case, server, "did it fall?")
    assert [one.asserted[0].relation for one in answered.claims] == ["rose"]
    assert answered.dropped == ()
    assert answered.use.rounds == 3


def test_a_record_that_cannot_be_read_costs_no_request(case: Path, tmp_path: Path) -> None:
    broken = tmp_path / "record.json"
    broken.write_text("{")
    with serving(DONE, says(good_report(case))) as server:
        done = investigated(case, server, record=str(broken))
    assert server.requests == []
    assert done.report.written_by == "built-in"
    assert "model.record" in done.report.dropped[-1]
