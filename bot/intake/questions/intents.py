"""What a question wants to know: a table of words that must all be there, over words whose synonyms
were made one.

The table is honest: what is not in it is not understood, and said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from bot.intake.questions.commands import findings_in
from bot.intake.questions.words import canonical, listed, words


class Intent(StrEnum):
    """The questions that can be answered from a case."""

    CAUSE = "cause"
    WHY = "why"
    AGAINST = "against"
    CHANGES = "changes"
    IMPACT = "impact"
    SINCE = "since"
    STILL = "still"
    LOGS = "logs"
    SLOW = "slow"
    TIMELINE = "timeline"
    EXPLAIN = "explain"
    MISSING = "missing"
    CHECKED = "checked"
    SUSPECTS = "suspects"
    NEXT = "next"
    BEFORE = "before"
    SUBJECT = "subject"
    FURTHER = "further"
    UNKNOWN = "unknown"


_SYNONYMS = {
    "why": "why how-come whyd",
    "how": "how",
    "cause": "cause causes caused causing root-cause rootcause culprit culprits reason reasons rca",
    "blame": "blame blamed blaming suspect suspects suspected accuse fault",
    "change": "change changes changed changing modification modified config configs configuration "
    "diff diffs commit "
    "commits pr prs merge merged merges flag flags toggle migration",
    "deploy": "deploy deploys deployed deployment deployments deploying rollout rollouts release "
    "releases released "
    "ship shipped version versions",
    "affect": "affect affected affects affecting impact impacted impacts hit blast-radius victim "
    "victims hurt suffer "
    "suffering customers customer users user clients",
    "blast": "blast radius",
    "begin": "begin began begun start started starts starting onset since",
    "when": "when",
    "long": "long duration",
    "still": "still ongoing continuing currently",
    "over": "over gone ended resolved solved fixed recovered recover recovers recovering back "
    "healthy normal mitigated "
    "stopped passed better",
    "log": "log logs logged logline loglines line lines message messages stacktrace stacktraces "
    "traceback exception "
    "exceptions stack",
    "error": "error errors failure failures failing failed 5xx 500s 500",
    "slow": "slow slower slowest slowness latency latencies longest expensive bottleneck "
    "bottlenecks",
    "roll": "roll rolling rolled",
    "call": "call calls request requests span spans query queries endpoint endpoints operation "
    "operations route routes "
    "trace traces time",
    "critical": "critical",
    "path": "path",
    "against": "against contradict contradicts contradicting contradiction doubt doubts doubtful "
    "contra counter "
    "disprove counterevidence",
    "sure": "sure certain confident confidence certainty convinced probability likely likelihood",
    "evidence": "evidence proof prove proves support supports supporting know findings finding "
    "based",
    "miss": "miss missing missed gap gaps unknown unavailable incomplete lacking blind lack",
    "check": "check checked checks look looked looks inspect inspected examined collect collected "
    "queried consulted",
    "other": "other others else alternative alternatives another second runner-up",
    "next": "next do fix mitigate mitigation remediate remediation resolve action actions "
    "recommend recommendation "
    "suggest suggestion advice rollback revert",
    "should": "should must shall can could",
    "before": "before earlier previously previous past history recurring recurred repeat repeated "
    "again seen similar "
    "last-time ever",
    "happen": "happen happened happens happening occurred occur occurs",
    "show": "show list give display print see tell",
    "timeline": "timeline chronology sequence chronological order",
    "first": "first",
    "summary": "summary summarize summarise tldr tl recap sum overview conclusion verdict",
    "source": "source sources connector connectors datasource",
    "wrong": "wrong broken problem issue matter",
    "what": "what",
    "which": "which",
    "who": "who whom whose",
    "what-is": "whats",
}
SYNONYMS: Mapping[str, str] = {
    word: meaning for meaning, all_of in _SYNONYMS.items() for word in all_of.split()
}
"""Word to the word that stands for it."""

_TABLE: tuple[tuple[Intent, str], ...] = (
    (
        Intent.TIMELINE,
        "timeline; what happen first; what happen when; what begin first; which begin first",
    ),
    (Intent.BEFORE, "happen before; before; see before; what before; ever; last time; this before"),
    (
        Intent.AGAINST,
        "against; sure; how sure; you sure; what against; evidence against; why sure; change mind",
    ),
    (
        Intent.SUSPECTS,
        "other blame; other cause; what other; which other; blame; who blame; other; could other "
        "cause",
    ),
    (Intent.MISSING, "miss; what miss; evidence miss; not see; not check; not know; not collect"),
    (Intent.CHECKED, "what check; you check; source; which source; what source"),
    (
        Intent.WHY,
        "why; how you evidence; what evidence; evidence; why cause; why blame; why change; why "
        "deploy; why not; "
        "show evidence; how evidence; why happen; which evidence; why slow; why error",
    ),
    (
        Intent.NEXT,
        "next; roll; should roll over; roll over; what next; what should next; how next; should "
        "next; what now; "
        "what should; next should; who call next",
    ),
    (
        Intent.CHANGES,
        "change; deploy; what change; which change; which deploy; show change; show deploy; "
        "deploy before; "
        "change before; what deploy before; deploy happen before; change happen before; who "
        "deploy; who change; "
        "when deploy; when change; what change before; any change; any deploy; deploy error; what "
        "change begin; "
        "what change happen; happen deploy; change wrong",
    ),
    (
        Intent.LOGS,
        "log; show log; show error; error log; which error; what error; error; show error log; "
        "log before; "
        "see log; see error; which log; what log; any error; any log; log error before",
    ),
    (
        Intent.SLOW,
        "slow; slow call; what slow; which slow; show slow; show slow call; which call; where "
        "call; critical path; "
        "where slow; what call long; show call; which call slow; show critical path",
    ),
    (
        Intent.SINCE,
        "when begin; begin; when; how long; since when; when happen; when wrong; when error "
        "begin; when slow begin; "
        "when error; when slow; how long begin; long begin",
    ),
    (
        Intent.STILL,
        "still; over; is over; still happen; still error; still slow; still affect; is still; "
        "happen now; still wrong; "
        "still begin; all over; still over; when over; did over; is not over; still failing",
    ),
    (
        Intent.IMPACT,
        "affect; who affect; what affect; how affect; which affect; blast; how many affect; how "
        "many error; "
        "how many call; who error; is affect; how wrong; affect when; many call error; how error",
    ),
    (
        Intent.CAUSE,
        "cause; what cause; what happen; summary; what wrong; show cause; show summary; what is "
        "cause; what going on; "
        "which cause; show what happen; what summary; tell happen",
    ),
)
"""Intent to what asks for it: alternatives between semicolons, each a set of words that must all be
there. The alternative with the most words wins; of equal ones the earlier."""


_SMALL = listed(
    "a an the this that these those it its is are was were be been being has have had do does did "
    "does not no yes "
    "of in on at to for from by with and or but so if than then there here me us you your my our "
    "i we they them he "
    "she any some all more most much many few only just now please up down out about as into ago "
    "far away going go "
    "get got make made say says said mean means think thinks really actually maybe exactly today "
    "yesterday hour "
    "hours minute minutes day days last service services alert alerts job jobs incident issue "
    "system thing things "
    "one two main real root new rate rates rise rises rising rose drop drops dropped fall falls "
    "fell spike spiked "
    "increase increased went jump"
)
SAID_AS: Mapping[Intent, str] = {
    Intent.CAUSE: "what is the cause",
    Intent.WHY: "why this cause",
    Intent.AGAINST: "what speaks against it",
    Intent.CHANGES: "what changed",
    Intent.IMPACT: "who is affected",
    Intent.SINCE: "since when",
    Intent.STILL: "is it over",
    Intent.LOGS: "show logs",
    Intent.SLOW: "where does the time go",
    Intent.TIMELINE: "what happened when",
    Intent.MISSING: "what is missing",
    Intent.CHECKED: "what was checked",
    Intent.SUSPECTS: "which other suspects are there",
    Intent.NEXT: "what to do next",
    Intent.BEFORE: "did it happen before",
}
"""How a question is said back that may have meant something else."""


@dataclass(frozen=True)
class Understood:
    """What a question was taken for. `words` are its normalised words, `findings` those it
    names."""

    intent: Intent
    words: tuple[str, ...]
    meanings: frozenset[str]
    findings: tuple[str, ...] = ()


def strange_words(understood: Understood, names: Iterable[str]) -> int:
    """How many words of a question neither the table nor the case knows: with many it may be about
    something else."""
    known = {piece for name in names for piece in words(name)} | _SMALL | set(SYNONYMS) | _needed()
    return sum(w not in known and canonical([w], SYNONYMS)[0] == w for w in set(understood.words))


def understand(text: str) -> Understood:
    """The intent of a question by the table. Subjects, scopes and names in it are read by who
    answers."""
    said = words(text)
    meanings = frozenset(canonical(said, SYNONYMS)) | {w for w in said if w in _needed()}
    named = findings_in(text)
    if named:
        return Understood(Intent.EXPLAIN, tuple(said), meanings, named)
    return Understood(_by_table(meanings), tuple(said), meanings)


def _by_table(meanings: Iterable[str]) -> Intent:
    there = set(meanings)
    best, most = Intent.UNKNOWN, 0
    for intent, alternatives in _rows():
        for needed in alternatives:
            if len(needed) > most and needed <= there:
                best, most = intent, len(needed)
    return best


@cache
def _rows() -> tuple[tuple[Intent, tuple[frozenset[str], ...]], ...]:
    return tuple(
        (i, tuple(frozenset(a.split()) for a in row.split(";") if a.strip())) for i, row in _TABLE
    )


@cache
def _needed() -> frozenset[str]:
    """Every word that the table speaks of by itself."""
    return frozenset(
        word for _, alternatives in _rows() for needed in alternatives for word in needed
    )
