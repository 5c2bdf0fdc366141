"""A statement: subject, verb and rest, so that it can stand by itself ("checkout is 18x slower"),
in the past ("checkout was 18x slower"), or after its cause ("deploy 81 made checkout 18x slower").
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Literal

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import Unit, amount
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import capitalised, plain

# A piece of a sentence that knows where each of its words comes from.
#
# A phrase is made from a template of plain English whose slots hold names, figures, times,
# quotations and other phrases. Its text is for people; its parts say which finding a figure is of,
# so that the same sentence can be checked, linked and put into another form.

Role = Literal["words", "name", "figure", "time", "quote"]
QUOTED = 120
_FORMAT = string.Formatter()


@dataclass(frozen=True)
class Part:
    """Some words of a phrase. `finding` is the id of the finding that they are of."""

    text: str
    role: Role = "words"
    finding: str = ""
    number: str = ""
    """Name of the finding's number that a figure shows."""


@dataclass(frozen=True)
class Phrase:
    """Parts in the order in which they are read."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(part.text for part in self.parts)

    def __bool__(self) -> bool:
        return any(part.text for part in self.parts)

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings that it names, each once, in the order in which they are named."""
        ids = [part.finding for part in self.parts if part.finding]
        return tuple(dict.fromkeys(ids))

    @property
    def sentence(self) -> str:
        """The text as a whole sentence. A name that it begins with stays as it is written."""
        text = str(self).strip()
        first = next((part for part in self.parts if part.text.strip()), None)
        # A name or a quotation is written as its owner writes it, also at the beginning.
        if first is not None and first.role not in ("name", "quote"):
            text = capitalised(text)
        return text if text.endswith((".", "!", "?", "…")) else f"{text}."


Slot = Phrase | Part | str
NOTHING = Phrase(())


def say(template: str, **slots: Slot) -> Phrase:
    """The template with its slots filled: `say("{who} is slow", who=name("web"))`. Raises KeyError
    for a slot that is not given."""
    parts: list[Part] = []
    for words, slot, _, _ in _FORMAT.parse(template):
        if words:
            parts.append(Part(words))
        if slot is not None:
            parts += _parts(slots[slot])
    return Phrase(tuple(parts))


def name(subject: str) -> Part:
    """A service, rank or place by the name that people use."""
    return Part(subject_name(subject), "name")


def figure(finding: Finding, number: str, text: str) -> Part:
    """A number of a finding, as it is shown."""
    return Part(text, "figure", finding.id, number)


def measured(finding: Finding, number: str, unit: Unit) -> Part:
    """A number of a finding in its unit, with two or three digits."""
    return figure(finding, number, amount(finding.numbers[number], unit))


def sentence_clause(finding: Finding) -> Phrase:
    """The finding's own sentence as a clause: in small letters unless it begins with a name."""
    text = finding.sentence.strip().rstrip(".")
    first = text.split(" ", 1)[0]
    # A name begins it, or else a word that has its capital from beginning the sentence.
    named = finding.subject.startswith(first) or not first.istitle()
    if not named:
        text = text[:1].lower() + text[1:]
    return Phrase((Part(text, "name" if named else "words", finding.id),))


def quote(text: str, finding: Finding) -> Part:
    """Foreign text between quotation marks, on one line and cut. Secrets are hidden first: half of
    one looks like any other text."""
    inside = plain(masked(text), QUOTED).replace("“", '"').replace("”", '"')
    return Part(f"“{inside}”", "quote", finding.id)


def clock(time: datetime) -> Part:
    """A time of day as "14:02", in UTC; with seconds where they matter, "14:02:10"."""
    utc = time.astimezone(UTC)
    text = f"{utc:%H:%M:%S}" if utc.second else f"{utc:%H:%M}"
    return Part(text, "time")


def dated(time: datetime, reference: datetime) -> Phrase:
    """A time as "14:02 UTC", with its day where that is not the day of `reference`."""
    day = "" if time.date() == reference.date() else f" on {time.day} {time:%b}"
    return say("{time} UTC{day}", time=clock(time), day=day)


def in_brackets(what: Phrase, more: Phrase) -> Phrase:
    """A clause with more in brackets: in those that it ends with, where it does."""
    last = what.parts[-1] if what.parts else None
    if last is None or not last.text.endswith(")"):
        return say("{what} ({more})", what=what, more=more)
    # Nested brackets are hard to read, so reuse the pair that is there.
    opened = Phrase((*what.parts[:-1], replace(last, text=last.text[:-1])))
    return say("{what}, {more})", what=opened, more=more)


