"""Values that stand beside the name of a secret, in whatever notation: where they begin and end.

A word such as `token` is found first, then the whole name around it, then what follows it is read
as the notations of settings, programs and protocols write a pair: `=`, `:`, `=>`, a flag, a tag, a
tuple, `name`/`value`, SQL's `PASSWORD '...'`. Each step reads a bounded piece, so that time is
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from faultline.analysis.secrets.key_names import (
    Sure,
    holds_secret,
    is_placeholder,
    is_sentence_word,
    looks_made,
)
from faultline.analysis.secrets.key_names import sureness as _sureness

Span = tuple[int, int, str]
"""Start, end and kind of a secret in a text."""

LONGEST_NAME = 80
LONGEST_VALUE = 8_192

_CORE = re.compile(
    r"(?i)passw|passphrase|passcode|pass(?![a-z])|pwd|secret|token|auth|cred|key|sess|sid"
    r"|cookie|sig|csrf|xsrf|jwt|bearer|hmac|(?<![a-z])pw(?![a-z])|otp|identified"
    r"|kennwort|contrase|senha|de[_ ]?passe|macaroon|pword|(?<![a-z])psk(?![a-z])"
    r"|(?<![a-z])pin(?![a-z])|(?:seed|recovery)[_ ]?phrase"
    r"|(?:unlock|verification|activation|recovery|backup|confirmation|login|mfa|sms"
    r"|invite|invitation|pairing|redemption|access|security)[_\- ]?code(?![a-z])"
)
_NAME_BEFORE = re.compile(r"[\w.\-]{0,80}\Z")
_FIRST_WORD = re.compile(
    r"(?i)(?<![a-z])(?:api|app|application|access|secret|private|account|signing|auth|encryption"
    r"|service|client|license|webhook|shared)[ ]\Z"
)
_NAME_AFTER = re.compile(r"[\w\-]{0,80}(?:\.[\w\-]{1,60}){0,4}")
_ASSIGN = re.compile(
    r"[\"'`\])]{0,3}(?:[ \t]?\(?[ \t.]{0,40}(?:\r?\n[ \t]{1,40}(?==))?)"
    r"(?::=|=>|==?|:(?!:)|->|<-(?=[\s\"'])|[→⇒]|~=?(?=\w)|[ \t]\|(?=[ \t]))"
    r"(?:[ \t]{0,40}(?:\r?\n[ \t]{0,40})?)(?:=\s{0,4})?"
)
_COMPLEX_KEY = re.compile(r"[\"']?[ \t]{0,8}\r?\n[ \t]{0,40}:[ \t]{1,8}")
_BEFORE_COMPLEX_KEY = re.compile(r"(?:\A|[\r\n])[ \t]{0,20}\?[ \t]{1,4}[\"']?\Z")
_PREFIX = re.compile(
    r"(?:!{1,2}[\w.:/\-]{1,40}[ \t]+|[A-Z]\w{1,20}\((?=[\"'])|\(\w{1,10}\)[ \t]\(len=\d{1,6}\)[ \t]"
    r"|Some\(|SecretStr\(|string\(\d{1,4}\)[ \t]*|s:\d{1,4}:|[|>][+\-]?[ \t]*"
    r"\r?\n[ \t]{1,20}|PASSWORD\(|[bBuUrRfFN](?=[\"'])|\\(?=[\"'])|&quot;|%(?:25)?22"
    r"|<!\[CDATA\[|\[[\"']?(?=(?i:bearer|basic|token) ))*",
)
_STRING = {
    '"': re.compile(r"((?:\\.|\"\"(?=\w)|[^\"\\]){0,8192})(?:\"|\Z)", re.DOTALL),
    "'": re.compile(r"((?:\\.|''(?=\w)|[^'\\]){0,8192})(?:'|\Z)", re.DOTALL),
    "`": re.compile(r"([^`]{0,8192})(?:`|\Z)"),
}
_BARE = re.compile(
    r"(?:[^\s\"'`,;&()\[\]{}<>|\\]"
    r"|&(?!(?:amp;|quot;)|[\w.%\-\[\]]{1,60}=|\s|\Z)|[,;)\]}|](?=[^\s\"'`,;&()\[\]{}<>|\\])(?!\w{1,40}[=:])"
    r"|[(\[{<](?=[^\s\"'`]{0,20}[^\s\"'`,;&()\[\]{}<>|])(?!\w{1,40}[=:])|\\(?![\"'nrtu\\])){1,4096}"
)
_BRACED = re.compile(
    r"\{([^{}\r\n:\"]{3,200})\}|\[([^\[\]\s\"':{}]{3,200})\]|\(([^()\s\"']{3,200})\)"
)
_LONG_BRACKETS = re.compile(r"\[(={0,3})\[([^\]\r\n]{1,1024})\]\1\]")
"""A string of Lua's."""
_REST = re.compile(r"[^\r\n\"'`\]<>]{1,8192}")
_QUOTED_REST = re.compile(r"[^\r\n]{1,8192}")
_SCHEME = re.compile(r"([A-Za-z][\w\-]{1,30})[ \t:,]{1,3}(?=\S)")
_SCHEME_NAMES = """
basic bearer token apikey api-key digest hmac negotiate ntlm dpop sharedkey sharedkeylite
sharedaccesssignature ssws geniekey splunk hawk mac oauth aws aws4-hmac-sha256 key jwt snowflake
goog4-rsa-sha256 zoho-oauthtoken bot client-id discogs vapid signature
"""
_SCHEMES = frozenset(_SCHEME_NAMES.split())
_LIST = re.compile(r"\[((?:[^\[\]{}]){1,4096})\]")
_ITEMS = re.compile(r"[\"']([^\"'\r\n]{3,1024})[\"']")
_BLOCK_LIST = re.compile(r"(?:[ \t]{0,20}-[ \t]+[^\r\n]{1,200}(?:\r?\n|\Z)){1,20}")
_BLOCK_ITEM = re.compile(r"-[ \t]+[\"']?([^\r\n\"']{3,200})")
_OBJECT = re.compile(r"\{[^{}]{1,4096}\}")
_ONLY_VALUE = re.compile(
    r"\{\s{0,20}[\"']?\w{1,40}[\"']?\s{0,3}[:=]\s{0,3}[\"']([^\"']{3,1024})[\"']\s{0,20}\}"
)
"""An object that holds nothing but the value: `{"value": "..."}`."""
_TUPLE = re.compile(r"[\"'`]?\s{0,3}(?:,|;|\.(?=\s))\s{0,4}(?:\(?b|N|s:\d{1,4}:)?([\"'`])")
_FLAG = re.compile(r"[ \t]{1,8}")
_TAG = re.compile(
    r"(?:\s[^<>]{0,400})?>\s{0,40}(?:<!\[CDATA\[)?([^<>]{1,8192}?)(?=\s{0,40}(?:\]\]>|</?|\Z))"
)
_VALUE_AFTER = re.compile(
    r"[\"']?\s{0,3}[,>;/]?\s{0,40}(?:</\w{1,20}>\s{0,40}<)?[\"']?"
    r"(?:\w{0,20}value|default|val|v)[\"']?\s{0,3}(?:[=:>])\s{0,20}(?:<!\[CDATA\[)?",
    re.IGNORECASE,
)
_DEFAULT_AFTER = re.compile(r"[\"']\s{0,3}\{\s{0,20}default\s{0,3}=\s{0,3}")
_TAG_END = re.compile(r"[\"']\s{0,3}/?>")
_VALUE_BEFORE = re.compile(
    r"[\"']?value[\"']?\s{0,3}[:=]\s{0,3}([\"'])([^\"'\r\n]{3,1024})\1\s{0,3},?\s{0,3}"
    r"[\"']?(?:name|key|id|field|header)[\"']?\s{0,3}[:=]\s{0,3}[\"']?\Z",
    re.IGNORECASE,
)
_BEFORE_PAIR = re.compile(
    r"(?:name|key|id|field|header|\bk)[\"']?\s{0,3}[=:>]\s{0,3}[\"']?\Z", re.IGNORECASE
)
_SQL = re.compile(
    r"\s{1,4}(?:WITH\s{1,4}\w{1,40}\s{1,4})?(?:BY\s{1,4}|=\s{0,4})?(?:PASSWORD\s{1,4}|VALUES\s{1,4})?"
)
_IS_PHRASE = re.compile(
    r"[ \t]{1,3}(?:for[ \t][\w.@\-]{1,60}[ \t])?(?:is|was|are|has been set to|set to)[ \t]{1,3}",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    r"[ \t]?(?:\[([^\s\[\]]{3,128})\]|\(([^\s()]{3,128})\)|<([^\s<>/]{3,128})>)"
)
_ALIGNED = re.compile(r"(?:[ \t]{2,60}|\t)")
_SPACE_MADE = re.compile(r"[ \t]{1,3}(?:key|value|of|is|was)?[ \t]{0,3}[\"']?([\w.+/=~\-]{16,512})")
_BEFORE_SETS = re.compile(
    r"(?:\A|[\s;&|])(?:setenv|ENV|export|set|machine|login\s{1,8}\S{1,80}"
    r"|(?i:dict\s{1,8}set|hset|hsetnx|hmset)\s{1,8}\S{1,80})\s{1,8}\Z"
)
_FLAG_MARK = re.compile(r"(?:\A|[\s\"'\[,(=])-{1,2}\Z")
_KEYWORD_LINE = re.compile(r"(?:\A|[\r\n])[ \t]*\Z")
_LINE_START = re.compile(r"(?:\A|[\r\n])[ \t+\-\"'>*]{0,20}\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LINE_END = re.compile(r"[ \t]{0,8}(?:#[^\r\n]{0,200})?(?:\r?\n|\Z)")


def may_name_secret(key: str) -> bool:
    """Whether a word stands in the key with which names of secrets are made."""
    return _CORE.search(key) is not None


def named_values(text: str) -> Iterator[Span]:
    """The values beside the names of secrets, in the order of their names; they may overlap."""
    done = 0
    for core in _CORE.finditer(text):
        if core.start() < done:
            continue
        before = _NAME_BEFORE.search(text, max(0, core.start() - LONGEST_NAME), core.start())
        after = _NAME_AFTER.match(text, core.end())
        start = before.start() if before else core.start()
        end = after.end() if after else core.end()
        done = end
        while start < core.start() and text[start] in ".-":
            start += 1
        name = text[start:end].rstrip(".-")
        end = start + len(name)
        if name.lower() in ("key", "token", "secret"):
            # "api key", "app key": two words are one name
            first = _FIRST_WORD.search(text, max(0, start - 16), start)
            start = first.start() if first else start
            name = text[start:end]
        sure = _sureness(name[-LONGEST_NAME:])
        if sure is None:
            sure = _query_key(text, start, name)
            if sure is None:
                continue
        kind = _kind_of(name)
        for low, high in _values(text, start, end, name, sure):
            yield low, high, kind


def _query_key(text: str, start: int, name: str) -> Sure | None:
    """`key` alone is a secret's name in a query of an address."""
    if (
        name.lower() == "key"
        and start
        and text[start - 1] in "?&"
        and "=" in text[start : start + 5]
    ):
        return Sure.TOKEN
    return None


def _kind_of(name: str) -> str:
    low = name.lower()
    if "cookie" in low:
        return "COOKIE"
    if "authorization" in low:
        return "AUTHORIZATION"
    if "sess" in low or low.endswith("sid") or "csrf" in low or "xsrf" in low:
        return "SESSION"
    if "signature" in low or low == "sig":
        return "SIGNATURE"
    return "SECRET"


def _values(text: str, start: int, end: int, name: str, sure: Sure) -> Iterator[tuple[int, int]]:
    assigned = _ASSIGN.match(text, end) or _complex_key(text, start, end)
    if name.lower() == "identified":
        sql = _sql(text, start, end, name, sure)
        if sql:
            yield sql
        return
    if assigned and text[start - 1 : start] == ":" and text[end : end + 1] == ":":
        return  # a part of an identifier such as an ARN
    if assigned:
        yield from _assigned(text, start, assigned.end(), name, sure)
        return
    for read in (_tag, _pair, _tuple, _flag, _sql, _sentence, _brackets):
        sql = read(text, start, end, name, sure)
        if sql:
            yield sql
            return


def _complex_key(text: str, start: int, end: int) -> re.Match[str] | None:
    """YAML's `? name`, whose value follows `:` on the next line."""
    if _BEFORE_COMPLEX_KEY.search(text, max(0, start - 32), start) is None:
        return None
    return _COMPLEX_KEY.match(text, end)


def _assigned(text: str, start: int, at: int, name: str, sure: Sure) -> Iterator[tuple[int, int]]:
    prefix = _PREFIX.match(text, at)
    at = prefix.end() if prefix else at
    opening = text[at : at + 1]
    if opening in _STRING:
        match = _STRING[opening].match(text, at + 1)
        if match:
            low, high = match.span(1)
            yield from _checked(text, low, high, name, sure, quoted=True)
        return
    if sure is Sure.HEADER or "cookie" in name.lower():
        yield from _header(text, at, name, sure)
        return
    if opening == "[":
        long = _LONG_BRACKETS.match(text, at)
        if long:
            yield from _checked(text, *long.span(2), name, sure, quoted=True)
            return
        listed = _LIST.match(text, at)
        for item in _ITEMS.finditer(text, at, listed.end()) if listed else ():
            if looks_made(item[1]) or sure is Sure.PASSWORD:
                yield from _checked(text, *item.span(1), name, sure, quoted=True)
    if opening == "{":
        inside = _OBJECT.match(text, at)
        for item in _ITEMS.finditer(text, at, inside.end()) if inside else ():
            if len(item[1]) >= 16 and looks_made(item[1]):
                yield item.span(1)
        only = _ONLY_VALUE.match(text, at)
        if only:
            yield from _checked(text, *only.span(1), name, sure, quoted=True)
    if opening and opening in "[{(":
        braced = _BRACED.match(text, at)
        if braced:
            which = braced.lastindex or 1
            yield from _checked(text, *braced.span(which), name, sure, quoted=False)
        return
    in_block = opening == "-" and "\n" in text[max(0, at - 40) : at]
    block = _BLOCK_LIST.match(text, at) if in_block else None
    if block:
        for item in _BLOCK_ITEM.finditer(text, *block.span()):
            yield from _checked(text, *item.span(1), name, sure, quoted=False)
        return
    bare = _BARE.match(text, at)
    if bare is None:
        return
    low, high = bare.span()
    if text[high - 1] == ":" and text[high : high + 1] in (" ", "\n", ""):
        # `password=abc123: refused` says what came of a value, `token: invalid: expired` has none.
        high -= 1
        is_assigned = "=" in text[max(start, low - 3) : low]
        if high == low or (text[low:high].isalpha() and not is_assigned):
            return
    if sure is Sure.PASSWORD and _is_prose(text, start, low, high):
        return
    yield from _checked(text, low, high, name, sure, quoted=False)


def _is_prose(text: str, start: int, low: int, high: int) -> bool:
    """Whether `password: word` is a part of a sentence: a word of letters after a colon and a
    space, which does not stand alone on its line."""
    value = text[low:high]
    if text[low - 1] not in " \t" or ":" not in text[max(start, low - 4) : low]:
        return False
    if not value.isalpha() or not (value.islower() or value.istitle()):
        return False
    if text[start - 1 : start] == "{":
        return False
    return not (_LINE_START.search(text, max(0, start - 24), start) and _LINE_END.match(text, high))


def _header(text: str, at: int, name: str, sure: Sure) -> Iterator[tuple[int, int]]:
    rest = _REST.match(text, at)
    if rest is None:
        return
    yield from _checked(text, *rest.span(), name, sure, quoted=False)


def _checked(
    text: str, low: int, high: int, name: str, sure: Sure, *, quoted: bool, assigned: bool = True
) -> Iterator[tuple[int, int]]:
    value = text[low:high]
    if sure is Sure.HEADER or ("cookie" in name.lower() and "=" in value):
        scheme = _SCHEME.match(value)
        if "cookie" in name.lower():
            if re.match(r"[\w.\-]{1,64}=[^\s;]{3}", value) and not is_placeholder(value):
                yield low, high
            return
        if scheme:
            rest = value[scheme.end() :]
            is_scheme = scheme[1].lower() in _SCHEMES
            if is_placeholder(rest.strip()) or is_sentence_word(rest) or rest.startswith("realm="):
                return
            if (is_scheme and len(rest) >= 6) or (looks_made(rest) and " " not in rest):
                yield low + scheme.end(), high
            return
        if looks_made(value.strip()) and " " not in value.strip():
            yield low, high
        return
    scheme = _SCHEME.match(value)
    if (
        scheme
        and scheme[1].lower() in _SCHEMES
        and holds_secret(value[scheme.end() :], Sure.TOKEN, quoted=quoted, assigned=True)
    ):
        yield low + scheme.end(), high
        return
    if value.upper() == name.upper():
        return
    if _UUID.fullmatch(value) and _kind_of(name) == "SESSION":
        return  # what traces and logs call a session, as often as what opens one
    if holds_secret(value, sure, quoted=quoted, assigned=assigned):
        yield low, high


def _first(spans: Iterator[tuple[int, int]]) -> tuple[int, int] | None:
    return next(spans, None)


def _tag(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`<ns:password type="x">value</`."""
    opening = text.rfind("<", max(0, start - 40), start)
    if opening < 0 or not re.fullmatch(r"<(?:[\w.\-]{1,30}:)?", text[opening:start]):
        return None
    match = _TAG.match(text, end)
    return _first(_checked(text, *match.span(1), name, sure, quoted=True)) if match else None


def _string_or_bare(text: str, at: int) -> tuple[int, int, bool] | None:
    opening = text[at : at + 1]
    if opening in _STRING and opening:
        match = _STRING[opening].match(text, at + 1)
        return (*match.span(1), True) if match else None
    bare = _BARE.match(text, at)
    return (*bare.span(), False) if bare else None


def _pair(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """The name is the value of `name`, `key`: its own stands beside it."""
    is_pair = _BEFORE_PAIR.search(text, max(0, start - 20), start) is not None
    after = _VALUE_AFTER.match(text, end) if is_pair else _DEFAULT_AFTER.match(text, end)
    if after is None and text[start - 1 : start] in ("'", '"'):
        after = _TAG_END.match(text, end) if is_pair else None
    if after:
        string = _string_or_bare(text, after.end())
        if string:
            low, high, _ = string
            return _first(_checked(text, low, high, name, sure, quoted=True))
    if is_pair:
        before = _VALUE_BEFORE.search(text, max(0, start - 1_200), start)
        if before:
            return _first(_checked(text, *before.span(2), name, sure, quoted=True))
    return None


def _tuple(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`('password', 'value')`, `["--api-key", "value"]`, `{password,"value"}`."""
    match = _TUPLE.match(text, end)
    if match is None or start == 0 or text[start - 1] not in "\"'`({[-":
        return None
    string = _STRING[match[1]].match(text, match.end())
    return _first(_checked(text, *string.span(1), name, sure, quoted=True)) if string else None


def _flag(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`--password value`, `setenv PASSWORD value`, `:password "value"`, `requirepass value`."""
    space = _FLAG.match(text, end)
    if space is None:
        return None
    is_flag = _FLAG_MARK.search(text, max(0, start - 4), start) is not None
    is_set = _BEFORE_SETS.search(text, max(0, start - 100), start) is not None
    is_keyword = text[start - 1 : start] == ":" or name in ("requirepass", "masterauth")
    if not (is_flag or is_set or is_keyword):
        return None
    string = _string_or_bare(text, space.end())
    if string is None:
        return None
    low, high, quoted = string
    if text[low:high].startswith("-") or (
        is_keyword and not quoted and text[start - 1 : start] == ":"
    ):
        return None
    return _first(_checked(text, low, high, name, sure, quoted=quoted))


def _sql(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`PASSWORD 'value'`, `IDENTIFIED BY 'value'`, `credentials 'value'`, `password "value"`."""
    space = _SQL.match(text, end)
    low_name = name.lower()
    if space is None or not low_name.endswith(("password", "passphrase", "identified", "passwd")):
        return None
    at = space.end() + (text[space.end() : space.end() + 2] in ("N'", "E'"))
    if text[at : at + 1] not in ("'", '"'):
        is_sql = low_name == "identified" and "by" in space[0].lower()
        bare = _BARE.match(text, at) if is_sql else None
        return bare.span() if bare else None
    match = _STRING[text[at]].match(text, at + 1)
    return _first(_checked(text, *match.span(1), name, sure, quoted=True)) if match else None


def _sentence(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`the password is Gr33n`, `token 9fk2...`, columns that spaces align."""
    match = _IS_PHRASE.match(text, end)
    if match and sure in (Sure.PASSWORD, Sure.CODE):
        string = _string_or_bare(text, match.end())
        if string:
            low, high, quoted = string
            return _first(_checked(text, low, high, name, sure, quoted=quoted, assigned=quoted))
    aligned = _ALIGNED.match(text, end)
    if aligned and sure is Sure.PASSWORD and _LINE_START.search(text, max(0, start - 24), start):
        string = _string_or_bare(text, aligned.end())
        if string and looks_made(text[string[0] : string[1]]):
            return string[0], string[1]
    made = _SPACE_MADE.match(text, end)
    if made and _is_random(made[1]):
        return made.span(1)
    return None


def _is_random(value: str) -> bool:
    """Whether a word after a name, without a sign between them, is a token beyond doubt."""
    if not looks_made(value) or "/" in value[:1] or "." in value.strip("."):
        return False
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(value))
    return len(value) >= 16 and changes >= len(value) / 6


def _brackets(text: str, start: int, end: int, name: str, sure: Sure) -> tuple[int, int] | None:
    """`password [value]`, `Password<value>`."""
    if sure is not Sure.PASSWORD:
        return None
    match = _BRACKETED.match(text, end)
    if match and name.lower() not in ("password", "passwd", "pwd", "passphrase"):
        return None
    if match is None:
        return None
    low, high = match.span(match.lastindex or 1)
    value = text[low:high]
    if not any(c.isdigit() for c in value) or is_placeholder(value):
        return None
    return low, high
