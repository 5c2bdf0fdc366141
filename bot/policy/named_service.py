"""Which of the services that exist a text means: for questions where no catalogue names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

LONGEST_NAME = 3
"""Words of a name that is written apart: "product catalog service"."""
LEAST_STEM, LEAST_PART = 3, 4
"""Letters of a word that stands for a longer name."""
MOST_TEXT, MOST_NAMES = 2_000, 5_000
_WORD = re.compile(r"[a-z0-9]+(?:[-_./:][a-z0-9]+)*")
_GLUE = re.compile(r"[\W_]+")
_END = re.compile(r"(?:service|svc|server|api|app|deployment)$")
_ORDINARY_WORDS = """
the is are was were be been it its this that a an and or not of in on at to from since for with all
some any our my we i you by what which who when where why how do does did has have can could again
now there here something anything everything down up slow fast high low app job jobs service
services system cluster production prod error errors fail fails failing failed broken crash crashing
timeout timeouts request requests latency cpu memory ram disk network gpu gpus database db cache
queue traffic load deploy deployment release training
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
"""Words that are no name alone, though something may be called so."""


def service_in(text: str, service_names: Iterable[str]) -> str | None:
    """The service: by its whole name, by the name without its ending ("checkout" for
    checkoutservice), or by a part that only one name has. None where that could be several."""
    names = dict.fromkeys(islice(service_names, MOST_NAMES))
    phrases = set(_phrases(text))
    for forms in (_whole, _stem, _parts):
        counts = {name: len(form) for name in names for form in forms(name) if form in phrases}
        longest = [name for name in counts if counts[name] == max(counts.values())]
        # A whole name is certain, even where two are equally long.
        if len(longest) == 1 or (longest and forms is _whole):
            return longest[0]
    return None


def _phrases(text: str) -> Iterator[str]:
    """The words, alone and up to three in a row, also without an ending."""
    words = _WORD.findall(text[:MOST_TEXT].casefold())
    for start, first in enumerate(words):
        if first in _ORDINARY:
            continue
        for end in range(start, min(start + LONGEST_NAME, len(words))):
            row = _GLUE.sub("", "".join(words[start : end + 1]))
            yield row
            yield _END.sub("", row)


def _whole(name: str) -> list[str]:
    return [_GLUE.sub("", name.casefold())]


def _stem(name: str) -> list[str]:
    stem = _END.sub("", _whole(name)[0])
    return [stem] if len(stem) >= LEAST_STEM else []


def _parts(name: str) -> list[str]:
    return [part for part in _GLUE.split(name.casefold()) if len(part) >= LEAST_PART]
