"""The connectors of flag services over real HTTP: which flips count, how they are worded, and that
calls and answers are those that the vendors publish."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Collected, Connector
from faultline.connectors.vendors.feature_flags.flag_changes import MOST_LINES, state_diff
from faultline.connectors.vendors.feature_flags.launchdarkly import EVERYWHERE
from faultline.connectors.vendors.feature_flags.statsig import ACTIONS
from faultline.connectors.vendors.feature_flags.unleash import TYPES
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.published import fits_published, parameters_of, specification
from tests.connectors.stand_ins import flagsmith, launchdarkly, statsig, unleash

VENDORS = ("launchdarkly", "unleash", "flagsmith", "statsig")
FLIPS = {
    "launchdarkly": ("checkout-new-payment", "in production: off -> on", "Dana Ng"),
    "unleash": ("checkout.newPayment", "in production: off -> on", "user 7"),
    "flagsmith": ("checkout_new_payment", "in Production: off -> on", "Dana Ng"),
    "statsig": ("checkout_new_payment", ": Updated Gate Rules", "Jane Doe"),
}


def connector(name: str, server: LocalServer, **own: Any) -> Connector:
    """As the settings build it, before the stand-in."""
    stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values[name] |= own
    values["services"] = {"checkout": {}, "search": {"aliases": ["search-ranking"]}}
    built = CONNECTORS[name].configured(Settings.model_validate(values))
    assert built is not None
    return built


def changes(found: Collected) -> pl.DataFrame:
    """The rows, the newest first."""
    return found.tables["changes"].sort("time", descending=True)


@pytest.mark.parametrize("name", VENDORS)
def test_a_flip_of_production_is_a_change_of_the_service_that_the_flag_names(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(name, server))
    assert found.missing == ()
    flag, said, author = FLIPS[name]
    first = changes(found).row(0, named=True)
    assert first["time"] == _stand_in(name).FLIPPED
    assert (first["service"], first["kind"], first["id"]) == ("checkout", "flag", flag)
    assert first["title"] == flag + ("" if said.startswith(":") else " ") + said
    assert first["author"] == author
    (item,) = found.items
    assert item.changes is not None
    assert flag in item.changes
    assert item.cut is None
    # Nobody's address is kept.
    assert "@" not in changes(found).write_csv()


@pytest.mark.parametrize("name", ["launchdarkly", "unleash", "flagsmith"])
def test_other_environments_count_where_they_are_named(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    usual = changes(collected(tmp_path, connector(name, server)))
    assert usual.filter(pl.col("title").str.contains("(?i) in (staging|development)")).height == 0
    found = connector(name, server, environments=["Staging", "development"])
    titles = changes(collected(tmp_path, found))["title"].to_list()
    assert len(titles) == 1
    assert ": o" in titles[0] or "updated" in titles[0]


def test_what_differs_is_a_diff_that_names_nobody(server: LocalServer, tmp_path: Path) -> None:
    rows = changes(collected(tmp_path, connector("unleash", server)))
    ranking = rows.row(by_predicate=pl.col("id") == "search-ranking", named=True)
    assert ranking["service"] == "search"
    assert ranking["title"] == "search-ranking in production: strategy changed"
    assert ranking["diff"].splitlines() == [
        "-parameters.rollout: 10",
        "+parameters.rollout: 100",
        "+constraints[0].values[1]: (not shown)",
    ]
    rows = changes(collected(tmp_path, connector("statsig", server)))
    assert rows["diff"][0].splitlines() == [
        "-rules[everybody].percentage: 5",
        "+rules[everybody].percentage: 100",
        "-rules[everybody].conditionJSON[0].value[0]: (not shown)",
        "+rules[everybody].conditionJSON[0].value[0]: (not shown)",
    ]


def test_a_diff_has_bounds() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert state_diff(None, deep) is None
    many = state_diff({}, {f"k{n}": "x" * 9_000 for n in range(900)})
    assert many is not None
    assert len(many.splitlines()) == MOST_LINES + 1
    assert len(many) < 10_000


def test_a_token_that_changed_a_flag_is_named(server: LocalServer, tmp_path: Path) -> None:
    rows = changes(collected(tmp_path, connector("launchdarkly", server)))
    ranking = rows.row(by_predicate=pl.col("id") == "search-ranking", named=True)
    assert ranking["author"] == "terraform"
    assert ranking["title"].endswith("updated the flag (Default rule: 10 % of users get v2)")
    assert rows["link"][0] == f"{server.url}/shop/production/features/checkout-new-payment"


def test_flags_as_a_whole_and_of_several_environments(server: LocalServer, tmp_path: Path) -> None:
    built = connector("launchdarkly", server)
    whole = launchdarkly.entry(ONSET, sorted(EVERYWHERE)[0], "proj/shop:env/*:flag/a", "deleted")
    both = launchdarkly.entry(ONSET, "updateOn", "proj/shop:env/eu:flag/b", "turned off the flag")
    both["accesses"].append({"action": "updateOn", "resource": "proj/shop:env/us:flag/b"})
    other = launchdarkly.entry(ONSET, "updateRole", "role/writer", "updated the role")
    server.on(launchdarkly.AUDIT_LOG, Reply({"items": [whole, both, other], "_links": {}}))
    titles = changes(collected(tmp_path, built))["title"].sort().to_list()
    assert titles == [
        "a in all environments: deleted",
        "b in eu: on -> off",
        "b in us: on -> off",
    ]


def test_flagsmith_says_what_it_says_where_details_are_refused(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector("flagsmith", server)
    server.on(f"{flagsmith.AUDIT}{flagsmith.FLIP}/", Reply(status=403))
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert "Flag state / Remote Config value updated" in changes(found)["title"][0]


@pytest.mark.parametrize("name", VENDORS)
def test_hostile_records_are_left_out_or_made_harmless(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    built = connector(name, server)
    evil = "checkout\n\x1b[31m" + "x" * 5_000
    at = ONSET
    bodies: Mapping[str, Any] = {
        "launchdarkly": (
            launchdarkly.AUDIT_LOG,
            {
                "items": [
                    launchdarkly.entry(at, "updateOn", f"proj/p:env/e:flag/{evil}", evil),
                    launchdarkly.entry(at, "updateOn", "", "") | {"date": 10**18},
                ],
                "_links": {"next": {"href": "https://evil.example.com/" + "?a" * 9_000}},
            },
        ),
        "unleash": (
            unleash.EVENTS,
            {
                "events": [
                    unleash.event(1, at, "feature-deleted", featureName=evil, project="../x"),
                    unleash.event(2, at, "feature-deleted") | {"createdAt": "0001-01-01T00:00Z"},
                ],
                "total": 10**9,
            },
        ),
        "flagsmith": (
            flagsmith.AUDIT,
            {"results": [flagsmith.record(1, at, f"{flagsmith.STATE}{evil}", evil)], "next": "x"},
        ),
        "statsig": (
            statsig.AUDIT_LOGS,
            {
                "data": [
                    statsig.entry(evil, at, "gate_update", evil, {"a": {"old": evil, "new": 1}}),
                    statsig.entry("b", at, "gate_update", "", None) | {"date": "Mon Foo 99 2022"},
                    statsig.entry("b", at, "gate_update", "", None) | {"actionType": {}},
                ]
            },
        ),
    }
    path, body = bodies[name]
    server.on(path, Reply(body))
    found = collected(tmp_path, built)
    assert found.missing == ()
    for row in changes(found).iter_rows(named=True):
        assert len(row["title"]) <= 200
        assert row["title"].isprintable()
        assert row["id"].isprintable()
        assert row["link"] is None or row["link"].startswith(("http://127.", "https://app."))
    assert len(server.asked) <= 20


def test_calls_and_answers_are_those_that_the_vendors_publish(
    server: LocalServer, tmp_path: Path, shared: Path
) -> None:
    project = "/api/v1/projects/{project_pk}/audit/"
    published = {
        "launchdarkly": ("launchdarkly.yaml.gz", launchdarkly.AUDIT_LOG, launchdarkly.AUDIT_LOG),
        "unleash": ("unleash.json.gz", unleash.EVENTS, unleash.EVENTS),
        "flagsmith": ("flagsmith.yaml.gz", project, flagsmith.AUDIT),
        "statsig": ("statsig-console.json.gz", statsig.AUDIT_LOGS, statsig.AUDIT_LOGS),
    }
    for name, (file, path, ours) in published.items():
        document = specification(shared / "specs" / file)
        if name == "statsig":
            document = _as_its_own_example(document)
        server.asked.clear()
        assert collected(tmp_path, connector(name, server)).missing == ()
        answer: Any = _stand_in(name).answer
        lists = [one for one in server.asked if one.path == ours]
        assert lists
        for asked in lists:
            assert set(asked.query) <= parameters_of(document, path)
            fits_published(document, path, _whole(answer(asked).body))
    document = specification(shared / "specs" / "flagsmith.yaml.gz")
    fits_published(
        document,
        "/api/v1/projects/{project_pk}/audit/{id}/",
        flagsmith.details(flagsmith.RECORDS[1]),
    )


def test_the_named_actions_are_those_that_the_vendors_publish(shared: Path) -> None:
    document = specification(shared / "specs" / "statsig-console.json.gz")
    given = document["paths"][statsig.AUDIT_LOGS]["get"]["parameters"]
    (actions,) = [one["schema"]["enum"] for one in given if one["name"] == "actionType"]
    assert set(actions) >= ACTIONS
    document = specification(shared / "specs" / "unleash.json.gz")
    types = document["components"]["schemas"]["eventSchema"]["properties"]["type"]["enum"]
    assert set(types) >= set(TYPES)


def _as_its_own_example(document: dict[str, Any]) -> dict[str, Any]:
    """Statsig's schema calls a text an object and requires what its own example lacks."""
    document = copy.deepcopy(document)
    entry = document["components"]["schemas"]["AuditLogDto"]
    entry["properties"]["actionType"] = {"type": "string"}
    entry["required"].remove("modifierEmail")
    return document


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    """The stand-in's environments that are absent are null, which the source of Flagsmith has and
    its specification does not."""
    records = body.get("results")
    if records is None:
        return body
    kept = [{k: v for k, v in one.items() if v is not None} for one in records]
    place = {"name": "all", "project": 12}
    return body | {"results": [{"environment": place, **one} for one in kept]}


def _stand_in(name: str) -> Any:
    return importlib.import_module(f"tests.connectors.stand_ins.{name}")


def test_the_flip_is_weighed_against_the_onset_of_the_errors(
    server: LocalServer, tmp_path: Path
) -> None:
    with LocalServer() as logs:
        errors, flags = connector("elasticsearch", logs), connector("launchdarkly", server)
        found = diagnosed(tmp_path, errors, flags)
    weighed = [one for one in found.findings if one.kind in ("change_near", "change_ruled_out")]
    (flip,) = [one for one in weighed if one.series["id"] == "checkout-new-payment"]
    assert flip.subject == "checkout"
    assert "came 3 min before the onset" in flip.sentence
    assert flip.evidence
