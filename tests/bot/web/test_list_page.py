"""The list: filters in its address, pages, what is said of each investigation."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from faultline.bot.answer.view import answer_view
from faultline.bot.store.listing import Labels
from faultline.bot.web.list_page import LISTED, chips, read_filter
from tests.bot.web.sample_case import ALERT, DIAGNOSIS, REPORT, write_sample_case
from tests.bot.web.serving import Site


def fill(site: Site, count: int) -> list[str]:
    now = datetime.now(UTC)
    found = []
    for n in range(count):
        alert = ALERT.model_copy(update={"title": f"alert {n}", "service": ("cart", "bank")[n % 2]})
        id_ = site.store.accept(alert, now=now - timedelta(minutes=n)).investigation_id
        assert id_ is not None
        found.append(id_)
    return found


def shown(page: str) -> list[str]:
    return re.findall(r'<li id="i-([^"]+)"', page)


def test_filters_stand_in_the_address_and_in_the_form(site: Site, browser: httpx.Client) -> None:
    ids = fill(site, 6)
    site.store.finish(ids[0], "done", verdict="cause_found", confidence=0.95, headline="x")
    Labels(site.store.engine).write(ids[0], right=False)
    page = browser.get("/?service=cart&confidence=90-100&judged=wrong").text
    assert shown(page) == [ids[0]]
    assert '<option value="cart" selected>' in page
    assert '<option value="90-100" selected>' in page
    assert 'href="/?confidence=90-100&amp;judged=wrong"' in page
    assert shown(browser.get("/?service=bank&status=accepted").text) == [ids[1], ids[3], ids[5]]


def test_what_no_filter_can_be_is_left_out_and_breaks_nothing(
    site: Site, browser: httpx.Client
) -> None:
    ids = fill(site, 2)
    nonsense = "status=1'--&verdict=x&confidence=7-9&judged=maybe&alerts=all&from=yesterday&to=0001-01-01&after=nobody"  # noqa: E501
    assert shown(browser.get(f"/?{nonsense}").text) == ids
    for strange in (
        "service=%00",
        "q=%00%FF",
        "service=" + 5000 * "x",
        "before=%00",
        "source=%F0%9F%92%A9",
    ):
        assert browser.get(f"/?{strange}").status_code == 200


def test_older_and_newer_pages_lead_through_all_and_keep_the_filter(
    site: Site, browser: httpx.Client
) -> None:
    ids = fill(site, 2 * LISTED + 6)
    carts = ids[::2]
    first = browser.get("/?service=cart").text
    assert shown(first) == carts[:LISTED]
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = browser.get(older.group(1).replace("&amp;", "&")).text
    assert shown(second) == carts[LISTED:]
    assert 'rel="next"' not in second
    newer = re.search(r'rel="prev" href="([^"]+)"', second)
    assert newer is not None
    assert shown(browser.get(newer.group(1).replace("&amp;", "&")).text) == carts[:LISTED]


def test_nothing_found_is_not_told_as_nothing_alerted(site: Site, browser: httpx.Client) -> None:
    fill(site, 1)
    page = browser.get("/?service=nobody").text
    assert "Nothing matches" in page
    assert "Nothing has alerted yet" not in page


def test_the_list_says_the_same_state_as_the_answers_own_page(
    site: Site, browser: httpx.Client
) -> None:
    only_slow = DIAGNOSIS.causes[0].model_copy(
        update={"subject": "checkout", "change": None, "findings": ("F2",), "contradicting": ()}
    )
    located = DIAGNOSIS.model_copy(update={"causes": (only_slow,), "confidence": 0.95})
    for diagnosis in (located, DIAGNOSIS):
        id_ = site.investigate(ALERT.model_copy(update={"title": str(diagnosis.confidence)}))
        write_sample_case(site.cases / id_, diagnosis=diagnosis)
        said = answer_view(ALERT, diagnosis, REPORT)
        site.store.finish(
            id_,
            "done",
            verdict=diagnosis.verdict.value,
            confidence=diagnosis.confidence,
            headline=REPORT.headline,
            culprit=diagnosis.causes[0].subject,
            explained=said.explained,
        )
        page = browser.get(f"/investigations/{id_}").text
        assert f'">{said.state_label}</span>' in page
        of_list = browser.get("/").text
        row = of_list[of_list.index(f'<li id="i-{id_}"') :].partition("</li>")[0]
        assert f'">{said.state_label}</span>' in row
        if not said.explained:
            assert f"<b>{said.how_sure}</b>" in page
            assert f"<span>{said.how_sure}</span>" in row
    assert said.state_label != "Located"


@pytest.mark.parametrize(
    ("given", "day"), [("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)), ("20.11.", None)]
)
def test_days_are_whole(given: str, day: datetime | None) -> None:
    assert read_filter({"from": given}).since == day
    assert read_filter({"to": given}).before == (day + timedelta(days=1) if day else None)


def test_ranges_of_confidence_meet_without_overlap() -> None:
    low, high = read_filter({"confidence": "50-70"}), read_filter({"confidence": "70-90"})
    assert low.most is not None
    assert high.least is not None
    assert low.most < high.least == 0.7


def test_each_chip_leads_to_the_address_without_it() -> None:
    found = chips({"q": "a b", "service": "x&y", "after": "id"})
    assert [(c.words, c.without) for c in found] == [
        ("“a b”", "/?service=x%26y"),
        ("x&y", "/?q=a+b"),
    ]
