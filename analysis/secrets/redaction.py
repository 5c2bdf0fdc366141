"""The edge: every text that is kept, sent, shown or logged goes through `secret_spans`.

Three ways lead to it: `masked` for one text, `faultline.analysis.secrets.columns.mask_column` for a
column of them, `masked_value` for a value with texts in it. `faultline.bot.answer.writer.payload`
numbers what it finds, for the texts that a model reads.

What is found, in this order: what the operator's rules name, tokens by their shape, values beside
the name of a secret, both once more in the text with its escapes undone and in what its base64
holds, and at last words that look random.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

import re2
from pydantic import BaseModel

from faultline.analysis.secrets.commands import COMMANDS
from faultline.analysis.secrets.encodings import base64_runs, undone
from faultline.analysis.secrets.key_names import is_placeholder
from faultline.analysis.secrets.named_values import Span, may_name_secret, named_values
from faultline.analysis.secrets.patterns import HINTS, SECRETS, VENDOR_KEYS

# The operator's own rules: what is always a secret, what never is, and what is not kept at all.
#
# Patterns are RE2's: time is linear in the text whatever the pattern says, and what RE2 cannot do
# (look-around, back-references) is refused when the rule is read.

Action = Literal["redact", "keep", "block"]

LONGEST_PATTERN = 1_000
MOST_MEMORY = 8 << 20
"""Bytes of the compiled pattern; a larger one is refused."""
BLOCKED = "[BLOCKED]"
"""What is left of a text that a rule blocks."""
CUSTOM = "CUSTOM"


class BadPattern(ValueError):
    """The pattern cannot be used; says why."""


@dataclass(frozen=True)
class Rule:
    """One rule. A pattern with groups is about its first group; otherwise about the whole match."""

    pattern: str
    action: Action = "redact"


def compiled(pattern: str) -> Any:
    """The pattern of a rule for RE2. Raises BadPattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it is longer than {LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        made = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
    # Such a pattern would mask between all letters of every text.
    if made.search("") is not None:
        raise BadPattern("it matches the empty text, and so every text")
    return made


class RuleSet:
    """Rules by what they do."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._redact = _of("redact", rules)
        self._keep = _of("keep", rules)
        self._block = _of("block", rules)
        self.is_empty = not rules

    def blocks(self, text: str) -> bool:
        """Whether the whole text is to go."""
        return any(pattern.search(text) is not None for pattern in self._block)

    def redacted(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of what the rules call secret."""
        return _match_spans(self._redact, text)

    def harmless_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of what the rules call harmless."""
        return _match_spans(self._keep, text)


def _of(action: Action, rules: Iterable[Rule]) -> list[Any]:
    return [compiled(rule.pattern) for rule in rules if rule.action == action]


def _match_spans(patterns: Iterable[Any], text: str) -> Iterator[tuple[int, int]]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            # An optional group may not have matched: then the whole match is meant.
            group = 1 if match.re.groups and match.group(1) is not None else 0
            if match.start(group) < match.end(group):
                yield match.start(group), match.end(group)


# The last net: words that only a random generator writes.
#
# A word counts where it has 36 or more characters of the base64 alphabet, small letters, capitals
# and digits among them, and changes between these kinds about as often as chance would (62 % of the
# places of a random word, 10 to 25 % of names such as `ThreadPoolExecutor2Worker`). Commits,
# digests, UUIDs and trace ids are of one case and so none. What stands behind the name of a digest,
# such as `sha512-`, is none either.

SHORTEST = 36
FEWEST_CHANGES = 0.42
LEAST_BITS = 4.1
"""Shannon entropy per character; 36 random characters of 62 have about 4.6."""
MOST_SLASHES = 0.1
"""Share of slashes; paths have more."""

_WORD = re.compile(
    rf"(?<![A-Za-z0-9+/_.$\-])[A-Za-z0-9+/]{{{SHORTEST},4096}}={{0,2}}(?![\w+/.(\-])"
)
_DIGEST_BEFORE = re.compile(
    r"(?i)(?:sha-?\d{1,3}|md5|h1|blake\w{0,3}|digest|checksum|etag|fingerprint|base64|integrity)"
    r"[\"']?[\s:=,\-]{1,3}[\"']?\Z"
)


def random_words(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the words that look random."""
    for match in _WORD.finditer(text):
        if _is_random(match.group().rstrip("=")) and not _DIGEST_BEFORE.search(
            text, max(0, match.start() - 24), match.start()
        ):
            yield match.span()


def _is_random(word: str) -> bool:
    # The beginning of a long word decides as well as all of it.
    word = word[:256]
    kinds = [_kind(c) for c in word]
    if len(set(kinds) - {"s"}) < 3 or kinds.count("s") > MOST_SLASHES * len(word):
        return False
    changes = sum(previous_kind != other for previous_kind, other in pairwise(kinds))
    if changes < FEWEST_CHANGES * (len(word) - 1):
        return False
    counts = Counter(word).values()
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in counts)
    return bits >= LEAST_BITS


