"""A statement: subject, verb and rest, so that it can stand by itself ("checkout is 18x slower"),
in the past ("checkout was 18x slower"), or after its cause ("deploy 81 made checkout 18x slower").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from faultline.analysis.phrasing.phrase import NOTHING, Part, Phrase, Slot, joined, name, say
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.names import subject_name


class Tense(Enum):
    """Whether it goes on."""

    NOW = "now"
    OVER = "over"


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
