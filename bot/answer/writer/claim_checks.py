"""The checks one sentence of a report must pass. Each answers None, or what is wrong in a few
words.

What stands verbatim in the cited findings was written by code and is trusted; everything else is
checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.answer.writer.direction_checks import CLAUSE, wrong_way
from bot.answer.writer.names import identifiers, is_percentile_of, without_names
from bot.answer.writer.quantities import Quantity, canonical, moments, quantities
from bot.answer.writer.support import Support, folded, named_in, position_of
from bot.answer.writer.word_checks import unsupported_words

_QUOTE = re.compile(r"\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’|(?<!\w)'([^']+)'(?!\w)")
_COUNTED = re.compile(
    r"^(?:other |affected |more "
    r")?(?:services?|ranks?|hosts?|nodes?|signals?|findings?|subjects?|changes?)\b"
)
_BOUND = re.compile(
    r"(?:(?P<more>more than|over|above|at least|exceeding)|less than|under|below|at most|up to)\s+$"
)
BOUND = 1.25
"""How far from a value a bound may lie that a sentence names."""
_STATUS = re.compile(r"[1-5]\d\d")
"""An HTTP status that a signal's name holds."""
_LABELS = re.compile(
    r"rank|gpu|node|host|step|stream|shard|partition|worker|device|replica|pod|thread|epoch"
    r"|iteration|layer|stage|group"
    r"|line|process|pid|block|bucket"
)
"""Words in front of a number that names something: rank 3."""
SHORT_QUOTE = 3
"""Words up to which a quotation is a name in quotation marks."""
_LABELLED_IN_DATA = frozenset({"http", "status", "code", "port", "error", "exit"})
_COMMON = re.compile(
    r"\b(?:this|that|with|from|have|been|were|will|which|when|there|their|then|than|they|into|over"
    r"|after|before|about|your|"
    r"should|could|would|does|what|please|also|more|most|very|some|such|only|just|because|other"
    r"|while|where|until|still|"
    r"likely|caused?|causes|root|alert|incident)\b"
)


def unsupported_wording(text: str, support: Support) -> str | None:
    """All checks of a sentence against the findings it cites."""
    rest = without_verbatim(text, support)
    own = folded(rest)
    return (
        _unknown_quote(rest, support)
        or _unknown_name(rest, support)
        or _unsupported_time(rest, support)
        or _unsupported_number(rest, support)
        or wrong_way(rest, support)
        or unsupported_words(rest, support)
        or _only_quotes(text, rest, support)
        or _off_topic(own, text, rest, support)
    )


def without_verbatim(text: str, support: Support) -> str:
    """The text without the sentences and quotations that stand word for word in the cited
    findings."""
    text = without_sentences(text, support)
    for match in _QUOTE.finditer(text):
        if _is_quoted(next(g for g in match.groups() if g), support):
            text = text.replace(match.group(), " ")
    return text


def without_sentences(text: str, support: Support) -> str:
    """The text without the sentences of code that stand in it word for word."""
    for sentence in support.sentences:
        core = re.escape(sentence.rstrip("."))
        text = re.sub(rf"(?:^|(?<=[\s(:;,]))(?i:{core})(?=$|[;,.](?:\s|$)|\))", " ", text)
    return text


def spoken(text: str, support: Support) -> str:
    """The text without code's sentences and without longer quotations; a quoted name or word is
    spoken like others."""
    said = without_sentences(text, support)
    for match in _QUOTE.finditer(said):
        quotation = next(g for g in match.groups() if g)
        short = len(quotation.split()) <= SHORT_QUOTE
        said = said.replace(match.group(), f" {quotation} " if short else " ")
    return said


def _is_quoted(quotation: str, support: Support) -> bool:
    return folded(quotation.strip(" .…")) in support.words


def _unknown_quote(rest: str, support: Support) -> str | None:
    found = _QUOTE.search(rest)
    return f"quotes {found.group()[:60]}, which no cited finding holds" if found else None


def _only_quotes(text: str, rest: str, support: Support) -> str | None:
    """Other systems' words need a sentence that says whose they are."""
    if (
        without_sentences(text, support) == text
        and rest != text
        and len(re.findall(r"[A-Za-z]{2,}", rest)) < 2
    ):
        return "only quotes"
    return None


def _unknown_name(rest: str, support: Support) -> str | None:
    for name in identifiers(rest):
        if not _is_known(name, support):
            return f"names {name}, which no cited finding names"
    own = folded(rest)
    stranger = next((s for s in support.strangers if named_in(s, own)), None)
    return f"names {stranger}, which no cited finding names" if stranger else None


