from __future__ import annotations

import pytest

from analysis.change_text import rarity, read_change_text, relevance, touches, words_of


def test_files_are_read_from_a_json_list_or_from_commas() -> None:
    assert read_change_text("t", '["a.go", "b.go"]', None).files == ("a.go", "b.go")
    assert read_change_text("t", "a.go, b.go", None).files == ("a.go", "b.go")
    assert read_change_text("t", "[broken", None).files == ("[broken",)


@pytest.mark.parametrize(
    ("files", "harmless"),
    [
        ('["docs/runbook.md", "README.md"]', True),
        ('["pkg/cart/cart_test.go"]', True),
        ('["docs/runbook.md", "pkg/cart/cart.go"]', False),
        (None, False),
    ],
)
def test_only_documentation_tests_and_styles_are_harmless(files: str | None, harmless: bool) -> None:
    assert read_change_text("t", files, None).harmless is harmless


def test_a_changed_timeout_changes_a_literal() -> None:
    text = read_change_text("refactor", None, "-ctx = WithTimeout(ctx, 5*time.Second)\n+ctx = WithTimeout(ctx, 300*ms)")
    assert text.changes_literals
    assert not text.moves_code_only


def test_a_guard_that_is_moved_into_a_helper_alters_nothing() -> None:
    diff = '-if lat < -90 || lat > 90 {\n-  return outOfRange("lat", lat)\n-}\n+return checkRange("lat", lat, -90, 90)'
    text = read_change_text("tidy", None, diff)
    assert text.moves_code_only
    assert not text.changes_literals


def test_a_patch_release_of_a_dependency_is_told_from_a_minor_one() -> None:
    assert read_change_text("bump", None, "-  aws v1.34.1\n+  aws v1.34.2").patches_dependency
    assert not read_change_text("bump", None, "-  proto v1.31.0\n+  proto v1.34.2").patches_dependency


def test_a_path_or_title_that_names_the_service_touches_it() -> None:
    text = read_change_text("fix: rounding", '["services/checkout/order.go"]', None)
    assert touches(text, "checkoutservice")
    assert touches(text, "checkout-svc-1")
    assert not touches(text, "paymentservice")


def test_rare_shared_words_make_a_change_relevant_and_common_ones_do_not() -> None:
    changes = [words_of([t]) for t in ("tidy protobuf registry", "tidy imports", "tidy imports again", "tidy docs")]
    symptoms = words_of(["panic: duplicate protobuf registration", "tidy up"])
    weights = rarity(changes)
    scores = [relevance(c, symptoms, weights) for c in changes]
    assert scores[0] > 0.2
    assert max(scores[1:]) < 0.05
