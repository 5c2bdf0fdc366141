"""infra/terraform: it is formatted, valid, holds what it promises, and the checks that say so can
fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.checks.defects import TERRAFORM, Defect
from infra.checks.planted_defects import caught_by_terraform
from infra.checks.terraform import Terraform
from infra.checks.tools import NotHere


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terraform]:
    """The program, with a provider that knows its schemas."""
    try:
        program = Terraform(tmp_path_factory.mktemp("terraform"))
    except NotHere as reason:
        pytest.skip(str(reason))
    with program:
        yield program


def test_the_modules_are_formatted_valid_and_hold_their_assertions(terraform: Terraform) -> None:
    folder = terraform.copy("good")
    assert terraform.unformatted(folder) == []
    assert terraform.problems(folder) == []
    assert terraform.failures(folder) == []


@pytest.mark.parametrize("check", ["terraform fmt", "terraform validate", "terraform test"])
def test_planted_defects_are_found(terraform: Terraform, check: str) -> None:
    """All of one kind in one copy: each must be named."""
    planted = [defect for defect in TERRAFORM if defect.check == check and not defect.alone]
    assert planted
    found = caught_by_terraform(terraform, planted, check.replace(" ", "-"))
    assert [name for name, seen in found.items() if not seen] == []


@pytest.mark.parametrize("planted", [d for d in TERRAFORM if d.alone], ids=lambda d: d.name)
def test_a_defect_that_hides_others_is_found_by_itself(
    terraform: Terraform, planted: Defect
) -> None:
    assert caught_by_terraform(terraform, [planted], planted.name.replace(" ", "-")) == {
        planted.name: True
    }


def test_every_planted_defect_changes_a_text_that_is_there() -> None:
    room = Path(__file__).parents[2] / "infra/terraform"
    for defect in TERRAFORM:
        assert (room / defect.file).read_text().count(defect.old) == 1, defect.name
        assert defect.old != defect.new
