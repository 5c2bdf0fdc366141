"""People as answers and pages name them: Slack names them by ids, which say nothing to a reader.

Slack tells a name with a click, and none with a message.
"""

from __future__ import annotations

import re

SOMEBODY = "a person"
SLACK_USER = re.compile(r"(?:[\w-]+:)?[UW][A-Z0-9]{2,20}")
"""The id of a person, of a named workspace as well."""
_MENTION = re.compile(r"<@[UW][A-Z0-9]{2,20}(?:\|(?P<name>[^<>|]{1,80}))?>")


def person(who: str) -> str:
    """Somebody by what is kept of them; empty where nobody is named."""
    return SOMEBODY if SLACK_USER.fullmatch(who) else who


def without_mentions(text: str) -> str:
    """A text with names in place of Slack's mentions of people."""
    return _MENTION.sub(lambda match: match["name"] or SOMEBODY, text)
