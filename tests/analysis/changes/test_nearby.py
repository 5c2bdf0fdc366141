from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.changes.nearby import nearby_changes
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.suspects.explanations import weigh_suspects, with_ranks
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, series, write_case


def change(minute: float, service: str | None, id: str, **columns: Any) -> dict[str, Any]:
    return {
        "time": at(minute),
        "service": service,
        "kind": "deploy",
        "id": id,
        "title": f"release {id}",
    } | columns


def judged(folder: Path, *changes: dict[str, Any]) -> dict[str, Finding]:
    case = write_case(
        folder,
        alert={"service": "web", "signal": "latency_ms", "title": "web is slow: pool exhausted"},
        metrics=series("web", "latency_ms", 100, 400, onset=2)
        + series("api", "latency_ms", 50, 500, onset=1),
        topology=[{"caller": "web", "callee": "api"}],
        changes=changes,
    )
    topology = read_topology(case)
    suspects = weigh_suspects(metric_shifts(case), topology, case.alert)
    return {str(f.details.written()["change"]): f for f in nearby_changes(case, suspects, topology)}


def test_a_deploy_of_the_suspect_minutes_before_the_onset_is_near(tmp_path: Path) -> None:
    found = judged(tmp_path, change(-4, "api", "v2"))["v2"]
    assert (found.kind, found.subject) == ("change_near", "api")
    assert found.numbers == {"minutes": 5}
    assert found.sentence == 'Deploy v2 of api, "release v2", came 5 min before the onset.'


def test_a_deploy_at_the_onset_and_one_within_its_uncertainty_are_told_as_such(
    tmp_path: Path,
) -> None:
    said = judged(tmp_path / "with", change(1, "api", "v2"))["v2"].sentence
    assert said == 'Deploy v2 of api, "release v2", came at the same time as the onset.'
    said = judged(tmp_path / "after", change(1.5, "api", "v2"))["v2"].sentence
    assert (
        said == 'Deploy v2 of api, "release v2", came 30 s after the onset, within its uncertainty.'
    )


def test_a_diff_with_a_new_image_has_not_shown_what_the_image_brings(tmp_path: Path) -> None:
    settings = "-app env DB_HOST: not shown (before)\n+app env DB_HOST: not shown (after)"
    image = "-app image: registry.example.com/api:1.4.0\n+app image: registry.example.com/api:1.5.0"
    read = judged(tmp_path / "read", change(0, "api", "v2", diff=settings))["v2"]
    unread = judged(tmp_path / "unread", change(0, "api", "v2", diff=f"{image}\n{settings}"))["v2"]
    assert read.kind == "change_ruled_out"
    assert unread.kind == "change_near"


def test_each_change_that_is_ruled_out_says_why(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        change(9, "api", "late"),
        change(-3, "billing", "elsewhere"),
        change(-3, "api", "docs", files='["docs/a.md"]'),
        change(-3, None, "unshipped", kind="merge"),
        change(-200, "api", "old"),
    )
    assert {f.kind for f in found.values()} == {"change_ruled_out"}
    reasons = {name: str(f.details.written()["reason"]) for name, f in found.items()}
    assert "after the onset" in reasons["late"]
    assert "not known to call" in reasons["elsewhere"]
    assert "documentation" in reasons["docs"]
    assert "no deploy" in reasons["unshipped"]
    assert "no harm" in reasons["old"]


@pytest.mark.parametrize(("minute", "no_harm"), [(-49, False), (-74, True)])
def test_that_a_change_did_no_harm_shows_after_an_hour(
    tmp_path: Path, minute: float, *, no_harm: bool
) -> None:
    found = judged(tmp_path, change(minute, "api", "v2"))["v2"]
    reason = str(found.details.written()["reason"])
    assert ("so long it had done no harm" in reason) is no_harm


@pytest.mark.parametrize(("minutes_earlier", "first"), [(10, "code"), (30, "bump")])
def test_a_new_version_of_a_dependency_is_likelier_only_than_older_code(
    tmp_path: Path, minutes_earlier: float, first: str
) -> None:
    code = "-total = price(basket)\n+total = quote(basket)"
    found = judged(
        tmp_path,
        change(-2, "api", "bump", diff="-  acme/client v1.4.1\n+  acme/client v1.5.0"),
        change(-2 - minutes_earlier, "api", "code", diff=code),
    )
    assert max(found, key=lambda name: found[name].strength) == first


