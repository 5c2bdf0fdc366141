"""Can the checks fail? Each defect is planted in its own copy and the check that must find it
is run.

`python -m infra.checks.planted_defects` prints the table; the tests plant those that do not hide
each other together.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.checks.checkov import failed_checks
from infra.checks.defects import TERRAFORM, Defect
from infra.checks.terraform import ASSERTED, SECURITY, Terraform, change


def caught_by_terraform(
    terraform: Terraform, defects: Sequence[Defect], name: str
) -> dict[str, bool]:
    """Defect's name to whether its check finds it, when all are planted in one copy; one kind of
    check at a time."""
    (check,) = {defect.check for defect in defects}
    folder = terraform.copy(name)
    for defect in defects:
        change(folder / defect.file, defect.old, defect.new)
    if check == "terraform fmt":
        problems = terraform.unformatted(folder)
    elif check == "terraform validate":
        problems = terraform.problems(folder, ["."])
    elif check == "terraform test":
        if defects[0].alone:
            # What is not declared is named in the plan already.
            change(folder / SECURITY, ASSERTED, f"{ASSERTED}\n  command = plan")
        problems = terraform.failures(folder, sorted({defect.assertions for defect in defects}))
    else:
        problems = list(failed_checks(folder / "modules", [defect.says for defect in defects]))
    return {defect.name: any(defect.says in line for line in problems) for defect in defects}


def main() -> None:
    """Plant each one separately and print whether it was found. Exit 1 if one was not."""
    missed = 0
    with (
        tempfile.TemporaryDirectory(prefix="faultline-infra-") as scratch,
        Terraform(Path(scratch)) as terraform,
    ):
        sys.stdout.write("| defect | found by | |\n|---|---|---|\n")
        for number, defect in enumerate(TERRAFORM):
            (is_caught,) = caught_by_terraform(terraform, [defect], f"copy-{number}").values()
            missed += not is_caught
            sys.stdout.write(
                f"| {defect.name} | {defect.check} | {'found' if is_caught else '**missed**'} |\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"\n{len(TERRAFORM) - missed} of {len(TERRAFORM)} found\n")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
