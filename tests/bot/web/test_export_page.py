"""Downloads of an answer: what the command writes, and pages for what there is not."""

from __future__ import annotations

import httpx
import pytest

from faultline.bot.answer.exports.formats import FORMATS, export
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Site


@pytest.mark.parametrize("name", FORMATS)
def test_a_download_is_what_the_command_writes(
    site: Site, sample: str, browser: httpx.Client, name: str
) -> None:
    one = FORMATS[name]
    answer = browser.get(f"/investigations/{sample}/export/{one.file}")
    assert answer.status_code == 200
    assert answer.content == export(site.cases / sample, name)
    assert answer.headers["content-type"].startswith(one.media_type)
    assert answer.headers["content-disposition"] == f'attachment; filename="{sample}-{one.file}"'


def test_what_there_is_not_is_a_page(site: Site, sample: str, browser: httpx.Client) -> None:
    assert browser.get(f"/investigations/{sample}/export/all.pdf").status_code == 404
    assert browser.get("/investigations/20260101-000000-abcdef/export/agent.md").status_code == 404
    running = site.investigate(ALERT.model_copy(update={"title": "another", "labels": {}}))
    assert browser.get(f"/investigations/{running}/export/agent.md").status_code == 409
