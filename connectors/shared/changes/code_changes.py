"""What a code host tells, mapped to rows of changes: rollouts of a revision, and the merges and
commits they carried.

Whatever host it came from, a change that a rollout is known to carry is in the table at the
time it reached its environment; one whose rollout is not known stands at the time it was merged.
All text is hostile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

import polars as pl

from faultline.analysis.case.tables import CHANGES
from faultline.analysis.changes.text import ChangeText, read_change_text, touches
from faultline.analysis.vocabulary import ChangeKind
from faultline.connectors.shared.rows.collection_builder import rows_table
from faultline.connectors.shared.vendor_text import short

PATCH_LENGTH, DIFF_LENGTH, DIFFS_LENGTH = 6_000, 30_000, 1_000_000
"""Characters of diff kept of one file, of one change and of all: a page of code, what a person
would read, a book."""
LINE_LENGTH = 400
MOST_PATHS = 300
"""Paths kept of one change, as many as GitHub's comparison names."""
MOST_SERVICES = 10
TITLE_LENGTH = 200

MIGRATION_PATHS = re.compile(
    r"(^|/)db/(migrate|changelog)/|(^|/)migrations?/|(^|/)alembic/"
    r"versions/|(^|/)[VUR][\d._]*__[^/]+\.sql$"
    r"|(^|/)\d+_[^/]+\.(up|down)\.sql$",
    re.I,
)
"""Where Rails (guides.rubyonrails.org/active_record_migrations), Liquibase (docs.liquibase.com),
Django and Prisma (docs.djangoproject.com/en/stable/topics/migrations, prisma.io/docs), Alembic
(alembic.sqlalchemy.org), Flyway (documentation.red-gate.com/flyway, migration naming) and
golang-migrate (its MIGRATIONS.md) keep migrations."""
FLAG_PATHS = re.compile(
    r"(^|/)(feature[_-]?(flags?|toggles?)|flags|toggles)(/|\.(ya?ml|"
    r"json|toml)$)|\.(goff|flagd)\.(ya?ml|json)$"
    r"|(^|/)flag-config\.(ya?ml|json|toml)$",
    re.I,
)
"""Where flags live in files: GitLab's config/feature_flags
(docs.gitlab.com/development/feature_flags), GO Feature Flag (gofeatureflag.org/docs) and flagd
(flagd.dev)."""
CONFIG_PATHS = re.compile(
    r"(^|/)(conf(ig)?|settings|env(ironment)?s?|k8s|kubernetes|helm|charts?|"
    r"manifests|overlays|terraform|infra|ansible)"
    r"/([^/]+/)*[^/]+\.(ya?ml|json|toml|ini|conf|cfg|properties|hcl|env)$"
    r"|(^|/)values([.-][^/]*)?\.ya?ml$|(^|/)(application|"
    r"bootstrap)([.-][^/]*)?\.(ya?ml|properties)$"
    r"|(^|/)appsettings(\.[^/]*)?\.json$|(^|/)kustomization\.ya?ml$|"
    r"(^|/)(docker-)?compose[^/]*\.ya?ml$"
    r"|(^|/)\.env[^/]*$|\.(tf|tfvars)$",
    re.I,
)
"""Files of settings: Helm values (helm.sh/docs), Spring Boot and ASP.NET Core (their "externalized
configuration" and "configuration" pages), Kustomize (kubectl.docs.kubernetes.io), Compose
(docs.docker.com), Terraform (developer.hashicorp.com/terraform/language/files), and folders named
for it."""
SECRET_PATHS = re.compile(
    r"(^|/)(\.env[^/]*|\.netrc|\.npmrc|\.pypirc|id_(rsa|dsa|ecdsa|ed25519)|credentials[^/]*)$"
    r"|\.(pem|key|p12|pfx|jks|keystore|kdbx)$",
    re.I,
)
"""Files whose content is never taken: they are there to hold secrets."""
PRODUCTION = re.compile(r"(^|[-_/ .])(prod|production|prd|live)($|[-_/ .])", re.I)
ELSEWHERE = re.compile(
    r"(^|[-_/ .])(stag(e|ing)|p?review|dev(elopment)?|test|qa|sandbox)($|[-_/ .])", re.I
)
"""Environments that customers see, and those that no customer sees."""
DEPLOYS = re.compile(
    r"(^|[^a-z])(deploy[a-z]*|releas[a-z]*|roll-?out|promote|publish|ship|cd)($|[^a-z])", re.I
)
"""Names of pipelines that deploy, as the starter workflows of GitHub and GitLab have them."""
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# PEM markers (RFC 7468): what lies between them is key material.
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "


