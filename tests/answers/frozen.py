"""What code decided about an incident, kept so that its answer can be read as text.

    python -m tests.answers freeze NAME CASE    diagnose a case folder and keep what it decided
    python -m tests.answers write               write every answer again

A change of wording then shows as a difference between two texts. A change of the analysis does not:
freeze the case again for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Finding, Gap
from faultline.bot.answer.lines import CitedLine, answer_lines
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.built_in import word

FOLDER = Path(__file__).parent / "cases"
CAUSES, FINDINGS = 3, 30
"""Kept of a case; an answer names no more."""


class Decided(BaseModel):
    """The input of one answer."""

    alert: Alert
    diagnosis: Diagnosis
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class AnswerFile:
    """One answer: what was decided, and the text that is read."""

    name: str

    @property
    def decided(self) -> Decided:
        """What was decided."""
        return Decided.model_validate_json((FOLDER / f"{self.name}.json").read_text("utf-8"))

    @property
    def kept(self) -> Path:
        """The file of the text."""
        return FOLDER / f"{self.name}.txt"

    def text(self) -> str:
        """The answer in today's words."""
        return answer_text(self.decided)


def answer_files() -> list[AnswerFile]:
    """All of them, by name."""
    return [AnswerFile(path.stem) for path in sorted(FOLDER.glob("*.json"))]


def freeze(name: str, folder: Path) -> None:
    """Diagnose a case folder and keep what was decided."""
    freeze_case(name, read_case(folder))


def freeze_case(name: str, case: Case) -> None:
    """The same for a case that is in memory."""
    decided = Decided(alert=case.alert, diagnosis=_shortened(diagnose(case)), gaps=case.gaps)
    FOLDER.mkdir(exist_ok=True)
    text = decided.model_dump_json(indent=1, exclude_defaults=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")


def answer_text(decided: Decided) -> str:
    """The answer as lines of text, in the order in which it is read."""
    report = word(decided.diagnosis, decided.alert, decided.gaps)
    view = answer_view(decided.alert, decided.diagnosis, report, gaps=decided.gaps)
    lines = answer_lines(view, page_url="https://faultline.example.com/investigations/1")
    parts = [f"{lines.state}: {lines.headline}"]
    if lines.happening:
        parts += ["", "What's happening", f"  {lines.happening}"]
    parts += _listed(lines.why_label, lines.why)
    parts += ["", "Do next", *(f"  {step}" for step in lines.steps)]
    parts += _listed("Not sure about", lines.unsure)
    if lines.confidence:
        parts += ["", f"Confidence  {lines.confidence}"]
    if lines.missing:
        parts += ["", "Missing", *(f"  {said}" for said in lines.missing)]
    return "\n".join(parts) + "\n"


def _listed(label: str, lines: tuple[CitedLine, ...]) -> list[str]:
    return ["", label, *(f"  - {line.text}" for line in lines)] if lines else []


def _shortened(diagnosis: Diagnosis) -> Diagnosis:
    """Without what no answer can name."""
    causes = tuple(sorted(diagnosis.causes, key=lambda cause: cause.rank))[:CAUSES]
    wanted = set(diagnosis.impact.findings)
    for cause in causes:
        wanted.update(cause.findings, cause.contradicting)
    cited = [found for found in diagnosis.findings if found.id in wanted]
    others = [found for found in diagnosis.findings if found.id not in wanted]
    kept = (cited + others)[:FINDINGS]
    bare = tuple(_bare(found) for found in kept)
    return diagnosis.model_copy(update={"causes": causes, "findings": bare})


def _bare(finding: Finding) -> Finding:
    return finding.model_copy(update={"evidence": finding.evidence[:1]})
