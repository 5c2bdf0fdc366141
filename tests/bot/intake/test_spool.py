"""The spool's files: what is acknowledged stays, whatever ends the process or fills the disk."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.spool import SUFFIX, Spool, SpoolError, figures_of
from faultline.bot.intake.spool_records import TakenAlert, decode, encode
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo

AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def alert(name: str, *, number: int = 0, severity: str = "warning", **more: object) -> TakenAlert:
    one = Alert(source="pagerduty", id=name, title=name, started_at=AT, severity=severity, **more)
    delivery = Delivery("pagerduty", f"{name} {number}", AT)
    return TakenAlert(Arrival(one, delivery), AT + timedelta(seconds=number))


def ids(spool: Spool) -> list[str]:
    found = [one.taken.arrival.delivery for one in spool.next(100_000)]
    return [one.id for one in found if one is not None]


def kept(outcomes: Sequence[SpoolError | None]) -> list[bool]:
    return [one is None for one in outcomes]


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


def test_other_releases_read_the_addresses_that_this_one_writes() -> None:
    arrival = Arrival(alert("a").arrival.alert, None, ReplyTo(other_addresses={"teams": "x"}))
    line = encode(TakenAlert(arrival, AT))
    assert b'"others":{"teams":"x"}' in line
    taken = decode(line)
    assert taken is not None
    assert taken.arrival.reply_to.other_addresses == {"teams": "x"}


def test_an_alert_comes_out_as_it_went_in() -> None:
    full = Arrival(
        Alert(
            source="slack",
            title="füll \ud800\nline",
            started_at=AT,
            labels={"a": "b\u2028"},
            severity="critical",
        ),
        Delivery("slack", "id", AT, "occurrence"),
        ReplyTo("C1", "1.2", None, {"teams": "x"}),
        question="why?",
        by_person=True,
        priority_words={"sev9": 1},
    )
    for arrival in (full, Arrival(Alert(source="x", title="y", started_at=AT))):
        line = encode(TakenAlert(arrival, AT))
        assert line.count(b"\n") == 1
        assert decode(line) == TakenAlert(arrival, AT)
        assert decode(line[:-1]) is None
        assert decode(line.replace(b"slack", b"slocl").replace(b'"y"', b'"z"')) is None


def test_the_most_urgent_come_first_and_those_of_one_alert_in_their_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    usual, early, urgent = (
        alert("usual", number=1),
        alert("both", number=2, severity="info"),
        alert("both", number=3, severity="critical"),
    )
    assert kept(spool.append([usual, early, urgent])) == [True] * 3
    # One that waits for an urgent one of its own incident is not held up by others.
    assert ids(spool) == ["both 2", "both 3", "usual 1"]


def test_a_clock_that_is_set_back_does_not_turn_the_order_round(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append([alert("a", number=10)])
    spool.append([alert("a", number=3)])
    assert ids(spool) == ["a 10", "a 3"]


def test_only_its_owner_may_read_it_and_files_go_when_all_is_moved(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "deep" / "spool")
    spool.append([alert("a"), alert("b")])
    (file,) = files(spool.directory)
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first, second = spool.next(2)
    spool.moved([first])
    assert (spool.figures().alerts, files(spool.directory)) == (1, [file])
    spool.append([alert("c")])
    spool.moved([second, *spool.next(2)])
    assert (spool.figures().alerts, spool.figures().bytes, files(spool.directory)) == (0, 0, [])
    assert kept(spool.append([alert("d")])) == [True]


def test_what_waits_in_it_is_masked_as_in_the_database(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append([alert("a", labels={"note": "db_password=Zq99kT7vWm4x"})])
    (file,) = files(spool.directory)
    assert b"Zq99kT7vWm4x" not in file.read_bytes()
    assert b"[SECRET]" in file.read_bytes()


def test_it_is_bounded_in_number_and_bytes(tmp_path: Path) -> None:
    few = Spool(tmp_path / "few", max_alerts=2)
    assert kept(few.append([alert("a"), alert("b"), alert("c")])) == [True, True, False]
    assert kept(few.append([alert("d")])) == [False]
    assert few.figures().problem == "it is full"
    few.moved(few.next(1))
    assert kept(few.append([alert("d")])) == [True]
    assert few.figures().problem == ""
    small = Spool(tmp_path / "small", max_bytes=2_000)
    outcomes = kept(small.append([alert("long", summary="x" * 5_000), alert("short")]))
    assert outcomes == [False, True]


def test_what_a_dead_process_left_is_taken_over_once(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    first, second, third = Spool(directory), Spool(directory), Spool(directory)
    first.append([alert("a")])
    assert second.adopt() == 0, "it belongs to one that lives"
    first.close()
    assert [second.adopt(), third.adopt()] == [1, 0]
    assert ids(second) == ["a 0"]
    second.moved(second.next(1))
    assert files(directory) == []


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_alert_is_dropped_alone(tmp_path: Path, cut: int) -> None:
    directory = tmp_path / "spool"
    spool = Spool(directory)
    spool.append([alert("a"), alert("b"), alert("torn")])
    spool.close()
    (file,) = files(directory)
    os.truncate(file, file.stat().st_size - cut)
    after = Spool(directory)
    after.adopt()
    assert ids(after) == ["a 0", "b 0"]
    assert kept(after.append([alert("c")])) == [True]
    after.moved(after.next(10))
    assert files(directory) == []


def test_a_damaged_alert_is_kept_for_a_person_and_the_others_go_on(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    spool = Spool(directory)
    spool.append([alert("a"), alert("b"), alert("c")])
    spool.close()
    (file,) = files(directory)
    file.write_bytes(file.read_bytes().replace(b'"b"', b'"B"'))
    after = Spool(directory)
    after.adopt()
    assert ids(after) == ["a 0", "c 0"]
    after.moved(after.next(10))
    assert [one.suffix for one in directory.iterdir()] == [".damaged"]


@contextmanager
def full_disk(bytes_left: int) -> Iterator[None]:
    """No file may grow beyond this: a write then takes a part, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_loses_nothing_that_was_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "spool"
    spool = Spool(directory)
    assert kept(spool.append([alert("a")])) == [True]
    (file,) = files(directory)
    size = file.stat().st_size
    with full_disk(size + 100):
        for _ in range(3):
            assert kept(spool.append([alert("no", summary="x" * 900)])) == [False]
    # The parts that were written are cut off.
    assert file.stat().st_size == size
    assert spool.figures().problem == "it cannot be written (File too large)"
    assert sum("takes no alerts" in one.message for one in caplog.records) == 1
    assert kept(spool.append([alert("b")])) == [True]
    spool.close()
    after = Spool(directory)
    after.adopt()
    assert ids(after) == ["a 0", "b 0"]


