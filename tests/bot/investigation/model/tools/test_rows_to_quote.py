"""Log lines, diffs, spans, events: each row can be cited, and its foreign text be quoted."""

from __future__ import annotations

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding
from tests.bot.investigation.model.tools.conftest import TRACE, Desk


def details(finding: Finding) -> ObservationDetails:
    assert isinstance(finding.details, ObservationDetails)
    return finding.details


def test_lines_around_a_time_can_each_be_cited_and_quoted(desk: Desk) -> None:
    rows = desk.rows("logs", show="lines", around="2026-11-20T03:00:00Z", level="error")
    assert len(rows) == 42, "provenance, 40 rows, and what was cut"
    assert rows[-1].startswith("cut: 15 more; skip=40")
    finding = desk.cited(rows[1])
    quote = details(finding).quote
    assert quote == "payment 0 of jo.doe@example.com failed: connection refused"
    assert details(finding).time == "2026-11-20T02:56:00.000+00:00"
    assert details(finding).trace_id == TRACE
    # The model sees placeholders; what it quotes is revealed before it is looked for.
    shown = rows[1].partition('"')[2].removesuffix('"')
    assert "[EMAIL_1]" in shown
    assert desk.toolbox.redactor.reveal(shown) == quote
    more = desk.rows("logs", show="lines", around="2026-11-20T03:00:00Z", level="error", skip=40)
    assert len(more) == 16


def test_lines_are_filtered_by_words_and_place(desk: Desk) -> None:
    rows = desk.rows("logs", show="lines", place="checkout-1", contains="PAYMENT 7 ")
    assert len(rows) == 2
    assert '"payment 7 of' in rows[1]
    assert "no line matches" in desk.error("logs", show="lines", contains="((((((a+)+)+)+)$")


def test_templates_count_and_carry_a_line_to_quote(desk: Desk) -> None:
    (row,) = [row for row in desk.rows("logs") if "payment" in row]
    finding = desk.cited(row)
    assert finding.numbers["count"] == 60
    assert finding.numbers["baseline_count"] == 0
    assert details(finding).about == "log_template"
    assert details(finding).quote.startswith("payment ")


def test_a_line_of_a_diff_can_be_cited_with_its_side_and_file(desk: Desk) -> None:
    rows = desk.rows("changes", id="4f2a")
    (added,) = [row for row in rows if " added " in row]
    finding = desk.cited(added)
    assert details(finding).quote == 'timeout = 0.3 # seconds, see "budget"'
    assert (details(finding).side, details(finding).file) == ("added", "src/client.py")
    assert details(finding).change == "4f2a9c1"
    assert details(finding).line == 6
    (removed,) = [row for row in rows if " removed " in row]
    assert details(desk.cited(removed)).quote == "timeout = 5.0"
    head = desk.cited(rows[1])
    assert details(head).about == "change"
    assert details(head).quote == "checkout v2 by jo.doe@example.com"
    assert rows[1].endswith('"checkout v2 by [EMAIL_1]"')
    assert rows[1].count('"') == 2, "the first of them begins what somebody else wrote"
    assert len(desk.rows("changes", id="4f2a", contains="0.3")) == 3


def test_all_spans_of_one_request_are_shown_as_a_tree(desk: Desk) -> None:
    rows = desk.rows("request", trace_id=TRACE)
    assert rows[2].endswith("] after 0 s web GET /web took 540 ms, OK")
    assert "] .. after 0 s cart GET /cart took 5 ms" in rows[4]
    finding = desk.cited(rows[3])
    assert finding.numbers["ms"] == 530
    assert details(finding).trace_id == TRACE
    assert "no trace of this id" in desk.error("request", trace_id="../../etc/passwd")


def test_a_services_operations_and_failing_requests_can_be_cited(desk: Desk) -> None:
    rows = desk.rows("traces", service="checkout", order="failing")
    operation = desk.cited(rows[1])
    assert operation.numbers["count"] == 11
    assert operation.numbers["failed_percent"] == 90.91
    assert details(operation).direction == "rose"
    assert any(TRACE in row for row in rows[2:])


def test_events_states_and_the_alert_are_rows(desk: Desk) -> None:
    rows = desk.rows("events")
    (killed,) = [row for row in rows if "Killing" in row]
    assert details(desk.cited(killed)).quote == "Container checkout failed liveness probe"
    (state,) = [row for row in rows if "crash_looping" in row]
    assert details(desk.cited(state)).labels["object"] == "Pod shop/checkout-1"
    (alert,) = [row for row in rows if "the alert of" in row]
    assert details(desk.cited(alert)).quote == "checkout p99 latency above 800 ms"
    assert len(desk.rows("events", object="checkout-1")) == 3


def test_first_onset_leaves_out_changes(desk: Desk) -> None:
    rows = desk.rows("topology", service="cart")
    (checkout,) = [row for row in rows if "is called by checkout" in row]
    assert "first onset 2026-11-20 02:56:00 UTC" in checkout, "the deploy was at 02:54"
    (indirect,) = [row for row in rows if "is called by web" in row]
    assert "through another service" in indirect
