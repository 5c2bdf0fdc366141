"""What `faultline ask` makes of its options, and how it draws."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml

from faultline.analysis.errors import SettingsError
from faultline.analysis.wording.amounts import SECONDS
from faultline.bot.answer.pictures.chart_data import ChartEvent, ChartPanel, DecisiveChart
from faultline.bot.cli.ask_command import AskOptions, settings_for
from faultline.bot.cli.terminal_chart import chart_lines, picture_codes
from faultline.bot.intake.incident_requests import IncidentRequest, arrival_of, since_of
from faultline.bot.settings import Settings

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))


def kubeconfig(folder: Path, current: str = "prod") -> Path:
    file = folder / "config"
    context = {"cluster": "c", "user": "u", "namespace": "shop"}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "prod", "context": context}],
        "current-context": current,
    }
    file.write_text(yaml.safe_dump(config))
    return file


def asked(text: str, **fields: object) -> datetime:
    incident = IncidentRequest(text=text, key="1", door="terminal", **fields)  # type: ignore[arg-type]
    return arrival_of(incident, Settings(), NOW).alert.started_at


def test_since_is_a_length_a_time_of_day_or_a_date() -> None:
    assert since_of("30m", NOW) == NOW - timedelta(minutes=30)
    assert since_of("2h", NOW) == NOW - timedelta(hours=2)
    assert since_of("2026-03-01T10:00Z", NOW) == NOW - timedelta(hours=26)
    here = NOW.astimezone()
    clock = since_of(f"{here:%H:%M}", NOW)
    assert clock == NOW
    later = here + timedelta(minutes=5)
    assert since_of(f"{later:%H:%M}", NOW) == NOW + timedelta(minutes=5) - timedelta(days=1)
    for wrong in ("yesterday-ish", "25:61", ""):
        with pytest.raises(SettingsError, match="--since"):
            since_of(wrong, NOW)


def test_the_question_says_when_it_began_in_the_zone_of_who_asks() -> None:
    assert asked("checkout is slow") == NOW
    assert asked("checkout is slow since 10:30") == NOW - timedelta(minutes=90)
    assert asked("checkout is slow since 10:30", zone=BERLIN) == NOW - timedelta(minutes=150)
    assert asked("errors in the last 2 hours") == NOW - timedelta(hours=2)
    assert asked("slow since 10:30", since=NOW - timedelta(minutes=5)) == NOW - timedelta(minutes=5)
    with pytest.raises(SettingsError, match="future"):
        asked("slow", since=NOW + timedelta(hours=1))
    with pytest.raises(SettingsError, match="is empty"):
        asked("  ")


def test_sources_are_named_on_the_spot() -> None:
    options = AskOptions(urls={"prometheus": "http://127.0.0.1:9090"}, kubernetes=False)
    assert settings_for(options, {}).prometheus.url == "http://127.0.0.1:9090"
    wrong = AskOptions(urls={"prometheus": "localhost"}, kubernetes=False)
    with pytest.raises(SettingsError, match=r"prometheus\.url"):
        settings_for(wrong, {})


def test_the_current_context_of_the_kubeconfig_is_found(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "none"), str(kubeconfig(tmp_path))])}
    found = settings_for(AskOptions(), environ).kubernetes  # type: ignore[attr-defined]
    assert (found.kubeconfig, found.context) == (tmp_path / "config", "prod")
    assert found.namespaces == ("shop",)
    left_out = settings_for(AskOptions(kubernetes=False), environ)
    assert left_out.kubernetes.kubeconfig is None  # type: ignore[attr-defined]


def test_a_kubeconfig_that_cannot_be_used_matters_only_where_it_is_named(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": str(kubeconfig(tmp_path, current="gone"))}
    assert settings_for(AskOptions(), environ).kubernetes.kubeconfig is None  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="there is no context 'gone'"):
        settings_for(AskOptions(context="gone"), environ)
    named = settings_for(AskOptions(context="prod"), environ)
    assert named.kubernetes.context == "prod"  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="no kubeconfig"):
        settings_for(AskOptions(context="prod"), {"KUBECONFIG": str(tmp_path / "none")})


def test_a_chart_of_dots_rises_where_the_series_does() -> None:
    start = NOW.timestamp()
    run = tuple((start + 60.0 * n, 0.1 if n < 30 else 1.0) for n in range(60))
    panel = ChartPanel("checkout: p99 latency", "culprit", SECONDS, (run,))
    onset = ChartEvent("onset", start + 1800, "onset")
    chart = DecisiveChart((panel,), (onset,), start, start + 3540, "")
    title, *rows, marks, times, event = [str(line) for line in chart_lines(chart, 60)]
    assert title.strip() == "checkout: p99 latency"
    assert all(len(row) <= 60 for row in rows)
    empty, left, right = chr(0x2800), 15, 55
    assert rows[0][left] == rows[-1][right] == empty
    assert empty not in (rows[-1][left], rows[0][right])
    assert abs(marks.index("o") - 35) <= 1
    assert times.split() == ["12:00", "12:59"]
    assert event.split() == ["o", "12:30:00", "UTC", "onset"]


def test_terminals_that_show_pictures_get_one() -> None:
    png = bytes(5000)
    kitty = picture_codes(png, {"KITTY_WINDOW_ID": "1"}) or ""
    assert kitty.startswith("\x1b_Ga=T,f=100,m=1;")
    assert kitty.count("\x1b_G") == 2
    assert "m=0;" in kitty
    assert kitty.endswith("\x1b\\")
    iterm = picture_codes(png, {"TERM_PROGRAM": "iTerm.app"}) or ""
    assert iterm.startswith("\x1b]1337;File=inline=1;size=5000;")
    assert picture_codes(png, {"TERM": "xterm-kitty"}) == kitty, "over ssh"
    assert picture_codes(png, {"TERM": "xterm-256color"}) is None
    assert picture_codes(png, {"KITTY_WINDOW_ID": "1", "TMUX": "x"}) is None