def _is_known(name: str, support: Support) -> bool:
    low = folded(name)
    if low in {f.id.lower() for f in support.findings} or named_in(low, support.words):
        return True
    if re.fullmatch(r"[0-9a-f]{7,40}", low):
        return re.search(rf"(?<![a-z0-9]){low}", support.words) is not None
    return is_percentile_of(low, support.own)


def _unsupported_time(rest: str, support: Support) -> str | None:
    for moment in moments(canonical(rest))[0]:
        if not any(moment.matches(i) for i in support.instants):
            return f"the time {moment.text} is not a cited finding's"
    return None


def _unsupported_number(rest: str, support: Support) -> str | None:
    spaced = [re.escape(canonical(f.subject)) for f in support.findings if " " in f.subject]
    for clause in CLAUSE.split(canonical(rest)):
        for part in _by_subject(clause, support):
            values = support.values_for(part.lower())
            text = (
                re.sub(rf"(?i)(?<!\w)(?:{'|'.join(spaced)})(?!\w)", " ", part) if spaced else part
            )
            for quantity in quantities(moments(without_names(text))[1]):
                if not _is_supported(quantity, values, support) and not _is_bound(
                    quantity, text, values
                ):
                    return f"the number {quantity.text} is not a cited finding's"
    return None


def _is_bound(quantity: Quantity, text: str, values: Sequence[Quantity]) -> bool:
    """`more than a third` of 38 %: an honest bound lies close to the value."""
    place = text.find(quantity.text)
    found = _BOUND.search(text[:place].lower()) if place >= 0 else None
    if not found:
        return False
    low, high = (1.0, BOUND) if found["more"] else (1 / BOUND, 1.0)
    alike = (v for v in values if v.dimension == quantity.dimension)
    return any(low * quantity.value <= v.value <= high * quantity.value for v in alike)


def _by_subject(clause: str, support: Support) -> list[str]:
    """`A rose 3x and B rose 5x` cut before B, so that each number is held against the subject it
    stands with."""
    low = clause.lower()
    parts = re.split(r"\band\b", low)
    if len(parts) != 2:
        return [clause]
    subjects = {folded(f.subject) for f in support.findings}
    named = [{s for s in subjects if position_of(s, part) >= 0} for part in parts]
    if not all(named) or named[0] & named[1] or not all(re.search(r"\d", part) for part in parts):
        return [clause]
    cut = len(parts[0])
    return [clause[:cut], clause[cut:]]


def _is_supported(quantity: Quantity, values: Sequence[Quantity], support: Support) -> bool:
    if any(equal(quantity, v) for v in values):
        return True
    if quantity.dimension == "time":
        return any(abs(quantity.value - s) <= quantity.tolerance + 1e-9 for s in support.spans)
    if quantity.dimension != "plain":
        return False
    digits = quantity.text.lower()
    if _STATUS.fullmatch(digits) and named_in(digits, support.own):
        return True
    if quantity.raw in support.counts and _COUNTED.match(quantity.after):
        return True
    if is_percentile_of(digits, support.own) and quantity.after.startswith("percentile"):
        return True
    if _LABELS.fullmatch(quantity.before) and named_in(f"{quantity.before} {digits}", support.own):
        return True
    return quantity.before in _LABELLED_IN_DATA and named_in(digits, support.words)


def equal(quoted: Quantity, known: Quantity) -> bool:
    """Whether the quoted quantity is the known one, to the precision quoted and in convertible
    units."""
    if quoted.raw == 0:
        return known.raw == 0
    if quoted.dimension == known.dimension:
        return _near(quoted.value, known.value, quoted.tolerance)
    if quoted.dimension == "plain":
        return _near(quoted.raw, known.raw, quoted.raw_tolerance) or (
            known.dimension == "ratio" and _near(quoted.raw, known.value, quoted.raw_tolerance)
        )
    if quoted.dimension != "ratio" or known.dimension != "plain":
        return False
    is_share = quoted.value != quoted.raw
    if is_share:
        return known.raw <= 1 and _near(quoted.value, known.raw, quoted.tolerance)
    return quoted.text.endswith("times") and _near(quoted.raw, known.raw, quoted.raw_tolerance)


def _near(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * (1 + 1e-9) + 1e-12 * abs(b)


def _off_topic(own: str, text: str, rest: str, support: Support) -> str | None:
    """Shares neither a word nor a number with what it cites."""
    times, without_times = moments(own)
    if rest != text or any(m.matches(i) for m in times for i in support.instants):
        return None
    if any(equal(q, v) for q in quantities(without_times) for v in support.values):
        return None
    stems = _stems(support.own)
    said = _stems(own)
    return None if stems & said else "says nothing that the findings it cites say"


def _stems(text: str) -> set[str]:
    return {w[:5] for w in re.findall(r"[a-z]{4,}", _COMMON.sub(" ", text))}
