from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.changes.nearby import NEAR, RULED_OUT, nearby_changes
from faultline.analysis.logs.signature_findings import logged_findings
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.suspects.explanations import weigh_suspects
from faultline.analysis.vocabulary import Finding
from tests.analysis.changes.change_stories import Story, stories

STORIES = stories()

BUSY_DAY: list[dict[str, Any]] = [
    {
        "minute": -95 + 3 * n,
        "id": f"m{n}",
        "kind": "merge",
        "service": "",
        "title": title,
        "files": files,
    }
    for n, (title, files) in enumerate(
        [
            ("typo in the guide", "docs/guide.md"),
            ("gauge for open sessions", "lib/metrics/sessions.py"),
            ("rename variable", "search/index.py"),
            ("new icons", "web/static/icons.svg"),
            ("faster build", ".github/workflows/build.yml"),
            ("more tests for coupons", "tests/test_coupons.py"),
            ("request ids in all answers", "lib/http/ids.py"),
            ("owner of the search team", "CODEOWNERS"),
            ("smaller images", "Dockerfile"),
            ("health check for search", "search/health.py"),
            ("lint rules", ".golangci.yml"),
            ("structured lines in search", "search/lines.py"),
        ]
        * 2
    )
]


def judged(case: Case) -> list[Finding]:
    topology = read_topology(case)
    suspects = weigh_suspects([*metric_shifts(case), *logged_findings(case)], topology, case.alert)
    return nearby_changes(case, suspects, topology)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_the_change_that_did_it_is_near_and_no_other(story: Story, tmp_path: Path) -> None:
    found = judged(story.write(tmp_path))
    near = [f.details.written()["change"] for f in found if f.kind == NEAR]
    assert near == ([story.blamed] if story.blamed else [])
    for one in found:
        if one.kind == RULED_OUT:
            reason = str(one.details.written()["reason"])
            assert all(
                part in one.sentence
                for part in reason.split(" and ")
                if not part.startswith("it came after")
            )


@pytest.mark.parametrize("story", STORIES[::6], ids=lambda s: s.name)
def test_a_busy_day_changes_no_answer(story: Story, tmp_path: Path) -> None:
    found = judged(story.write(tmp_path, beside=BUSY_DAY))
    near = [f.details.written()["change"] for f in found if f.kind == NEAR]
    assert near[:1] == ([story.blamed] if story.blamed else [])
