"""The commands: their words, typing errors forgiven, and what each is followed by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from faultline.bot.intake.questions.slack_question import Kind
from faultline.bot.intake.questions.words import nearest, words

NAMES: Mapping[str, Kind] = {
    "investigate": "investigate",
    "status": "status",
    "explain": "explain",
    "trace": "trace",
    "handover": "handover",
    "handoff": "handover",
    "help": "help",
    "quiet": "quiet",
    "silence": "quiet",
    "mute": "quiet",
    "hush": "quiet",
    "listen": "listen",
    "unmute": "listen",
}
MOST_WORDS: Mapping[Kind, int] = {
    "status": 3,
    "handover": 6,
    "help": 3,
    "quiet": 3,
    "listen": 3,
}
"""Commands that stand alone: in a longer sentence the word is a part of a question ("help me
understand why ...")."""
POLITE = frozenset(
    {"please", "pls", "hey", "hi", "hello", "ok", "okay", "faultline", "bot", "now", "be", "a"}
)
THANKS = frozenset(
    {
        "thanks",
        "thank",
        "thx",
        "ty",
        "cheers",
        "great",
        "nice",
        "cool",
        "you",
        "good",
        "job",
        "perfect",
    }
)
"""A message of nothing else wants no answer."""
FINDING = re.compile(r"(?<![\w-])f-?(\d{1,5})(?![a-z0-9])", re.IGNORECASE)
"""Not the end of another name, such as that of an investigation: 20261123-080247-f94097."""
LOCATION = re.compile(r"s3://[^\s<>|\"'`]{3,1024}")
_FIRST = re.compile(rf"^\W*(?:(?:{'|'.join(sorted(POLITE))})\b\W*)*\S+[\s:,]*", re.IGNORECASE)
"""The command's own word, and what is polite before it."""
ABOUT_ELSE: Mapping[Kind, frozenset[str]] = {
    "quiet": frozenset({"alert", "alerts", "monitor"}),
    "status": frozenset({"of", "update", "page", "report", "message"}),
    "handover": frozenset({"note", "notes", "text", "message", "draft"}),
}
"""`mute this alert` is about the alert, and `status update` and `handover notes` about a text, not
about us."""


@dataclass(frozen=True)
class Command:
    """A command and what follows it."""

    kind: Kind
    argument: str = ""


def command_in(text: str) -> Command | None:
    """The command that a text addressed to us gives, or None: then it is a question, or something
    else."""
    tokens = words(text)
    key_tokens = [word for word in tokens if word not in POLITE]
    if not key_tokens:
        # Words in a script that is not read here are no call for help.
        foreign = not tokens and any(character.isalpha() for character in text)
        return None if foreign else Command("help")
    if len(key_tokens) == 1 and FINDING.fullmatch(key_tokens[0]):
        return Command("explain", key_tokens[0].upper().replace("-", ""))
    inflected = any(
        key_tokens[0].startswith(name) for name in NAMES
    )  # "investigated" tells, it does not ask
    name = (
        key_tokens[0]
        if key_tokens[0] in NAMES
        else None
        if inflected
        else nearest(key_tokens[0], NAMES)
    )
    if name is None:
        return None
    kind = NAMES[name]
    about_else = ABOUT_ELSE.get(kind, frozenset()) & set(key_tokens)
    if len(key_tokens) > MOST_WORDS.get(kind, len(key_tokens)) or about_else:
        return None
    return _with_argument(kind, text)


def _with_argument(kind: Kind, text: str) -> Command | None:
    if kind == "explain":
        match = FINDING.search(text)
        # `F03` and `f-3` both name finding F3.
        return Command(kind, f"F{int(match[1])}") if match else None
    if kind == "trace":
        place = LOCATION.search(text)
        # Punctuation at the end belongs to the sentence, not to the address.
        return Command(kind, place[0].rstrip(".,;:!?)")) if place else _named_trace(text)
    if kind in ("investigate", "handover"):
        return Command(kind, _FIRST.sub("", text, count=1))
    return Command(kind)


def _named_trace(text: str) -> Command | None:
    """`trace` alone, or with something that is no place: then we say what it takes. `trace of
    checkout?` asks."""
    rest = text.split(maxsplit=1)[1:]
    looks_like_place = bool(rest) and rest[0].lstrip("<").startswith(
        ("/", "gs://", "http://", "https://", "file:")
    )
    return (
        Command("trace", rest[0] if looks_like_place else "")
        if not rest or looks_like_place
        else None
    )


def is_courtesy(text: str) -> bool:
    """Whether a message only thanks."""
    tokens = words(text)
    return bool(THANKS & set(tokens)) and not set(tokens) - THANKS - POLITE


def findings_in(text: str) -> tuple[str, ...]:
    """The findings that a text names: `F3`, `f-12`."""
    return tuple(dict.fromkeys(f"F{int(n)}" for n in FINDING.findall(text)))
