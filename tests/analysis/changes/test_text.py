from __future__ import annotations

import pytest

from faultline.analysis.changes.text import rarity, read_change_text, relevance, touches, words_of


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
def test_only_documentation_tests_and_styles_are_harmless(
    files: str | None, harmless: bool
) -> None:
    assert read_change_text("t", files, None).harmless is harmless


def test_a_changed_timeout_is_no_moved_code() -> None:
    text = read_change_text(
        "refactor", None, "-ctx = WithTimeout(ctx, 5*time.Second)\n+ctx = WithTimeout(ctx, 300*ms)"
    )
    assert not text.moves_code_only


def test_a_guard_that_is_moved_into_a_helper_alters_nothing() -> None:
    diff = (
        '-if lat < -90 || lat > 90 {\n-  return outOfRange("lat", lat)\n-}\n+return '
        'checkRange("lat", lat, -90, 90)'
    )
    text = read_change_text("tidy", None, diff)
    assert text.moves_code_only


def test_a_patch_release_of_a_dependency_is_told_from_a_minor_one() -> None:
    assert read_change_text("bump", None, "-  aws v1.34.1\n+  aws v1.34.2").patches_dependency
    assert not read_change_text(
        "bump", None, "-  proto v1.31.0\n+  proto v1.34.2"
    ).patches_dependency


def test_a_path_or_title_that_names_the_service_touches_it() -> None:
    text = read_change_text("fix: rounding", '["services/checkout/order.go"]', None)
    assert touches(text, "checkoutservice")
    assert touches(text, "checkout-svc-1")
    assert not touches(text, "paymentservice")


@pytest.mark.parametrize(
    ("service", "title", "named"),
    [("stock", "keep the stocks apart", True), ("cart", "draw the cartography", False)],
)
def test_the_beginning_of_a_word_names_a_service_of_a_long_name_only(
    service: str, title: str, *, named: bool
) -> None:
    assert touches(read_change_text(title, None, None), service) is named


def test_rare_shared_words_make_a_change_relevant_and_common_ones_do_not() -> None:
    changes = [
        words_of([t])
        for t in ("tidy protobuf registry", "tidy imports", "tidy imports again", "tidy docs")
    ]
    symptoms = words_of(["panic: duplicate protobuf registration", "tidy up"])
    weights = rarity(changes)
    scores = [relevance(c, symptoms, weights) for c in changes]
    assert scores[0] > 0.2
    assert max(scores[1:]) < 0.05


def test_the_words_that_only_one_side_has_are_what_a_change_alters() -> None:
    text = read_change_text("t", None, "-total = price(basket)\n+total = quote(basket)")
    assert text.altered_words == {"price", "quote"}


def test_of_a_new_version_the_name_of_the_dependency_is_what_is_altered() -> None:
    text = read_change_text("bump", None, "-  google/protobuf v1.31.0\n+  google/protobuf v1.34.2")
    assert text.changes_versions_only
    assert "protobuf" in text.altered_words


@pytest.mark.parametrize(
    ("diff", "idle"),
    [
        ("-// old words\n+// new words", True),
        ("-  a = 1\n+\ta = 1", True),
        ("-import a\n-import b\n+import b\n+import a", True),
        ("-a = 1\n+a = 2", False),
        (None, False),
    ],
)
def test_comments_blank_space_and_order_change_nothing(diff: str | None, idle: bool) -> None:
    assert read_change_text("t", None, diff).only_comments is idle


def test_what_adds_much_that_is_new_is_no_moved_code() -> None:
    before = "-out = dedupe(turns)\n-return old(out)\n"
    moved = (
        f"{before}+return shorten(turns)\n+def shorten(turns):\n+    out = dedupe(turns)\n+   "
        f" return old(out)"
    )
    grown = (
        f"{before}+out = dedupe(turns)\n+if len(out) > most:\n+    out = roll(out, "
        f"tail)\n+return old(out)"
    )
    assert read_change_text("t", None, moved).moves_code_only
    assert not read_change_text("t", None, grown).moves_code_only


@pytest.mark.parametrize(
    ("helper", "moved"), [("trim(a, b, c, limit)", True), ("trim(a, b, c, limit, roll)", False)]
)
def test_moved_code_may_gain_a_few_words(helper: str, *, moved: bool) -> None:
    text = read_change_text("t", None, f"-return old(a, b, c)\n+return old({helper})")
    assert text.moves_code_only is moved


def test_a_change_of_staging_is_for_another_stage() -> None:
    assert read_change_text("t", "deploy/staging/tls.yaml", None).only_for_other_stages
    assert not read_change_text(
        "t", "deploy/staging/tls.yaml, deploy/live/tls.yaml", None
    ).only_for_other_stages


def test_a_hunk_header_is_context_and_no_change() -> None:
    text = read_change_text(
        "t", None, "--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,2 @@ func Total() int {\n-a\n+b\n c"
    )
    assert (text.removed, text.added) == (("a",), ("b",))
    assert text.context == ("func Total() int {", " c")


def test_one_word_in_common_is_never_much() -> None:
    many = [words_of([f"word{'abcdefghij'[n]} thing"]) for n in range(10)] + [
        words_of(["zebra"])
    ] * 1
    assert relevance(frozenset({"zebra"}), frozenset({"zebra"}), rarity(many)) < 0.3


@pytest.mark.parametrize(
    "line",
    [
        "app image: europe-docker.pkg.dev/shop-prod/apps/checkout:{}",
        "image: registry.example.com/shop/checkout@sha256:{}",
    ],
)
def test_an_image_by_a_tag_without_a_number_is_a_value(line: str) -> None:
    before, after = line.format("main-abcdef"), line.format("main-fedcba")
    assert not read_change_text("t", None, f"-{before}\n+{after}").moves_code_only


def test_a_value_that_is_not_shown_and_differs_is_a_value() -> None:
    line = "app env PSP_TOKEN: not shown"
    assert not read_change_text("t", None, f"-{line} (before)\n+{line} (after)").moves_code_only
