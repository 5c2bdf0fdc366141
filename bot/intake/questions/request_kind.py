"""What a message asks for: first its kind, by the table in `request_kinds.toml`, then how many of
its words neither the table nor the case knows.

The table is honest: what is not in it is not understood, and said so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path

from faultline.bot.intake.questions.commands import findings_in
from faultline.bot.intake.questions.subjects import METRIC_WORDS
from faultline.bot.intake.questions.words import listed, nearest, words

TABLE = Path(__file__).with_name("request_kinds.toml")
GUESSED = 5
"""Words of fewer letters are too near to others to be taken for a misspelt one."""
_SENTENCE = re.compile(r"(?<=[.?!;\n])\s+|,\s+(?=it (?:was|is)\b|the cause\b)")
_LITERAL = re.compile(r"(?<!\\)[a-z0-9]+")
_ENDINGS = ("", "s", "d", "ed", "ing")


class RequestKind(StrEnum):
    """What can be asked for. Only `unknown`, `explain`, `subject`, `metric` and `further` are not
    told by the table."""

    FEEDBACK = "feedback"
    HYPOTHETICAL = "hypothetical"
    ACTION = "action"
    PICTURE = "picture"
    POSTMORTEM = "postmortem"
    STATUS_UPDATE = "status_update"
    OWNERSHIP = "ownership"
    COMPARE = "compare"
    STILL = "still"
    DEPLOYED = "deployed"
    CALLS = "calls"
    ALERT = "alert"
    HELP = "help"
    CAUSE = "cause"
    WHY = "why"
    AGAINST = "against"
    CHANGES = "changes"
    IMPACT = "impact"
    SINCE = "since"
    LOGS = "logs"
    SLOW = "slow"
    TIMELINE = "timeline"
    MISSING = "missing"
    CHECKED = "checked"
    SUSPECTS = "suspects"
    NEXT = "next"
    BEFORE = "before"
    EXPLAIN = "explain"
    SUBJECT = "subject"
    METRIC = "metric"
    FURTHER = "further"
    UNKNOWN = "unknown"


SMALL = listed(
    """
    a an the this that these those it its is are was were be been being am has have had do does did
    no not yes of in on at to for from by with and or but so if then than there here me us you your
    my our i we they them he she any some all more most much many few only just now please pls up
    down out about as into ago far away go going get got make made say says said mean think thinks
    really actually maybe exactly today hour hours minute minutes day days last service services
    alert alerts alerting job jobs incident issue system thing things one two real new can could
    would will should give show tell let what which who how hey hi ok okay too also again already
    yet see look need want right bed back help thanks thank bot faultline between end ended usage
    use used level value levels values high low higher lower bad go up down rise rose drop dropped
    spike spiked increase normal usual usually typical before after during vs versus per does
    anyone anybody anything somebody someone everyone everything people nobody touch touched take
    took put call called like because cause without within under way lot kind sort part place side
    point sure guess believe find found happen try trying still same different long short big small
    great good nice first next later soon never ever always often often well current currently
    paged page firing fired fire fine broken involved feature something anything this run doing
    """
)
"""Words that say nothing about the question."""


@dataclass(frozen=True)
class UnderstoodRequest:
    """A message that was understood. `words` are normalised, misspelt ones put right; `findings`
    are those it names."""

    kind: RequestKind
    words: tuple[str, ...]
    findings: tuple[str, ...] = ()

    def strange(self, names: Iterable[str]) -> tuple[str, ...]:
        """Words that neither the table nor the case knows, in their order."""
        pieces = {piece for name in names for piece in _pieces(name)} | SMALL | _vocabulary()
        return tuple(
            w
            for w in dict.fromkeys(self.words)
            # The case does not have to know numbers, or words for times.
            if not (
                _pieces(w) <= pieces
                or bool(re.fullmatch(r"\d.*|.*(?:day|night|week|month|morning)s?", w))
            )
        )

    def telling(self) -> int:
        """How many of its words say something."""
        return sum(word not in SMALL for word in dict.fromkeys(self.words))


def understand(text: str) -> UnderstoodRequest:
    """What a text asks for; of several sentences the first that asks. Services, metrics and times
    in it are read by who answers."""
    tokens = tuple(_corrected(words(text)))
    named = findings_in(text)
    if named:
        return UnderstoodRequest(RequestKind.EXPLAIN, tokens, named)
    for sentence in _SENTENCE.split(text.strip())[:5]:
        asks = sentence.rstrip(" !").endswith("?")
        kind = _kind_of(" ".join(_corrected(words(sentence))), asks=asks)
        if kind is not RequestKind.UNKNOWN:
            return UnderstoodRequest(kind, tokens)
    return UnderstoodRequest(RequestKind.UNKNOWN, tokens)


@cache
def examples() -> dict[RequestKind, str]:
    """How each kind of question is said back."""
    return {RequestKind(r.name): r.example for r in _rows() if r.example}


@dataclass(frozen=True)
class _Row:
    name: str
    pattern: re.Pattern[str]
    source: str
    statement: bool
    example: str


def _kind_of(sentence: str, *, asks: bool) -> RequestKind:
    for row in _rows():
        # "It is fixed" and "is it fixed?" share their words: only the form tells them apart.
        if row.statement and asks:
            continue
        if row.pattern.search(sentence):
            return RequestKind(row.name)
    return RequestKind.UNKNOWN


@cache
def _rows() -> tuple[_Row, ...]:
    rows = []
    for name, kind in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        source = "|".join(kind["patterns"])
        statement, example = kind.get("statement", False), kind.get("example", "")
        rows.append(_Row(name, re.compile(source), source, statement, example))
    return tuple(rows)


@cache
def _vocabulary() -> frozenset[str]:
    """Every word that stands in the table, and the forms of each."""
    vocabulary: set[str] = set()
    for row in _rows():
        # Strip escapes such as `\b` and the marks of groups, which are no words.
        plain = re.sub(r"\\.", " ", row.source).replace("?:", " ")
        # Of `graphs?` the word is `graph`; its forms follow.
        plain = re.sub(r"[a-z]\?", "", plain)
        for word in _LITERAL.findall(plain):
            vocabulary.update(word + ending for ending in _ENDINGS)
    return frozenset(vocabulary)


@cache
def _guessable() -> frozenset[str]:
    return frozenset(word for word in _vocabulary() if len(word) >= GUESSED)


def _corrected(tokens: Iterable[str]) -> Iterator[str]:
    for word in tokens:
        in_vocabulary = word in SMALL or word in METRIC_WORDS or word in _vocabulary()
        yield word if in_vocabulary or len(word) < GUESSED or not word.isalpha() else _guessed(word)


@lru_cache(maxsize=4096)
def _guessed(word: str) -> str:
    """A word of the table that begins with the same letter, as nobody mistypes that."""
    return nearest(word, [w for w in _guessable() if w[0] == word[0]]) or word


def _pieces(name: str) -> frozenset[str]:
    """`pretrain-ranker/rank 2` is pretrain, ranker, rank and 2, and each word of it whole."""
    tokens = words(name)
    return frozenset(tokens) | {piece for word in tokens for piece in re.split(r"[-_./:]", word)}
