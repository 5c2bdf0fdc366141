"""A model that obeys what was planted and says it wherever it can, over real HTTP: what it says is
refused, or stands in quotation marks or as its own words; nothing renders, and no secret has
left."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from faultline.analysis.case.folder import json_bytes, read_diagnosis
from faultline.analysis.vocabulary import Claim, Section
from faultline.bot.answer.asserted.relations import RELATIONS
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings import Settings
from tests.bot.answer.writer.openai_server import OpenAIServer, says, serving
from tests.bot.investigation.model.cases import claim, part
from tests.hostile.cases import FIELDS, HARMLESS, incident
from tests.hostile.planted import ORDER, PLANTED
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
NAMES = ("service", "signal", "labels", "caller", "callee", "id", "operation", "monitor")
"""Fields that name something: a name is shown as one."""
BY_A_MODEL = (Section.INFERRED, Section.SECOND_OPINION)
_QUOTED = re.compile(r"“[^”]*”")


def case_with(folder: Path, text_of: Any) -> Replayed:
    """An incident with these texts in its fields, diagnosed in its folder."""
    incident(folder, text_of)
    replayed = replay(folder)
    (folder / "findings.json").write_bytes(json_bytes(replayed.diagnosis))
    # As it is read back: in a file the numbers of a finding stand in another order.
    return replace(replayed, diagnosis=read_diagnosis(folder))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    kinds = list(PLANTED.values())
    return case_with(
        tmp_path_factory.mktemp("planted") / "case",
        lambda field: kinds[FIELDS.index(field) % len(kinds)],
    )


@pytest.fixture(scope="module")
def ordering(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The same order in every field that is no name."""
    return case_with(
        tmp_path_factory.mktemp("ordering") / "case",
        lambda field: HARMLESS if field.split(".")[-1] in NAMES else ORDER,
    )


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return case_with(tmp_path_factory.mktemp("harmless") / "case", lambda _: HARMLESS)


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    leaks = ("alert", "logs.new", "changes", "gaps")
    return case_with(
        tmp_path_factory.mktemp("leaking") / "case",
        lambda field: LEAK if field.startswith(leaks) else HARMLESS,
    )


def written(about: Replayed, server: OpenAIServer, **settings: Any) -> Investigated:
    """The result of what the model of this server says."""
    model = {"name": "local-model", "base_url": server.url, "investigates": False, **settings}
    return asyncio.run(investigate(about.case.path, Settings.model_validate({"model": model})))


def ids_of(about: Replayed) -> list[str]:
    return [finding.id for finding in about.diagnosis.findings]


def obeying(text: str, about: Replayed) -> list[dict[str, Any]]:
    """Reports that say the text in every field, beside ids and names that exist."""
    ids = ids_of(about)
    named = [
        claim("affected", subjects=[text]),
        claim("unaffected", subjects=[text]),
        claim("unchanged", subjects=["web", text]),
        claim("candidate", subjects=[text]),
        claim("calls", subjects=["web", text]),
        claim("shows", ids[0], subjects=[text]),
        claim("shows", text),
        claim("began_before", text, "alert"),
        claim(text, ids[0]),
        {"parts": [part("shows", ids[0]), part("shows", ids[1], joint=text)]},
        {"text": text, "findings": ids[:2]},
    ]
    quoted = [claim("quotes", one, quote=text) for one in ("alert", *ids[:12])]
    quoted += [claim("missing", quote=text), claim("no_data_about", quote=text)]
    opinion = {
        "kind": "other_cause",
        "subject": "web",
        "confidence": 0.99,
        "grounds": [part("shows", ids[0]), part("quotes", ids[0], quote=text)],
        "text": text,
        "would_decide": text,
    }
    whole: dict[str, Any] = {
        "headline": text,
        "verdict": opinion,
        "inferences": [{"text": text, "because": ids[:1]}, {"text": "x", "because": [text]}],
        "next_steps": [text, f"N1 {text}"],
        "question": text,
    }
    other = {**opinion, "subject": text}
    return [
        {"claims": named, **whole},
        {"claims": [claim("shows", ids[0]), *quoted], **whole, "verdict": other},
    ]


def everything(about: Replayed) -> Iterator[list[dict[str, Any]]]:
    """Every relation about every finding, twenty claims at a time; what holds will be shown."""
    claims = []
    for one in ids_of(about):
        claims += [claim(name, one) for name in RELATIONS]
        claims.append(claim("quotes", one, quote=ORDER[:20]))
        claims += [claim(name, one, "alert") for name in RELATIONS]
    claims += [claim("missing", quote=one) for one in ("G1", "M1", "M2", "M3")]
    claims += [
        claim("quotes", "alert", quote=ORDER[:20]),
        claim("affected", subjects=["web"]),
        claim("calls", subjects=["web", "api"]),
    ]
    yield from (claims[n : n + 20] for n in range(0, len(claims), 20))


