"""The connectors of CI services over real HTTP: runs that deploy, builds of main branches, what
failed, and that nothing else is asked for."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pydantic
import pytest

from faultline.analysis.vocabulary import Window
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.changes.change_feeds import (
    PagedList,
    Params,
    Records,
    VendorChange,
    next_number,
    person,
)
from faultline.connectors.shared.contract.base import Collected, Connector, collect_from
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedPage
from faultline.connectors.shared.rows.service_names import named_service
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.ci.build_changes import BuildRules, BuildRun
from faultline.connectors.vendors.ci.jenkins import JenkinsBuild
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.published import fits_schema, parameters_of, specification
from tests.connectors.stand_ins import azuredevops, bitbucket, buildkite, circleci, jenkins
from tests.connectors.stand_ins.ci_runs import BROKEN, BUILT, COMMIT, DEPLOYED, FAILED

VENDORS = ("jenkins", "buildkite", "circleci", "azuredevops", "bitbucket")
SHORT = COMMIT[:12]
WINDOW = Window(start=ONSET - timedelta(hours=1), end=ONSET)
SUBJECT = "Wait 50 ms for a connection"
DEPLOYS = {
    "jenkins": f"shop/deploy-checkout #42 deployed {SHORT}",
    "buildkite": f"checkout-deploy #42 deployed {SHORT}: {SUBJECT}",
    "circleci": f"deploy #102 deployed {SHORT}: {SUBJECT}",
    "azuredevops": "checkout #Release-77 deployed to Production",
    "bitbucket": f"checkout #101 deployed {SHORT} to Production",
}
SECRETS = {
    "jenkins": ("Authorization", "Basic ZmF1bHRsaW5lOjExYTBiMWMyZDM="),
    "buildkite": ("Authorization", "Bearer bkua_0a1b2c3d"),
    "circleci": ("Circle-Token", "CCIPAT_0a1b2c3d"),
    "azuredevops": ("Authorization", "Basic OnBhdDBhMWIyYzNk"),
    "bitbucket": ("Authorization", "Bearer ATCTT_0a1b2c3d"),
}


def connector(name: str, server: LocalServer, **own: Any) -> Connector:
    """As the settings build it, before the stand-in."""
    stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["services"] = {name: {} for name in own.pop("services", ["checkout", "cart"])}
    values[name] |= own
    built = CONNECTORS[name].configured(Settings.model_validate(values))
    assert built is not None
    return built


def changes(found: Collected, kind: str) -> list[dict[str, Any]]:
    """The rows of a kind, the newest first."""
    rows = found.tables["changes"].filter(pl.col("kind") == kind)
    return rows.sort("time", descending=True).to_dicts()


@pytest.mark.parametrize("name", VENDORS)
def test_a_run_that_deploys_is_a_deploy_of_the_service_that_it_names(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(name, server))
    assert found.missing == ()
    (deploy,) = changes(found, "deploy")
    assert (deploy["time"], deploy["service"]) == (DEPLOYED, "checkout")
    assert deploy["title"] == DEPLOYS[name]
    assert deploy["id"] == ("checkout #Release-77" if name == "azuredevops" else COMMIT)
    assert deploy["author"] == {"circleci": "dana", "bitbucket": None}.get(name, "Dana Ng")
    assert deploy["link"].startswith("http")
    assert server.methods == {"GET"}
    header, value = SECRETS[name]
    assert {asked.headers[header] for asked in server.asked} == {value}
    assert all(item.cut is None for item in found.items)
    assert "@" not in found.tables["changes"].write_csv()


@pytest.mark.parametrize("name", VENDORS)
def test_builds_of_main_stand_for_merges_where_their_list_has_no_deploy_and_failures_are_told(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(name, server))
    merges = [(one["id"], one["time"]) for one in changes(found, "merge")]
    apart = name in ("jenkins", "azuredevops", "bitbucket")
    assert merges == ([(COMMIT, BUILT)] if apart else [])
    told = {key: value for item in found.items for key, value in item.details.items()}
    (key,) = told
    assert key.startswith(f"{FAILED:%Y-%m-%d %H:%M} ")
    assert told[key] == f"failed at {BROKEN[:12]}"


@pytest.mark.parametrize("name", VENDORS)
def test_a_later_round_names_its_services_in_what_was_read_and_asks_nothing(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    built = connector(name, server, services=["cart"])
    first = request_for(tmp_path, services=("cart",))
    found = asyncio.run(collect_from(built, first))
    # Some vendors say whose a run is. Otherwise only a service that is asked about is found in it.
    says_whose = changes(found, "deploy")[0]["service"] == "checkout"
    asked = len(server.asked)
    later = replace(
        request_for(tmp_path, services=("checkout",)),
        round=2,
        earlier=((first.alert, first.scope),),
    )
    found = asyncio.run(collect_from(built, later))
    named = changes(found, "deploy") if found.tables else []
    assert [deploy["service"] for deploy in named] == ([] if says_whose else ["checkout"])
    third = replace(later, round=3, earlier=(*later.earlier, (later.alert, later.scope)))
    assert asyncio.run(collect_from(built, third)).tables == {}
    assert len(server.asked) == asked


@pytest.mark.parametrize("name", ["azuredevops", "bitbucket"])
def test_other_environments_count_where_they_are_named(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(name, server, environments=["staging"]))
    assert [one["title"].rpartition(" ")[2] for one in changes(found, "deploy")] == ["Staging"]


def test_which_pipelines_deploy_can_be_said(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector("buildkite", server, deploys=["Check*t"]))
    assert [one["id"] for one in changes(found, "deploy")] == [BROKEN, COMMIT]
    assert "(failed)" in changes(found, "deploy")[0]["title"]


def test_only_named_pipelines_and_branches(server: LocalServer, tmp_path: Path) -> None:
    built = connector("buildkite", server, pipelines=["checkout"], branches=["feature"])
    path = "/v2/organizations/acme/pipelines/checkout/builds"
    server.on(path, lambda asked: Reply(buildkite.builds()))
    found = collected(tmp_path, built)
    assert server.paths() == [path]
    assert [one["id"] for one in changes(found, "merge")] == [BROKEN]
    found = collected(tmp_path, connector("circleci", server, branches=["release"]))
    assert not found.tables["changes"].height


def test_a_run_that_goes_on_and_one_that_was_stopped(server: LocalServer, tmp_path: Path) -> None:
    built = connector("jenkins", server)
    runs = [
        jenkins.build(44, ONSET, None, COMMIT),
        jenkins.build(43, ONSET, "ABORTED", COMMIT),
        jenkins.build(42, ONSET, "NOT_BUILT", ""),
    ]
    server.on(jenkins.DEPLOY, Reply(jenkins.job("shop/deploy-checkout", runs)))
    (deploy,) = changes(collected(tmp_path, built), "deploy")
    assert deploy["title"] == f"shop/deploy-checkout #44 deployed {SHORT} (still running)"
    assert deploy["time"] == ONSET - jenkins.TOOK


def test_full_lists_say_so(server: LocalServer, tmp_path: Path) -> None:
    built = connector("jenkins", server)
    runs = [jenkins.build(n, ONSET, "SUCCESS", "") for n in range(100, 0, -1)]
    server.on(jenkins.DEPLOY, Reply(jenkins.job("x", runs)))
    cuts = {item.cut for item in collected(tmp_path, built).items}
    assert cuts == {"only the latest 100 builds were asked", None}
    server.asked.clear()
    built = connector("circleci", server)
    many = [circleci.pipeline(n, ONSET, COMMIT, "main") for n in range(40)]
    server.on(circleci.PIPELINES, Reply({"items": many}))
    for n in range(40):
        server.on(f"/api/v2/pipeline/p-{n}/workflow", Reply({"items": []}))
    (item,) = collected(tmp_path, built).items
    assert item.cut == "only the latest 30 of 40 pipelines were read"
    assert len(server.asked) == 31


@pytest.mark.parametrize("name", VENDORS)
def test_a_refusal_is_a_gap_and_the_check_says_what_it_needs(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    built = connector(name, server)
    said = asyncio.run(built.check())
    assert said.ok, said.line
    assert "can be read; only GET is sent" in said.line
    server.refusal = Reply({"message": "no"}, status=403)
    found = collected(tmp_path, built)
    assert {"not permitted" in one.reason for one in found.missing} == {True}
    said = asyncio.run(built.check())
    assert not said.ok
    assert "(HTTP 403; needs " in said.line


def test_one_list_that_fails_leaves_the_others(server: LocalServer, tmp_path: Path) -> None:
    built = connector("bitbucket", server)
    server.on(f"{bitbucket.ROOT}/environments", Reply(status=404))
    found = collected(tmp_path, built)
    (gap,) = found.missing
    assert gap.query == "deployments of acme/checkout"
    assert [one["id"] for one in changes(found, "merge")] == [COMMIT]


@pytest.mark.parametrize("name", VENDORS)
def test_the_run_is_named_near_the_onset_of_the_errors(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    with LocalServer() as logs:
        found = diagnosed(tmp_path, connector("elasticsearch", logs), connector(name, server))
    near = [one for one in found.findings if one.kind == "change_near"]
    assert near, [one.sentence for one in found.findings]
    assert near[0].subject == "checkout"
    assert near[0].signal == "deploy"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("jenkins", {"jobs": ["../secret"]}),
        ("jenkins", {"jobs": ["a//b"]}),
        ("circleci", {"projects": ["gh/acme"]}),
        ("bitbucket", {"repositories": ["acme/../x"]}),
        ("azuredevops", {"projects": ["a/b"]}),
        ("buildkite", {"organization": "a/b"}),
    ],
)
def test_names_that_would_lead_elsewhere_are_refused(
    name: str, own: dict[str, Any], server: LocalServer
) -> None:
    with pytest.raises(pydantic.ValidationError):
        connector(name, server, **own)


def test_hostile_builds() -> None:
    evil = "checkout\n\x1b[31m" + "x" * 5_000
    run = BuildRun(evil, evil, ONSET, "done", revision=evil, environment=evil, message=evil)
    (change,) = BuildRules((), (), lambda _: True).answer([run], "q").changes
    assert isinstance(change, VendorChange)
    assert len(change.title) < 500
    assert change.title.isprintable()
    for odd in ({"timestamp": -1}, {"timestamp": 10**18}, {}):
        assert JenkinsBuild(1, **odd).at is None
    long = JenkinsBuild(1, timestamp=int(ONSET.timestamp() * 1000), duration=10**30)
    assert long.at is not None
    assert long.at <= ONSET + timedelta(days=7)


def test_a_later_page_that_fails_leaves_what_was_read(server: LocalServer) -> None:
    def page(asked: Asked) -> Reply:
        number = int(asked.query["page"][0])
        return Reply([number]) if number < 3 else Reply(status=404)

    server.on("/numbers", page)
    found = _numbers(server, lambda _, params: next_number(params))
    assert found.values == (1, 2)
    assert found.query == "GET /numbers?page=1"
    assert found.cut is not None
    assert "the rest was not read" in found.cut


def test_a_page_that_names_itself_and_too_many_pages_end_the_reading(server: LocalServer) -> None:
    server.on("/numbers", lambda asked: Reply([int(asked.query["page"][0])]))
    again = _numbers(server, lambda _, params: params)
    assert (again.values, again.cut) == ((1,), None)
    many = _numbers(server, lambda _, params: next_number(params))
    assert many.values == (1, 2, 3, 4, 5)
    assert many.cut == "only the latest 5 were read"


def _numbers(
    server: LocalServer, following: Callable[[LinkedPage[list[int]], Params], Params | None]
) -> Records[int]:
    """A list of pages of one number each."""
    numbers = PagedList(list[int], list, following, most_pages=5)
    http = LinkedHttp("numbers", server.url, limits=Limits())

    async def read() -> Records[int]:
        async with http.open() as session:
            return await numbers.read(session, "/numbers", [("page", "1")], WINDOW)

    return asyncio.run(read())


def test_names_of_services_and_people() -> None:
    known = {"cart": ["cart"], "cart-api": ["cart-api"], "web": ["web", "front-end"]}
    assert named_service("deploy cart_api to eu", known) == "cart-api"
    assert named_service("newCartCheckout", known) == "cart"
    assert named_service("FrontEnd rollout", known) == "web"
    assert named_service("cartridge", known) is None
    assert named_service("", {"": [""]}) is None
    assert person("dana@example.com", None, " ", "u-1") == "u-1"
    assert person("dana@example.com") is None


def test_azures_calls_and_answers_are_those_of_the_published_specification(
    server: LocalServer, tmp_path: Path, shared: Path
) -> None:
    collected(tmp_path, connector("azuredevops", server))
    folder = shared / "specs" / "azure-devops-7.1"
    parts = {
        azuredevops.BUILDS: ("build.json.gz", "build/builds", azuredevops.builds(), "Build"),
        azuredevops.DEPLOYMENTS: (
            "release.json",
            "release/deployments",
            azuredevops.deployments(),
            "Deployment",
        ),
    }
    for ours, (file, call, answered, schema) in parts.items():
        document = specification(folder / file)
        known = parameters_of(document, f"/{{organization}}/{{project}}/_apis/{call}")
        asked = [one for one in server.asked if one.path == ours]
        assert asked
        for one in asked:
            assert set(one.query) <= known | {"api-version"}
        for given in answered:
            fits_schema(document, {"$ref": f"#/definitions/{schema}"}, given)


def test_jenkins_answers_are_those_of_the_published_shapes(shared: Path) -> None:
    document = specification(shared / "specs" / "jenkins.yaml")
    build = jenkins.build(1, ONSET, "SUCCESS", COMMIT)
    job = jenkins.job("shop/x", [build])
    fits_schema(document, {"$ref": "#/components/schemas/FreeStyleProject"}, job)
    known = document["components"]["schemas"]["FreeStyleBuild"]["properties"]
    assert set(build) <= set(known)
