"""`faultline.investigate`: the analysis of the bot, on a case folder, without any network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultline.analysis.vocabulary import Cause, Finding, Gap, Impact, Verdict
from faultline.bot.answer.replay import Replayed, as_json, replay


@dataclass(frozen=True)
class Investigation:
    """The answer for one case, as `faultline investigate` prints it."""

    _replayed: Replayed

    @property
    def verdict(self) -> Verdict:
        """What may be concluded; `insufficient_evidence` where the case does not say."""
        return self._replayed.diagnosis.verdict

    @property
    def confidence(self) -> float:
        """The chance that the first cause is right, in [0, 1]."""
        return self._replayed.diagnosis.confidence

    @property
    def headline(self) -> str:
        """One sentence for the channel."""
        return self._replayed.report.headline

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The ranked causes, the most likely first; empty where no cause is named."""
        return tuple(self._replayed.diagnosis.causes)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that departed from its baseline, each with its evidence ids."""
        return tuple(self._replayed.diagnosis.findings)

    @property
    def impact(self) -> Impact:
        """Who is affected, since when, and by how much."""
        return self._replayed.diagnosis.impact

    @property
    def missing(self) -> tuple[str, ...]:
        """What would have to be known for a better answer, one sentence each."""
        return tuple(self._replayed.diagnosis.missing)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Evidence that could not be collected, and why."""
        return tuple(self._replayed.case.gaps)

    def to_dict(self) -> dict[str, Any]:
        """The document that `faultline investigate --json` prints."""
        return as_json(self._replayed)


def investigate(case: str | Path) -> Investigation:
    """Analyse a case folder (docs/case-folder.md). The same case gives the same answer.

    Raises EvidenceError when the folder cannot be read.
    """
    return Investigation(replay(Path(case)))
