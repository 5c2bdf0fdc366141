"""Every hop between the alert and the culprit has to be in the answer."""

from __future__ import annotations

from faultline.analysis.vocabulary import Claim, Report
from faultline.evaluation.labels import path_shown
from tests.evaluation.test_grading import diagnosis

SAYS_NOTHING = Report(headline="Something is slow.", claims=())


def test_every_hop_has_to_be_named() -> None:
    answer = diagnosis(["db"], found_about="cart")
    assert path_shown(("cart", "db"), answer, SAYS_NOTHING) is True
    assert path_shown(("web", "cart", "db"), answer, SAYS_NOTHING) is False
    claim = Claim(text="web waits for cart.", findings=("F1",))
    told = SAYS_NOTHING.model_copy(update={"claims": (claim,)})
    assert path_shown(("web", "cart", "db"), answer, told) is True


def test_a_name_inside_another_is_not_shown() -> None:
    assert path_shown(("car", "db"), diagnosis(["db"], found_about="cart"), SAYS_NOTHING) is False


def test_without_a_call_there_is_no_path() -> None:
    assert path_shown(("db",), diagnosis(["db"]), SAYS_NOTHING) is None
    assert path_shown((), diagnosis(["db"]), SAYS_NOTHING) is None
