"""The calls around the alerting service, as the investigation's page draws them."""

from __future__ import annotations

import html
from collections.abc import Iterable

import httpx

from analysis.case.calls import CALLS_FILE, KnownCall
from analysis.vocabulary import Alert
from bot.web.call_map import (
    BOX,
    MOST_BELOW,
    MOST_IN_A_ROW,
    WIDTH,
    CallMap,
    call_map,
)
from tests.bot.web.sample_case import ALERT, DIAGNOSIS, EARLIER_ID
from tests.bot.web.serving import Site


def known(*pairs: tuple[str, str]) -> list[KnownCall]:
    return [KnownCall(caller=a, callee=b, sources=("mesh",)) for a, b in pairs]


def drawn(calls: Iterable[KnownCall], alert: Alert = ALERT) -> CallMap:
    found = call_map(alert, DIAGNOSIS, list(calls))
    assert found is not None
    return found


def rows_of(found: CallMap) -> list[list[str]]:
    rows: dict[int, list[str]] = {}
    for box in found.boxes:
        rows.setdefault(box.y, []).append(box.name)
    return list(rows.values())


def test_the_page_draws_callers_the_alert_and_the_way_to_the_cause(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    page = html.unescape(browser.get(f"/investigations/{sample}").text)
    section = page[page.index('class="callmap"') :]
    words = "web-storefront-frontend calls checkout; checkout calls payment; checkout calls cart"
    assert f'aria-label="{words}"' in section
    assert "service catalogue, spans, last seen" in section
    assert "ingress: not seen now, last on" in section
    assert f'href="/investigations/{EARLIER_ID}"' in section
    assert 'class="cause"><title>payment</title>' in section
    assert 'class="alert"><title>checkout</title>' in section
    assert "elsewhere" not in section


def test_a_case_without_calls_has_no_such_section_and_a_broken_file_is_said(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    file = site.cases / sample / CALLS_FILE
    file.write_text("{")
    page = browser.get(f"/investigations/{sample}").text
    assert "callmap" not in page
    assert "calls.json" in page
    file.unlink()
    page = browser.get(f"/investigations/{sample}").text
    assert "callmap" not in page
    assert "calls.json" not in page


def test_no_row_is_wider_than_a_phone_and_what_is_left_out_is_counted() -> None:
    many = known(
        *((f"caller-{n}", "checkout") for n in range(9)),
        *(("checkout", f"callee-{n}") for n in range(9)),
        ("checkout", "payment"),
    )
    found = drawn(many)
    rows = rows_of(found)
    assert [len(row) for row in rows] == [MOST_IN_A_ROW, 1, MOST_IN_A_ROW]
    assert "payment" in rows[2]
    assert all(0 <= box.x <= WIDTH - BOX for box in found.boxes)
    assert found.left_out == len(many) - 2 * MOST_IN_A_ROW


def test_further_down_only_the_way_to_a_suspect_is_drawn() -> None:
    calls = known(
        ("checkout", "basket"),
        ("basket", "payment"),
        ("basket", "stock"),
        ("payment", "payment-db"),
        ("payment", "checkout"),
    )
    assert rows_of(drawn(calls)) == [["payment"], ["checkout"], ["basket"]]
    without_cycle = calls[:-1]
    assert rows_of(drawn(without_cycle)) == [["checkout"], ["basket"], ["payment"]]
    chain = known(
        ("checkout", "s0"), *((f"s{n}", f"s{n + 1}") for n in range(9)), ("s9", "payment")
    )
    assert len(rows_of(drawn(chain))) <= MOST_BELOW + 1


def test_without_an_alerting_service_the_first_cause_is_in_the_middle() -> None:
    nameless = ALERT.model_copy(update={"service": None})
    calls = known(("checkout", "payment"))
    assert drawn(calls, nameless).service == "payment"
    assert call_map(nameless, DIAGNOSIS, known(("a", "b"))) is None
    assert call_map(ALERT, DIAGNOSIS, []) is None


def test_names_and_ids_are_hostile() -> None:
    name = '"><script>' + "x" * 5000
    call = KnownCall(caller="checkout", callee=name, sources=("<b>",), learned_in='" onclick="x')
    [one] = drawn([call]).calls
    assert one.page is None
    assert max(len(box.label) for box in drawn([call]).boxes) <= 16
