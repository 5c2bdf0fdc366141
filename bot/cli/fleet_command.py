"""`faultline fleet`: machines that answers about training jobs blamed more often than chance would
have it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from faultline.analysis.case.earlier import HostRecord
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.fleet import FleetMemory

LONGEST_CELL = 100


def print_fleet(settings: Settings, days: float, *, json_: bool) -> None:
    """Print the machines, the least likely by chance first."""
    now = datetime.now(UTC)
    store = open_store(settings)
    try:
        records = FleetMemory(store.engine).suspicious(since=now - timedelta(days=days), before=now)
    finally:
        store.engine.dispose()
    if json_:
        documents = [record.model_dump(mode="json") for record in records]
        json.dump(documents, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for line in _lines(records, days):
        sys.stdout.write(f"{line}\n")


def _lines(records: Sequence[HostRecord], days: float) -> Iterator[str]:
    if not records:
        yield f"In the last {days:g} days no machine was to blame more often than by chance."
        return
    for record in records:
        part = f", mostly {single_line(record.part, LONGEST_CELL)}" if record.part else ""
        yield (
            f"{single_line(record.host, LONGEST_CELL)}: to blame in {record.blamed} of "
            f"{record.took_part} incidents{part}; by chance {record.by_chance:.1g}"
        )
        for incident in record.incidents:
            job = single_line(incident.job, LONGEST_CELL)
            yield (
                f"  {incident.at:%Y-%m-%d %H:%M}Z  {incident.id}  {job}  "
                f"{incident.fault.replace('_', ' ')}"
            )
