"""What runbooks give: more to look at, and lines with their provenance; never evidence, never a
stranger's link."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.case.folder import json_bytes, read_case, write_json
from faultline.analysis.case.runbooks import (
    RUNBOOKS_FILE,
    AppliedRunbook,
    AppliedRunbooks,
    ExpectedAlert,
)
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Claim, Link, Report
from faultline.bot.answer.guidance import MOST_LINES, guidance_of, guidance_text, with_guidance
from faultline.bot.answer.replay import replay
from faultline.bot.answer.writer.plain_text import rendered_part
from faultline.bot.investigation.guiding import guided_scope, runbooks_line
from faultline.bot.investigation.runbooks.library import linkable_hosts, read_library
from faultline.bot.investigation.runbooks.matching import RunbookGuidance, guided, may_link
from faultline.bot.settings import Settings
from tests.bot.investigation.runbooks.runbook_files import AT, alert, scope, write
from tests.scenarios.small_case import write_small_case

WHOLE = """
    ---
    name: Checkout errors
    owner: payments on-call
    match: {services: checkout}
    look_at:
      services: [orders-db]
      prometheus:
        queue_depth: sum(queue_depth{service=~"{service}"})
      datadog:
        pool_waits: avg:db.pool.waits{service:checkout}
      log_words: [deadlock, connection refused]
      before_alert: 2h
      baseline: 6h
    expected:
      - because: the nightly backup saturates the disk
        between: 02:00-02:30
      - because: the weekly report runs
        between: {hours: 02:00-06:00, days: [sun]}
    next_steps:
      - Ask payments on-call before rolling back.
    links:
      - {title: Checkout dashboard, url: https://grafana.example.com/d/1}
      - {title: Elsewhere, url: https://evil.example.org/}
    ---
    The queue drains by itself once orders-db is back.
    """
HOSTS = frozenset({"grafana.example.com"})


def found(tmp_path: Path, **files: str) -> RunbookGuidance:
    directory = write(tmp_path / "shelf", **(files or {"a": WHOLE}))
    return guided(read_library([directory]), alert(), scope("checkout"), HOSTS)


def test_all_that_a_runbook_says_to_look_at_is_in_the_scope_with_who_asks(tmp_path: Path) -> None:
    directory = write(tmp_path, a=WHOLE)
    settings = Settings.model_validate({"runbooks": {"directories": [directory]}})
    given, applied = guided_scope(alert(), settings, now=AT)
    assert given.services == ("checkout", "orders-db")
    assert [(q.connector, q.signal, q.by) for q in given.queries] == [
        ("prometheus", "queue_depth", "runbook Checkout errors"),
        ("datadog", "pool_waits", "runbook Checkout errors"),
    ]
    assert given.log_words is not None
    assert given.log_words.words == ("deadlock", "connection refused")
    assert (AT - given.incident.start).total_seconds() == 2 * 3600
    assert given.baseline[0].seconds == 6 * 3600
    assert applied is not None
    assert runbooks_line(applied) == "Checkout errors (services checkout)"


def test_without_directories_there_is_nothing_and_no_file() -> None:
    assert guided_scope(alert(), Settings(), now=AT)[1] is None


def test_windows_only_grow(tmp_path: Path) -> None:
    look = "---\nmatch: {services: checkout}\nlook_at: {before_alert: 5m, baseline: 5m}\n---\n"
    settings = Settings.model_validate({"runbooks": {"directories": [write(tmp_path, a=look)]}})
    assert (
        guided_scope(alert(), settings, now=AT)[0] == guided_scope(alert(), Settings(), now=AT)[0]
    )


def test_of_two_queries_for_one_signal_the_more_specific_runbook_has_its_way(
    tmp_path: Path,
) -> None:
    query = "---\nmatch: {{services: {}}}\nlook_at: {{prometheus: {{depth: {}}}}}\n---\n"
    given = found(tmp_path, a=query.format("'*'", "sum(a)"), b=query.format("checkout", "sum(b)"))
    assert [(q.query, q.by) for q in given.hints.queries] == [("sum(b)", "runbook b")]


def test_what_it_says_becomes_lines_with_provenance(tmp_path: Path) -> None:
    lines = guidance_of(found(tmp_path).applied)
    assert [guidance_text(line) for line in lines] == [
        "Runbook Checkout errors says: this alert is expected daily 02:00 to 02:30 UTC: "
        "the nightly backup saturates the disk",
        "Runbook Checkout errors says: owned by payments on-call",
        "Runbook Checkout errors says: Ask payments on-call before rolling back.",
        "Runbook Checkout errors: Checkout dashboard",
    ]
    assert lines[-1].url == "https://grafana.example.com/d/1"


def test_text_of_a_runbook_notifies_nobody_links_nowhere_and_holds_no_secret() -> None:
    hostile = (
        "<!channel> @here see [this](https://evil.example) *now* password=hunter2hunter2 "
        "\u202e\n# x"
    )
    applied = AppliedRunbooks(
        runbooks=(
            AppliedRunbook(
                name=hostile,
                path="a.md",
                digest="0" * 12,
                why="services *",
                owner=hostile,
                next_steps=(hostile,) * 50,
                expected=(ExpectedAlert(text=hostile),),
                links=(Link(title=hostile, url="https://grafana.example.com/"),) * 50,
            ),
        )
        * 20
    )
    lines = guidance_of(applied)
    assert 4 <= len(lines) <= MOST_LINES
    for line in lines:
        assert rendered_part(line.text) is None
        assert rendered_part(line.runbook) is None
        assert "hunter2" not in line.text


def test_links_lead_only_to_hosts_of_the_settings() -> None:
    settings = Settings.model_validate(
        {
            "grafana": {"url": "https://grafana.example.com/base"},
            "runbooks": {"link_hosts": ["Wiki.example.com"]},
        }
    )
    hosts = linkable_hosts(settings)
    assert may_link("https://grafana.example.com/d/1", hosts)
    assert may_link("https://wiki.example.com/x", hosts)
    for url in (
        "https://evil.example.com/",
        "https://grafana.example.com@evil.example.com/",
        "https://grafana.example.com.evil.example.com/",
        "javascript:alert(1)//grafana.example.com",
        "https://grafana.example.com/ x",
        "https://[grafana.example.com",
        "//grafana.example.com/",
        "https://grafana.example.com/<!channel>",
    ):
        assert not may_link(url, hosts), url


def test_guidance_changes_no_verdict_no_cause_and_no_confidence(tmp_path: Path) -> None:
    case = write_small_case(tmp_path / "case")
    before = replay(case)
    write_json(case / RUNBOOKS_FILE, found(tmp_path).applied)
    after = replay(case)
    assert json_bytes(diagnose(read_case(case))) == json_bytes(before.diagnosis)
    assert after.report.guidance
    assert after.report.model_copy(update={"guidance": ()}) == before.report
    assert json_bytes(replay(case).report) == json_bytes(after.report)


def test_a_report_without_runbooks_is_untouched() -> None:
    report = Report(headline="x", claims=(Claim(text="y", findings=("F1",)),))
    assert with_guidance(report, AppliedRunbooks()) is report


def test_what_could_not_be_read_is_told(tmp_path: Path) -> None:
    given = found(tmp_path, a=WHOLE, bad="---\nx: [\n---\n")
    assert len(given.applied.runbooks) == 1
    assert "bad.md:" in given.applied.troubles[0]
    assert "1 problem: " in runbooks_line(given.applied)
