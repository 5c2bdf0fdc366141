"""The corpus of secrets in context, and of honest lines that look like secrets."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from benchmarks.gitleaks_rules import gitleaks_mask
from benchmarks.redaction import (
    FORMS,
    HELD_OUT,
    honest_lines,
    leaks,
    lost_words,
    pieces,
    read_forms,
    slowest_pairs,
)
from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.redaction import (
    BLOCKED,
    BadPattern,
    Rule,
    masked,
    masked_value,
    use_rules,
)
from faultline.connectors.shared.contract.base import Collected, for_storage
from tests.analysis.cases import at


@pytest.fixture
def rules() -> Iterator[None]:
    yield
    use_rules(())


def test_at_least_95_percent_of_the_forms_are_found() -> None:
    forms = read_forms()
    found = [form for form in forms if not leaks(form, masked(form.text))]
    assert len(forms) >= 300
    assert len(found) >= 0.95 * len(forms)


def test_forms_that_were_once_missed_are_found() -> None:
    forms = [form for file in HELD_OUT for form in read_forms(file)]
    missed = [form.text for form in forms if leaks(form, masked(form.text))]
    assert missed == []


def test_a_column_finds_what_texts_find() -> None:
    texts = [form.text for file in (FORMS, *HELD_OUT) for form in read_forms(file)]
    assert mask_column(pl.Series(texts)).to_list() == [masked(text) for text in texts]


@pytest.mark.parametrize("line", honest_lines())
def test_honest_lines_are_left_alone(line: str) -> None:
    assert lost_words(line, masked(line)) == []


def test_what_is_masked_stays_as_it_is() -> None:
    for form in read_forms():
        once = masked(form.text)
        assert not leaks(form, masked(once)) or leaks(form, once)


def test_a_key_names_the_value_of_json() -> None:
    assert masked_value({"password": "swordfish", "n": [1, "a"]}) == {
        "password": "[SECRET]",
        "n": [1, "a"],
    }


def test_the_operator_redacts_keeps_and_blocks(rules: None) -> None:
    use_rules(
        [
            Rule(r"\bcustomer-(\d+)"),
            Rule(r"build_token=\w+", "keep"),
            Rule("(?i)top secret plan", "block"),
        ]
    )
    assert masked("order of customer-4711 failed") == "order of customer-[CUSTOM] failed"
    assert masked("build_token=a1b2c3d4e5f6g7h8") == "build_token=a1b2c3d4e5f6g7h8"
    assert masked("the Top Secret Plan of 3 pages") == BLOCKED


def test_a_blocked_row_is_left_out_and_the_gap_says_so(rules: None) -> None:
    use_rules([Rule("plan nine", "block")])
    logs = pl.DataFrame(
        {"time": [at(0), at(1)], "service": ["a", "a"], "message": ["x", "plan nine"]}
    )
    stored = for_storage(Collected({"logs": logs}))
    assert stored.tables["logs"]["message"].to_list() == ["x"]
    assert [one.reason for one in stored.missing] == [
        "1 of 2 rows left out by a rule of [redaction]"
    ]


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1", "a*", "x" * 2_000])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        use_rules([Rule(pattern)])


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "password ",
            "password=",
            "token:",
            "key ",
            "a.key-",
            '{"secret": "',
            '\\\\"',
            "%25",
            "&quot;",
        ),
        *(
            "<password>",
            "//a:",
            "curl -u a",
            "mysql ",
            "Ab1/",
            "eyJ",
            "name=key value",
            "-p ",
            "::",
        ),
        *("http -a a:", "htpasswd -b a ", "echo a|", "? password\n", "/reset/aA1", "password~"),
        *("dict set a ", "verification code is ", "zip -P", "secret <- ", "[[", "key: !a "),
        *("AUTH a", "values (", "[password", "pass", "=" * 3, "secret: {", "\n- ", "auth: ["),
    ],
)
def test_time_is_linear_in_the_text(piece: str) -> None:
    def spent(length: int) -> float:
        started = time.process_time()
        masked(piece * (length // len(piece)))
        return time.process_time() - started

    assert spent(40_000) < 12 * max(spent(10_000), 0.02)


def test_no_pair_of_pieces_of_the_patterns_takes_long() -> None:
    pairs = random.Random(19).sample(list(itertools.product(pieces(), repeat=2)), 400)
    (slowest, one, other), *_ = slowest_pairs(pairs, 2_000)
    assert slowest < 0.5, (one, other)


def test_gitleaks_rules_are_applied_as_gitleaks_does(tmp_path: Path) -> None:
    rules = tmp_path / "gitleaks.toml"
    rules.write_text(
        """
        [allowlist]
        regexes = ['^abababab']
        [[rules]]
        id = "generic-api-key"
        regex = '''(?i)api_key=([a-z0-9]{8,})'''
        keywords = ["api_key"]
        entropy = 2.5
        [[rules.allowlists]]
        stopwords = ["example"]
        """
    )
    shown = gitleaks_mask(rules)
    assert shown("api_key=q7w2e9r4t1") == "api_key=[SECRET]"
    for kept in ("aaaa1111", "abababab12", "example7w2", "qwertyuiop"):
        assert shown(f"api_key={kept}") == f"api_key={kept}"
