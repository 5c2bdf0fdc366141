"""Status pages over real HTTP: which incidents of a provider become facts, in each format, and what
hostile pages can do."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings, load_settings
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.status_pages import CONNECTOR
from faultline.connectors.vendors.status_pages.connector import FORMATS, StatusPagesConnector
from faultline.connectors.vendors.status_pages.incidents import of_feed
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import status_pages as stand_in


def connector(server: LocalServer, **own: Any) -> StatusPagesConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["status_pages"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, StatusPagesConnector)
    return built


def of_kind(server: LocalServer, folder: Path, kind: str, body: Any, **own: Any) -> list[str]:
    """What the facts say, for a page of that kind."""
    built = connector(server, kind=kind, **own)
    server.on(FORMATS[kind].path or "/", Reply(body))
    found = collected(folder, built)
    assert found.missing == ()
    return values(found)


def values(found: Collected) -> list[str]:
    """The texts of the facts."""
    states = conform(found.tables["states"], "states", "states")
    return [str(value) for value in states["value"].to_list()]


def test_an_open_incident_is_a_fact_about_the_provider(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    (row,) = conform(found.tables["states"], "states", "states").iter_rows(named=True)
    assert (row["kind"], row["name"], row["fact"]) == ("Provider", "Stripe", "provider_outage")
    assert row["field"] == "Stripe, stripe.com"
    assert row["value"] == "Elevated API errors (major; API; since 02 Mar 11:49 UTC)"
    assert (row["service"], row["since"]) == ("checkout", stand_in.BEGAN)
    assert row["link"] == "https://stspg.io/p31zjtct2jer"
    (item,) = found.items
    assert (item.rows, item.link) == (1, server.url)
    assert server.methods == {"GET"}


def test_nothing_open_is_an_item_without_rows(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    # incident.io sends null for an empty list.
    server.on(stand_in.PATH, Reply({"page": {}, "incidents": None}))
    found = collected(tmp_path, built)
    assert [item.rows for item in found.items] == [0]
    assert found.missing == ()


def test_an_incident_that_ended_within_ours_still_counts(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    minor = stand_in.incident("Slow", "minor", "resolved", ONSET, ONSET + timedelta(minutes=5))
    server.on(stand_in.PATH, Reply({"incidents": [minor]}))
    found = collected(tmp_path, built)
    assert found.tables["states"]["fact"].to_list() == ["provider_degraded"]
    assert values(found)[0].endswith("until 02 Mar 11:55 UTC)")


@pytest.mark.parametrize(
    ("components", "count"), [(["API"], 1), (["ap*"], 1), (["Dashboard"], 0), ([], 1)]
)
def test_only_parts_that_count(
    server: LocalServer, tmp_path: Path, components: list[str], count: int
) -> None:
    found = collected(tmp_path, connector(server, components=components))
    assert found.items[0].rows == count


def aws_event(status: str, region: str, arn_region: str) -> dict[str, Any]:
    """One event as `public/currentevents` has it."""
    return {
        "arn": f"arn:aws:health:{arn_region}::event/EC2/AWS_EC2_OPERATIONAL_ISSUE/AWS_EC2_1",
        "date": str(int(ONSET.timestamp())),
        "region_name": region,
        "service": f"ec2-{arn_region}",
        "service_name": "Amazon Elastic Compute Cloud",
        "status": status,
        "summary": "Increased API error rates",
        "event_log": [{"summary": "x", "message": "y", "status": 2, "timestamp": 1}],
        "impacted_services": {"ec2": {"service_name": "Amazon EC2", "current": "2", "max": "2"}},
    }


def test_aws_sends_utf_16_and_regions_filter_it(server: LocalServer, tmp_path: Path) -> None:
    events = [
        aws_event("3", "N. Virginia", "us-east-1"),
        aws_event("3", "UAE", "me-central-1"),
        aws_event("0", "N. Virginia", "us-east-1"),
        aws_event("1", "N. Virginia", "us-east-1"),
    ]
    body = json.dumps(events).encode("utf-16")
    said = of_kind(server, tmp_path, "aws", body, regions=["us-east-1"])
    assert said == [
        "Amazon Elastic Compute Cloud: Increased API error rates "
        "(major; Amazon Elastic Compute Cloud, Amazon EC2; since 02 Mar 11:50 UTC)"
    ]


def test_google_cloud(server: LocalServer, tmp_path: Path) -> None:
    incident = {
        "id": "abc",
        "begin": ONSET.isoformat(),
        "end": None,
        "external_desc": "Cloud SQL is unavailable",
        "status_impact": "SERVICE_OUTAGE",
        "severity": "high",
        "uri": "incidents/abc",
        "affected_products": [{"id": "x", "title": "Google Cloud SQL"}],
        "currently_affected_locations": [{"id": "europe-west4", "title": "Netherlands"}],
    }
    over = incident | {"end": (ONSET - timedelta(days=3)).isoformat()}
    notice = incident | {"status_impact": "SERVICE_INFORMATION"}
    body = [incident, over, notice]
    assert of_kind(server, tmp_path, "google_cloud", body, components=["*SQL"]) == [
        "Cloud SQL is unavailable (major; Google Cloud SQL; since 02 Mar 11:50 UTC)"
    ]
    assert of_kind(server, tmp_path, "google_cloud", body, regions=["us-east1"]) == []


def rss(*items: str) -> bytes:
    """A feed with these entries."""
    text = f'<rss version="2.0"><channel>{"".join(items)}</channel></rss>'
    return f'<?xml version="1.0"?>{text}'.encode()


def entry(title: str, at: Any) -> str:
    """One entry of it."""
    date = format_datetime(at.astimezone(UTC))
    return f"<item><title>{title}</title><pubDate>{date}</pubDate><link>https://a.b/c</link></item>"


def test_azures_feed_holds_what_is_active(server: LocalServer, tmp_path: Path) -> None:
    body = rss(entry("Storage &lt;b&gt;West&lt;/b&gt; Europe", ALERT_AT - timedelta(days=2)))
    assert of_kind(server, tmp_path, "azure", body) == [
        "Storage West Europe (since 28 Feb 12:00 UTC)"
    ]


def test_entries_of_other_feeds_count_at_their_own_time(
    server: LocalServer, tmp_path: Path
) -> None:
    body = rss(entry("now", ONSET), entry("old", ALERT_AT - timedelta(days=2)))
    said = of_kind(server, tmp_path, "feed", body, url=f"{server.url}/")
    assert said == ["now (since 02 Mar 11:50 UTC)"]
    atom = (
        f'<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>a</title><updated>'
        f'{ONSET.isoformat()}</updated><link href="javascript:alert(1)"/></entry></feed>'
    )
    assert of_kind(server, tmp_path, "feed", atom.encode()) == ["a (since 02 Mar 11:50 UTC)"]


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    "<rss><channel><item><title>&b;</title></item></channel></rss>"
)
OUTSIDE = '<!doctype x [<!ENTITY f SYSTEM "file:///etc/passwd">]><rss><channel/></rss>'


@pytest.mark.parametrize(
    "body",
    [
        BOMB.encode(),
        OUTSIDE.encode(),
        BOMB.encode("utf-16"),
        b"<rss><channel>",
        b"<html></html>",
        b"\xff\xfe\x00",
    ],
)
def test_feeds_with_declarations_and_broken_ones_are_gaps(
    server: LocalServer, tmp_path: Path, body: bytes
) -> None:
    built = connector(server, kind="feed", url=f"{server.url}/")
    server.on("/", Reply(body))
    found = collected(tmp_path, built)
    assert [one.kind for one in found.missing] == ["states"]
    assert "unexpected response" in found.missing[0].reason
    assert found.items == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({"error": "x"}, status=404), "not found"),
        (Reply(b"", status=302, headers={"Location": "http://169.254.169.254/"}), "redirect"),
        (Reply({"incidents": [{"name": 7}]}), "unexpected response"),
        (Reply(b"[" * 100_000), "unexpected response"),
    ],
)
def test_refusals_and_bad_answers_are_gaps(
    server: LocalServer, tmp_path: Path, reply: Reply, reason: str
) -> None:
    built = connector(server)
    server.on(stand_in.PATH, reply)
    found = collected(tmp_path, built)
    assert reason in found.missing[0].reason
    assert server.paths() == [stand_in.PATH]


def test_a_hostile_title_is_one_short_line(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    hostile = stand_in.incident("<script>x</script>\u202e\n" + "y" * 9000, "major", "x", ONSET)
    server.on(stand_in.PATH, Reply({"incidents": [hostile | {"shortlink": "javascript:x"}]}))
    found = collected(tmp_path, built)
    (said,) = values(found)
    assert len(said) < 260
    assert "<" not in said
    assert "\u202e" not in said
    assert found.tables["states"]["link"].to_list() == [None]


def test_the_provider_is_named_beside_the_alert_and_not_blamed(
    server: LocalServer, tmp_path: Path
) -> None:
    given = diagnosed(tmp_path, connector(server, used_by=[]))
    assert given.causes == ()
    (finding,) = given.findings
    assert finding.kind == "upstream_incident"
    assert finding.sentence.startswith("Provider Stripe reports an outage: Elevated API errors")


def test_check_counts_what_can_be_read(server: LocalServer) -> None:
    said = asyncio.run(connector(server).check())
    assert said.ok
    assert said.line.startswith("Stripe: 3 incidents at http://127.0.0.1")
    assert "2 of them open" in said.line
    server.on(stand_in.PATH, Reply({}, status=404))
    refused = asyncio.run(connector_again(server).check())
    assert not refused.ok


def connector_again(server: LocalServer) -> StatusPagesConnector:
    """Another one, before what the server answers now."""
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url)))
    assert isinstance(built, StatusPagesConnector)
    return built


def test_several_pages_are_called_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(
        '[[status_pages]]\nname = "github"\nurl = "https://www.githubstatus.com"\n'
        '[[status_pages]]\nname = "aws"\nkind = "aws"\n'
    )
    built = build_connectors(load_settings(file, {}))
    assert [one.name for one in built] == ["status_pages github", "status_pages aws"]


def test_a_page_without_a_name_or_an_address_stops_the_start() -> None:
    for own, key in (({"url": "https://a.b"}, "provider"), ({"provider": "x"}, "url")):
        settings = Settings.model_validate({"status_pages": own})
        with pytest.raises(SettingsError, match=f"status_pages.{key}"):
            CONNECTOR.configured(settings)


def test_an_entry_of_a_feed_has_its_title_time_and_link() -> None:
    entry = "<entry><title>API &lt;b&gt; down</title>{times}{link}</entry>"
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{entry}</feed>'
    updated = f"<updated>{ALERT_AT.isoformat()}</updated>"
    published = f"<published>{ONSET.isoformat()}</published>{updated}"
    link = '<link href="https://a.b/c"/>'
    (full,) = of_feed(feed.format(times=published, link=link).encode())
    assert (full.title, full.since, full.until, full.link) == (
        "API down", ONSET, None, "https://a.b/c",
    )  # fmt: skip
    (bare,) = of_feed(b"\xef\xbb\xbf" + feed.format(times=updated, link="").encode())
    assert (bare.since, bare.link) == (ALERT_AT, None)
