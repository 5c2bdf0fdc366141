"""The pages on deploying say what the files say."""

from __future__ import annotations

import re
from pathlib import Path

from faultline.bot.intake.alert_sources import built_in_sources, labels_by_path
from faultline.bot.web.login import CALLBACK
from infra.checks.defects import KUBERNETES, TERRAFORM
from infra.checks.module_page import PAGE, page
from infra.checks.settings_secrets import secret_names

ROOT = Path(__file__).parents[2]
TERRAFORM_ROOM = ROOT / "infra/terraform"


def test_the_tables_are_current() -> None:
    assert PAGE.read_text() == page(), "python -m infra.checks.module_page"


def test_the_addresses_are_those_that_the_bot_listens_at() -> None:
    paths = dict(
        re.findall(
            r'^    (\w+)\s+= "(/\S+)"$', (TERRAFORM_ROOM / "main.tf").read_text(), re.MULTILINE
        )
    )
    expected = {}
    for path in labels_by_path(built_in_sources()):
        expected[path.removeprefix("/webhooks/").strip("/").replace("/", "_")] = path
    assert paths == expected
    assert CALLBACK in (TERRAFORM_ROOM / "outputs.tf").read_text()


def test_secrets_of_the_example_are_secrets() -> None:
    example = (TERRAFORM_ROOM / "examples/complete/main.tf").read_text()
    named = set(re.findall(r'"(FAULTLINE_\w+)"', example))
    assert named
    assert named <= set(secret_names())


def test_there_are_enough_defects_each_with_a_name_of_its_own() -> None:
    names = [defect.name for defect in (*TERRAFORM, *KUBERNETES)]
    assert len(set(names)) == len(names)
    assert len(TERRAFORM) >= 15
