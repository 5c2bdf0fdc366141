"""Runs of CI as changes: which of them deploy, and what builds of the main branches say.

As for code hosts (`faultline.connectors.shared.changes.code_host`), a run to an environment counts,
or one of a pipeline whose name says that it deploys. Where a pipeline list has none, a build of a
main branch that passed stands for the merge that it built; one that failed is only a detail of the
evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, Protocol, TypeVar

from faultline.analysis.vocabulary import ChangeKind
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeeds,
    FeedAnswer,
    FeedSection,
    VendorChange,
)
from faultline.connectors.shared.changes.code_changes import DEPLOYS
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.vendor_text import short

BuildState = Literal["done", "failed", "running"]
SHORT_HASH = 12
WORDS = {"done": "", "failed": " (failed)", "running": " (still running)"}


@dataclass(frozen=True)
class BuildRun:
    """One run of a pipeline. `state` is None where it was cancelled or has not begun."""

    name: str
    number: str
    at: datetime | None
    """When it ended, or began where it has not ended."""
    state: BuildState | None
    branch: str = ""
    """Empty where the pipeline is that of one branch."""
    revision: str = ""
    environment: str = ""
    message: str = ""
    author: str | None = None
    link: str | None = None
    repository: str = ""


@dataclass(frozen=True)
class BuildRules:
    """Which runs count, as the settings have it."""

    branches: Names
    deploys: Names
    counts: Callable[[str | None], bool]
    """Whether an environment does."""

    def answer(
        self,
        runs: Iterable[BuildRun | None],
        query: str,
        link: str | None = None,
        cut: str | None = None,
    ) -> FeedAnswer:
        """The runs as changes, with failed builds as details."""
        deployed: list[VendorChange] = []
        built: list[VendorChange] = []
        details: dict[str, str] = {}
        for run in runs:
            # A cancelled run changed nothing, and one that has not begun has no time.
            if run is None or run.at is None or run.state is None:
                continue
            if run.environment:
                if self.counts(run.environment):
                    deployed.append(_change(run, run.at, "deploy"))
            # Without an environment, only a run of a main branch counts as a deploy.
            elif self._is_main(run) and self._deploys(run.name):
                deployed.append(_change(run, run.at, "deploy"))
            elif self._is_main(run) and run.state == "done":
                built.append(_change(run, run.at, "merge"))
            elif self._is_main(run) and run.state == "failed":
                name = f"{run.at:%Y-%m-%d %H:%M} {short(run.name, 80)}"
                details[name] = f"failed at {_short(run.revision) or short(run.number, 40)}"
        # Builds stand in for merges only where no run deploys; else each change counts twice.
        return FeedAnswer(deployed or built, query, link, cut, details)

    def _is_main(self, run: BuildRun) -> bool:
        return not run.branch or run.branch in self.branches

    def _deploys(self, name: str) -> bool:
        if self.deploys:
            return any(fnmatchcase(name.casefold(), deploy.casefold()) for deploy in self.deploys)
        return bool(DEPLOYS.search(name))


class BuildSection(FeedSection, Protocol):
    """What the settings of a CI service have at least."""

    @property
    def deploys(self) -> Names: ...


S = TypeVar("S", bound=BuildSection)


class BuildFeeds(ChangeFeeds[S]):
    """A connector of lists of runs."""

    def __init__(self, section: S, names: ServiceNames) -> None:
        super().__init__(section, names)
        # Jobs of Jenkins know no branches: each is for one.
        branches: Names = getattr(section, "branches", ())
        self._rules = BuildRules(branches, section.deploys, self.counts)


def _change(run: BuildRun, at: datetime, kind: ChangeKind) -> VendorChange:
    done = "deployed" if kind == "deploy" else "built"
    what = _short(run.revision)
    title = f"{short(run.name, 80)} #{short(run.number, 30)} {done}"
    title += f" {what}" if what else ""
    title += f" to {short(run.environment, 40)}" if run.environment else ""
    title += WORDS[run.state or "done"]
    first_line = run.message.strip().partition("\n")[0]
    title += f": {short(first_line, 100)}" if first_line else ""
    identity = run.revision or f"{run.name} #{run.number}"
    about = f"{run.name} {run.repository}"
    owner = run.repository.rpartition("/")[2] or None
    return VendorChange(at, kind, identity, title, run.author, run.link, about=about, owner=owner)


def _short(revision: str) -> str:
    is_hash = len(revision) >= 40 and revision.isalnum()
    return revision[:SHORT_HASH] if is_hash else short(revision, 40)
