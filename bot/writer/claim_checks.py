"""The checks one sentence of a report must pass. Each answers None, or what is wrong in a few words.

What stands verbatim in the cited findings was written by code and is trusted; everything else is checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.writer.names import identifiers, is_percentile_of, without_names
from bot.writer.quantities import Quantity, canonical, moments, quantities
from bot.writer.support import Support, folded, named_in

_QUOTE = re.compile(r"\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’|(?<!\w)'([^']+)'(?!\w)")
_CLAUSE = re.compile(r";|, (?:and|but|while|whereas)\b|\bwhile\b|\bwhereas\b|(?<=[a-z)%])\. ")
_COUNTED = re.compile(
    r"^(?:other |affected |more )?(?:services?|ranks?|hosts?|nodes?|signals?|findings?|subjects?|changes?)\b"
)
_LABELS = re.compile(
    r"rank|gpu|node|host|step|stream|shard|partition|worker|device|replica|pod|thread|epoch|iteration|layer|stage|group"
    r"|line|process|pid|block|bucket"
)
"""Words in front of a number that names something: rank 3."""
_LABELLED_IN_DATA = frozenset({"http", "status", "code", "port", "error", "exit"})
_RISE = re.compile(
    r"\b(?:rose|rises?|risen|rising|increas\w+|climb\w+|jumped|grew|grown|higher|surged|spiked|up from)\b"
)
_FALL = re.compile(r"\b(?:fell|falls?|fallen|falling|decreas\w+|dropp?e?d|dropping|declin\w+|lower|shrank|down from)\b")
_CERTAIN = re.compile(
    r"\b(?:certainly|definitely|undoubtedly|without (?:a |any )?doubt|proven|guaranteed|conclusively|for sure|"
    r"beyond doubt|confirmed (?:root )?cause)\b"
)
_COMMAND = re.compile(
    r"\b(?:curl|wget|rm -\w+|sudo|chmod|mkfs|dd if=|bash -c|sh -c|kubectl (?:delete|exec|drain|apply|scale)|"
    r"drop (?:table|database)|truncate table|terraform (?:destroy|apply)|git push|npm install|pip install)\b"
    r"|\$\(|&&|\|\||\|\s*(?:sh|bash|python)\b"
)
_COMMON = re.compile(
    r"\b(?:this|that|with|from|have|been|were|will|which|when|there|their|then|than|they|into|over|after|before|about|your|"
    r"should|could|would|does|what|please|also|more|most|very|some|such|only|just|because|other|while|where|until|still|"
    r"likely|caused?|causes|root|alert|incident)\b"
)


def unsupported_wording(text: str, support: Support) -> str | None:
    """All checks of a sentence against the findings it cites."""
    rest = without_verbatim(text, support)
    own = folded(rest)
    return (
        _unknown_quote(rest, support)
        or _too_certain(own)
        or _unknown_name(rest, support)
        or _unsupported_time(rest, support)
        or _unsupported_number(rest, support)
        or _reversed(own, support)
        or _command(own, support)
        or _off_topic(own, text, rest, support)
    )


def without_verbatim(text: str, support: Support) -> str:
    """The text without the sentences and quotations that stand word for word in the cited findings."""
    for sentence in support.sentences:
        core = re.escape(sentence.rstrip("."))
        text = re.sub(rf"(?:^|(?<=[\s(:;,]))(?i:{core})(?=$|[;,.](?:\s|$)|\))", " ", text)
    for match in _QUOTE.finditer(text):
        if _is_quoted(next(g for g in match.groups() if g), support):
            text = text.replace(match.group(), " ")
    return text


def _is_quoted(quotation: str, support: Support) -> bool:
    return folded(quotation.strip(" .…")) in support.words


def _unknown_quote(rest: str, support: Support) -> str | None:
    found = _QUOTE.search(rest)
    return f"quotes {found.group()[:60]}, which no cited finding holds" if found else None


def _too_certain(own: str) -> str | None:
    found = _CERTAIN.search(own)
    return f'says "{found.group()}"; how sure it is, code decides' if found else None


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
    for clause in _CLAUSE.split(canonical(rest)):
        values = support.values_for(clause.lower())
        text = re.sub(rf"(?i)(?<!\w)(?:{'|'.join(spaced)})(?!\w)", " ", clause) if spaced else clause
        for quantity in quantities(moments(without_names(text))[1]):
            if not _is_supported(quantity, values, support):
                return f"the number {quantity.text} is not a cited finding's"
    return None


def _is_supported(quantity: Quantity, values: Sequence[Quantity], support: Support) -> bool:
    if any(equal(quantity, v) for v in values):
        return True
    if quantity.dimension != "plain":
        return False
    digits = quantity.text.lower()
    if quantity.raw in support.counts and _COUNTED.match(quantity.after):
        return True
    if is_percentile_of(digits, support.own) and quantity.after.startswith("percentile"):
        return True
    if _LABELS.fullmatch(quantity.before) and named_in(f"{quantity.before} {digits}", support.own):
        return True
    return quantity.before in _LABELLED_IN_DATA and named_in(digits, support.words)


def equal(quoted: Quantity, known: Quantity) -> bool:
    """Whether the quoted quantity is the known one, to the precision quoted and in convertible units."""
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


def _reversed(own: str, support: Support) -> str | None:
    """Says that something rose where every cited finding says it fell, or the reverse."""
    rises, falls = bool(_RISE.search(own)), bool(_FALL.search(own))
    said = " ".join(folded(f.sentence) for f in support.findings)
    known_rise, known_fall = bool(_RISE.search(said)), bool(_FALL.search(said))
    if (rises and not falls and known_fall and not known_rise) or (
        falls and not rises and known_rise and not known_fall
    ):
        return f"says it {'rose' if rises else 'fell'}; the cited findings say the opposite"
    return None


def _command(own: str, support: Support) -> str | None:
    found = _COMMAND.search(own)
    if found and found.group() not in support.advice:
        return f'holds a command ("{found.group()}") that code did not advise'
    return None


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
