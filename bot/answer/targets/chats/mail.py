"""E-mail: a message when an investigation begins, and one with the answer as a reply to it.

A message cannot be edited later, so each run sends its answer once, in the same thread. Sources:
RFC 5322 (Message-ID, In-Reply-To, References), RFC 3834 (no automatic replies), RFC 3207
(STARTTLS), RFC 5321 (a refusal with 4yz may pass, one with 5yz stays).
"""

from __future__ import annotations

import hashlib
import smtplib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, localtime

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.message_target import VendorMessage
from faultline.bot.answer.targets.plain_message import TextParts, answer_text, first_text
from faultline.bot.answer.targets.posting import REQUEST_TIMEOUT_S
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings.reply_targets import EmailSettings
from faultline.bot.store.store import StoredInvestigation

ANSWER = "#answer-"
"""In the key of an answer, before the number of its run."""
TRANSIENT = range(400, 500)


class Emails(VendorMessage):
    """Messages to one address or several."""

    @classmethod
    async def who(cls, settings: EmailSettings) -> str:
        """The server, which lets us in. Nothing is sent."""

        def ask() -> None:
            with _connected(settings) as server:
                server.noop()

        try:
            await in_thread(ask)
        except (smtplib.SMTPException, OSError) as error:
            raise FaultlineError(f"E-mail: {_failure_text(error)}") from error
        return f"{settings.sender} by {settings.host} (nothing was sent)"

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Say that it has begun."""
        text = first_text(investigation, self._page(investigation))
        await self._mail(investigation, self._key(investigation), text)

    async def preview(self, outcome: Outcome) -> None:
        """Nothing: what is sent stays."""

    async def answer(self, outcome: Outcome) -> None:
        """Send it, once for each run."""
        investigation = outcome.investigation
        key = f"{self._key(investigation)}{ANSWER}{investigation.runs}"
        text = answer_text(outcome, self._page(investigation))
        await self._mail(investigation, key, text)

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Nothing can be looked for: a message that is sent twice has the same Message-ID."""
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Send it, and give its Message-ID."""
        settings = self.vendor_settings
        first, answered, _ = key.partition(ANSWER)
        parts = TextParts.of(text)
        message = EmailMessage()
        message["From"] = settings.sender
        message["To"] = address
        message["Subject"] = parts.title
        message["Date"] = format_datetime(localtime())
        message["Message-ID"] = _id(settings, key)
        if answered:
            message["In-Reply-To"] = message["References"] = _id(settings, first)
        # RFC 3834, and Exchange's own header: no out-of-office notes in return.
        message["Auto-Submitted"] = "auto-generated"
        message["X-Auto-Response-Suppress"] = "All"
        page = f"\n\nThe whole answer, with its evidence: {parts.page}" if parts.page else ""
        message.set_content("\n".join((parts.title, *_spaced(parts.lines))) + page + "\n")

        def deliver() -> None:
            with _connected(self.vendor_settings) as server:
                server.send_message(message)

        try:
            await in_thread(deliver)
        except (smtplib.SMTPException, OSError) as error:
            raise self._failed(error) from error
        return str(message["Message-ID"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Nothing: another run's answer follows."""

    async def _mail(self, investigation: StoredInvestigation, key: str, text: str) -> None:
        await self._once(investigation, key, self._address(investigation), text)

    def _failed(self, error: Exception) -> ConnectorError:
        code = getattr(error, "smtp_code", None)
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            codes = [recipient[0] for recipient in error.recipients.values()]
            # One recipient that may be accepted later is reason enough to try again.
            code = next((code for code in codes if code in TRANSIENT), codes[0])
        again = code is None or code in TRANSIENT
        # Another try mends neither a certificate nor a missing feature of the server.
        if isinstance(error, ssl.SSLError | smtplib.SMTPNotSupportedError):
            again = False
        # A refusal was read, so nothing was taken.
        refused = code is not None
        return ConnectorError(
            self.name, "send", _failure_text(error), retryable=again, unchanged=refused
        )


@contextmanager
def _connected(settings: EmailSettings) -> Iterator[smtplib.SMTP]:
    """A session over TLS, logged in. Raises SMTPException, OSError."""
    assert settings.host is not None, "only configured targets are used"
    trust = ssl.create_default_context(cafile=str(settings.ca_file) if settings.ca_file else None)
    server: smtplib.SMTP
    if settings.security == "tls":
        server = smtplib.SMTP_SSL(
            settings.host, settings.port, timeout=REQUEST_TIMEOUT_S, context=trust
        )
    else:
        server = smtplib.SMTP(settings.host, settings.port, timeout=REQUEST_TIMEOUT_S)
    with server:
        if settings.security == "starttls":
            # Without it nothing is sent: this raises where the server has no TLS.
            server.starttls(context=trust)
        if settings.user and settings.password is not None:
            server.login(settings.user, settings.password.get_secret_value())
        yield server


def _spaced(lines: Sequence[str]) -> Iterator[str]:
    """With an empty line before each paragraph and each heading of a list: plain text has no other
    spacing."""
    for line in lines:
        if line and not line.startswith("- "):
            yield ""
        yield line


def _id(settings: EmailSettings, key: str) -> str:
    """The same for the same key, so that a reply finds its first message."""
    # The sender may be written as "Name <address>".
    domain = (settings.sender or "").rpartition("@")[2].rstrip("> ")
    return f"<faultline.{hashlib.sha256(key.encode()).hexdigest()[:32]}@{domain}>"


def _failure_text(error: Exception) -> str:
    """Without what the server says, which may quote an address or a name."""
    code = getattr(error, "smtp_code", None)
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"authentication failed ({code})"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return "the server offers no STARTTLS or no login"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the server refused every recipient"
    if isinstance(error, ssl.SSLError):
        return "the server's certificate is not trusted, or TLS failed"
    if code is not None:
        return f"the server refused the message ({code})"
    return "cannot be reached, or gave no answer in time"