def test_a_merge_ships_with_the_next_deploy_of_the_service_it_touches(tmp_path: Path) -> None:
    merge = change(
        -40, None, "m1", kind="merge", title="lower pool size", files='["services/api/pool.go"]'
    )
    found = judged(tmp_path, merge, change(-3, "api", "v2"))["m1"]
    assert found.kind == "change_near"
    assert found.numbers["minutes"] == 4


def test_a_merge_in_a_services_own_repository_ships_with_its_next_deploy_whatever_its_paths(
    tmp_path: Path,
) -> None:
    merge = change(-40, "api", "m1", kind="merge", title="lower pool size", files='["src/pool.go"]')
    found = judged(tmp_path, merge, change(-3, "api", "v2"))["m1"]
    assert found.kind == "change_near"
    assert found.numbers["minutes"] == 4


def test_a_deploy_speaks_with_the_text_of_the_merge_it_names(tmp_path: Path) -> None:
    merge = change(-9, None, "abc", kind="merge", title="shrink the pool", files='["pool.go"]')
    found = judged(tmp_path, merge, change(-3, "api", "abc"))
    assert list(found) == ["abc"]
    assert found["abc"].details.written()["title"] == "shrink the pool"


def test_without_changes_there_is_nothing_to_judge(tmp_path: Path) -> None:
    assert judged(tmp_path) == {}


def test_a_change_on_the_host_of_a_straggler_is_laid_to_its_rank(tmp_path: Path) -> None:
    found = Finding(
        id="",
        kind="straggler",
        subject="rank 2",
        strength=0.8,
        onset=START,
        sentence="rank 2 delays 9 of 10 steps",
        details={"rank": 2, "host": "node-7", "job": "pretrain"},
    )
    changes = [
        change(-6, "pretrain", "cfg-1", kind="config", title="cap the power of node-7 at 300 W"),
        change(-6, "pretrain", "cfg-2", kind="config", title="cap the power of node-8 at 300 W"),
    ]
    case = write_case(tmp_path, alert={"service": "pretrain"}, changes=changes)
    topology = with_ranks(read_topology(case), [found], case.alert)
    judged = nearby_changes(case, weigh_suspects([found], topology, case.alert), topology)
    assert {str(f.details.written()["change"]): f.details.written()["place"] for f in judged} == {
        "cfg-1": "itself",
        "cfg-2": "job",
    }
    strengths = {str(f.details.written()["change"]): f.strength for f in judged}
    assert strengths["cfg-1"] > strengths["cfg-2"]


def test_a_flag_that_was_set_back_before_the_onset_is_not_to_blame(tmp_path: Path) -> None:
    on = change(-9, "api", "pool_exhausted_fix", kind="flag", title="off->on")
    off = change(-5, "api", "pool_exhausted_fix", kind="flag", title="on->off")
    found = judged(tmp_path, on, off)
    assert "taken back" in str(found["pool_exhausted_fix"].details.written()["reason"])


@pytest.mark.parametrize(("where", "back"), [("production", True), ("production-us", False)])
def test_a_flag_counts_as_set_back_in_the_environment_where_it_was_set(
    tmp_path: Path, where: str, *, back: bool
) -> None:
    name = "pool_exhausted_fix"
    on = change(-9, "api", name, kind="flag", title=f"{name} in production: off -> on")
    off = change(-5, "api", name, kind="flag", title=f"{name} in {where}: on -> off")
    found = judged(tmp_path, on, off)
    assert ("taken back" in str(found[name].details.written()["reason"])) is back


def test_where_nothing_is_deployed_a_merge_ships_as_it_is_merged(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        change(-3, "api", "m1", kind="merge", title="pool exhausted under load: other pool"),
    )["m1"]
    assert found.kind == "change_near"


def test_the_suspect_that_a_change_was_judged_for_is_told(tmp_path: Path) -> None:
    assert judged(tmp_path, change(-4, "api", "v2"))["v2"].details.written()["concerns"] == "api"
