"""The storm and the tricklers in small, with the real bot. Nothing is timed."""

from __future__ import annotations

from pathlib import Path

from benchmarks import storm, tricklers


def test_the_storm_repeats_its_pages_in_turn_with_the_p1_in_its_midst() -> None:
    alerts = storm.alerts_of(13, incidents=2, pages=3)
    assert [one.incident for one in alerts[:4]] == ["P00X000", "P01X000", "P00X001", "P01X001"]
    assert alerts[6].incident == storm.P1
    assert len({(one.incident, one.number) for one in alerts}) == len(alerts)


def test_a_storm_loses_and_doubles_nothing_and_every_incident_gets_its_note(
    tmp_path: Path,
) -> None:
    options = storm.options_of(["--small"])
    result = storm.storm(options, "sqlite", tmp_path)
    assert result.sent.taken + result.sent.abandoned == options.alerts
    assert result.sent.abandoned == 0
    assert (result.lost, result.doubled) == (0, 0)
    assert result.noted == len(result.notes) == options.incidents * options.pages + 1
    assert result.p1_first_s is not None
    assert result.p1_answer_s is not None
    storm.report(options, result, storm.Sent())


def test_the_reference_takes_the_same_load(tmp_path: Path) -> None:
    options = storm.options_of(["--small"])
    alerts = storm.alerts_of(20, incidents=2, pages=3)
    bare = storm.reference(options, "sqlite", tmp_path, alerts)
    assert (bare.taken, bare.abandoned) == (20, 0)


def test_tricklers_keep_no_signed_webhook_out(tmp_path: Path) -> None:
    options = tricklers.options_of(["--small", "--one-address"])
    seen = tricklers.on_the_bot(options, tmp_path)
    assert (len(seen.latencies_ms), seen.statuses) == (seen.sent, [])
    assert seen.sent == options.seconds
    assert seen.opened >= options.tricklers
