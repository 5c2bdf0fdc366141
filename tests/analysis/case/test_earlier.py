from __future__ import annotations

import pytest

from faultline.analysis.case.earlier import is_telling


@pytest.mark.parametrize(("judged", "enough"), [(0, False), (4, False), (5, True)])
def test_a_few_judged_answers_say_nothing_of_the_next(judged: int, *, enough: bool) -> None:
    assert is_telling(judged) is enough
