"""Secrets and personal data out of a text, before it leaves this machine, and back into what comes
in return.

One `Redactor` serves one investigation: everything that goes to a model or into a stored prompt
(alert, findings, the results of tools, a person's question) goes through its `redact` once, as raw
text; everything that comes back goes through `reveal`. The same value then has the same placeholder
everywhere, and what a prompt holds is what may be kept. A text that already looks like a
placeholder gets its own placeholder, so nobody can forge one; for that reason a text must not
be redacted twice.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from faultline.analysis.secrets.personal_data import PERSONAL, Personal
from faultline.analysis.secrets.redaction import kind_under, replaced

_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]{1,30})_(\d{1,6})\]")
_FORGED = re.compile(r"\[[A-Z][A-Z_]{1,30}_\d{1,6}\]")
_SHOWN = re.compile(r"\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]")
LOOK_ALIKE = "LITERAL"
"""Kind of a text that looked like a placeholder before anything was replaced."""


@dataclass
class Redactor:
    """Replaces secrets and personal data by numbered placeholders and remembers, in memory only,
    what they were.

    Of secrets only a digest under a key of this object is kept: enough to know the same one again,
    no way back.
    """

    originals: dict[str, str] = field(default_factory=dict, repr=False)
    """Placeholder to value, of personal data and look-alikes."""
    _placeholders: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _counts: Counter[str] = field(default_factory=Counter, repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    def redact(self, text: str) -> str:
        """The raw text with placeholders such as `[AWS_KEY_1]`; the same value always gets the same
        one."""
        # Look for forged placeholders first: later on the real ones look the same.
        text = _FORGED.sub(lambda m: self._reversible(LOOK_ALIKE, m.group()), text)
        text = replaced(text, self._secret)
        for personal_kind in PERSONAL:
            text = personal_kind.pattern.sub(partial(self._personal, personal_kind), text)
        return text

    def redact_all(self, value: Any) -> Any:
        """A JSON value with every text in it, keys included, redacted."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            clean: dict[str, Any] = {}
            for key, secret in value.items():
                # Some secrets show only by their key, such as "password".
                kind = kind_under(str(key), secret) if isinstance(secret, str) else None
                clean[self.redact(str(key))] = (
                    self._secret(kind, secret) if kind else self.redact_all(secret)
                )
            return clean
        if isinstance(value, Sequence):
            return [self.redact_all(v) for v in value]
        return value

    def reveal(self, text: str) -> str:
        """Personal data restored, for people who may see the case; secrets named by kind alone, as
        `masked` does."""

        def shown(match: re.Match[str]) -> str:
            placeholder = match.group()
            if placeholder in self.originals:
                return self.originals[placeholder]
            # A secret has no original: name its kind, if the placeholder was given out.
            return (
                f"[{match.group(1)}]"
                if int(match.group(2)) <= self._counts[match.group(1)]
                else placeholder
            )

        return _PLACEHOLDER.sub(shown, text)

    def state(self) -> dict[str, Any]:
        """What a worker that takes over needs, as JSON; of secrets no more than how many there
        were."""
        return {"originals": dict(self.originals), "counts": dict(self._counts)}

    @classmethod
    def resumed(cls, originals: Mapping[str, str], counts: Mapping[str, int]) -> Redactor:
        """A redactor that goes on where the one with this state ended."""
        placeholders = {(p[1:].rpartition("_")[0], value): p for p, value in originals.items()}
        return cls(originals=dict(originals), _placeholders=placeholders, _counts=Counter(counts))

    def _personal(self, personal_kind: Personal, match: re.Match[str]) -> str:
        """The match with the value in it replaced, unless it is a placeholder or no such value."""
        group = match.lastindex or 0
        value = match.group(group)
        if _SHOWN.match(match.string, match.start(group)) or not personal_kind.holds(value):
            return match.group()
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return (
            match.group()[:start]
            + self._reversible(personal_kind.kind, value)
            + match.group()[end:]
        )

    def _reversible(self, kind: str, value: str) -> str:
        placeholder = self._placeholder(kind, value)
        self.originals[placeholder] = value
        return placeholder

    def _secret(self, kind: str, secret: str) -> str:
        digest = hashlib.blake2b(
            # JSON may hold lone surrogates, which UTF-8 cannot encode.
            secret.encode(errors="surrogatepass"),
            key=self._key,
            digest_size=16,
        )
        return self._placeholder(kind, digest.hexdigest())

    def _placeholder(self, kind: str, identity: str) -> str:
        if (kind, identity) not in self._placeholders:
            self._counts[kind] += 1
            self._placeholders[kind, identity] = f"[{kind}_{self._counts[kind]}]"
        return self._placeholders[kind, identity]
