"""What a log line says, without what its logger puts before it: time, level, thread, ids of traces.

The forms are those of logback, log4j, Python's logging, glog, klog and of JSON that a shipper has
turned into text.
"""

from __future__ import annotations

import re

_TIME = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
_CLOCK = r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
_GLOG = r"[IWEFD]\d{4}\s+\d\d:\d\d:\d\d(?:\.\d+)?\s+\d+\s+\S+:\d+\]"
_LEVEL = r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE)\]?:?"
_LEADING = re.compile(
    rf"^(?:\s*(?:{_TIME}|{_CLOCK}|{_GLOG}|{_LEVEL}(?=\s)|\[[\w .\-/#]{{1,40}}\](?=\s)|-(?=\s)))+\s*"
)
_IDS = re.compile(
    r"\b(?:trace|span|request|correlation)[ _-]?id\s*[:=]\s*\"?[0-9a-f-]{8,36}\"?[,;]?\s*",
    re.IGNORECASE,
)
LEAST = 12
"""Of a shorter rest the whole line is kept: its logger wrote all of it."""


def message_of(line: str) -> str:
    """The line's own words; all of it where nothing else would be left."""
    message = _IDS.sub("", _LEADING.sub("", line)).strip()
    return message if len(message) >= LEAST else line.strip()
