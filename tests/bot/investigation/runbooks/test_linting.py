"""`faultline check` on runbooks: dead includes, cycles, what matches nothing, links and services
that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.bot.investigation.runbooks.checking import runbook_checks
from faultline.bot.investigation.runbooks.linting import lint
from faultline.bot.investigation.runbooks.runbook import Hours, LookAt, RunbookKeys, RunbookMatch
from faultline.bot.settings import Settings
from tests.bot.investigation.runbooks.runbook_files import write

CATALOGUE: dict[str, Any] = {"checkout": {"aliases": ["shop"]}, "payments": {}}


def linted(directory: str, **more: Any) -> list[str]:
    settings = Settings.model_validate(
        {"runbooks": {"directories": [directory]}, "services": CATALOGUE, **more}
    )
    return [str(problem).removeprefix(directory) for problem in lint(settings)[1]]


def test_good_ones_say_nothing(tmp_path: Path) -> None:
    directory = write(
        tmp_path,
        a="---\nmatch: {services: 'SHOP'}\ninclude: b.md\nlook_at: {services: payments}\n---\n",
        b="---\nname: b\n---\n",
    )
    assert linted(directory) == []


def test_dead_includes_name_the_nearest(tmp_path: Path) -> None:
    directory = write(
        tmp_path,
        a="---\nmatch: {services: checkout}\ninclude:\n  - b.md\n  - shard/db.md\n---\n",
        shared__db="---\nmatch: {services: checkout}\n---\n",
    )
    assert linted(directory) == [
        "/a.md:4: include: there is no b.md; paths are relative to the directory of the runbooks",
        "/a.md:5: include: there is no shard/db.md; did you mean shared/db.md?",
    ]


def test_a_cycle_is_one_line(tmp_path: Path) -> None:
    match = "match: {services: checkout}\n"
    directory = write(
        tmp_path,
        a=f"---\n{match}include: b.md\n---\n",
        b="---\ninclude: c.md\n---\n",
        c="---\ninclude: b.md\n---\n",
        d=f"---\n{match}include: d.md\n---\n",
    )
    assert linted(directory) == [
        "/b.md:2: include: leads back to itself: b.md > c.md > b.md; take one of these out",
        "/d.md:3: include: leads back to itself: d.md > d.md; take one of these out",
    ]


def test_what_can_match_nothing_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    directory = write(
        tmp_path,
        a="---\nname: A\nmatch:\n  services: chekout\n---\n",
        b="---\nname: B\n---\n",
        c="---\nmatch: {}\n---\n",
        d="---\nmatch: {jobs: llama}\n---\n",
    )
    assert linted(directory, jobs={"gpt": {}}) == [
        "/a.md:4: match.services: chekout matches no service of the catalogue; did you mean "
        "checkout?",
        "/b.md:1: match: is missing, and no runbook includes this one, so it never applies; give "
        "services or alerts",
        "/c.md:2: match: is missing, and no runbook includes this one, so it never applies; give "
        "services or alerts",
        "/d.md:2: match.jobs: llama matches no job of the settings",
    ]


def test_without_a_catalogue_names_cannot_be_wrong(tmp_path: Path) -> None:
    directory = write(tmp_path, a="---\nmatch: {services: x}\nlook_at: {services: y}\n---\n")
    assert linted(directory, services={}) == []


def test_links_and_services_that_are_not_there(tmp_path: Path) -> None:
    head = """
        ---
        match: {services: checkout}
        look_at:
          services: [paymnts, redis]
          prometheus:
            depth: sum(depth)
          datadog:
            waits: avg:waits{*}
        links:
          - title: x
            url: https://elsewhere.example.com/
        ---
        """
    assert linted(write(tmp_path, a=head)) == [
        "/a.md:4: look_at.services: paymnts is not in the catalogue; did you mean payments?",
        "/a.md:4: look_at.services: redis is not in the catalogue; add it under [services]",
        "/a.md:11: links: https://elsewhere.example.com/ is left out: its host is none of the "
        "settings'; "
        "see runbooks.link_hosts",
    ]


def test_check_has_one_line_when_all_is_well_and_one_for_each_fault(tmp_path: Path) -> None:
    good = "---\nmatch: {services: checkout}\nlook_at: {datadog: {waits: 'avg:waits{*}'}}\n---\n"
    directory = write(tmp_path, a=good)
    settings = {"runbooks": {"directories": [directory]}, "services": CATALOGUE}
    (line,) = runbook_checks(Settings.model_validate(settings))
    said = f"1 runbook in {directory}; 1 of their queries will not be asked: datadog is not set up"
    assert (line.ok, line.line) == (True, said)
    write(tmp_path, b="---\nnam: x\n---\n", c="no")
    assert [
        (c.ok, c.line.removeprefix(directory)[:8])
        for c in runbook_checks(Settings.model_validate(settings))
    ] == [
        (False, "/b.md:1:"),
        (False, "/b.md:2:"),
        (False, "/c.md:1:"),
    ]
    assert runbook_checks(Settings()) == []


def test_a_directory_without_any_runbook_is_a_mistake(tmp_path: Path) -> None:
    (line,) = runbook_checks(
        Settings.model_validate({"runbooks": {"directories": [str(tmp_path)]}})
    )
    assert not line.ok


def test_the_examples_of_the_documentation_have_no_fault_and_its_page_names_every_key() -> None:
    docs = Path(__file__).parents[4] / "docs"
    settings = {
        "runbooks": {"directories": [str(docs / "examples" / "runbooks")]},
        "services": {"checkout": {}, "payments": {}, "orders-db": {}},
        "grafana": {"url": "https://grafana.example.com"},
    }
    library, problems = lint(Settings.model_validate(settings))
    assert problems == []
    assert len(library.runbooks) == 4
    page = (docs / "runbooks.md").read_text(encoding="utf-8")
    names = [
        *RunbookKeys.model_fields,
        *RunbookMatch.model_fields,
        *LookAt.model_fields,
        *Hours.model_fields,
    ]
    assert [name for name in names if f"{name}`" not in page] == ["look_at"]
