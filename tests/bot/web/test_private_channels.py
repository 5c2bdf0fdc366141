"""What came from a private Slack channel or a direct message is seen on the pages by those who read
it there; to all others it looks exactly like what does not exist."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.remembering import recall
from faultline.bot.policy.people import HOUR
from faultline.bot.settings import Settings
from faultline.bot.store.listing import Labels
from faultline.bot.store.memory import Memory
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.store import ReplyTo
from faultline.bot.store.visibility import SlackChannelFacts
from faultline.bot.store.visitors import Logins, ProviderIdentity, new_secret
from faultline.bot.web.sessions import Sessions
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.bot.web.sample_case import REPORT, write_sample_case
from tests.bot.web.serving import PATIENT_S, Server, Site, serving
from tests.bot.web.test_isolation import NONE, ask, routes_of_one

ISSUER = "https://corp.okta.example"
PUBLIC, PRIVATE, DIRECT = "C0PUBLIC", "C0PRIVATE", "DU0ANN"
TOKEN = "token of scripts"


@dataclass
class Town:
    """Pages, a Slack, and an investigation from a webhook and from each of three channels."""

    site: Site
    slack: LoopbackSlack
    settings: Settings
    of: dict[str, str] = field(default_factory=dict)

    def investigate(self, place: str) -> str:
        alert = Alert(
            source="slack" if place else "pagerduty",
            title=f"database disk full in {place or 'a webhook'}",
            started_at=datetime.now(UTC) - timedelta(minutes=5),
            service="checkout",
            labels={"fingerprint": f"asked:{place}:{len(self.site.store.latest())}"},
        )
        store = self.site.store
        to = ReplyTo(place, "1.0") if place else None
        name = store.accept(alert, reply_to=to, question="x").investigation_id
        assert name is not None
        write_sample_case(self.site.cases / name)
        store.start(name)
        store.finish(name, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline)
        Labels(store.engine).write(name, right=True, cause="db", who="Ann")
        return name

    def remember(self, place: str) -> str:
        """Keep the answer for search and for later investigations, as a worker does."""
        store = self.site.store
        found = store.get(self.of[place])
        assert found is not None
        kept = EarlierInvestigation(
            id=found.id,
            at=found.accepted_at - timedelta(hours=1),
            fingerprint="f",
            title=found.alert.title,
            services=("checkout",),
            system=None,
            verdict="cause_found",
            headline="the merger",
            causes=(),
            case=None,
        )
        Memory(store.engine).remember(kept, found.alert)
        return found.id

    def client(self, who: str) -> httpx.Client:
        """Somebody who signed in with a company account."""
        secret = new_secret()
        person = ProviderIdentity(ISSUER, who, who, who, f"{who}@corp.example", (who,))
        engine = self.site.store.engine
        sessions = Sessions(self.settings.server, self.settings.login, engine, {})
        logins = Logins(engine, lasting=timedelta(hours=1), idle=timedelta(hours=1))
        logins.begin(person, secret, sessions._proof(secret, ISSUER), "127.0.0.1")
        return httpx.Client(
            timeout=PATIENT_S,
            base_url=self.site.url,
            cookies={sessions.cookies.session: secret},
            headers={"accept": "text/html"},
        )

    def script(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}", "accept": "text/html"}
        return httpx.Client(timeout=PATIENT_S, base_url=self.site.url, headers=headers)

    def seen(self, client: httpx.Client) -> set[str]:
        """The places whose investigations somebody can open; the list agrees."""
        statuses = {
            place: client.get(f"/investigations/{name}").status_code
            for place, name in self.of.items()
        }
        # Each page has asked Slack by now; the list hides what a busy machine has not told in time.
        listed = client.get("/").text
        for place, status in statuses.items():
            assert (status == 200) == (self.of[place] in listed), place
        return {place for place, status in statuses.items() if status == 200}


@contextmanager
def built(server: Server, directory: Path, **people: Any) -> Iterator[Town]:
    slack = LoopbackSlack(
        channels={PUBLIC: "incidents", PRIVATE: "merger", DIRECT: "direct message"}, token="xoxb-1"
    )
    slack.private.add(PRIVATE)
    slack.members[PRIVATE] = {"U0BOB"}
    slack.users = {
        "U0ANN": {"profile": {"email": "ann@corp.example"}},
        "U0BOB": {"profile": {"email": "bob@corp.example"}},
        "U0EVE": {"profile": {"email": "eve@corp.example"}, "is_stranger": True},
    }
    slack.members[PRIVATE].add("U0EVE")
    url, stop = serve_in_thread(slack.app)
    settings = Settings.model_validate(
        {
            "server": {"access_token": SecretStr(TOKEN)},
            "login": {
                "issuer": ISSUER,
                "client_id": "faultline",
                "default_role": "responder",
                "admins": ["root"],
            },
            "slack": {"bot_token": "xoxb-1", "signing_secrets": "s", "api_url": f"{url}/api"},
            "people": people,
        }
    )
    with serving(server, directory, settings) as site:
        town = Town(site, slack, settings)
        for place in ("", PUBLIC, PRIVATE, DIRECT):
            town.of[place] = town.investigate(place)
        yield town
    stop()


@pytest.fixture
def town(server: Server, tmp_path: Path) -> Iterator[Town]:
    with built(server, tmp_path) as town:
        yield town


def test_everybody_sees_public_channels_and_members_alone_private_ones(town: Town) -> None:
    with town.client("ann") as ann, town.client("bob") as bob, town.client("root") as root:
        assert town.seen(bob) == {"", PUBLIC, PRIVATE}
        assert town.seen(ann) == {"", PUBLIC, DIRECT}
        assert town.seen(root) == {"", PUBLIC}, "an admin whom Slack does not know"


def test_somebody_of_another_company_is_not_matched_by_their_address(town: Town) -> None:
    with town.client("eve") as eve:
        assert town.seen(eve) == {"", PUBLIC}


def test_the_shared_token_opens_no_private_channel_unless_the_settings_let_it(
    server: Server, tmp_path: Path, town: Town
) -> None:
    with town.script() as script:
        assert town.seen(script) == {"", PUBLIC}
    other = tmp_path / "other"
    other.mkdir()
    with built(server, other, token_sees_private=True) as open_town, open_town.script() as script:
        assert open_town.seen(script) == {"", PUBLIC, PRIVATE, DIRECT}


def test_on_every_route_a_private_one_is_like_one_that_does_not_exist(town: Town) -> None:
    routes = routes_of_one(town.site)
    assert len(routes) >= 10
    with town.client("ann") as ann:
        for method, path in routes:
            hidden, absent = ask(ann, method, path, town.of[PRIVATE]), ask(ann, method, path, NONE)
            assert hidden == absent, (method, path)
            assert hidden[0] == 404, (method, path)


def test_search_and_the_download_of_judged_cases_leave_private_ones_out(town: Town) -> None:
    town.remember(PRIVATE)
    with town.client("ann") as ann, town.client("bob") as bob:
        for client, may in ((ann, False), (bob, True)):
            found = client.get("/", params={"q": "database"}).text
            assert (town.of[PRIVATE] in found) == may
            archive = zipfile.ZipFile(io.BytesIO(client.get("/judged.zip").content))
            assert any(town.of[PRIVATE] in name for name in archive.namelist()) == may


def test_while_slack_is_away_what_is_known_counts_and_what_is_not_is_hidden(
    server: Server, tmp_path: Path, town: Town
) -> None:
    with town.client("bob") as bob:
        assert town.seen(bob) == {"", PUBLIC, PRIVATE}
        town.slack.traffic.fail_next(500, 500)
        new = town.investigate("C0NEW")
        assert bob.get(f"/investigations/{new}").status_code == 404
        assert town.seen(bob) == {"", PUBLIC, PRIVATE}


def test_a_private_channel_that_the_bot_was_removed_from_is_nobodys(town: Town) -> None:
    del town.slack.channels[PRIVATE]
    with town.client("bob") as bob:
        assert town.seen(bob) == {"", PUBLIC}


def test_membership_that_was_not_confirmed_for_a_day_counts_no_more(town: Town) -> None:
    with town.client("bob") as bob:
        assert PRIVATE in town.seen(bob)
        town.slack.traffic.fail_next(500, 500)
        facts = SlackChannelFacts(town.site.store.engine)
        facts.keep(PRIVATE, {"U0BOB"}, datetime.now(UTC) - timedelta(hours=25))
        assert town.seen(bob) == {"", PUBLIC}


def test_one_person_has_one_rate_in_slack_and_on_the_pages(server: Server, tmp_path: Path) -> None:
    with built(server, tmp_path, investigations_per_hour=2) as town:
        acts, again = PersonActs(town.site.store.engine), f"/investigations/{town.of['']}/again"

        def clicked(who: str) -> int:
            with town.client(who) as client:
                page = client.get(f"/investigations/{town.of['']}").text
                csrf = re.search(r'name="csrf" value="([^"]+)"', page)
                assert csrf is not None
                given = {"kind": "again", "csrf": csrf[1]}
                return client.post(again, data=given, headers={"origin": town.site.url}).status_code

        for asked in ("first", "second"):
            assert acts.count("U0BOB", "investigate", asked, 2, HOUR)
        assert clicked("bob") == 429
        assert clicked("ann") == 303
        assert acts.count("U0ANN", "investigate", "in Slack", 2, HOUR)
        assert not acts.count("U0ANN", "investigate", "in Slack again", 2, HOUR)


def test_what_slack_never_said_anything_of_is_not_remembered_elsewhere(town: Town) -> None:
    store = town.site.store
    earlier = town.remember(PUBLIC)
    later = town.investigate("")

    def recalled(workspaces: frozenset[str]) -> list[str]:
        found = store.get(later)
        assert found is not None
        seen = recall(store.engine, found, found.alert, days=30, askable=workspaces).recalled
        return [one.investigation.id for one in seen]

    assert recalled(frozenset({""})) == []
    # Without a token there is nobody to ask.
    assert recalled(frozenset()) == [earlier]
    SlackChannelFacts(store.engine).keep(PUBLIC, None)
    assert recalled(frozenset({""})) == [earlier]


def test_a_private_one_is_remembered_in_its_own_channel_alone(town: Town) -> None:
    store = town.site.store
    SlackChannelFacts(store.engine).keep(PRIVATE, {"U0BOB"})
    earlier = town.remember(PRIVATE)

    def recalled(name: str) -> list[str]:
        found = store.get(name)
        assert found is not None
        later = town.site.store.get(name)
        assert later is not None
        earlier_ones = recall(store.engine, later, later.alert, days=30).recalled
        return [one.investigation.id for one in earlier_ones]

    alike = town.investigate(PRIVATE)
    assert recalled(alike) == [earlier]
    for place in ("", PUBLIC):
        assert recalled(town.of[place]) == []