def _kind(character: str) -> str:
    if character.isdigit():
        return "d"
    if character.isalpha():
        return "u" if character.isupper() else "l"
    return "s"


LONGEST = 262_144
"""Characters of one text; what comes after is left out."""
LEFT_OUT = "[TOO_LONG]"
DEEPEST_BASE64 = 2

_MASKED = re.compile(r"\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]")
_HAS_ESCAPE = re.compile(r"[\\%&]")
_rules = RuleSet()

_VENDOR_WORDS = [(word, place) for place, row in enumerate(VENDOR_KEYS) for word in row[0]]
_SECRET_WORDS = [
    (word, place) for place, (kind, _) in enumerate(SECRETS) for word in HINTS.get(kind, ())
]
_COMMAND_WORDS = [(word, place) for place, row in enumerate(COMMANDS) for word in row[0]]
_ALWAYS = {place for place, (kind, _) in enumerate(SECRETS) if kind not in HINTS}

M = TypeVar("M", bound=BaseModel)


_clean: set[str] = set()
"""Short texts without secrets that were seen lately: names of services and labels come again and
again."""
SHORT = 120
MOST_CLEAN = 20_000
MOST_KEYS = 2_000


def use_rules(rules: Sequence[Rule]) -> None:
    """Set the operator's rules of this process. Raises BadPattern."""
    global _rules  # noqa: PLW0603  of a process, as its log
    _rules = RuleSet(rules)
    # A text that was clean under the old rules may hold a secret under the new ones.
    _clean.clear()


def masked(text: str) -> str:
    """The text with each secret replaced by its kind, `[AWS_KEY]`. Not reversible; personal data
    stays. A text that the operator blocks becomes `[BLOCKED]`."""
    # Asked here too: the way down costs more than the question.
    return text if text in _clean else replaced(text, lambda kind, _secret: f"[{kind}]")


def masked_words(text: str) -> str:
    """The text without what its base64 hides and without words that look random: for one that is
    known to hold nothing else."""
    is_clean = len(text) <= LONGEST and not _packed_spans(text, DEEPEST_BASE64)
    return text if is_clean else masked(text)


def masked_link(link: str) -> str:
    """An address that a connector made: what it packs into its path to open a query is no secret,
    however random it looks."""
    return replaced(link, lambda kind, _secret: f"[{kind}]", packed=False)


def replaced(text: str, replacement: Callable[[str, str], str], *, packed: bool = True) -> str:
    """The text with each secret replaced by what is given for its kind and itself. Without
    `packed`, base64 and random words are left alone."""
    if packed and text in _clean:
        return text
    # Blocking comes first: nothing of such a text may be kept.
    if _rules.blocks(text):
        return BLOCKED
    cut = text[:LONGEST]
    pieces: list[str] = []
    last = 0
    for start, end, kind in secret_spans(cut, packed=packed):
        pieces += [cut[last:start], replacement(kind, cut[start:end])]
        last = end
    if last == 0 and len(cut) == len(text):
        if packed and len(text) <= SHORT:
            # Drop all at once: counting which of them were used last would cost more than it saves.
            if len(_clean) >= MOST_CLEAN:
                _clean.clear()
            _clean.add(text)
        return text
    pieces.append(cut[last:])
    if len(cut) < len(text):
        pieces.append(LEFT_OUT)
    return "".join(pieces)


def rules_in_use() -> tuple[Rule, ...]:
    """The operator's rules of this process, for another process to use."""
    return _rules.rules


def has_rules() -> bool:
    """Whether the operator has rules."""
    return not _rules.is_empty


def masked_value(value: Any) -> Any:
    """A JSON value with every text in it masked. A text that its key names as a secret goes
    whole."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, (dict, Mapping)):
        clean: dict[str, Any] = {}
        for key, child in value.items():
            kind = kind_under(str(key), child) if isinstance(child, str) else None
            clean[masked(str(key))] = f"[{kind}]" if kind else masked_value(child)
        return clean
    if isinstance(value, (list, tuple)):
        return type(value)(masked_value(child) for child in value)
    return value


def kind_under(key: str, value: str) -> str | None:
    """The kind of secret that a value is because of its key; None where the key does not make it
    one."""
    may_name = _may_name_secret if len(key) <= SHORT else may_name_secret
    if not may_name(key) or _MASKED.match(value):
        return None
    # Written as JSON, so that the notation of pairs recognises key and value.
    prefix, quoted = f'"{key}": "', value.replace("\\", "\\\\").replace('"', '\\"')
    whole = (len(prefix), len(prefix) + len(quoted))
    for start, end, kind in named_values(prefix + quoted + '"'):
        if (start, end) == whole:
            return kind
    return None


@lru_cache(MOST_KEYS)
def _may_name_secret(key: str) -> bool:
    return may_name_secret(key)


def masked_model(model: M, keep: Iterable[str] = ()) -> M:
    """A model of pydantic's with every text in it masked, but in the fields to keep."""
    dump = model.model_dump(mode="json", exclude=set(keep))
    clean = masked_value(dump)
    if clean == dump:
        return model
    plain_fields = model.model_dump(mode="json", include=set(keep))
    return type(model).model_validate({**clean, **plain_fields})