def listed(items: Sequence[Slot], most: int = 3) -> Phrase:
    """`a`, `a and b`, `a, b and c`; beyond `most`, "a, b and 4 more"."""
    shown: list[Slot] = list(items)
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    parts: list[Part] = []
    for index, item in enumerate(shown):
        if index:
            parts.append(Part(" and " if index == len(shown) - 1 else ", "))
        parts += _parts(item)
    return Phrase(tuple(parts))


def joined(phrases: Iterable[Phrase], between: str) -> Phrase:
    """The phrases that say something, one after the other."""
    parts: list[Part] = []
    for phrase in phrases:
        if phrase:
            if parts:
                parts.append(Part(between))
            parts += phrase.parts
    return Phrase(tuple(parts))


def _parts(slot: Slot) -> tuple[Part, ...]:
    if isinstance(slot, Phrase):
        return slot.parts
    return (slot,) if isinstance(slot, Part) else (Part(slot),)


class Tense(Enum):
    """Whether it goes on."""

    NOW = "now"
    OVER = "over"

    def of(self, finding: Finding) -> Tense:
        """Of a statement about this finding: what came back is over, whatever else goes on."""
        return Tense.OVER if finding.details.recovered else self


@dataclass(frozen=True)
class Verb:
    """The forms of a verb that statements take. What moved has been moved by its cause: "raised"
    its level; anything else was "made" to do what it does."""

    present: str
    past: str
    base: str
    """After "made": "made requests fail"; empty for "is"."""
    cause: str = "made"


IS = Verb("is", "was", "")
ARE = Verb("are", "were", "")


ROSE = Verb("rose", "rose", "", cause="raised")


FELL = Verb("fell", "fell", "", cause="lowered")


FAIL = Verb("fail", "failed", "fail")


@dataclass(frozen=True)
class Statement:
    """What is said of something."""

    subject: Phrase
    verb: Verb | None
    """None where the whole stands in `subject`, as the finding has it."""
    rest: Phrase = NOTHING
    shorter: Phrase | None = None
    """The rest with one figure or none, for a sentence that says something else too; without a
    verb all of the shorter clause."""

    def clause(self, tense: Tense = Tense.NOW) -> Phrase:
        """With subject and verb."""
        return self._with(self.rest, tense)

    def short(self, tense: Tense = Tense.NOW) -> Phrase:
        """The same with its shorter rest."""
        if self.verb is None:
            # Without a verb, `rest` is part of `subject`, so there is nothing to put after it.
            return self.subject if self.shorter is None else self.shorter
        return self._with(self.rest if self.shorter is None else self.shorter, tense)

    def of_place(self, place: str) -> Statement:
        """The same of one place: "... in cluster-b"; unchanged without one."""
        if not place or self.verb is None:
            return self
        shorter = self.shorter if self.shorter is None else spaced(self.shorter, place)
        return replace(self, rest=spaced(self.rest, place), shorter=shorter)

    def _with(self, rest: Phrase, tense: Tense) -> Phrase:
        if self.verb is None:
            return self.subject
        verb = self.verb.present if tense is Tense.NOW else self.verb.past
        return spaced(self.subject, verb, rest)

    @property
    def caused(self) -> Phrase | None:
        """After the name of its cause; None where it cannot be put so."""
        return self._caused(self.rest)

    @property
    def caused_short(self) -> Phrase | None:
        """The same with its shorter rest."""
        return self._caused(self.rest if self.shorter is None else self.shorter)

    def _caused(self, rest: Phrase) -> Phrase | None:
        # A verb without a present is a whole clause already, which no cause can precede.
        if self.verb is None or not self.verb.present:
            return None
        return spaced(self.verb.cause, self.subject, self.verb.base, rest)


def spaced(*slots: Slot) -> Phrase:
    phrases = [slot if isinstance(slot, Phrase) else say("{it}", it=slot) for slot in slots]
    return joined(phrases, " ")


class Voice:
    """How a clause names its subject: by name, or as "it" where the sentence named it just
    before."""

    def __init__(self, subject: str, *, as_pronoun: bool = False) -> None:
        self.as_pronoun = as_pronoun
        self.who: Slot = "it" if as_pronoun else name(subject)
        self.whose: Slot = "its" if as_pronoun else Part(possessive(subject_name(subject)), "name")


def possessive(who: str) -> str:
    """`checkout's`, `payments'`."""
    # A name that ends in s reads as a plural.
    return f"{who}'" if who.endswith("s") else f"{who}'s"


Form = Callable[[Finding, Voice], Statement | None]
