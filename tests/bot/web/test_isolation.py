"""With `login.isolation = "teams"` another team's investigation looks exactly like one that does
not exist."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.routing import Route

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.remembering import recall
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope
from faultline.bot.store.listing import Labels
from faultline.bot.store.memory import Memory
from faultline.bot.store.store import ReplyTo, Store
from faultline.bot.store.tables import InvestigationRow
from faultline.bot.store.visibility import ALL, visible_to_teams
from faultline.bot.store.visitors import Logins, ProviderIdentity, new_secret
from faultline.bot.web.pages import page_routes
from faultline.bot.web.sessions import Sessions
from tests.bot.web.sample_case import REPORT, write_sample_case
from tests.bot.web.serving import PATIENT_S, Server, Site, serving

ISSUER = "https://corp.okta.example"
GROUPS = {"ann": "payments-oncall", "bob": "search-oncall", "eve": "nobodys", "adm": "sre"}
NONE = "20200101-000000-000000"
"""The id of no investigation."""


def settings(isolation: str = "teams") -> Settings:
    return Settings.model_validate(
        {
            "server": {"access_token": SecretStr("token of scripts")},
            "login": {
                "issuer": ISSUER,
                "client_id": "faultline",
                "default_role": "responder",
                "admins": ["sre"],
                "token_role": "viewer",
                "isolation": isolation,
            },
            "services": {"checkout": {}, "search": {}},
            "teams": {
                "payments": {
                    "services": ["checkout"],
                    "groups": ["payments-oncall"],
                    "channels": ["CPAY"],
                },
                "search": {
                    "services": ["search"],
                    "groups": ["search-oncall"],
                    "channels": ["CSEARCH"],
                },
            },
        }
    )


class Town:
    """A site with an investigation of each team and one of nobody, and people of each."""

    def __init__(self, site: Site, of: dict[str, str]) -> None:
        self.site = site
        self.given = settings()
        self.of = of

    def investigate(self, team: str, service: str) -> str:
        at = datetime.now(UTC) - timedelta(minutes=5)
        title = f"{team or 'nobodys'} latency"
        alert = Alert(
            source=f"{team or 'nobodys'}-vendor", title=title, started_at=at, service=service
        )
        name = self.site.investigate(alert)
        with Session(self.site.store.engine) as session, session.begin():
            session.get_one(InvestigationRow, name).team = team
        write_sample_case(self.site.cases / name)
        store = self.site.store
        store.start(name)
        store.add_progress(
            name, f"collect {team or 'nobodys'}-connector", "1248 rows", key="collect x"
        )
        store.finish(name, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline)
        Labels(store.engine).write(name, right=True, cause=f"{team}-cause", who="Ann")
        kept = EarlierInvestigation(
            id=name, at=at, fingerprint=alert.fingerprint, title=title, services=(service,),
                system=None,
            verdict="cause_found", headline=f"{team}-headline", causes=(), case=None,
        )  # fmt: skip
        Memory(store.engine).remember(kept, alert)
        return name

    def client(self, who: str) -> httpx.Client:
        """Somebody who signed in with a company account."""
        secret, person = (
            new_secret(),
            ProviderIdentity(ISSUER, who, who, who, f"{who}@corp.example", (GROUPS[who],)),
        )
        sessions = Sessions(
            self.given.server, self.given.login, self.site.store.engine, self.given.teams
        )
        logins = Logins(self.site.store.engine, lasting=timedelta(hours=1), idle=timedelta(hours=1))
        logins.begin(person, secret, sessions._proof(secret, ISSUER), "127.0.0.1")
        cookies = {sessions.cookies.session: secret}
        headers = {"accept": "text/html"}
        return httpx.Client(
            timeout=PATIENT_S, base_url=self.site.url, cookies=cookies, headers=headers
        )


SERVICES = {"payments": "checkout", "search": "search", "": "elsewhere"}


@pytest.fixture(scope="module")
def built(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder of a town that nobody has visited, and its investigations."""
    folder = tmp_path_factory.mktemp("town")
    with serving(server, folder, settings()) as site:
        town = Town(site, {})
        for team, service in SERVICES.items():
            town.of[team] = town.investigate(team, service)
    return folder, town.of


