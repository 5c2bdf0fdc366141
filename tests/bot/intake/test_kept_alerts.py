"""What each alert source makes of a sample, kept as text: every field of the alert, and what
changes where a value of the body is missing or of another type."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.store.store import Arrival, ReplyTo
from tests.bot.intake import sns_sender
from tests.fuzz import alert_sources
from tests.fuzz.alert_sources import SNS_PATH, Bot, FuzzedSource, fuzzed_sources
from tests.kept import assert_kept, without_now

FOLDER = Path(__file__).parent / "kept_alerts"
NAMES = (
    "pagerduty", "sentry", "datadog", "alertmanager", "azure_monitor", "incident_io", "rootly",
    "webhook", "msteams", "slack events", "sns",
)  # fmt: skip
JSON = "application/json"
ABSENT = object()
OTHER_TYPES: tuple[Any, ...] = (None, "text", 7, [], {})
MOST_VALUES = 12
"""Of one list or mapping: equal rows are read alike."""
LONGEST = 160
Fields = dict[str, str]


@pytest.fixture
def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bot]:
    # The vendors' published samples are not everywhere.
    monkeypatch.setattr(alert_sources, "SHARED", tmp_path / "none")
    running = Bot(tmp_path)
    yield running
    running.close()


def source_of(name: str) -> FuzzedSource:
    if name == "sns":
        alarm = sns_sender.alarm()
        return FuzzedSource(name, SNS_PATH, (alarm,), lambda _: {})
    return next(source for source in fuzzed_sources() if source.name == name)


def taken(bot: Bot, source: FuzzedSource, sample: Any) -> Fields:
    """The answer's status, and each field of the alerts that were taken that is not as usual."""
    body = json.dumps(sample).encode()
    if source.name == "sns":
        body = sns_sender.signed(sns_sender.envelope(sample))
    status, _ = bot.post(source.path, body, {"content-type": JSON, **source.sign(body)})
    values = {"status": str(status)}
    for number, arrival in enumerate(bot.taken):
        for name, value in fields_of(arrival):
            values[f"{number}.{name}"] = without_now(value)[:LONGEST]
    return values


def fields_of(arrival: Arrival) -> Iterator[tuple[str, str]]:
    for name, value in arrival.alert.model_dump(mode="json", exclude_defaults=True).items():
        yield name, json.dumps(value, sort_keys=True)
    if arrival.delivery is not None and arrival.delivery.occurrence:
        yield "occurrence", arrival.delivery.occurrence
    if arrival.reply_to != ReplyTo():
        yield "reply_to", repr(arrival.reply_to)
    if arrival.question is not None:
        yield "question", arrival.question
    if arrival.by_person:
        yield "by_person", "yes"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value lies, down to the leaves."""
    if path:
        yield path
    if isinstance(value, dict):
        parts = list(value.items())[:MOST_VALUES]
    else:
        parts = list(enumerate(value))[:2] if isinstance(value, list) else []
    for key, part in parts:
        yield from places(part, (*path, key))


def changed(sample: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The sample with another value in this place, or with none."""
    copied = copy.deepcopy(sample)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    if value is ABSENT:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copied


def difference(usual: Fields, now: Fields) -> str:
    """Fields that are new or have another value, then those that are gone."""
    differs = [f"{name} = {value}" for name, value in now.items() if usual.get(name) != value]
    if len(now) == 1 < len(usual):
        return f"no alert, answered {now['status']}"
    gone = [f"no {name}" for name in usual if name not in now]
    return "; ".join([*differs, *gone]) or "the same"


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_the_alert_that_is_kept(name: str, bot: Bot) -> None:
    source = source_of(name)
    lines = []
    for number, sample in enumerate(source.samples):
        usual = taken(bot, source, sample)
        lines += [f"# sample {number}", *(f"{key} = {value}" for key, value in usual.items())]
        for count, path in enumerate(places(sample)):
            where = "/".join(str(key) for key in path)
            other = OTHER_TYPES[count % len(OTHER_TYPES)]
            for title, value in ((f"without {where}", ABSENT), (f"{where} = {other!r}", other)):
                now = taken(bot, source, changed(sample, path, value))
                lines.append(f"{title}: {difference(usual, now)}")
        lines.append("")
    assert_kept(FOLDER / f"{name.replace(' ', '_')}.txt", "\n".join(lines))
