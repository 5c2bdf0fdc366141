"""What the runbooks that apply give to an investigation: more to look at, and guidance for the case
folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from faultline.analysis.case.runbooks import AppliedRunbook, AppliedRunbooks, ExpectedAlert
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import AddedQuery, Alert, Link, LogWords, Scope
from faultline.bot.investigation.runbooks.library import RunbookLibrary
from faultline.bot.investigation.runbooks.matching import Applying, applying, holds, in_words
from faultline.bot.investigation.runbooks.runbook import ExpectedWhen, Runbook, usable_queries

MOST_SERVICES, MOST_QUERIES, MOST_WORDS = 10, 20, 20
"""Added by all runbooks of an alert together: what is asked must come back while the incident
lasts."""
LONGEST_TEXT = 6000
"""Characters of a runbook's Markdown that the case keeps."""
MOST_TROUBLES = 20
NOT_IN_LINKS = ' \\<>"|`'
"""Characters that end a link, or begin something else, in Slack's or Markdown's text."""


@dataclass(frozen=True)
class ScopeHints:
    """What runbooks add to the scope of an investigation. Times in minutes; None keeps those of the
    settings."""

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
        runbooks=tuple(_applied(candidate, alert, hosts) for candidate in chosen),
        troubles=tuple(str(problem) for problem in library.problems[:MOST_TROUBLES]),
    )
    return RunbookGuidance(_scope_hints([candidate.runbook for candidate in chosen]), applied)


def _scope_hints(runbooks: Sequence[Runbook]) -> ScopeHints:
    """All of them together: the longest windows; of two queries for one signal that of the more
    specific runbook."""
    services: list[str] = []
    for runbook in runbooks:
        services += runbook.keys.look_at.services
    return ScopeHints(
        services=tuple(dict.fromkeys(services))[:MOST_SERVICES],
        queries=_queries(runbooks)[:MOST_QUERIES],
        log_words=_log_words(runbooks),
        before_alert=_longest(runbook.keys.look_at.before_alert for runbook in runbooks),
        baseline=_longest(runbook.keys.look_at.baseline for runbook in runbooks),
    )


def _queries(runbooks: Sequence[Runbook]) -> tuple[AddedQuery, ...]:
    added: dict[tuple[str, str], AddedQuery] = {}
    for runbook in runbooks:
        by = f"runbook {runbook.name}"
        for connector, signal, query in usable_queries(runbook.keys):
            # The most specific runbook comes first, and its query for a signal stays.
            if (connector, signal) not in added:
                added[connector, signal] = AddedQuery(
                    connector=connector, signal=signal, query=query, by=by
                )
    return tuple(added.values())


def _log_words(runbooks: Sequence[Runbook]) -> LogWords | None:
    words: list[str] = []
    by: list[str] = []
    for runbook in runbooks:
        if runbook.keys.look_at.log_words:
            words += runbook.keys.look_at.log_words
            by.append(f"runbook {runbook.name}")
    if not words:
        return None
    return LogWords(words=tuple(dict.fromkeys(words))[:MOST_WORDS], by=", ".join(by))


def _longest(lengths: Iterable[float | None]) -> float | None:
    return max((length for length in lengths if length is not None), default=None)


def _applied(candidate: Applying, alert: Alert, hosts: Collection[str]) -> AppliedRunbook:
    keys, text = candidate.runbook.keys, masked(candidate.runbook.text)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT].rstrip()}…"
    now = [e for e in keys.expected if e.between is None or holds(e.between, alert.started_at)]
    return AppliedRunbook(
        name=masked(candidate.runbook.name),
        path=candidate.runbook.path,
        digest=candidate.runbook.digest,
        why=candidate.why,
        owner=masked(keys.owner),
        expected=tuple(_expected(e) for e in now),
        next_steps=tuple(masked(step) for step in keys.next_steps),
        links=tuple(Link(title=d.title, url=d.url) for d in keys.links if may_link(d.url, hosts)),
        text=text,
    )


def _expected(expected: ExpectedWhen) -> ExpectedAlert:
    when = in_words(expected.between) if expected.between else ""
    return ExpectedAlert(text=masked(expected.because), when=when)


def may_link(url: str, hosts: Collection[str]) -> bool:
    """Whether a link leads to one of these hosts, plainly."""
    if not url.isprintable() or any(character in NOT_IN_LINKS for character in url):
        return False
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        _ = parts.port
    except ValueError:
        return False
    # A user's name in front of the host can look like a host.
    if "@" in parts.netloc:
        return False
    return parts.scheme in ("http", "https") and parts.hostname in hosts
