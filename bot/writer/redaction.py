"""Secrets and personal data out of a text, before it leaves this machine, and back into what comes in return."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.redaction import PERSONAL, SECRETS, replacing

_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]{1,30})_(\d{1,6})\]")


@dataclass
class Redactor:
    """Replaces secrets and personal data by numbered placeholders and remembers, in memory only, what they were."""

    originals: dict[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def redact(self, text: str) -> str:
        """The text with placeholders such as `[AWS_KEY_1]`; the same secret always gets the same one."""
        for kind, pattern in (*SECRETS, *PERSONAL):
            text = pattern.sub(replacing(lambda secret, kind=kind: self._placeholder(kind, secret)), text)  # type: ignore[misc]
        return text

    def redact_all(self, value: Any) -> Any:
        """A JSON value with every text in it, keys included, redacted."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(k)): self.redact_all(v) for k, v in value.items()}
        if isinstance(value, Sequence):
            return [self.redact_all(v) for v in value]
        return value

    def restore(self, text: str) -> str:
        """The text as it was before `redact`."""
        return _PLACEHOLDER.sub(lambda m: self.originals.get(m.group(), m.group()), text)

    def reveal(self, text: str) -> str:
        """Personal data restored; secrets named by their kind alone, as `masked` names them."""
        personal = {kind for kind, _ in PERSONAL}

        def shown(match: re.Match[str]) -> str:
            if match.group() not in self.originals:
                return match.group()
            return self.originals[match.group()] if match.group(1) in personal else f"[{match.group(1)}]"

        return _PLACEHOLDER.sub(shown, text)

    def _placeholder(self, kind: str, secret: str) -> str:
        if (kind, secret) not in self._known:
            count = sum(1 for k, _ in self._known if k == kind) + 1
            self._known[kind, secret] = f"[{kind}_{count}]"
            self.originals[f"[{kind}_{count}]"] = secret
        return self._known[kind, secret]
