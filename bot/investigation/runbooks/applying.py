"""What the runbooks that apply give to an investigation: more to look at, and guidance for the case
folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from analysis.case.runbooks import AppliedRunbook, AppliedRunbooks, ExpectedAlert
from analysis.secrets.redaction import masked
from analysis.vocabulary import AddedQuery, Alert, Link, LogWords, Scope
from bot.investigation.runbooks.library import RunbookLibrary
from bot.investigation.runbooks.matching import Applying, applying, holds, in_words
from bot.investigation.runbooks.runbook import ExpectedWhen, Runbook, usable_queries

MOST_SERVICES, MOST_QUERIES, MOST_WORDS = 10, 20, 20
"""Added by all runbooks of an alert together: what is asked must come back while the incident
lasts."""
LONGEST_TEXT = 6000
"""Characters of a runbook's Markdown that the case keeps."""
MOST_TROUBLES = 20


@dataclass(frozen=True)
class ScopeHints:
    """What is looked at besides what would be anyway. Times in minutes; None leaves the settings'
    own."""

    services: tuple[str, ...] = ()
    queries: tuple[AddedQuery, ...] = ()
    log_words: LogWords | None = None
    before_alert: float | None = None
    baseline: float | None = None


NOTHING_MORE = ScopeHints()


@dataclass(frozen=True)
class RunbookGuidance:
    """Both halves of what runbooks give."""

    hints: ScopeHints
    applied: AppliedRunbooks


def guided(
    library: RunbookLibrary, alert: Alert, scope: Scope, hosts: Collection[str]
) -> RunbookGuidance:
    """What the library says about this alert. `hosts` are those that a link may lead to."""
    chosen = applying(library, alert, scope)
    applied = AppliedRunbooks(
        runbooks=tuple(_applied(one, alert, hosts) for one in chosen),
        troubles=tuple(str(problem) for problem in library.problems[:MOST_TROUBLES]),
    )
    return RunbookGuidance(_scope_hints([one.runbook for one in chosen]), applied)


def _scope_hints(runbooks: Sequence[Runbook]) -> ScopeHints:
    """All of them together: the longest windows; of two queries for one signal that of the more
    specific runbook."""
    services = dict.fromkeys(name for one in runbooks for name in one.keys.look_at.services)
    queries: dict[tuple[str, str], AddedQuery] = {}
    for one in runbooks:
        for connector, signal, query in usable_queries(one.keys):
            added = AddedQuery(
                connector=connector, signal=signal, query=query, by=f"runbook {one.name}"
            )
            queries.setdefault((connector, signal), added)
    with_words = [one for one in runbooks if one.keys.look_at.log_words]
    words = dict.fromkeys(word for one in with_words for word in one.keys.look_at.log_words)
    by = ", ".join(f"runbook {one.name}" for one in with_words)
    return ScopeHints(
        services=tuple(services)[:MOST_SERVICES],
        queries=tuple(queries.values())[:MOST_QUERIES],
        log_words=LogWords(words=tuple(words)[:MOST_WORDS], by=by) if words else None,
        before_alert=_longest(one.keys.look_at.before_alert for one in runbooks),
        baseline=_longest(one.keys.look_at.baseline for one in runbooks),
    )


def _longest(lengths: Iterable[float | None]) -> float | None:
    return max((length for length in lengths if length is not None), default=None)


def _applied(one: Applying, alert: Alert, hosts: Collection[str]) -> AppliedRunbook:
    keys, text = one.runbook.keys, masked(one.runbook.text)
    now = [e for e in keys.expected if e.between is None or holds(e.between, alert.started_at)]
    return AppliedRunbook(
        name=masked(one.runbook.name),
        path=one.runbook.path,
        digest=one.runbook.digest,
        why=one.why,
        owner=masked(keys.owner),
        expected=tuple(_expected(e) for e in now),
        next_steps=tuple(masked(step) for step in keys.next_steps),
        links=tuple(Link(title=d.title, url=d.url) for d in keys.links if may_link(d.url, hosts)),
        text=text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT].rstrip()}…",
    )


def _expected(expected: ExpectedWhen) -> ExpectedAlert:
    when = in_words(expected.between) if expected.between else ""
    return ExpectedAlert(text=masked(expected.because), when=when)


def may_link(url: str, hosts: Collection[str]) -> bool:
    """Whether a link leads to one of these hosts, plainly."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    plain = url.isprintable() and not any(c in ' \\<>"|`' for c in url) and "@" not in parts.netloc
    return plain and parts.scheme in ("http", "https") and host is not None and host in hosts