@dataclass(frozen=True)
class FileChange:
    """One file of a change. `patch` is its hunks as a unified diff, None where the host gives
    none."""

    path: str
    patch: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class CodeCommit:
    """A commit as a comparison lists it."""

    sha: str
    title: str
    at: datetime
    author: str | None = None
    link: str | None = None
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeChange:
    """A merge, or a commit nobody proposed. `shas` are the commits by which it is known on its
    branch."""

    id: str
    title: str
    at: datetime
    author: str | None = None
    link: str | None = None
    number: int | None = None
    shas: frozenset[str] = frozenset()
    files: tuple[FileChange, ...] = ()
    more_files: int | None = 0
    """Files left out; None: nobody knows how many."""


@dataclass(frozen=True)
class Rollout:
    """A revision on its way to an environment: a deployment, a release, a pipeline that deploys."""

    revision: str
    environment: str
    at: datetime
    title: str
    state: Literal["done", "failed", "running"] = "done"
    author: str | None = None
    link: str | None = None
    production: bool = True

    @property
    def reached(self) -> bool:
        """Whether the revision is, or was, in the environment."""
        return self.state == "done"


@dataclass(frozen=True)
class CodeComparison:
    """What lies between two revisions: commits, paths, and how many commits the list leaves out."""

    commits: tuple[CodeCommit, ...] = ()
    paths: tuple[str, ...] = ()
    more_commits: int = 0
    more_paths: bool = False
    goes_back: int | None = None
    """Commits that the newer rollout took out again: it went back to an earlier revision. 0:
    unknown how many."""


@dataclass
class DiffBudget:
    """Characters of diff that may still be taken, and what was cut for it."""

    left: int = DIFFS_LENGTH
    shortened: int = 0
    left_out: int = 0

    def summary(self) -> str | None:
        """What was cut, in words."""
        parts = [f"{self.shortened} diffs shortened"] if self.shortened else []
        parts += [f"the diffs of {self.left_out} files left out"] if self.left_out else []
        return "; ".join(parts) or None


@dataclass
class ChangeRows:
    """Rows of the changes table, one per change, service and kind; of equal ones the earliest
    stands."""

    services: Sequence[str]
    rows: dict[tuple[str, str | None, ChangeKind], dict[str, object]] = field(default_factory=dict)
    diffs: DiffBudget = field(default_factory=DiffBudget)
    neighbours: Sequence[str] = ()
    """Other services of the same repository: they get the changes that name them."""

    def add_change(self, change: CodeChange, carried: Rollout | None) -> None:
        """A merge or commit; with the rollout that carried it, where that is known."""
        paths = tuple(f.path for f in change.files)
        # Without a rollout that carried it, nothing says that the change reached production.
        kind = kind_of(paths) or ("deploy" if carried else "merge")
        at = carried.at if carried else change.at
        self._add(
            change.id, kind, at, change.title, change.author, change.link, paths,
            diff_of(change.files, self.diffs), change.more_files,
        )  # fmt: skip

    def add_rollout(self, rollout: Rollout, carries: CodeComparison | None) -> None:
        """A rollout, unless a change that it deployed is the revision itself, and stands for it."""
        # One suspect per deploy: a second row for the same revision would compete with the first.
        if any(key[0] == rollout.revision and key[2] == "deploy" for key in self.rows):
            return
        title = rollout.title
        if carries is not None and carries.goes_back is not None:
            count = f"; {carries.goes_back} commits taken out" if carries.goes_back else ""
            title = f"{title} (back to an earlier revision{count})"
        if rollout.state != "done":
            title = f"{title} ({'failed' if rollout.state == 'failed' else 'still running'})"
        paths = carries.paths if carries else ()
        more = None if carries and carries.more_paths else 0
        self._add(rollout.revision, "deploy", rollout.at, title, rollout.author, rollout.link,
        paths, None, more,
                  rollout.environment)  # fmt: skip

    def table(self) -> pl.DataFrame:
        """The rows, as the table's schema has them."""
        rows = [tuple(row.get(c) for c in CHANGES.columns) for row in self.rows.values()]
        return rows_table(rows, CHANGES.columns)

    def _add(
        self,
        change_id: str,
        kind: ChangeKind,
        at: datetime,
        title: str,
        author: str | None,
        link: str | None,
        paths: Sequence[str],
        diff: str | None,
        more: int | None,
        environment: str = "",
    ) -> None:
        shown = listed_paths(paths, more)
        text = read_change_text(f"{title} {environment}", json.dumps(shown), None)
        for service in self._services_of(text):
            row = self.rows.get((change_id, service, kind))
            # The earliest moment counts: only what came before the onset can be its cause.
            if row is None or at < row["time"]:  # type: ignore[operator]
                self.rows[change_id, service, kind] = {
                    "time": at, "service": service, "kind": kind, "id": short(change_id, 100),
                    "title": short(title, TITLE_LENGTH), "author": short(author,
                    100) if author else None,
                    "link": link, "files": json.dumps(shown) if shown else None, "diff": diff,
                }  # fmt: skip

    def _services_of(self, text: ChangeText) -> Sequence[str | None]:
        """Of the services kept in one repository those that the change names, else all of them; and
        the neighbours that it names."""
        services: Sequence[str | None] = self.services or [None]
        if len(self.services) > 1:
            named = [s for s in self.services if touches(text, s)]
            services = (named or self.services)[:MOST_SERVICES]
        neighbours = [s for s in self.neighbours if touches(text, s)]
        return [*services, *neighbours[:MOST_SERVICES]]


