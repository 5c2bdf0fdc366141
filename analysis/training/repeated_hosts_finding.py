"""What memory says of the machine that an answer blames: that it was to blame before, more often
than chance would have it.

Like all of memory it decides nothing: it is computed from the answer that stands.
"""

from __future__ import annotations

from datetime import datetime

from faultline.analysis.analyzers import phrase_of
from faultline.analysis.case.earlier import FLEET, HostIncident, HostRecord
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import EarlierDetails, TestedRow
from faultline.analysis.training.fleet_parts import blamed_parts
from faultline.analysis.training.repeated_hosts import is_repeated
from faultline.analysis.vocabulary import Diagnosis, Finding
from faultline.analysis.wording.phrases import plain

STRENGTH = 0.1
"""Below every finding that was measured, as the rest of memory."""


def repeated_host_finding(case: Case, diagnosis: Diagnosis, number: int) -> Finding | None:
    """The finding with the id F`number`; None where the blamed machine has no such record.

    The alert at hand chose the machine, and the record is of earlier ones alone: it is one test.
    """
    for part in blamed_parts(diagnosis, case.scope):
        for record in case.earlier.fleet:
            if record.host == part.host and is_repeated(record.blamed, record.by_chance):
                return _finding(record, case.earlier.asked_at, number)
    return None


def _finding(record: HostRecord, requested_at: datetime | None, number: int) -> Finding:
    host = plain(record.host, 60)
    numbers: dict[str, float] = {"blamed": record.blamed, "took_part": record.took_part}
    part = ""
    if record.part:
        part = f", mostly {plain(record.part, 20)}"
        index = record.part.removeprefix("gpu")
        if index.isdecimal():
            numbers["gpu"] = float(index)
    last = ""
    if record.incidents:
        at = record.incidents[0].at
        numbers["day"] = at.day
        last = f", last on {at.day} {at:%b}"
        if requested_at is not None and requested_at.year != at.year:
            numbers["year"] = at.year
            last += f" {at.year}"
    percent = 100 * record.by_chance
    # A chance of zero would read as a proof.
    chance = "under 0.1 %"
    numbers["percent"] = 0.1
    if percent >= 0.1:
        numbers["percent"] = round(percent, 1)
        chance = f"{numbers['percent']:g} %"
    return Finding(
        id=f"F{number}",
        kind=FLEET,
        subject=record.host,
        strength=STRENGTH,
        sentence=f"Drain {host}: it was also to blame in {record.blamed} of {record.took_part} "
        f"earlier incidents of jobs on it{part}{last} (by chance: {chance}).",
        numbers=numbers,
        details=EarlierDetails(
            investigation=record.incidents[0].id if record.incidents else "",
            outcome="to blame before",
            tested=tuple(_row(record, incident) for incident in record.incidents),
        ),
    )


def _row(record: HostRecord, incident: HostIncident) -> TestedRow:
    where = plain(f"{record.host}/{incident.part}" if incident.part else record.host, 100)
    return TestedRow(
        investigation=incident.id,
        when=f"{incident.at:%Y-%m-%d %H:%M} UTC",
        alert=plain(incident.job),
        recalled_for="same machine",
        cause=f"{where} {phrase_of(incident.fault).split(',')[0]}",
        outcome="to blame then, as now",
    )
