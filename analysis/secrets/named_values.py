"""Values that stand beside the name of a secret, in whatever notation: where they begin and end.

A word such as `token` is found first, then the whole name around it, then what follows it is read
as the notations of settings, programs and protocols write a pair: `=`, `:`, `=>`, a flag, a tag, a
tuple, `name`/`value`, SQL's `PASSWORD '...'`. Each step reads a bounded piece, so that time is
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from faultline.analysis.secrets.key_names import (
    Sure,
    holds_secret,
    is_placeholder,
    is_sentence_word,
    looks_made,
    sureness,
)

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
_SCHEME = re.compile(r"([A-Za-z][\w\-]{1,30})[ \t:,]{1,3}(?=\S)")
_SCHEME_NAMES = """
basic bearer token apikey api-key digest hmac negotiate ntlm dpop sharedkey sharedkeylite
sharedaccesssignature ssws geniekey splunk hawk mac oauth aws aws4-hmac-sha256 key jwt snowflake
goog4-rsa-sha256 zoho-oauthtoken bot client-id discogs vapid signature
"""
_SCHEMES = frozenset(_SCHEME_NAMES.split())
_COOKIE = re.compile(r"[\w.\-]{1,64}=[^\s;]{3}")
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
_SQL_NAMES = ("password", "passphrase", "identified", "passwd")
_IS_PHRASE = re.compile(
    r"[ \t]{1,3}(?:for[ \t][\w.@\-]{1,60}[ \t])?(?:is|was|are|has been set to|set to)[ \t]{1,3}",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    r"[ \t]?(?:\[([^\s\[\]]{3,128})\]|\(([^\s()]{3,128})\)|<([^\s<>/]{3,128})>)"
)
_BRACKETED_NAMES = frozenset({"password", "passwd", "pwd", "passphrase"})
_ALIGNED = re.compile(r"(?:[ \t]{2,60}|\t)")
_SPACE_MADE = re.compile(r"[ \t]{1,3}(?:key|value|of|is|was)?[ \t]{0,3}[\"']?([\w.+/=~\-]{16,512})")
_BEFORE_SETS = re.compile(
    r"(?:\A|[\s;&|])(?:setenv|ENV|export|set|machine|login\s{1,8}\S{1,80}"
    r"|(?i:dict\s{1,8}set|hset|hsetnx|hmset)\s{1,8}\S{1,80})\s{1,8}\Z"
)
_FLAG_MARK = re.compile(r"(?:\A|[\s\"'\[,(=])-{1,2}\Z")
_LINE_START = re.compile(r"(?:\A|[\r\n])[ \t+\-\"'>*]{0,20}\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LINE_END = re.compile(r"[ \t]{0,8}(?:#[^\r\n]{0,200})?(?:\r?\n|\Z)")


def may_name_secret(key: str) -> bool:
    """Whether a word stands in the key with which names of secrets are made."""
    return _CORE.search(key) is not None


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


@dataclass(frozen=True, slots=True)
class _Name:
    """The name of a secret at `text[start:end]`, and how the values beside it are read.

    Methods that read a notation return start and end of the secret, None where there is none.
    """

    text: str
    start: int
    end: int
    name: str
    sure: Sure

    @property
    def lower_name(self) -> str:
        return self.name.lower()

    def values(self) -> Iterator[tuple[int, int]]:
        text, start, end = self.text, self.start, self.end
        # `IDENTIFIED` is SQL's word, and no other notation uses it.
        if self.lower_name == "identified":
            sql = self._sql()
            if sql:
                yield sql
            return
        assigned = _ASSIGN.match(text, end)
        if assigned is None and _BEFORE_COMPLEX_KEY.search(text, max(0, start - 32), start):
            # YAML's `? name`, whose value follows `:` on the next line.
            assigned = _COMPLEX_KEY.match(text, end)
        if assigned is None:
            for read in _READERS:
                span = read(self)
                if span:
                    yield span
                    return
            return
        if text[start - 1 : start] == ":" and text[end : end + 1] == ":":
            # A part of an identifier such as an ARN.
            return
        yield from filter(None, self._assigned(assigned.end()))

    def _assigned(self, at: int) -> Iterator[tuple[int, int] | None]:
        """What follows a sign such as `=`, by how it begins."""
        text = self.text
        prefix = _PREFIX.match(text, at)
        at = prefix.end() if prefix else at
        opening = text[at : at + 1]
        in_block = opening == "-" and "\n" in text[max(0, at - 40) : at]
        block = _BLOCK_LIST.match(text, at) if in_block else None
        if opening in _STRING:
            match = _STRING[opening].match(text, at + 1)
            if match:
                yield self._secret(*match.span(1), quoted=True)
        elif self.sure is Sure.HEADER or "cookie" in self.lower_name:
            rest = _REST.match(text, at)
            if rest:
                yield self._secret(*rest.span(), quoted=False)
        elif opening in ("[", "{", "("):
            yield from self._bracketed(at)
        elif block:
            for item in _BLOCK_ITEM.finditer(text, *block.span()):
                yield self._secret(*item.span(1), quoted=False)
        else:
            yield self._unquoted(at)

    def _bracketed(self, at: int) -> Iterator[tuple[int, int] | None]:
        """A list, an object, or a value in brackets, which begins at `at`."""
        text = self.text
        long = _LONG_BRACKETS.match(text, at)
        if long:
            yield self._secret(*long.span(2), quoted=True)
            return
        listed = _LIST.match(text, at)
        for item in _ITEMS.finditer(text, at, listed.end()) if listed else ():
            if looks_made(item[1]) or self.sure is Sure.PASSWORD:
                yield self._secret(*item.span(1), quoted=True)
        inside = _OBJECT.match(text, at)
        for item in _ITEMS.finditer(text, at, inside.end()) if inside else ():
            if len(item[1]) >= 16 and looks_made(item[1]):
                yield item.span(1)
        only = _ONLY_VALUE.match(text, at)
        if only:
            yield self._secret(*only.span(1), quoted=True)
        braced = _BRACED.match(text, at)
        if braced:
            yield self._secret(*braced.span(braced.lastindex or 1), quoted=False)

    def _unquoted(self, at: int) -> tuple[int, int] | None:
        text = self.text
        bare = _BARE.match(text, at)
        if bare is None:
            return None
        low, high = bare.span()
        if text[high - 1] == ":" and text[high : high + 1] in (" ", "\n", ""):
            # `password=abc123: refused` says what came of a value, `token: invalid: expired` has
            # none.
            high -= 1
            is_assigned = "=" in text[max(self.start, low - 3) : low]
            if high == low or (text[low:high].isalpha() and not is_assigned):
                return None
        if self.sure is Sure.PASSWORD and self._is_prose(low, high):
            return None
        return self._secret(low, high, quoted=False)

    def _is_prose(self, low: int, high: int) -> bool:
        """Whether `password: word` is a part of a sentence: a word of letters after a colon and a
        space, which does not stand alone on its line."""
        text, start = self.text, self.start
        value = text[low:high]
        if text[low - 1] not in " \t" or ":" not in text[max(start, low - 4) : low]:
            return False
        if not value.isalpha() or not (value.islower() or value.istitle()):
            return False
        if text[start - 1 : start] == "{":
            return False
        begins_line = _LINE_START.search(text, max(0, start - 24), start)
        return not (begins_line and _LINE_END.match(text, high))

    def _secret(
        self, low: int, high: int, *, quoted: bool, assigned: bool = True
    ) -> tuple[int, int] | None:
        """The part of `text[low:high]` that is secret."""
        value = self.text[low:high]
        if "cookie" in self.lower_name and (self.sure is Sure.HEADER or "=" in value):
            return (low, high) if _COOKIE.match(value) and not is_placeholder(value) else None
        if self.sure is Sure.HEADER:
            return self._credentials(low, high)
        scheme = _SCHEME.match(value)
        if scheme and scheme[1].lower() in _SCHEMES:
            credentials = value[scheme.end() :]
            if holds_secret(credentials, Sure.TOKEN, quoted=quoted, assigned=True):
                return low + scheme.end(), high
        if value.upper() == self.name.upper():
            return None
        if _UUID.fullmatch(value) and _kind_of(self.name) == "SESSION":
            # What traces and logs call a session, as often as what opens one.
            return None
        is_secret = holds_secret(value, self.sure, quoted=quoted, assigned=assigned)
        return (low, high) if is_secret else None

    def _credentials(self, low: int, high: int) -> tuple[int, int] | None:
        """What follows the scheme in a header of authorization."""
        value = self.text[low:high]
        scheme = _SCHEME.match(value)
        if scheme is None:
            bare = value.strip()
            return (low, high) if looks_made(bare) and " " not in bare else None
        rest = value[scheme.end() :]
        if is_placeholder(rest.strip()) or is_sentence_word(rest) or rest.startswith("realm="):
            return None
        has_scheme = scheme[1].lower() in _SCHEMES and len(rest) >= 6
        if has_scheme or (looks_made(rest) and " " not in rest):
            return low + scheme.end(), high
        return None

    def _string_or_bare(self, at: int) -> tuple[int, int, bool] | None:
        """Start and end of the value at `at`, and whether it is quoted."""
        opening = self.text[at : at + 1]
        if opening in _STRING:
            match = _STRING[opening].match(self.text, at + 1)
            return (*match.span(1), True) if match else None
        bare = _BARE.match(self.text, at)
        return (*bare.span(), False) if bare else None

    def _tag(self) -> tuple[int, int] | None:
        """`<ns:password type="x">value</`."""
        text, start = self.text, self.start
        opening = text.rfind("<", max(0, start - 40), start)
        if opening < 0 or not re.fullmatch(r"<(?:[\w.\-]{1,30}:)?", text[opening:start]):
            # Only a tag that consists of the name; any other tag is text.
            return None
        match = _TAG.match(text, self.end)
        return self._secret(*match.span(1), quoted=True) if match else None

    def _pair(self) -> tuple[int, int] | None:
        """The name is the value of `name` or `key`, and the secret stands beside it."""
        text, start, end = self.text, self.start, self.end
        is_pair = _BEFORE_PAIR.search(text, max(0, start - 20), start) is not None
        after = _VALUE_AFTER.match(text, end) if is_pair else _DEFAULT_AFTER.match(text, end)
        if after is None and is_pair and text[start - 1 : start] in ("'", '"'):
            after = _TAG_END.match(text, end)
        string = self._string_or_bare(after.end()) if after else None
        if string:
            low, high, _ = string
            return self._secret(low, high, quoted=True)
        before = _VALUE_BEFORE.search(text, max(0, start - 1_200), start) if is_pair else None
        return self._secret(*before.span(2), quoted=True) if before else None

    def _tuple(self) -> tuple[int, int] | None:
        """`('password', 'value')`, `["--api-key", "value"]`, `{password,"value"}`."""
        text, start = self.text, self.start
        match = _TUPLE.match(text, self.end)
        if match is None or start == 0 or text[start - 1] not in "\"'`({[-":
            return None
        string = _STRING[match[1]].match(text, match.end())
        return self._secret(*string.span(1), quoted=True) if string else None

    def _flag(self) -> tuple[int, int] | None:
        """`--password value`, `setenv PASSWORD value`, `:password "value"`, `requirepass value`."""
        text, start = self.text, self.start
        space = _FLAG.match(text, self.end)
        if space is None:
            return None
        is_flag = _FLAG_MARK.search(text, max(0, start - 4), start) is not None
        is_set = _BEFORE_SETS.search(text, max(0, start - 100), start) is not None
        is_symbol = text[start - 1 : start] == ":"
        if not (is_flag or is_set or is_symbol or self.name in ("requirepass", "masterauth")):
            return None
        string = self._string_or_bare(space.end())
        if string is None:
            return None
        low, high, quoted = string
        # The next flag is no value of this one.
        if text[low:high].startswith("-") or (is_symbol and not quoted):
            return None
        return self._secret(low, high, quoted=quoted)

    def _sql(self) -> tuple[int, int] | None:
        """`PASSWORD 'value'`, `IDENTIFIED BY 'value'`, `password "value"`."""
        text = self.text
        space = _SQL.match(text, self.end)
        if space is None or not self.lower_name.endswith(_SQL_NAMES):
            return None
        # `N'` and `E'` begin strings of SQL Server and of PostgreSQL.
        at = space.end() + (text[space.end() : space.end() + 2] in ("N'", "E'"))
        if text[at : at + 1] not in ("'", '"'):
            is_sql = self.lower_name == "identified" and "by" in space[0].lower()
            bare = _BARE.match(text, at) if is_sql else None
            return bare.span() if bare else None
        match = _STRING[text[at]].match(text, at + 1)
        return self._secret(*match.span(1), quoted=True) if match else None

    def _sentence(self) -> tuple[int, int] | None:
        """`the password is Gr33n`, `token 9fk2...`, columns that spaces align."""
        text, start, end = self.text, self.start, self.end
        match = _IS_PHRASE.match(text, end)
        if match and self.sure in (Sure.PASSWORD, Sure.CODE):
            string = self._string_or_bare(match.end())
            if string:
                low, high, quoted = string
                return self._secret(low, high, quoted=quoted, assigned=quoted)
        aligned = _ALIGNED.match(text, end) if self.sure is Sure.PASSWORD else None
        if aligned and _LINE_START.search(text, max(0, start - 24), start):
            string = self._string_or_bare(aligned.end())
            if string and looks_made(text[string[0] : string[1]]):
                return string[0], string[1]
        made = _SPACE_MADE.match(text, end)
        if made and _is_random(made[1]):
            return made.span(1)
        return None

    def _brackets(self) -> tuple[int, int] | None:
        """`password [value]`, `Password<value>`."""
        if self.sure is not Sure.PASSWORD or self.lower_name not in _BRACKETED_NAMES:
            return None
        match = _BRACKETED.match(self.text, self.end)
        if match is None:
            return None
        low, high = match.span(match.lastindex or 1)
        value = self.text[low:high]
        if not any(c.isdigit() for c in value) or is_placeholder(value):
            return None
        return low, high


_READERS = (
    _Name._tag,
    _Name._pair,
    _Name._tuple,
    _Name._flag,
    _Name._sql,
    _Name._sentence,
    _Name._brackets,
)
"""Notations without a sign between name and value; the first that holds a secret counts."""


def _is_random(value: str) -> bool:
    """Whether a word after a name, without a sign between them, is a token beyond doubt."""
    if not looks_made(value) or "/" in value[:1] or "." in value.strip("."):
        return False
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(value))
    return len(value) >= 16 and changes >= len(value) / 6


def named_values(text: str) -> Iterator[Span]:
    """The values beside the names of secrets, in the order of their names; they may overlap."""
    done = 0
    for core in _CORE.finditer(text):
        # One name may hold several of the words: read it once.
        if core.start() < done:
            continue
        before = _NAME_BEFORE.search(text, max(0, core.start() - LONGEST_NAME), core.start())
        after = _NAME_AFTER.match(text, core.end())
        start = before.start() if before else core.start()
        end = after.end() if after else core.end()
        done = end
        # A separator before the name belongs to the text around it.
        while start < core.start() and text[start] in ".-":
            start += 1
        name = text[start:end].rstrip(".-")
        end = start + len(name)
        if name.lower() in ("key", "token", "secret"):
            # "api key", "app key": two words are one name
            first = _FIRST_WORD.search(text, max(0, start - 16), start)
            start = first.start() if first else start
            name = text[start:end]
        # A long name is judged by its end, where its kind stands.
        sure = sureness(name[-LONGEST_NAME:])
        if sure is None:
            sure = _query_key(text, start, name)
            if sure is None:
                continue
        kind = _kind_of(name)
        for low, high in _Name(text, start, end, name, sure).values():
            yield low, high, kind