@pytest.fixture
def town(server: Server, tmp_path: Path, built: tuple[Path, dict[str, str]]) -> Iterator[Town]:
    folder, investigations = built
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with serving(server, tmp_path, settings()) as site:
        yield Town(site, investigations)


def routes_of_one(site: Site) -> list[tuple[str, str]]:
    """Every method and path with an investigation in it, from the site's own routes."""

    async def no_case(_id: str) -> Path | None:
        return None

    found = []
    for route in page_routes(settings(), site.store, no_case):
        if isinstance(route, Route) and "{id}" in route.path:
            found += [
                (method, route.path) for method in sorted((route.methods or set()) - {"HEAD"})
            ]
    return found


def ask(client: httpx.Client, method: str, path: str, name: str) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers, but for the id itself."""
    path = (
        path.replace("{id}", name).replace("{finding_id}", "F1").replace("{file}", "postmortem.md")
    )
    data = None
    if method == "POST":
        page = client.get("/account").text
        data = {
            "csrf": page.split('name="csrf" value="')[1].split('"')[0],
            "kind": "again",
            "right": "yes",
        }
    answer = client.request(method, path, data=data)
    headers = {k: v for k, v in answer.headers.items() if k not in ("date", "content-length")}
    return answer.status_code, answer.text.replace(name, "ID"), headers


def test_on_every_route_anothers_investigation_is_like_one_that_does_not_exist(town: Town) -> None:
    routes = routes_of_one(town.site)
    assert len(routes) >= 10
    with town.client("ann") as ann:
        for method, path in routes:
            hidden, absent = ask(ann, method, path, town.of["search"]), ask(ann, method, path, NONE)
            assert hidden == absent, (method, path)
            assert hidden[0] == 404, (method, path)
    one = town.site.store.get(town.of["search"])
    assert one is not None
    assert FollowUps(town.site.store.engine).started_from(one.id) == [], (
        "nothing was started from it"
    )


def test_ones_own_and_those_of_no_team_are_shown_on_the_same_routes(town: Town) -> None:
    with town.client("ann") as ann, town.client("adm") as admin, town.client("eve") as eve:
        for name in (town.of["payments"], town.of[""]):
            assert ask(ann, "GET", "/investigations/{id}", name)[0] == 200
        for name in town.of.values():
            assert ask(admin, "GET", "/investigations/{id}", name)[0] == 200
        seen = [ask(eve, "GET", "/investigations/{id}", name)[0] for name in town.of.values()]
        assert seen == [404, 404, 200]


@pytest.mark.parametrize(
    "path", ["/", "/?q=latency", "/?judged=yes", "/?service=search", "/accuracy", "/health"]
)
def test_lists_searches_filters_and_figures_tell_nothing_of_another_team(
    town: Town, path: str
) -> None:
    with town.client("ann") as ann, town.client("adm") as admin:
        mine, all_ = ann.get(path).text, admin.get(path).text
    for word in (
        town.of["search"],
        "search latency",
        "search-vendor",
        "search-connector",
        "search-cause",
    ):
        assert word not in mine, word
    if path in ("/", "/?q=latency", "/?judged=yes"):
        assert town.of["payments"] in mine
        assert town.of["search"] in all_
    if path == "/":
        assert "payments-vendor" in mine


def test_the_list_cannot_be_opened_at_anothers_place(town: Town) -> None:
    with town.client("ann") as ann:
        hidden = ann.get(f"/?after={town.of['search']}").text.replace(town.of["search"], "ID")
        absent = ann.get(f"/?after={NONE}").text.replace(NONE, "ID")
    assert hidden == absent


def test_judged_cases_are_those_that_can_be_seen(town: Town) -> None:
    with town.client("ann") as ann, town.client("adm") as admin:
        names = [
            set(zipfile.ZipFile(io.BytesIO(c.get("/judged.zip").content)).namelist())
            for c in (ann, admin)
        ]
    assert not any(town.of["search"] in name for name in names[0])
    assert any(town.of["search"] in name for name in names[1])
    assert any(town.of["payments"] in name for name in names[0])


def test_a_script_with_the_token_belongs_to_no_team(town: Town) -> None:
    headers = {"authorization": "Bearer token of scripts"}
    with httpx.Client(timeout=PATIENT_S, base_url=town.site.url, headers=headers) as script:
        assert script.get(f"/investigations/{town.of['payments']}").status_code == 404
        assert script.get(f"/investigations/{town.of['']}").status_code == 200


def test_without_isolation_everybody_sees_everything(town: Town, server: Server) -> None:
    async def case_path(name: str) -> Path | None:
        return town.site.cases / name

    server.app = Starlette(routes=page_routes(settings("off"), town.site.store, case_path))
    with town.client("eve") as eve:
        assert {ask(eve, "GET", "/investigations/{id}", n)[0] for n in town.of.values()} == {200}


def test_a_team_that_is_no_longer_in_the_settings_is_seen_by_admins_alone(town: Town) -> None:
    with Session(town.site.store.engine) as session, session.begin():
        session.get_one(InvestigationRow, town.of["payments"]).team = "dissolved"
    with town.client("ann") as ann, town.client("adm") as admin:
        assert ask(ann, "GET", "/investigations/{id}", town.of["payments"])[0] == 404
        assert ask(admin, "GET", "/investigations/{id}", town.of["payments"])[0] == 200


def test_memory_recalls_from_the_same_team_and_from_none(town: Town) -> None:
    store = town.site.store
    engine, later = store.engine, datetime.now(UTC)
    alert = Alert(source="x", title="latency", started_at=later, service="checkout")
    one = store.get(store.accept(alert, now=later).investigation_id or "")
    assert one is not None

    def recalled(team: str, *, apart: bool) -> set[str]:
        earlier = recall(engine, replace(one, team=team), alert, days=30, apart=apart)
        return {r.investigation.id for r in earlier.recalled}

    assert recalled("payments", apart=True) == {town.of["payments"], town.of[""]}
    assert recalled("search", apart=True) == {town.of["search"], town.of[""]}
    assert recalled("", apart=True) == {town.of[""]}
    assert recalled("payments", apart=False) == set(town.of.values())
    assert sum(level.of for level in Labels(engine, visible_to_teams(["payments"])).record()) == 2
    assert sum(level.of for level in Labels(engine, ALL).record()) == 3


def test_a_further_investigation_belongs_to_the_team_of_the_first(town: Town) -> None:
    store = town.site.store
    parent = store.get(town.of["search"])
    assert parent is not None
    fresh, _ = FollowUps(store.engine).start(
        parent, FollowUpScope(), key="k", question="", who="Bob", reply_to=ReplyTo("CSEARCH", "1")
    )
    with town.client("ann") as ann, town.client("bob") as bob:
        assert ask(ann, "GET", "/investigations/{id}", fresh)[0] == 404
        assert ask(bob, "GET", "/investigations/{id}", fresh)[0] == 200
        assert fresh in bob.get(f"/investigations/{parent.id}").text


@pytest.mark.parametrize("isolation", ["off", "teams"])
def test_alerts_of_two_teams_are_one_incident_only_where_all_may_see_it(
    town: Town, isolation: str
) -> None:
    services = {"checkout": {"depends_on": ["search"]}, "search": {}}
    catalogue = Settings.model_validate({"services": services}).services
    given = settings(isolation).model_copy(update={"services": catalogue})
    store = Store(town.site.store.engine, policy=Policy.of(given))
    at = datetime.now(UTC)
    first = store.accept(
        Alert(source="a", title="search is slow", started_at=at, service="search"), now=at
    )
    other = store.accept(
        Alert(source="a", title="checkout is slow", started_at=at, service="checkout"), now=at
    )
    assert first.outcome == "started"
    assert other.outcome == ("grouped" if isolation == "off" else "started")