def secret_spans(text: str, *, packed: bool = True) -> list[Span]:
    """Start, end and kind of each secret in the text, in order, none overlapping another. Without
    `packed`, base64 and random words are left alone."""
    written_spans = _all_spans(text, DEEPEST_BASE64) if packed else _written_spans(text)
    if not written_spans:
        return []
    # What an operator calls harmless stays, even if another pattern calls it a secret.
    harmless_spans = [] if _rules.is_empty else list(_rules.harmless_spans(text))
    placeholders = [match.span() for match in _MASKED.finditer(text)]
    spans: list[Span] = []
    for start, end, kind in _joined(written_spans):
        if any(low <= start and end <= high for low, high in harmless_spans):
            continue
        spans += _without(start, end, kind, placeholders)
    return spans


def _without(start: int, end: int, kind: str, holes: Iterable[tuple[int, int]]) -> list[Span]:
    """The span, unless a placeholder stands in it: then what is left and right of that goes with
    it only where it was not the placeholder alone."""
    inside = [hole for hole in holes if hole[0] < end and start < hole[1]]
    if not inside:
        return [(start, end, kind)]
    # A placeholder at the beginning means that the value has been masked before.
    if inside[0][0] <= start + 1:
        return []
    return [(start, inside[0][0], kind)] if inside[0][0] - start > 2 else []


def _all_spans(text: str, depth: int) -> list[Span]:
    return [*_written_spans(text), *_packed_spans(text, depth)]


def _packed_spans(text: str, depth: int) -> list[Span]:
    spans: list[Span] = []
    read: list[tuple[int, int]] = []
    for start, end, decoded in base64_runs(text) if depth else ():
        read.append((start, end))
        if _all_spans(decoded, depth - 1):
            spans.append((start, end, "ENCODED_SECRET"))
    for start, end in random_words(text):
        # base64 of a text is not random: whether it holds a secret has been seen
        if not any(low <= start and end <= high for low, high in read):
            spans.append((start, end, "RANDOM_TOKEN"))
    return spans


def _written_spans(text: str) -> list[Span]:
    plain_spans = _plain_spans(text)
    if _HAS_ESCAPE.search(text):
        for layer in undone(text):
            for start, end, kind in _plain_spans(layer.text):
                plain_spans.append((layer.places[start], layer.places[end], kind))
    return plain_spans


def _plain_spans(text: str) -> list[Span]:
    spans: list[Span] = []
    if not _rules.is_empty:
        spans += [(start, end, CUSTOM) for start, end in _rules.redacted(text)]
    for place in sorted(_candidate_places(text, _VENDOR_WORDS)):
        spans += [
            (*match.span(), "VENDOR_KEY")
            for match in VENDOR_KEYS[place][1].finditer(text)
            if not is_placeholder(match[0])
        ]
    low = text.lower()
    for place in sorted(_ALWAYS | _candidate_places(low, _SECRET_WORDS)):
        kind, pattern = SECRETS[place]
        for match in pattern.finditer(text):
            group = match.lastindex or 0
            if match.start(group) < match.end(group) and not is_placeholder(match[group]):
                spans.append((*match.span(group), kind))
    for place in sorted(_candidate_places(low, _COMMAND_WORDS)):
        spans += [(*match.span(1), "SECRET") for match in COMMANDS[place][1].finditer(text)]
    spans += named_values(text)
    return spans


def _candidate_places(text: str, words: Sequence[tuple[str, int]]) -> set[int]:
    """The places of the patterns that have a word in the text: most texts hold none, and no pattern
    has to be tried on them."""
    return {place for word, place in words if word in text}


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Overlapping spans as one; it bears the kind of the one that was found first."""
    order = {span: place for place, span in reversed(list(enumerate(spans)))}
    joined: list[tuple[int, int, Span]] = []
    for span in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if joined and span[0] < joined[-1][1]:
            start, end, first_span = joined[-1]
            first_span = min(first_span, span, key=lambda candidate: order[candidate])
            joined[-1] = (start, max(end, span[1]), first_span)
        else:
            joined.append((span[0], span[1], span))
    return [(start, end, first_span[2]) for start, end, first_span in joined]