def test_a_directory_that_cannot_be_made_is_an_answer_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "file" / "spool")
    assert kept(spool.append([alert("a")])) == [False]
    assert "cannot be written" in spool.figures().problem


KILLED = """
import sys
from pathlib import Path
from faultline.bot.intake.spool import Spool
from tests.bot.intake.test_spool import alert

spool = Spool(Path(sys.argv[1]))
number = 0
while True:
    names = [f"n{number + i}" for i in range(7)]
    number += 7
    assert spool.append([alert(name) for name in names]) == [None] * 7
    print("\\n".join(names), flush=True)
"""


def test_what_was_acknowledged_survives_kills_at_any_moment(tmp_path: Path) -> None:
    acknowledged = 0
    for turn in range(5):
        directory = tmp_path / f"spool{turn}"
        command = [sys.executable, "-c", KILLED, str(directory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            names = [process.stdout.readline().strip()]
            time.sleep(0.02 * turn)
            process.kill()
            names += process.stdout.read().split()
        spool = Spool(directory)
        spool.adopt()
        assert set(names) <= {one.removesuffix(" 0") for one in ids(spool)}
        assert figures_of(directory).alerts == spool.figures().alerts
        acknowledged += len(names)
    assert acknowledged > 30


def test_it_says_how_full_it_is_of_alerts_or_of_bytes(tmp_path: Path) -> None:
    many = Spool(tmp_path / "many", max_alerts=4)
    assert many.filled() == 0
    many.append([alert("one"), alert("two")])
    assert many.filled() == 0.5
    large = Spool(tmp_path / "large", max_bytes=2_000)
    large.append([alert("one")])
    assert large.filled() == pytest.approx(large.figures().bytes / 2_000)
