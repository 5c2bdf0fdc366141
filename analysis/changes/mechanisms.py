"""How a change can do what is seen: each mechanism is recognised by the changed lines, and has
effects that few others have.

A mechanism counts only where the symptoms show one of its effects (`change_symptoms.EFFECTS`). The
table holds what post-mortems name again and again as what a change broke: Google, Site Reliability
Engineering, appendix C; Ghosh et al., "How to fight production incidents?" (SoCC 2022); Liu et al.,
"What bugs cause production cloud incidents?" (HotOS 2019). The words are those of common languages
and of configuration files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from faultline.analysis.changes.text import ChangeText, ValueChange, value_changes

SURE, ALSO = 0.55, 0.3
"""How far a mechanism whose own effect is seen, or only one that many others have, speaks for a
change (our choice)."""
SMALL_CHANGE = 1.5
"""A number that moves by less than this factor is a small step: half of the weight."""
_MESSAGE = re.compile(
    r"\b(log(ger|ging)?|slog|console|logrus|zap|tracing)\s?[.:]{1,2}\s?\w+!?\s?\(|\b(e?print(f"
    r"|ln)?|echo|Errorf|errors\.\w+|wrap\w*"
    r"|fmt\.\w+)!?\s?\(",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class AlteredText:
    """A change's altered lines in lower case with the words of names apart, and its changed
    values."""

    removed: str
    added: str
    context: str
    heading: str
    """Title and, for a flag or a setting, its name."""
    values: tuple[ValueChange, ...]
    kind: str
    settings: str
    """Names that are given another value."""
    versions_only: bool
    patch_only: bool

    def lost(self, words: str) -> bool:
        """A word that the removed lines have more often than the added ones."""
        # Subtraction keeps only the surplus, so a word that merely moves cancels out.
        return bool(_word_counts(words, self.removed) - _word_counts(words, self.added))

    def gained(self, words: str) -> bool:
        """A word that the added lines have more often than the removed ones."""
        return bool(_word_counts(words, self.added) - _word_counts(words, self.removed))

    def altered(self, words: str) -> bool:
        """A word that only one side has, or a changed value's line, or what is said of a flag or a
        setting."""
        pattern = re.compile(words)
        if set(_word_counts(words, self.removed)) != set(_word_counts(words, self.added)):
            return True
        if any(pattern.search(value.words) for value in self.values):
            return True
        if pattern.search(self.settings) is not None:
            return True
        # The title of a deploy often speaks of more than its diff changes.
        return self.kind != "deploy" and pattern.search(self.heading) is not None

    def lowered(self, words: str) -> bool:
        """A value that fell, in a line with the word."""
        fallen = [value for value in self.values if value.after < value.before]
        return any(re.search(words, value.words) for value in fallen)

    def raised(self, words: str) -> bool:
        """A value that rose, in a line with the word."""
        risen = [value for value in self.values if value.after > value.before]
        return any(re.search(words, value.words) for value in risen)


@dataclass(frozen=True)
class Mechanism:
    """`main_effects` effects tell it from others; `also` it shares with many. `delayed`: the effect
    needs time to build up."""

    name: str
    phrase: str
    main_effects: frozenset[str]
    also: frozenset[str]
    shown_by: Callable[[AlteredText], bool]
    delayed: bool = False


@dataclass(frozen=True)
class Shown:
    """The mechanisms that a change shows, and whether all that it changes is a value, by a small
    step."""

    mechanisms: tuple[Mechanism, ...]
    small_step: bool


@dataclass(frozen=True)
class MechanismMatch:
    """The mechanism that speaks most for a change, in [0, 1]."""

    strength: float = 0.0
    mechanism: Mechanism | None = None


def read_altered(text: ChangeText, kind: str, name: str) -> AlteredText:
    """`name` is a flag's or setting's own, which says what it is about."""
    removed, added = text.altered
    says_what = kind in ("flag", "config", "scale", "migration")
    return AlteredText(
        removed=_worded(_without_messages(removed)),
        added=_worded(_without_messages(added)),
        context=_worded(text.context),
        heading=_worded([text.title, name if says_what else ""]),
        values=value_changes(text.title, removed, added),
        kind=kind,
        settings=_worded(sorted(text.settings)),
        versions_only=text.changes_versions_only,
        patch_only=text.patches_dependency,
    )


def shown_by(altered: AlteredText) -> Shown:
    """All mechanisms of the table that the change shows."""
    mechanisms = tuple(m for m in MECHANISMS if m.shown_by(altered))
    # Without values this is true as well; `_only_values` then says no.
    small = all(value.factor < SMALL_CHANGE for value in altered.values)
    return Shown(mechanisms, small and _only_values(altered))


def strongest_match(shown: Shown, effects: frozenset[str]) -> MechanismMatch:
    """The strongest mechanism whose effect is seen; a small step of a value counts half."""
    match = MechanismMatch()
    for mechanism in shown.mechanisms:
        if mechanism.main_effects & effects:
            weight = SURE
        else:
            weight = ALSO if mechanism.also & effects else 0.0
        # Of equal weights the first in the table wins, in every run.
        if weight > match.strength:
            match = MechanismMatch(weight, mechanism)
    if shown.small_step:
        return MechanismMatch(match.strength / 2, match.mechanism)
    return match


def _only_values(altered: AlteredText) -> bool:
    """Whether every altered line gives a name another value."""
    if not altered.values:
        return False
    # A flag or a scaling has no diff: its title alone tells the value.
    if not altered.removed and not altered.added:
        return True
    lines = sum(value.lines for value in altered.values)
    # The lines are joined by newlines, so there is one more of them.
    return lines >= altered.added.count("\n") + 1


def _word_counts(words: str, text: str) -> Counter[str]:
    return Counter(match.group(0) for match in re.finditer(words, text))


def _without_messages(lines: Iterable[str]) -> Iterator[str]:
    """The lines without calls that only log or word an error, over several lines where they are not
    closed."""
    open_calls = 0
    for line in lines:
        if open_calls <= 0 and not _MESSAGE.search(line):
            yield line
            continue
        # A line may close more than it opened: the end of an enclosing call.
        open_calls = max(0, open_calls + line.count("(") - line.count(")"))


def _worded(lines: Iterable[str]) -> str:
    """The lines with the words of names apart."""
    worded = []
    for line in lines:
        apart = _CAMEL.sub(" ", line).replace("_", " ").replace("-", " ")
        worded.append(apart.lower())
    return "\n".join(worded)


def _calls_per_item(text: AlteredText) -> bool:
    loop = r"\bfor\b|\bforeach\b|\bfor each\b|\.map\(|\bwhile\b|\bstream\(\)|\.each\b"
    call = (
        r"\b(query|select|get|fetch|find|look "
        r"?up|load|read|put|write|insert|send|post|request|call|exec|save)\b"
    )
    # The loop may be an unchanged line around the added call.
    return text.gained(call) and re.search(loop, f"{text.added}\n{text.context}") is not None


def _grows(text: AlteredText) -> bool:
    bound = (
        r"\b(max|limit|limited|bounded|evict\w*|lru|ttl|expire\w*|capacity|cap|trim|prune"
        r"|weak ref\w*)\b"
    )
    keeps = (
        r"\b(append|push|add|put|insert|accumulat\w+|record|register|subscribe|add "
        r"listener|store|retain|history)\b"
    )
    containers = (
        r"\b(var|static|global|cache|map|dict|list|slice|history|buffer|log|listeners?|registry"
        r"|set)\b|\[\]|\{\}"
    )
    if text.lost(bound) and not text.gained(bound):
        return True
    # Code that keeps items and bounds them does not grow.
    if not text.gained(keeps) or re.search(bound, text.added):
        return False
    return re.search(containers, text.added) is not None


def _guard_gone(text: AlteredText) -> bool:
    guard = (
        r"\b(if|unless|guard|assert|ensure|check|validate|require|optional|catch|except|rescue"
        r"|recover|or else)\b"
    )
    # One guard in place of another is no loss: their total has to fall.
    return text.lost(guard) and _total(guard, text.removed) > _total(guard, text.added)


def _total(words: str, text: str) -> int:
    return sum(_word_counts(words, text).values())


def _new_version(text: AlteredText) -> bool:
    return text.versions_only and not text.patch_only


def _mechanism(
    name: str,
    phrase: str,
    main_effects: str,
    also: str,
    shown_by: Callable[[AlteredText], bool],
    *,
    delayed: bool = False,
) -> Mechanism:
    return Mechanism(
        name, phrase, frozenset(main_effects.split()), frozenset(also.split()), shown_by, delayed
    )


_TIME = r"\b(timeout|deadline|budget|wait|patience|ttl|interval)\b"
_SIZE = (
    r"\b(pools?|conn\w*|workers?|threads?|replicas?|instances?|concurren\w+|parallel\w*|limits?"
    r"|quota|capacity|memory|mem"
    r"|cpu|heap|buffer|max|min|desired|partitions?|shards?|nodes?|slots?)\b"
)
_BULK = (
    r"\b(batch\w*|bulk|chunk\w*|prefetch\w*|preload\w*|includes?|join\w*|pipelin\w*|buffer\w*"
    r"|multi ?get|group ?by)\b"
)
_CLOSE = (
    r"\b(close\w*|release\w*|dispose\w*|unlock|free|defer|finally|using|with|cleanup|clean "
    r"up|destroy|return to pool)\b"
)

MECHANISMS = (
    _mechanism(
        "timeout",
        "changes a time limit",
        "timeouts",
        "latency unreachable connections",
        lambda t: t.lowered(_TIME) or t.raised(_TIME) or t.altered(r"\b(timeout|deadline)\b"),
    ),
    _mechanism(
        "tolerance",
        "takes out a tolerance",
        "access timeouts",
        "parse null tls",
        lambda t: t.lost(
            r"\b(leeway|skew|tolerance|grace|fallback|margin|drift|lenient|optional)\b"
        ),
    ),
    _mechanism("guard", "takes out a check", "null parse", "start access", _guard_gone),
    _mechanism(
        "call_per_item",
        "makes a call for each item",
        "throttling database load",
        "latency timeouts cpu",
        _calls_per_item,
    ),
    _mechanism(
        "batching",
        "takes out batching",
        "throttling load backlog",
        "latency database cpu timeouts",
        lambda t: t.lost(_BULK) and not t.gained(_BULK),
    ),
    _mechanism(
        "growth",
        "keeps more and more in memory or on disk",
        "memory",
        "disk cpu latency start",
        _grows,
        delayed=True,
    ),
    _mechanism(
        "release",
        "no longer gives something back",
        "connections locks",
        "memory timeouts unreachable",
        lambda t: t.lost(_CLOSE) and not t.gained(_CLOSE),
        delayed=True,
    ),
    _mechanism(
        "less_capacity",
        "lowers a capacity",
        "connections memory throttling cpu backlog load",
        "latency timeouts unreachable start",
        lambda t: t.lowered(_SIZE + r"|\b(rate|burst|per second|per minute)\b"),
    ),
    _mechanism(
        "more_use",
        "lets more be used at once",
        "connections memory throttling",
        "database cpu disk latency",
        lambda t: t.raised(_SIZE + r"|\b(batch|prefetch|page|size|entries)\b"),
    ),
    _mechanism(
        "cache",
        "weakens a cache",
        "load database",
        "latency cpu throttling timeouts",
        lambda t: (
            (t.lost(r"\b(cache\w*|memo\w*)\b") and not t.gained(r"\b(cache\w*|memo\w*)\b"))
            or t.lowered(r"\b(ttl|cache|expir\w+|max age)\b")
            or t.altered(r"\b(ttl|max age)\b")
        ),
        delayed=True,
    ),
    _mechanism(
        "retries",
        "changes retries",
        "load throttling",
        "timeouts latency connections unreachable",
        lambda t: t.altered(
            r"\b(retry\w*|retries|backoff|jitter|attempts?|hedg\w+|circuit ?breaker)\b"
        ),
    ),
    _mechanism(
        "verbosity",
        "logs more",
        "disk",
        "cpu latency memory",
        lambda t: (
            t.gained(r"\b(debug|verbose|trace)\b") or t.raised(r"\b(sampl\w+|log|verbosity)\b")
        ),
        delayed=True,
    ),
    _mechanism(
        "migration",
        "changes a table",
        "locks",
        "database latency timeouts parse",
        lambda t: (
            t.kind == "migration"
            or t.altered(
                r"\b(alter table|drop (table|column|index)|rename (column|table)|create (unique )?index"  # noqa: E501
                r"|add (column|constraint)|foreign key|not null)\b"
            )
        ),
    ),
    _mechanism(
        "encoding",
        "changes how data is written or read",
        "parse",
        "version",
        lambda t: t.altered(
            r"\b(json|proto\w*|schema|marshal\w*|unmarshal\w*|serializ\w+|deserializ\w+|encod\w+"
            r"|decod\w+|avro|codec|format|parse\w*|required|charset)\b"
        ),
    ),
    _mechanism(
        "access",
        "changes access checks",
        "access",
        "unreachable",
        lambda t: t.altered(
            r"\b(auth\w*|tokens?|jwt|expir\w+|exp|secrets?|credentials?|permissions?"
            r"|roles?|polic\w+|scopes?|audience|issuer|sessions?|cookies?|cors|acl|rbac|iam)\b"
        ),
    ),
    _mechanism(
        "tls",
        "changes certificates or TLS",
        "tls",
        "unreachable",
        lambda t: t.altered(
            r"\b(tls|ssl|certs?|certificates?|ca bundle|cipher\w*|keystore|truststore|mtls)\b"
        ),
    ),
    _mechanism(
        "address",
        "changes an address or a route",
        "unreachable",
        "timeouts",
        lambda t: t.altered(
            r"\b(url|uri|host|hostname|endpoints?|port|addr\w*|dns|routes?|ingress|selector"
            r"|firewall|proxy|subnet|egress|upstream|network polic\w+"
            r"|security group\w*|namespace)\b"
        ),
    ),
    _mechanism(
        "version", "changes a dependency's version", "version", "start null parse", _new_version
    ),
    _mechanism(
        "setting",
        "changes required settings",
        "start",
        "null",
        lambda t: t.altered(
            r"\b(env|getenv|environment|config|setting\w*|required|must|default)\b"
        ),
    ),
    _mechanism(
        "locking",
        "waits for a lock",
        "locks",
        "latency timeouts connections",
        lambda t: t.gained(
            r"\b(lock|mutex|synchroni[sz]ed|serializable|for update|semaphore|exclusive)\b"
        ),
    ),
    _mechanism(
        "consumer",
        "changes how messages are consumed",
        "backlog",
        "latency",
        lambda t: t.altered(
            r"\b(consumer\w*|partition\w*|offsets?|acks?|acknowledg\w+|poll\w*|commit\w*"
            r"|rebalanc\w+)\b"
        ),
    ),
    _mechanism(
        "work",
        "does more work per request",
        "cpu",
        "latency timeouts",
        lambda t: t.gained(
            r"\b(regex\w*|regexp|bcrypt|scrypt|hash\w*|encrypt\w*|compress\w*|gzip|zstd"
            r"|brotli|sort\w*)\b"
        ),
    ),
)
