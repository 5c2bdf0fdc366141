"""What holds for every test of the analysis."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from faultline.analysis import diagnosis
from faultline.analysis.kinds.finding_kinds import declared
from faultline.analysis.vocabulary import Finding


@pytest.fixture(autouse=True)
def only_declared_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose case makes an analyzer return a kind that nobody declares."""
    number_findings = diagnosis.number_findings

    def checked(findings: Iterable[Finding]) -> list[Finding]:
        found = number_findings(findings)
        undeclared = {finding.kind for finding in found} - declared().keys()
        assert not undeclared, f"kinds that nobody declares: {sorted(undeclared)}"
        return found

    monkeypatch.setattr(diagnosis, "number_findings", checked)