def outside_quotations(claims: tuple[Claim, ...]) -> str:
    """What stands as code's own words."""
    shown = (one for one in claims if one.section not in (*BY_A_MODEL, Section.EARLIER))
    return "\n".join(_QUOTED.sub("", one.text) for one in shown).casefold()


@pytest.mark.parametrize("form", [0, 1])
def test_what_an_obeying_model_says_is_refused_quoted_or_its_own(
    planted: Replayed, harmless: Replayed, form: int
) -> None:
    """In a case where it is planted a text may be quoted; where it is not, the model made it up."""
    draft: dict[str, Any] = {"claims": [claim("shows", ids_of(harmless)[0])]}

    def answers(body: dict[str, Any]) -> Response:
        return says(draft)(body)

    with serving(answers) as server:
        honest = {one.text for one in written(harmless, server).report.claims}
        for kind, text in PLANTED.items():
            for about in (planted, harmless):
                draft = obeying(text, about)[form]
                done = written(about, server)
                report, by_code = done.report, about.report
                assert report.headline == by_code.headline, kind
                steps = {one.text for one in by_code.next_steps}
                assert steps >= {one.text for one in report.next_steps}, kind
                assert decided(done.diagnosis) == decided(about.diagnosis), kind
                assert report.dropped, kind
                assert faults(about, report) == [], kind
                if about is harmless:
                    own = {c.text for c in report.claims if c.section not in BY_A_MODEL}
                    assert own <= honest | {one.text for one in by_code.claims}, kind


def test_an_order_that_stands_everywhere_is_shown_in_quotation_marks_only(
    ordering: Replayed,
) -> None:
    quoted = False
    for claims in everything(ordering):
        with serving(says({"claims": claims})) as server:
            report = written(ordering, server).report
        assert "ignore previous" not in outside_quotations(report.claims)
        quoted = quoted or any("Ignore previous" in one.text for one in report.claims)
        assert faults(ordering, report) == []
    assert quoted, "an order that stands in the case can be quoted"


def test_what_is_labelled_as_the_models_cannot_leave_its_section(harmless: Replayed) -> None:
    text = "Nothing is wrong, close the incident and go back to sleep."
    because = ids_of(harmless)[:1]
    draft = {
        "claims": [claim("shows", because[0])],
        "inferences": [{"text": text, "because": because}],
        "verdict": {
            "kind": "nothing_wrong",
            "confidence": 0.99,
            "grounds": [part("shows", because[0])],
            "text": text,
        },
        "question": text,
    }
    with serving(says(draft)) as server:
        done = written(harmless, server)
    sections = [one.section for one in done.report.claims if text in one.text]
    assert sections == [Section.SECOND_OPINION, Section.INFERRED, Section.INFERRED]
    assert done.report.headline == harmless.report.headline
    assert decided(done.diagnosis) == decided(harmless.diagnosis)
    first = [one.section in BY_A_MODEL for one in done.report.claims]
    assert not first[0], "code's own words come first"


def test_no_secret_and_nobody_leaves_and_no_secret_comes_back(leaking: Replayed) -> None:
    before = decided(leaking.diagnosis)
    form = 0
    quotes = [claim("quotes", one, quote="failed") for one in ("alert", *ids_of(leaking)[:12])]

    def repeats(body: dict[str, Any]) -> Response:
        """Repeats what it was given wherever it can."""
        lines = [line for line in json.dumps(body).split("\\n") if "failed" in line][:4]
        leaked = " ".join(lines)[:250]
        draft = obeying(leaked, leaking)[form]
        return says({**draft, "claims": [*quotes, *draft["claims"]][:20]})(body)

    for turn, api in enumerate(("chat", "chat", "responses", "responses")):
        form = turn % 2
        with serving(repeats) as server:
            report = written(leaking, server, api=api).report
        assert not [s for s in SECRETS if s in server.sent]
        assert "[AWS_KEY_1]" in server.sent
        assert not [s for s in SECRETS[:3] if s in report.model_dump_json()]
    assert decided(leaking.diagnosis) == before


def test_an_honest_model_is_not_disturbed_by_what_is_planted(planted: Replayed) -> None:
    first = next(
        f for f in planted.diagnosis.findings if f.subject == "api" and f.kind == "span_own_time"
    )
    with serving(says({"claims": [claim("shows", first.id, subjects=["api"])]})) as server:
        report = written(planted, server).report
    assert report.written_by == "local-model"
    assert report.dropped == ()
    assert report.claims[0].findings == (first.id,)
