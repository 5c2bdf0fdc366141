"""A mention outside of our threads: does it tell of trouble, so that an investigation begins?"""

from __future__ import annotations

import re

from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.request_kind import RequestKind, understand
from faultline.bot.intake.questions.words import words
from faultline.bot.intake.service_names import mentioned
from faultline.bot.settings import Settings

_SYMPTOM = re.compile(
    r"\b(?:slow\w*|latency|laggy|errors?|erroring|fail(?:s|ed|ing|ures?)?|[45](?:xx|\d\d)s?|down"
    r"|tim(?:ing|es?|ed) ?-?outs?|broken?|crash\w*|oom\w*|stuck|hang(?:s|ing)?|hung|unavailable"
    r"|unreachable|unresponsive|throwing|throws|degraded|outages?|spik\w*|not working|restarting"
    r"|nan|diverg\w*|leak(?:s|ing)?)\b"
)
ABOUT_TROUBLE = frozenset(
    {
        RequestKind.UNKNOWN,
        RequestKind.CAUSE,
        RequestKind.WHY,
        RequestKind.STILL,
        RequestKind.SINCE,
        RequestKind.IMPACT,
        RequestKind.SLOW,
        RequestKind.LOGS,
    }
)
"""What else is asked for, such as who is on call, needs no investigation."""


def tells_of_trouble(text: str, settings: Settings) -> bool:
    """Whether a text names a symptom, or a service of the catalogue, and asks for nothing else."""
    kind = understand(text).kind
    if command_in(text) is not None or kind not in ABOUT_TROUBLE:
        return False
    # "The errors are gone" is good news.
    if kind is RequestKind.STILL and not text.rstrip().endswith("?"):
        return False
    tokens = words(text)
    if _SYMPTOM.search(" ".join(tokens)):
        return True
    return len(tokens) > 1 and mentioned(settings, text) in settings.services
