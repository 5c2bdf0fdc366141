"""Which names stand before secrets, and which values beside such a name are none.

`password=incorrect` and `token_count=12` are what logs are full of. A name says how sure we are:
what stands beside a password is one unless it is a word of a sentence; what stands beside a token
or a session must also look like one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache


class Sure(IntEnum):
    """How sure a name makes that its value is secret."""

    HEADER = 1
    """Of authorization: scheme and credentials follow."""
    TOKEN = 2
    """The value must look like a token."""
    CODE = 4
    """The value must be a number of four to twelve digits, or look like a token."""
    PASSWORD = 3
    """Any value that is no word of a sentence."""


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HEADER = re.compile(r"auth(?:orization|header)$")
_PASSWORD = re.compile(
    r"passw|passwd|pword|(?:seed|recovery)phrase|kennwort|contrase|senha|depasse|passphrase"
    r"|passcode|pwd|requirepass|masterauth|secretkey$|secretaccesskey|secretkeybase|clientsecret"
    r"|jwtsecret|sharedsecret|appsecret|identifiedby|(?<!by)(?<!com)pass$"
)
_PASSWORD_WORDS = frozenset({"pw", "psk", "secret", "identified"})
_CODE = re.compile(
    r"(?:unlock|verification|security|activation|recovery|backup|confirmation|login|mfa|sms|invite"
    r"|invitation|access|pairing|redemption)code$"
)
_CODE_WORDS = frozenset({"pin", "pincode"})
_TOKEN = re.compile(
    r"secret|token|macaroon|credential|api_?key|csrf|xsrf|jwt|bearer|cookie|sess(?:ion)?(?:id|key|data|$)"
    r"|sessid|signature|hmac|keydata|webhook"
    r"|(?:private|access|signing|encryption|encrypt|master|account|shared|subscription|functions?"
    r"|integration|routing|license|auth|deploy|ssh|app|application|fernet|instrumentation|client"
    r"|symmetric|sym|storage|service|security|host|decrypt|decryption|symmetric|session|root|hash"
    r"|crypto|api|consumer|project|primary|secondary|write|ingest|ingestion|insert|admin|jwt|aes"
    r"|hmac|sec|seal|unseal|recovery|rsa|dsa|ec|tls|ssl|rest|genie|bot|user)(?:key|keyid)s?$"
)
_TOKEN_WORDS = frozenset({"sid", "sig", "auth", "creds", "cred", "apikey", "otp", "nonce", "token"})
_ENDS_OF_HARMLESS_NAMES = """
count counts total totals ttl type types mode method methods enabled disabled required class
file files path dir name names ref refs url uri endpoint host port service services provider
backend store timeout expiry expires expired expiration expire ms seconds sec secs age size len
length limit limits policy rotation usage used bucket status state reason error errors failed
failures failure attempts attempt requests request rate created updated version kind affinity
manager handler filter factory module controller server client callback encryption encoder
plugin hash_algorithm algorithm alg audience issuer scope scopes realm level resets reset per
ids index idx budget window user username length format field fields label key_count exists
valid validity verified domain secure httponly samesite at in max min second second_count column
columns table prefix suffix logs log latency duration event events config loader resolver
exception java py go rs js ts
"""
_HARMLESS_ENDS = frozenset(_ENDS_OF_HARMLESS_NAMES.split())
_NOT_TOKENS = re.compile(
    r"^(?:max|min|num|total|prompt|completion|input|output|cached|reasoning|avg|special|context"
    r"|generated|used|remaining|page|next|continuation|sync|resume|cancellation|unexpected|syntax"
    r"|start|end|first|last|eos|bos|pad|unk|stop)_?(?:new_?)?tokens?"
)
_AUTHORS = re.compile(r"author(?!iz|is)|authorit|authentic(?!ation_?(?:token|key))|authn?_?z")


@dataclass(frozen=True)
class _NameRule:
    """Which names make their values secret, and how sure they make it."""

    sure: Sure
    joined: re.Pattern[str]
    """What the words of the name hold when they are joined."""
    last: frozenset[str] = frozenset()
    """Words that the name ends with."""
    anywhere: frozenset[str] = frozenset()

    def holds(self, words: Sequence[str]) -> bool:
        if words[-1] in self.last or not self.anywhere.isdisjoint(words):
            return True
        return self.joined.search("".join(words)) is not None


_RULES = (
    _NameRule(Sure.HEADER, _HEADER),
    _NameRule(Sure.PASSWORD, _PASSWORD, last=_PASSWORD_WORDS, anywhere=frozenset({"pass"})),
    _NameRule(Sure.CODE, _CODE, last=_CODE_WORDS),
    _NameRule(Sure.TOKEN, _TOKEN, anywhere=_TOKEN_WORDS),
)
"""The first that holds decides."""


@lru_cache(maxsize=8192)
def sureness(name: str) -> Sure | None:
    """How sure the name makes that its value is secret; None where it does not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    # One spelling for `apiKey`, `api-key` and `API_KEY`.
    snake = "_".join(words)
    if not words or words[-1] in _HARMLESS_ENDS or _NOT_TOKENS.match(snake):
        return None
    if words[-2:] == ["pin", "code"]:
        words[-2:] = ["pincode"]
    sure = next((rule.sure for rule in _RULES if rule.holds(words)), None)
    # `author_session_id` is about authors; `author_token` is a token nevertheless.
    if sure is Sure.TOKEN and "token" not in words and _AUTHORS.search(snake):
        return None
    return sure


