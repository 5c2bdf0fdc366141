"""Runs of CI services as each vendor's answer has them, and which of them are changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from faultline.connectors.vendors.ci import azuredevops, bitbucket, jenkins
from faultline.connectors.vendors.ci.azuredevops import AzureBuild, AzureDeployment
from faultline.connectors.vendors.ci.bitbucket import BitbucketDeployment, BitbucketPipeline
from faultline.connectors.vendors.ci.build_changes import BuildRules, BuildRun
from faultline.connectors.vendors.ci.jenkins import LONGEST_MS, JenkinsBuild
from tests.connectors.conftest import ONSET
from tests.connectors.stand_ins.ci_runs import COMMIT, stamp

EARLIER = ONSET - timedelta(minutes=5)
PAGE = "https://ci.example/page"
T0 = int(ONSET.timestamp() * 1000)


def run(name: str = "checkout", **more: Any) -> BuildRun:
    fields: dict[str, Any] = {"number": "7", "at": ONSET, "state": "done", **more}
    return BuildRun(name, **fields)


@pytest.mark.parametrize(
    ("built", "changes"),
    [
        (run(state=None), {}),
        (run(at=None), {}),
        (run(), {"merge": "checkout #7 built"}),
        (run(branch="main"), {"merge": "checkout #7 built"}),
        (run(branch="feature"), {}),
        (run(state="running"), {}),
        (run("deploy-checkout"), {"deploy": "deploy-checkout #7 deployed"}),
        (run("deploy-checkout", branch="feature"), {}),
        (
            run("deploy-checkout", state="failed"),
            {"deploy": "deploy-checkout #7 deployed (failed)"},
        ),
        (
            run("deploy-checkout", state="running"),
            {"deploy": "deploy-checkout #7 deployed (still running)"},
        ),
        (run(environment="Production"), {"deploy": "checkout #7 deployed to Production"}),
        (
            run(environment="Production", branch="feature"),
            {"deploy": "checkout #7 deployed to Production"},
        ),
        (run(environment="Staging"), {}),
        (
            run(revision=COMMIT, message="Wait longer\n\nmore"),
            {"merge": f"checkout #7 built {COMMIT[:12]}: Wait longer"},
        ),
        (run(revision="v1.2"), {"merge": "checkout #7 built v1.2"}),
        (run(revision=f"{COMMIT[:39]}"), {"merge": f"checkout #7 built {COMMIT[:39]}"}),
    ],
)
def test_which_runs_are_changes(built: BuildRun, changes: dict[str, str]) -> None:
    rules = BuildRules(("main",), (), lambda place: place != "Staging")
    answer = rules.answer([None, built], "q", PAGE, "cut")
    assert {change.kind: change.title for change in answer.changes if change} == changes
    assert (answer.query, answer.link, answer.cut) == ("q", PAGE, "cut")


def test_a_build_that_failed_is_a_detail() -> None:
    rules = BuildRules(("main",), (), lambda _: True)
    runs = [run(state="failed", revision=COMMIT), run("web", state="failed", number="9")]
    answer = rules.answer([*runs, run("x", state="failed", branch="feature")], "q")
    assert answer.details == {
        f"{ONSET:%Y-%m-%d %H:%M} checkout": f"failed at {COMMIT[:12]}",
        f"{ONSET:%Y-%m-%d %H:%M} web": "failed at 9",
    }


def test_builds_stand_in_only_where_nothing_deploys() -> None:
    rules = BuildRules((), ("Ship-*",), lambda _: True)
    both = rules.answer([run(), run("ship-web"), run("deploy-web")], "q").changes
    assert [(change.kind, change.about.split()[0]) for change in both if change] == [
        ("deploy", "ship-web")
    ]


def test_a_change_names_its_run_its_author_and_its_repository() -> None:
    rules = BuildRules((), (), lambda _: True)
    built = run(author="dana", link=PAGE, repository="acme/cart", revision="v1")
    (change,) = rules.answer([built], "q").changes
    assert change is not None
    assert (change.at, change.id, change.author, change.link) == (ONSET, "v1", "dana", PAGE)
    assert (change.about, change.owner) == ("checkout acme/cart", "cart")
    (bare,) = rules.answer([run()], "q").changes
    assert bare is not None
    assert (bare.id, bare.owner) == ("checkout #7", None)


def read(shape: Any, values: dict[str, Any]) -> Any:
    return msgspec.convert(values, shape)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"name": "COMPLETED", "result": {"name": "SUCCESSFUL"}}, "done"),
        ({"name": "COMPLETED", "result": {"name": "ERROR"}}, "failed"),
        ({"name": "COMPLETED", "result": {"name": "STOPPED"}}, None),
        ({"name": "IN_PROGRESS"}, "running"),
        ({"name": "PENDING"}, None),
    ],
)
def test_a_pipeline_of_bitbucket(state: dict[str, Any], expected: str | None) -> None:
    pipeline = {
        "build_number": 7,
        "state": state,
        "created_on": stamp(EARLIER),
        "completed_on": stamp(ONSET),
        "target": {"ref_type": "branch", "ref_name": "main", "commit": {"hash": COMMIT}},
        "creator": {"display_name": "Dana Ng", "uuid": "u-1"},
    }
    assert bitbucket._pipeline_run(read(BitbucketPipeline, pipeline), "acme/cart", PAGE) == run(
        "cart", state=expected, branch="main", revision=COMMIT, author="Dana Ng",
        link=f"{PAGE}/results/7", repository="acme/cart",
    )  # fmt: skip


def test_a_custom_pipeline_of_a_tag_that_goes_on() -> None:
    pipeline = {
        "build_number": 7,
        "state": {"name": "IN_PROGRESS"},
        "created_on": stamp(ONSET),
        "target": {"ref_type": "tag", "ref_name": "v1", "selector": {"pattern": "nightly"}},
    }
    assert bitbucket._pipeline_run(read(BitbucketPipeline, pipeline), "acme/cart", PAGE) == run(
        "cart nightly", state="running", link=f"{PAGE}/results/7", repository="acme/cart"
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            {"name": "COMPLETED", "status": {"name": "SUCCESSFUL"}, "completed_on": stamp(ONSET)},
            "done",
        ),
        ({"name": "IN_PROGRESS", "started_on": stamp(ONSET)}, "running"),
        ({"name": "UNDEPLOYED", "started_on": stamp(ONSET)}, None),
    ],
)
def test_a_deployment_of_bitbucket(state: dict[str, Any], expected: str | None) -> None:
    deployment = {
        "state": state,
        "environment": {"uuid": "e-1"},
        "release": {"name": "#7", "commit": {"hash": COMMIT}},
    }
    names = {"e-1": "Production"}
    assert bitbucket._deployment_run(
        read(BitbucketDeployment, deployment), "acme/cart", names, PAGE
    ) == run(
        "cart", state=expected, revision=COMMIT, environment="Production", link=PAGE,
        repository="acme/cart",
    )  # fmt: skip
    bare = read(BitbucketDeployment, {"state": state})
    unnamed = bitbucket._deployment_run(bare, "acme/cart", names, PAGE)
    assert (unnamed.number, unnamed.revision, unnamed.environment) == ("", "", "an environment")


@pytest.mark.parametrize(
    ("fields", "expected", "at"),
    [
        ({"status": "completed", "result": "succeeded"}, "done", ONSET),
        ({"status": "completed", "result": "partiallySucceeded"}, "done", ONSET),
        ({"status": "completed", "result": "failed"}, "failed", ONSET),
        ({"status": "completed", "result": "canceled"}, None, ONSET),
        ({"status": "inProgress", "finishTime": None}, "running", EARLIER),
    ],
)
def test_a_build_of_azure(fields: dict[str, Any], expected: str | None, at: datetime) -> None:
    build = {
        "id": 70,
        "buildNumber": "7",
        "sourceBranch": "refs/heads/main",
        "sourceVersion": COMMIT,
        "startTime": stamp(EARLIER),
        "finishTime": stamp(ONSET),
        "definition": {"name": "checkout"},
        "repository": {"name": "cart"},
        "requestedFor": {"displayName": "Dana Ng", "id": "u-1"},
        "triggerInfo": {"ci.message": "Wait"},
        **fields,
    }
    assert azuredevops._build_run(read(AzureBuild, build), PAGE) == run(
        at=at, state=expected, branch="main", revision=COMMIT, message="Wait", author="Dana Ng",
        link=f"{PAGE}/results?buildId=70", repository="cart",
    )  # fmt: skip


def test_a_build_of_azure_that_says_little() -> None:
    build = read(AzureBuild, {"id": 70, "triggerInfo": {"ci.message": 3}})
    assert azuredevops._build_run(build, PAGE) == run(
        "", number="70", at=None, state=None, link=f"{PAGE}/results?buildId=70"
    )


@pytest.mark.parametrize(
    ("status", "expected", "at"),
    [
        ("succeeded", "done", ONSET),
        ("failed", "failed", ONSET),
        ("inProgress", "running", EARLIER),
        ("notDeployed", None, ONSET),
    ],
)
def test_a_deployment_of_azure(status: str, expected: str | None, at: datetime) -> None:
    deployment = {
        "id": 1,
        "deploymentStatus": status,
        "startedOn": stamp(EARLIER),
        "completedOn": stamp(ONSET),
        "release": {"id": 77, "name": "7"},
        "releaseDefinition": {"name": "checkout"},
        "releaseEnvironment": {"name": "Production"},
        "requestedFor": {"displayName": "Dana Ng", "id": "u-1"},
    }
    link = f"{PAGE}?_a=release-pipeline-progress&releaseId="
    assert azuredevops._deployment_run(read(AzureDeployment, deployment), PAGE) == run(
        at=at, state=expected, environment="Production", author="Dana Ng", link=f"{link}77"
    )
    bare = read(AzureDeployment, {"id": 1, "release": {"id": "x"}})
    assert azuredevops._deployment_run(bare, PAGE) == run(
        "", number="0", at=None, state=None, environment="a stage", link=f"{link}0"
    )


@pytest.mark.parametrize(
    ("build", "at", "state"),
    [
        ({"result": "SUCCESS", "duration": 60_000}, ONSET + timedelta(minutes=1), "done"),
        ({"result": "UNSTABLE", "duration": -1}, ONSET, "done"),
        ({"result": "FAILURE", "duration": LONGEST_MS + 1}, ONSET + timedelta(days=7), "failed"),
        ({"result": "ABORTED"}, ONSET, None),
        ({"result": "SUCCESS", "building": True, "duration": 60_000}, ONSET, "running"),
    ],
)
def test_a_build_of_jenkins(build: dict[str, Any], at: datetime, state: str | None) -> None:
    actions = [
        None,
        {"causes": [{"userName": "Dana Ng"}]},
        {"lastBuiltRevision": {"SHA1": COMMIT}},
        {"lastBuiltRevision": {"SHA1": "another"}},
    ]
    values = {"number": 7, "timestamp": T0, "url": f"{PAGE}/7", "actions": actions, **build}
    assert jenkins._run("shop/checkout", read(JenkinsBuild, values)) == run(
        "shop/checkout", at=at, state=state, revision=COMMIT, author="Dana Ng", link=f"{PAGE}/7"
    )
    assert read(JenkinsBuild, {"number": 7}).revision == ""
    assert read(JenkinsBuild, {"number": 7}).author is None
