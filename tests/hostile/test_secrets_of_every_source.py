"""Every alert source is sent a secret in each text of its webhook: what it takes, and what it
answers, holds none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.bot.intake.alert_sources import built_in_sources
from tests.bot.intake import sns_sender
from tests.fuzz.alert_sources import SNS_PATH, Bot, FuzzedSource, fuzzed_sources
from tests.hostile.planting import SECRET, planted

SOURCES = {one.name: one for one in fuzzed_sources()}
TEXT_KEYS = {"webhook": {"name"}}
"""Fields of a sender's own form that hold text."""


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[Bot]:
    made = Bot(tmp_path)
    yield made
    made.close()


def taken(bot: Bot, path: str, body: bytes, headers: dict[str, str]) -> str:
    """What is to be stored of the alerts in it."""
    assert SECRET not in bot.said(path, body, headers)
    return "".join(repr(one) + one.alert.model_dump_json() for one in bot.taken)


def sent_to(bot: Bot, source: FuzzedSource) -> str:
    """The same of all its samples."""
    kept = ""
    for sample in source.samples:
        body = json.dumps(planted(sample, TEXT_KEYS.get(source.name, frozenset()))).encode()
        kept += taken(bot, source.path, body, source.sign(body))
    return kept


@pytest.mark.parametrize("name", [name for name, one in SOURCES.items() if not one.form])
def test_an_alert_is_taken_without_one(name: str, bot: Bot) -> None:
    kept = sent_to(bot, SOURCES[name])
    assert SECRET not in kept
    assert "[SECRET]" in kept, "the field was read"


def test_an_alarm_by_sns_is_taken_without_one(bot: Bot) -> None:
    body = sns_sender.signed(sns_sender.envelope(planted(sns_sender.alarm())))
    kept = taken(bot, SNS_PATH, body, {})
    assert SECRET not in kept
    assert "[SECRET]" in kept


def test_every_source_is_among_them() -> None:
    paths = {one.path for one in SOURCES.values()} | {SNS_PATH}
    assert {path for one in built_in_sources() for path in one.paths} <= paths
