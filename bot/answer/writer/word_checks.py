"""The words of a sentence: how sure it sounds, what kind of trouble it speaks of, what it asks to
do, its language."""

from __future__ import annotations

import re
import unicodedata

from bot.answer.writer.guarded_words import STEM, guarded, reporting_stems
from bot.answer.writer.names import identifiers, without_names
from bot.answer.writer.quantities import moments, quantities
from bot.answer.writer.support import Support, folded, named_in

MAX_STRANGE_SHARE = 0.25
"""Of a sentence's words that neither its findings nor a report's vocabulary know."""
_COMMAND = re.compile(
    r"\b(?:curl|wget|rm -\w+|sudo|chmod|mkfs|dd if=|bash -c|sh -c|kubectl "
    r"(?:delete|exec|drain|apply|scale)|"
    r"drop (?:table|database)|truncate table|terraform (?:destroy|apply)|git push|npm install|pip "
    r"install)\b"
    r"|\$\(|&&|\|\||\|\s*(?:sh|bash|python)\b"
)
_ATTRIBUTED = re.compile(
    r"\b(?:logs?|logged|lines?|messages?|says?|said|reports?|reported|titled?|named|called"
    r"|complains?|answers?|prints?"
    r"|writes?|errors?|deploy|change|flag|config|commit|moved|changed)\b"
)
"""The sentence says that somebody else's words follow."""
_ALL_OF = re.compile(
    r"\b(?:all|every|each|any|entirely|completely|totally|always|none of|no)(?: of)?(?: the| its| "
    r"their)? "
    r"(?:(?!other|others)\S+ "
    r"){0,3}?(?:requests?|calls?|users?|services?|spans?|answers?|responses?|traffic|steps?)\b"
)
_MOST_OF = re.compile(
    r"\b(?:most|majority|bulk|more than half|over half|nearly all|almost all)\b(?! likely| probabl)"
)
_HIDDEN = ("Cf", "Co", "Cn", "Cs")
_LETTERS_OF_UNITS = ("LATIN", "MICRO", "GREEK SMALL LETTER MU")
_LETTERS = re.compile(r"(?<!\w)(?:[a-z] ){3,}[a-z](?!\w)")
_DEFANGED = re.compile(r"\[\.\]|\(\.\)|\[dot\]|\bdot com\b|\bhxxp|\w\[:\]|//\w")


def unsupported_words(rest: str, support: Support) -> str | None:
    """All checks of the words that no cited finding holds verbatim."""
    own = folded(rest)
    return (
        _foreign_script(own, support)
        or _certain(own)
        or _too_much(own, support)
        or _unknown_trouble(own, support)
        or _command(own, support)
        or _unadvised(own, support)
        or _strange(rest, support)
    )


def _certain(own: str) -> str | None:
    found = guarded("certain").search(own)
    return f'says "{found.group()}"; how sure it is, code decides' if found else None


def _too_much(own: str, support: Support) -> str | None:
    """All, none or most of something, where the findings' shares do not say so."""
    shares = [v.value for v in support.values if v.dimension == "ratio" and v.value <= 1]
    found = _ALL_OF.search(own)
    if (
        found
        and not _said(found, support)
        and not any(s in (0.0, 1.0) for s in shares)
        and not _counts_all(own, support)
    ):
        return f'says "{found.group()[:60]}", which no cited finding says'
    found = _MOST_OF.search(own)
    if found and not _said(found, support) and not any(s > 0.5 for s in shares):
        return f'says "{found.group()}", which no cited finding says'
    return None


def _counts_all(own: str, support: Support) -> bool:
    """`all 8 steps` where a finding says 8 of 8."""
    return any(
        re.search(rf"(?<!\d){int(q.raw)} of {int(q.raw)}(?!\d)", support.own) is not None
        for q in quantities(moments(own)[1])
        if q.raw == int(q.raw)
    )


def _unknown_trouble(own: str, support: Support) -> str | None:
    for found in guarded("mechanism").finditer(own):
        if not _said(found, support):
            return f'speaks of "{found.group()}", which no cited finding does'
    return "writes an address so that it is not seen as one" if _DEFANGED.search(own) else None


def _command(own: str, support: Support) -> str | None:
    found = _COMMAND.search(own)
    if found and found.group() not in support.advice:
        return f'holds a command ("{found.group()}") that code did not advise'
    return None


def _unadvised(own: str, support: Support) -> str | None:
    """Asks for something to be done that the causes' next steps do not, or to something else."""
    for found in guarded("actions").finditer(own):
        steps = [step for step in support.advice.split("|") if named_in(found.group(), step)]
        if not steps and _said(found, support):
            continue
        target = re.split(r"[;,.]| and | or |\bif\b", own[found.end() :], maxsplit=1)[0]
        names = [*identifiers(target), *(s for s in support.subjects if named_in(s, target))]
        fits = any(
            all(folded(n) in step for n in names)
            and (names or not target.strip() or _stems(target) & _stems(step))
            for step in steps
        )
        if not fits:
            return f'advises to "{found.group()}{target[:40]}", which code did not'
    return None


def _foreign_script(own: str, support: Support) -> str | None:
    """Letters that are not Latin hide a word from every other check; so do letters one by one."""
    strange = {
        c for c in own if ord(c) > 127 and (c.isalpha() or unicodedata.category(c) in _HIDDEN)
    }
    if any(
        c not in support.words and not unicodedata.name(c, "").startswith(_LETTERS_OF_UNITS)
        for c in strange
    ):
        return "is not in plain English letters"
    found = _LETTERS.search(own)
    return f'spells out "{found.group()}"' if found else None


def _strange(rest: str, support: Support) -> str | None:
    """Uses words that neither the findings nor a report's vocabulary know."""
    words = _words(without_names(rest).lower())
    known = _stems(support.own) | _stems(support.advice) | reporting_stems()
    if _ATTRIBUTED.search(folded(rest)):
        known |= _stems(support.words)
    strange = [w for w in words if w[:STEM] not in known]
    if len(strange) > 1 or (strange and len(strange) > MAX_STRANGE_SHARE * len(words)):
        return f'says "{strange[0]}", which no cited finding says'
    return None


def _said(found: re.Match[str], support: Support) -> bool:
    """Whether code's own sentences say it as well."""
    return named_in(found.group(), support.own)


def _words(text: str) -> list[str]:
    return re.findall(r"(?<![\w-])[a-z]{4,}", folded(text))


def _stems(text: str) -> set[str]:
    return {w[:STEM] for w in re.findall(r"[a-z]{3,}", text)}
