"""What models would say of real incidents: honest claims pass, no false one is worded as
evidence."""

from __future__ import annotations

from collections import Counter

from faultline.analysis.vocabulary import Section
from tests.bot.answer.asserted.claims_of_models import kept, said, stands, systematic_lies

HONEST_SHARE = 0.97


def test_honest_claims_pass_after_one_repair() -> None:
    honest = kept("honest")
    assert len(honest) >= 100
    passed = [stands(one, one["case"]) for one in honest]
    repaired = [
        ok or stands(one.get("repaired", one), one["case"])
        for ok, one in zip(passed, honest, strict=True)
    ]
    assert sum(repaired) >= HONEST_SHARE * len(honest)


def test_no_false_claim_is_worded_as_evidence() -> None:
    false = kept("false")
    assert len(false) >= 200
    worded: dict[int, str] = {}
    for one in false:
        if one.get("becomes") == "true" or not one["parts"]:
            continue
        found = said({"parts": one["parts"]}, one["case"], one.get("question", ""))
        if found.claims:
            worded[one["n"]] = found.claims[0].text
    assert worded == {}


def test_free_words_are_never_among_the_evidence() -> None:
    for one in kept("false"):
        free = {key: one.get(key) for key in ("inferences", "verdict")}
        if any(free.values()):
            found = said(free, one["case"], one.get("question", ""))
            assert all(
                c.section in (Section.INFERRED, Section.SECOND_OPINION) for c in found.claims
            )


def test_no_lie_made_by_a_rule_is_worded() -> None:
    tried: Counter[str] = Counter()
    for case, part in systematic_lies():
        tried[part["relation"]] += 1
        assert not said({"parts": [part]}, case).claims, (case, part)
    assert all(count > 50 for count in tried.values()), tried
