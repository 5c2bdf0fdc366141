"""The pictures of an answer on its page."""

from __future__ import annotations

import html
import re

import httpx

from faultline.analysis.case.calls import CALLS_FILE, ServiceCall
from faultline.bot.web.pictures import DrawnCall
from tests.bot.web.sample_case import EARLIER_ID
from tests.bot.web.serving import Site


def section(page: str, name: str) -> str:
    start = page.index(f'aria-labelledby="{name}"')
    return page[start : page.index("</section>", start)]


def test_the_page_has_the_map_and_the_chart_for_a_desktop_and_for_a_phone(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    page = browser.get(f"/investigations/{sample}").text
    for name in ("h-map", "h-chart"):
        pictures = re.findall(r'<svg [^>]*width="(\d+)"', section(page, name))
        assert pictures[:2] == ["640", "334"]
    assert "/static/pictures.css" in page
    shown = section(page, "h-map")
    assert "payment: began here" in html.unescape(shown)
    # The policy of the pages refuses inline style and script.
    assert not re.search(r"<style|<script| style=| on[a-z]+=", shown + section(page, "h-chart"))


def test_a_box_leads_to_its_finding(site: Site, sample: str, browser: httpx.Client) -> None:
    page = browser.get(f"/investigations/{sample}").text
    anchors = set(re.findall(r'<a href="#([^"]+)"><g class="box', page))
    assert anchors
    for anchor in anchors:
        assert f'id="{anchor}"' in page


def test_beside_the_map_stands_where_each_call_is_known_from(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    shown = html.unescape(section(browser.get(f"/investigations/{sample}").text, "h-map"))
    assert "service catalogue, spans, last seen" in shown
    assert "ingress: not seen now, last on" in shown
    assert f'href="/investigations/{EARLIER_ID}"' in shown


def test_without_calls_the_map_says_so_and_a_broken_file_is_reported(
    site: Site, sample: str, browser: httpx.Client
) -> None:
    file = site.cases / sample / CALLS_FILE
    file.write_text("{")
    page = browser.get(f"/investigations/{sample}").text
    assert "calls.json" in page
    file.unlink()
    page = browser.get(f"/investigations/{sample}").text
    assert "calls.json" not in page
    assert "I don't know what payment calls" in html.unescape(page)
    assert "Set <code>depends_on</code> in the service catalogue" in page


def test_an_id_that_is_none_is_no_address() -> None:
    call = ServiceCall(caller="a", callee="b", sources=("<b>",), learned_in='" onclick="x')
    assert DrawnCall(call).page is None
