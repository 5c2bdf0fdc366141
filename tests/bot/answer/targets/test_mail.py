"""E-mail to a real SMTP server: encrypted, in one thread, once for each run."""

from __future__ import annotations

import asyncio
import email
import email.policy
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.chats.mail import Emails
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.bot_process import free_port
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    accepted,
    an_alert,
    some_evidence,
)
from tests.bot.answer.targets.test_tickets import HOSTILE
from tests.own_certificates import OwnAuthority

PASSWORD = "a-password-that-writes"


@dataclass
class Mailbox:
    """What the server took. `refuse_with` answers the next message with that line instead."""

    messages: list[EmailMessage] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    refuse_with: str = ""

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.refuse_with:
            said, self.refuse_with = self.refuse_with, ""
            return said
        content = envelope.content
        assert isinstance(content, bytes)
        made = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(made, EmailMessage)
        self.messages.append(made)
        self.encrypted.append(session.ssl is not None)
        return "250 OK"


def authenticated(*given: Any) -> AuthResult:
    proof = given[-1]
    assert isinstance(proof, LoginPassword)
    return AuthResult(success=proof.password == PASSWORD.encode(), handled=False)


@dataclass
class MailServer:
    """A real SMTP server with STARTTLS and logins."""

    mailbox: Mailbox
    port: int
    ca_file: Path

    def section(self) -> dict[str, Any]:
        """The section that leads there, without its secret."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "faultline",
            "sender": "Faultline <faultline@acme.example>",
            "to": ["ops@acme.example", "boss@acme.example"],
            "ca_file": str(self.ca_file),
        }

    def settings(self, **more: Any) -> Settings:
        """Settings that lead there."""
        own = self.section()
        url = {"public_url": "https://faultline.example.com"}
        password = {"FAULTLINE_EMAIL__PASSWORD": PASSWORD}
        return settings_of({"email": own | more, "server": url}, password)


def started(folder: Path, *, tls: bool = True) -> tuple[MailServer, Controller]:
    authority = OwnAuthority(folder)
    own = authority.issue("server", "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.cert, own.key)
    mailbox = Mailbox()
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        # The controller asks its own server before it says where that is.
        port=free_port(),
        tls_context=context if tls else None,
        require_starttls=tls,
        authenticator=authenticated,
        auth_required=tls,
    )
    controller.start()
    return MailServer(mailbox, controller.port, authority.cert), controller


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[MailServer]:
    server, controller = started(tmp_path)
    yield server
    controller.stop()


def opened(given: Settings, store: Store) -> Emails:
    [target] = [one for one in declared_targets(given) if one.name == "email"]
    client: Any = target
    made = client._client()(client, given, store, owner="w")
    assert isinstance(made, Emails)
    return made


def outcome(investigation: StoredInvestigation, headline: str = "payments breaks it") -> Outcome:
    report = a_report(headline=headline)
    return Outcome(investigation, Answer(a_diagnosis(), report, some_evidence(), [a_gap()], None))


def test_the_answer_follows_the_first_message_in_its_thread_once(
    mail: MailServer, store: Store
) -> None:
    emails, investigation = opened(mail.settings(), store), accepted(store, ReplyTo())

    async def story() -> None:
        await emails.announce(investigation)
        await emails.announce(investigation)
        await emails.preview(outcome(investigation))
        await emails.answer(outcome(investigation))
        await emails.answer(outcome(investigation, "an alert joined"))

    asyncio.run(story())
    first, answer = mail.mailbox.messages
    assert first["Subject"] == "Investigating: checkout error ratio above 5 %"
    assert "payments breaks it" in answer["Subject"]
    assert answer["In-Reply-To"] == answer["References"] == first["Message-ID"]
    assert first["Message-ID"].endswith("@acme.example>")
    assert answer["To"] == "ops@acme.example, boss@acme.example"
    assert answer["Auto-Submitted"] == "auto-generated"
    body = answer.get_content()
    assert "rose 31x right after v2" in body
    # Plain text has no other spacing: each paragraph and each list begins after an empty line.
    lines = body.splitlines()
    headings = [n for n, line in enumerate(lines) if line and line[0] != "-"][1:]
    assert len(headings) > 3
    assert all(lines[n - 1] == "" for n in headings)
    assert lines[lines.index("Why:") + 1].startswith("- ")
    assert f"https://faultline.example.com/investigations/{investigation.id}" in body
    assert mail.mailbox.encrypted == [True, True]


def test_the_answer_of_another_run_follows_in_the_same_thread(
    mail: MailServer, store: Store
) -> None:
    emails, investigation = opened(mail.settings(), store), accepted(store, ReplyTo())
    asyncio.run(emails.answer(outcome(investigation)))
    asyncio.run(emails.answer(outcome(replace(investigation, runs=2), "it was the database")))
    one, other = mail.mailbox.messages
    assert one["References"] == other["References"]
    assert one["Message-ID"] != other["Message-ID"]


def test_two_workers_send_one(mail: MailServer, store: Store) -> None:
    investigation = accepted(store, ReplyTo())
    both = [opened(mail.settings(), store) for _ in range(2)]

    async def story() -> None:
        await asyncio.gather(*(one.answer(outcome(investigation)) for one in both))

    asyncio.run(story())
    assert len(mail.mailbox.messages) == 1


@pytest.mark.parametrize(("said", "again"), [("451 try later", True), ("554 no", False)])
def test_a_refusal_says_whether_to_try_again_and_then_it_is_sent(
    said: str, again: bool, mail: MailServer, store: Store
) -> None:
    emails, investigation = opened(mail.settings(), store), accepted(store, ReplyTo())
    mail.mailbox.refuse_with = said
    with pytest.raises(ConnectorError) as refused:
        asyncio.run(emails.answer(outcome(investigation)))
    assert refused.value.retryable is again
    assert PASSWORD not in str(refused.value)
    asyncio.run(emails.answer(outcome(investigation)))
    assert len(mail.mailbox.messages) == 1


def test_without_encryption_nothing_is_sent(tmp_path: Path, store: Store) -> None:
    server, controller = started(tmp_path, tls=False)
    try:
        emails = opened(server.settings(), store)
        with pytest.raises(ConnectorError, match="no STARTTLS"):
            asyncio.run(emails.answer(outcome(accepted(store, ReplyTo()))))
        assert server.mailbox.messages == []
    finally:
        controller.stop()


def test_a_server_that_is_not_trusted_gets_no_password(mail: MailServer, store: Store) -> None:
    given = mail.settings(ca_file=None)
    with pytest.raises(ConnectorError, match="not trusted") as refused:
        asyncio.run(opened(given, store).answer(outcome(accepted(store, ReplyTo()))))
    assert not refused.value.retryable


def test_check_logs_in_and_sends_nothing(mail: MailServer, store: Store) -> None:
    own = mail.settings().email
    assert "nothing was sent" in asyncio.run(Emails.who(own))
    wrong = own.model_copy(update={"password": None, "user": None})
    assert "nothing was sent" in asyncio.run(Emails.who(wrong)), "a relay without logins"
    bad = settings_of(
        {"email": own.model_dump(exclude={"password"}, mode="json")},
        {"FAULTLINE_EMAIL__PASSWORD": "wrong"},
    ).email
    with pytest.raises(FaultlineError, match="authentication failed"):
        asyncio.run(Emails.who(bad))
    assert mail.mailbox.messages == []


def test_a_services_address_and_what_a_table_covers_decide_who_gets_it(
    mail: MailServer, store: Store
) -> None:
    given = mail.settings(services={"checkout": ["checkout@acme.example"]})
    asyncio.run(opened(given, store).answer(outcome(accepted(store, ReplyTo()))))
    assert mail.mailbox.messages[0]["To"] == "checkout@acme.example"


def test_foreign_text_makes_no_header_and_no_link(mail: MailServer, store: Store) -> None:
    emails = opened(mail.settings(), store)
    title = f"a\r\nBcc: eve@evil.example\r\n\r\n{HOSTILE} http://evil.example"
    name = store.accept(an_alert(title=title)).investigation_id or ""
    found = store.get(name)
    assert found is not None
    asyncio.run(emails.announce(found))
    [message] = mail.mailbox.messages
    assert message["Bcc"] is None
    assert "http://evil" not in message.get_content() + message["Subject"]