_PLACEHOLDER = re.compile(
    r"[*•xX#.\-_?…]+|<[^>]{0,80}>?|\$\{?[\w.:\-]{0,80}\}?|\$\(.{0,80}|\{\{.{0,80}|%[\w(].{0,40}%?"
    r"|\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]?.{0,3}|\{[\w.]{0,40}\}?|@\w{1,40}@|:\w{1,40}"
    r"|(?i:redacted|filtered|masked|hidden|secret|password|passwd|pass|token|removed|sensitive)"
)
_WORDS_OF_SENTENCES = """
a an the is was are be been has have had not no none null nil undefined nan true false yes on
off ok okay success successful succeeded error errors failed failure fail failing invalid valid
incorrect correct wrong bad missing empty blank required optional expired expires expiring
unknown unset set changed reset updated rotated created deleted removed revoked rejected denied
accepted allowed forbidden unauthorized mismatch mismatched match matches does did must should
may can cannot could will would too for from of to in at by with and or authentication
authorization auth login logout enabled disabled default same-origin include omit string str int
bool boolean bytes text varchar char object type any function class strict lax md5 trust peer
ident scram-sha-256 plain bearer basic digest jwt oauth oauth2 ldap saml oidc kerberos ntlm
refresh_token password client_credentials authorization_code implicit rbac node redis memcached
vault aws gcp azure file env get got found used using this that it its needs need there when if
after before new old your my our short long weak strong accept accepts malformed absent present
provided given supplied exceeds exceeded has_expired header headers field value values key keys
hash hashed user users name check checking checked verification verified verify refresh
refreshed refreshing rotation timeout closed opened open started ended session sessions none.
null, clientip internal external unavailable unreachable down up only also because but stored
saved loaded cached created generation generated issue issued issuer error: warning info debug
"""
_SENTENCE_WORDS = frozenset(_WORDS_OF_SENTENCES.split())
_DIGITS = re.compile(r"\d{4,12}")
_NUMBER = re.compile(r"[\d.,:%+\-]+(?:ms|s|m|h|d|kb|mb|gb|b|%)?|0x[0-9a-f]+", re.IGNORECASE)
_OBJECT = re.compile(r"(?:[\w.$]+@[0-9a-f]{4,16}|0x[0-9a-f]{4,16}|\w+\(\)?|[\w.]+\.\w{1,5})")
_PATH = re.compile(r"(?:[~.]{0,2}/[a-z][\w.\-]{0,80}){2,20}/?|/[a-z][\w\-]{0,40}\.[a-z]{2,5}")
_WORDY = re.compile(r"[a-z]{2,}(?:[_\-.:/ ][a-z]{2,})+|[A-Z][a-z]+(?:[A-Z][a-z]+)*|[a-z]+|[A-Z_]+")


def is_placeholder(value: str) -> bool:
    """Whether the value stands for one that is not shown."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_sentence_word(value: str) -> bool:
    """Whether the value is a word that sentences and settings hold in its place."""
    return value.strip(" .,:;!").lower() in _SENTENCE_WORDS


_NO_SECRETS = (is_placeholder, is_sentence_word, _PATH.fullmatch)
"""What holds of a value that is no secret beside any name."""


def looks_made(value: str) -> bool:
    """Whether a value looks like one that a machine made: long, with digits between letters."""
    if len(value) < 8 or _NUMBER.fullmatch(value) or _OBJECT.fullmatch(value):
        return False
    digits = sum(c.isdigit() for c in value)
    # Digits alone are an id or a count unless they are long.
    return digits > 0 and (digits < len(value) or len(value) >= 12)


def holds_secret(value: str, sure: Sure, *, quoted: bool, assigned: bool) -> bool:
    """Whether the value beside a name is secret. `assigned`: a sign such as `=` stands between
    them, or they are a pair of a program's notation; otherwise both may be words of a sentence."""
    bare = value.strip()
    # Two characters are no secret, and would mask half of every line.
    if len(bare) < 3 or any(stands_for_none(bare) for stands_for_none in _NO_SECRETS):
        return False
    if sure is Sure.PASSWORD:
        if quoted:
            return True
        return " " not in bare if assigned else not bare.isalpha()
    if sure is Sure.CODE:
        return _DIGITS.fullmatch(bare) is not None or looks_made(bare)
    if looks_made(bare):
        # A path or an address is no token, unless a query follows that may hold one.
        return not bare.startswith(("/", "http://", "https://", "arn:")) or "?" in bare
    return assigned and len(bare) >= 16 and _WORDY.fullmatch(bare) is None and " " not in bare
