"""Is a message in our thread, written without a mention, a question to us? When in doubt it is not.

People talk to each other in these threads. What is taken here is a short question that the intent
table, or the form "is it ...?", understands, and that is addressed to nobody else. A worker still
says nothing where the case holds no answer.
"""

from __future__ import annotations

import re

from faultline.bot.intake.questions.request_kind import RequestKind, understand
from faultline.bot.intake.questions.subjects import asks_about, names_metric, speaks_of_a_span
from faultline.bot.intake.questions.words import listed, words

MAX_CHARACTERS = 300
MAX_WORDS = 30
_TO_SOMEBODY = re.compile(r"<@|<!|```|@(?:here|channel|everyone)\b", re.IGNORECASE)
"""A mention of somebody (ours is another event), of a group, or a pasted block."""
_ASKS = listed(
    "why what which who whom whose when where how is are was were has have had did does do any "
    "could might since"
)
_TELLS = listed(
    "show list explain summarize summarise compare check graph chart plot draw timeline tldr"
)
_PEOPLE = listed(
    "i we us our my someone anyone somebody anybody everyone everybody guys folks team y'all ya "
    "will gonna eta meeting "
    "standup lunch zoom huddle bridge oncall on-call paged jira ticket tomorrow tonight he she "
    "they him her them "
    "shall let want wanna lets sync me finished done channel always right slack"
)
"""Words of people who plan among each other."""
_ONLY_IF_TALKING = frozenset({"you", "your"})
"""With these the bot is meant only by somebody who is talking with it."""


TO_WHOM_IT_TALKS = frozenset(
    {
        RequestKind.FEEDBACK,
        RequestKind.ACTION,
        RequestKind.HYPOTHETICAL,
        RequestKind.OWNERSHIP,
        RequestKind.STATUS_UPDATE,
        RequestKind.POSTMORTEM,
        RequestKind.HELP,
    }
)
"""People say and ask these of each other: without a mention only who is talking with the bot means
it."""


def addresses_somebody(text: str) -> bool:
    """Whether a text, as Slack has it, mentions somebody or holds a pasted block."""
    return _TO_SOMEBODY.search(text) is not None


def is_question(text: str, *, talking: bool = False) -> bool:
    """`text` is plain. `talking`: its writer asked us in this thread a moment ago."""
    if len(text) > MAX_CHARACTERS or addresses_somebody(text):
        return False
    tokens = words(text)
    if not 0 < len(tokens) <= MAX_WORDS:
        return False
    asks_to_show = tokens[0] in _TELLS
    # In "show me" or "tell us", the pronoun is no sign of people who talk to each other.
    spoken = set(tokens) - ({"us", "me"} if asks_to_show else set())
    if spoken & (_PEOPLE if talking else _PEOPLE | _ONLY_IF_TALKING):
        return False
    kind = understand(text).kind
    if kind in TO_WHOM_IT_TALKS:
        return talking
    asks = text.rstrip().rstrip("!").endswith("?")
    # Without a question mark, a long sentence that begins with "when" or "is" tells something.
    if not (asks or asks_to_show or (tokens[0] in _ASKS and len(tokens) <= 8)):
        return False
    if kind is not RequestKind.UNKNOWN:
        return True
    return any(reads(text) for reads in (asks_about, names_metric, speaks_of_a_span))
