"""Secrets in whole columns of text."""

from __future__ import annotations

import polars as pl
import pytest

from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.personal_data import is_iban, is_public_address, passes_luhn
from faultline.analysis.secrets.redaction import masked
from tests.bot.answer.writer.test_redaction import SECRETS


def test_a_column_is_masked_as_its_texts_are() -> None:
    texts = [text for text, _ in SECRETS.values()] + [
        "GET /health 200",
        "",
        "monkey business",
        None,
    ]
    column = pl.Series("message", texts * 3)
    assert mask_column(column).to_list() == [None if t is None else masked(t) for t in texts] * 3


def test_harmless_columns_are_left_as_they_are() -> None:
    column = pl.Series("message", ["GET /health 200", None, "took 3 ms"])
    assert mask_column(column) is column
    assert mask_column(pl.Series("message", [], dtype=pl.String)).is_empty()


@pytest.mark.parametrize(
    ("digits", "is_card"),
    [
        ("4111 1111 1111 1111", True),
        ("4111 1111 1111 1112", False),
        ("4222222222222", True),
        ("4222222222222222224", True),
        ("422222222222", False),
        ("0000000000000000", False),
        ("42222222222222222228", False),
    ],
)
def test_a_card_has_13_to_19_digits_with_a_right_check_digit(digits: str, *, is_card: bool) -> None:
    assert passes_luhn(digits) is is_card


@pytest.mark.parametrize(
    ("account", "is_right"),
    [
        ("GB29 NWBK 6016 1331 9268 19", True),
        ("gb29nwbk60161331926819", True),
        ("GB29 NWBK 6016 1331 9268 18", False),
        ("NO9386011117947", True),
        # The remainder is right, and the length is that of no country.
        ("GB681111111111", False),
        ("GB57" + "1" * 30, True),
        ("GB90" + "1" * 31, False),
    ],
)
def test_an_account_number_has_the_right_remainder(account: str, *, is_right: bool) -> None:
    assert is_iban(account) is is_right


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("8.8.8.8", True),
        ("2a00:1450::1", True),
        ("10.0.0.3", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("127.0.0.1", False),
        ("fd00::1", False),
        ("300.1.1.1", False),
    ],
)
def test_only_addresses_of_the_internet_name_somebody(address: str, *, is_public: bool) -> None:
    assert is_public_address(address) is is_public
