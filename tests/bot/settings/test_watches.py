"""`[[watch]]`: services that are looked at by the clock."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of


def read(watch: Any) -> Settings:
    return settings_of({"watch": watch}, {})


def test_a_list_and_tables_with_names_say_the_same() -> None:
    listed = read([{"service": "checkout", "times": 3}, {"name": "eu", "service": "cart"}])
    named = read({"checkout": {"service": "checkout", "times": 3}, "eu": {"service": "cart"}})
    assert dict(listed.watch) == dict(named.watch)
    assert (listed.watch["checkout"].times, listed.watch["eu"].service) == (3, "cart")


@pytest.mark.parametrize(
    ("watch", "said"),
    [
        ([{"times": 3}], "needs a service"),
        ([{"service": "checkout"}, {"service": "checkout"}], "watch.checkout: is there twice"),
        (["checkout"], r"must be tables, \[\[watch\]\]"),
        ([{"service": "checkout", "every": 3}], "every"),
        ([{"service": "checkout", "every_minutes": 1}], "every_minutes"),
    ],
)
def test_what_is_wrong_is_named(watch: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read(watch)