def utc(at: datetime) -> datetime:
    """A host's time as UTC, within what a table of nanoseconds holds: a commit may claim any
    date."""
    try:
        moment = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except OverflowError:
        return EARLIEST
    return min(max(moment, EARLIEST), LATEST)


def kind_of(paths: Iterable[str]) -> ChangeKind | None:
    """The kind that paths alone tell: a migration is one in any company, flags and settings only
    among themselves."""
    # A test or document beside the settings does not change how the program behaves.
    telling = [p for p in paths if not ChangeText("", (p,), (), ()).harmless]
    if any(MIGRATION_PATHS.search(p) for p in telling):
        return "migration"
    if not telling or not all(FLAG_PATHS.search(p) or CONFIG_PATHS.search(p) for p in telling):
        return None
    return "flag" if any(FLAG_PATHS.search(p) for p in telling) else "config"


def listed_paths(paths: Sequence[str], more: int | None = 0) -> list[str]:
    """Paths that can change behaviour first; what is left out is an entry, so that nobody takes the
    rest for all."""
    ordered = sorted(dict.fromkeys(short(p, 300) for p in paths if p), key=_harmless)
    left_out = max(0, len(ordered) - MOST_PATHS)
    if more is None:
        return [*ordered[:MOST_PATHS], "(and more files)"]
    left_out += more
    return [*ordered[:MOST_PATHS], *([f"(and {left_out} more files)"] if left_out else [])]


def diff_of(files: Sequence[FileChange], budget: DiffBudget) -> str | None:
    """The files' hunks as one unified diff within the limits; None where the host gave none."""
    parts: list[str] = []
    length = 0
    # Harmless files last: when the budget runs out, the code that matters is already in.
    for file in sorted(files, key=lambda f: _harmless(f.path)):
        if not file.patch:
            continue
        room = min(PATCH_LENGTH, DIFF_LENGTH - length, budget.left)
        if room <= 0:
            budget.left_out += 1
            continue
        patch, whole = _shortened(file, room)
        budget.shortened += not whole
        text = (
            f"--- a/{short(file.before or file.path, 300)}\n+++ b/{short(file.path, 300)}\n{patch}"
        )
        parts.append(text)
        length += len(text)
        budget.left -= len(text)
    return "\n".join(parts) or None


def within(change: CodeChange, files: Sequence[FileChange], more: int | None) -> CodeChange:
    """The change with its files."""
    return replace(change, files=tuple(files), more_files=more)


def _shortened(file: FileChange, room: int) -> tuple[str, bool]:
    """So much of the patch as has room, and whether that is all. Lines of private keys are taken
    out."""
    if SECRET_PATHS.search(file.path):
        return " (not taken: the file is one that holds secrets)", True
    lines: list[str] = []
    length, inside_key, whole = 0, False, True
    # Bound the text before splitting: a generated file may hold megabytes on one line.
    for number, raw in enumerate((file.patch or "")[: 4 * PATCH_LENGTH].splitlines()):
        # A key may span lines, so no mask of single lines would catch it.
        inside_key = inside_key or (_KEY_BEGINS in raw and "PRIVATE KEY" in raw)
        if inside_key:
            inside_key = _KEY_ENDS not in raw
            continue
        line = raw if len(raw) <= LINE_LENGTH else raw[: LINE_LENGTH - 1] + "…"
        if length + len(line) > room:
            lines.append(f" (cut here, after {number} lines)")
            whole = False
            break
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines), whole and len(file.patch or "") <= 4 * PATCH_LENGTH


def _harmless(path: str) -> bool:
    return ChangeText("", (path,), (), ()).harmless
