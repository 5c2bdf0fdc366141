"""A revert of the blamed change is drafted once, on a click alone, and says on what evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.vocabulary import Diagnosis, Verdict
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.target_type import configured_types
from faultline.bot.answer.targets.tickets.revert_target import RevertTarget, blamed_link
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.answer.targets.tickets.tickets import NO_LONGER, Reverts
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.store.follow_ups import TicketRequests
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    an_hour_later,
    settings,
    some_evidence,
)
from tests.bot.answer.targets.fake_code_hosts import CONFLICT, MERGED, FakeCodeHosts
from tests.bot.answer.targets.test_tickets import HOSTILE, answered, known

HOSTS = ("github_reverts", "gitlab_reverts")


@pytest.fixture
def hosts() -> Iterator[FakeCodeHosts]:
    fake = FakeCodeHosts()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


def blaming(link: str | None, **more: Any) -> Diagnosis:
    """A diagnosis whose first cause is the change at an address."""
    found = a_diagnosis(**more)
    change = ChangeDetails(change="v2", link=link)
    findings = [one.model_copy(update={"details": change}) for one in found.findings[1:2]]
    return found.model_copy(update={"findings": (found.findings[0], *findings)})


def opened(name: str, hosts: FakeCodeHosts, store: Store) -> Reverts:
    given = settings(**hosts.sections())
    [target] = [one for one in declared_targets(given) if one.name == name]
    assert isinstance(target, RevertTarget)
    client: Any = target._client()
    made = client(target, given, store, owner="w")
    assert isinstance(made, Reverts)
    return made


def offers(
    hosts: FakeCodeHosts, store: Store, investigation: StoredInvestigation, link: str | None
) -> dict[str, TicketOffer]:
    given = settings(**hosts.sections())
    found = ticket_offers(investigation, store, given, link)
    return {one.target: one for one in found}


def asked(store: Store, name: str, link: str) -> StoredInvestigation:
    investigation = answered(store)
    TicketRequests(store.engine).ask(investigation.id, name, link)
    return known(store, investigation.id)


def outcome(
    investigation: StoredInvestigation, link: str, headline: str = "payments v2 breaks checkout"
) -> Outcome:
    report = a_report(headline=headline)
    answer = Answer(blaming(link), report, some_evidence(), [a_gap()], None)
    return Outcome(investigation, answer)


def refusal(reverts: Reverts, told: Outcome) -> str:
    """Why nothing is drafted, which is not tried again."""
    with pytest.raises(ConnectorError) as failed:
        asyncio.run(reverts.answer(told))
    assert not failed.value.retryable
    return failed.value.problem


@pytest.mark.parametrize("name", HOSTS)
def test_a_revert_is_drafted_once_with_the_evidence_and_kept_in_step(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)

    async def story() -> None:
        await reverts.answer(outcome(investigation, link))
        await reverts.answer(outcome(investigation, link, "it was the rounding"))

    asyncio.run(story())
    [draft] = hosts.drafts
    [text] = hosts.texts
    assert draft.get("draft") or draft["title"].startswith("Draft: ")
    assert f"Reverts {link}" in text
    assert "Faultline never merges it" in text
    assert "it was the rounding" in text, "the answer changed"
    assert "rose 31x right after v2" in text, "the evidence"
    assert f"https://faultline.example.com/investigations/{investigation.id}" in text
    assert NO_LONGER not in text
    assert not any(path.endswith("/merge") for _, path, _ in hosts.requests)
    offer = offers(hosts, store, investigation, link)[name]
    assert (offer.title[1:], offer.label) == ("13", ""), "there is nothing left to ask for"


@pytest.mark.parametrize("name", HOSTS)
def test_a_draft_whose_making_was_not_confirmed_is_found_and_not_made_again(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    for _ in range(2):
        hosts.lose_answers = 1
        with pytest.raises(ConnectorError) as failed:
            asyncio.run(reverts.answer(outcome(investigation, link)))
        assert failed.value.retryable
        an_hour_later(store)
        if hosts.drafts:
            break
    asyncio.run(reverts.answer(outcome(investigation, link)))
    assert len(hosts.drafts) == 1


@pytest.mark.parametrize("name", HOSTS)
def test_two_workers_draft_one(name: str, hosts: FakeCodeHosts, store: Store) -> None:
    link = hosts.link(name)
    investigation = asked(store, name, link)
    one, other = (opened(name, hosts, store) for _ in range(2))

    async def both() -> None:
        told = outcome(investigation, link)
        await asyncio.gather(*(each.answer(told) for each in (one, other)))

    asyncio.run(both())
    assert len(hosts.drafts) == 1


@pytest.mark.parametrize("name", HOSTS)
def test_a_draft_from_a_fork_that_bears_our_mark_is_not_taken_for_ours(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    asyncio.run(reverts.answer(outcome(investigation, link)))
    since = investigation.accepted_at
    assert asyncio.run(reverts.find(link, "k", since)) is not None
    hosts.home = "mallory/shop"
    assert asyncio.run(reverts.find(link, "k", since)) is None


@pytest.mark.parametrize("name", HOSTS)
def test_without_a_click_nothing_is_drafted(name: str, hosts: FakeCodeHosts, store: Store) -> None:
    reverts, investigation = opened(name, hosts, store), answered(store)
    assert not reverts.expects_answer(investigation)
    asyncio.run(reverts.answer(outcome(investigation, hosts.link(name))))
    assert hosts.requests == []


@pytest.mark.parametrize("name", HOSTS)
def test_a_conflict_is_one_clear_message_and_leaves_nothing_behind(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    hosts.conflict, link = True, hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    said = refusal(reverts, outcome(investigation, link))
    assert said.startswith("no revert was drafted: revert ")
    assert "by hand" in said
    assert (CONFLICT[:60] in said) or "could not be reverted" in said
    assert (hosts.drafts, hosts.branches) == ([], {})


@pytest.mark.parametrize("name", HOSTS)
def test_what_is_not_merged_is_not_reverted(name: str, hosts: FakeCodeHosts, store: Store) -> None:
    hosts.merged, link = False, hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    assert "12 is not merged" in refusal(reverts, outcome(investigation, link))
    assert hosts.drafts == []


@pytest.mark.parametrize(
    ("merge", "squash", "commits", "reverted"),
    [
        (MERGED, "d" * 40, 3, MERGED),
        (None, "d" * 40, 3, "d" * 40),
        (None, None, 1, "b" * 40),
    ],
    ids=["merge commit", "squash commit", "one commit, fast-forward"],
)
def test_gitlab_reverts_the_commit_that_is_the_whole_change(
    merge: str | None,
    squash: str | None,
    commits: int,
    reverted: str,
    hosts: FakeCodeHosts,
    store: Store,
) -> None:
    hosts.merge_commit, hosts.squash_commit, hosts.commits = merge, squash, commits
    link = hosts.link("gitlab_reverts")
    reverts = opened("gitlab_reverts", hosts, store)
    asyncio.run(reverts.answer(outcome(asked(store, "gitlab_reverts", link), link)))
    [message] = hosts.branches.values()
    assert message.endswith(reverted)
    assert hosts.drafts[0]["title"] == 'Draft: Revert "Charge in cents"'


def test_gitlab_reverts_no_part_of_a_change(hosts: FakeCodeHosts, store: Store) -> None:
    hosts.merge_commit, hosts.commits = None, 3
    link = hosts.link("gitlab_reverts")
    reverts = opened("gitlab_reverts", hosts, store)
    said = refusal(reverts, outcome(asked(store, "gitlab_reverts", link), link))
    assert "as several commits without a merge commit" in said
    assert hosts.branches == {}


def test_github_reverts_a_commit_only_where_it_is_the_merge_of_a_pull_request(
    hosts: FakeCodeHosts, store: Store
) -> None:
    link = f"{hosts.url}/acme/shop/commit/{MERGED}"
    reverts = opened("github_reverts", hosts, store)
    asyncio.run(reverts.answer(outcome(asked(store, "github_reverts", link), link)))
    assert len(hosts.drafts) == 1
    other = f"{hosts.url}/acme/shop/commit/{'e' * 40}"
    investigation = asked(store, "github_reverts", other)
    assert "is not the merge of a pull request" in refusal(reverts, outcome(investigation, other))


def test_gitlab_reverts_a_commit_without_a_merge_request(
    hosts: FakeCodeHosts, store: Store
) -> None:
    link = f"{hosts.url}/acme/shop/-/commit/{MERGED}"
    reverts = opened("gitlab_reverts", hosts, store)
    asyncio.run(reverts.answer(outcome(asked(store, "gitlab_reverts", link), link)))
    assert hosts.drafts[0]["target_branch"] == "main"
    assert hosts.drafts[0]["source_branch"] == f"faultline/revert-{MERGED[:12]}"


@pytest.mark.parametrize("name", HOSTS)
def test_a_draft_says_when_the_answer_no_longer_blames_its_change(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    asyncio.run(reverts.answer(outcome(investigation, link)))
    other = f"{link.removesuffix('12')}11"
    asyncio.run(reverts.answer(outcome(investigation, other)))
    assert NO_LONGER in hosts.texts[0]
    assert f"Reverts {link}" in hosts.texts[0]
    # The new answer's change can be asked for, too.
    assert offers(hosts, store, investigation, other)[name].label.endswith("11")


@pytest.mark.parametrize("name", HOSTS)
def test_foreign_text_in_a_draft_is_no_markup_mention_or_command(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name)
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    asyncio.run(reverts.answer(outcome(investigation, link, HOSTILE)))
    for wrong in ("@everyone", "#1 ", "<img", "[x]("):
        assert wrong not in hosts.texts[0]
    assert not any(line.lstrip().startswith("/") for line in hosts.texts[0].splitlines())


def test_it_is_off_by_default_and_offered_for_named_repositories_alone(
    hosts: FakeCodeHosts, store: Store
) -> None:
    investigation = answered(store)
    link = hosts.link("github_reverts")
    assert ticket_offers(investigation, store, settings(), link) == ()
    found = offers(hosts, store, investigation, link)
    assert {name: one.label for name, one in found.items()} == {
        "github_reverts": "Draft a revert of #12"
    }
    assert found["github_reverts"].value == f"github_reverts {link}"
    assert "gitlab_reverts" in offers(hosts, store, investigation, hosts.link("gitlab_reverts"))
    for other in (
        None,
        link.replace("acme/shop", "acme/other"),
        f"{link}/files",
        f"{hosts.url}.evil.example/acme/shop/pull/12",
        f"https://evil.example/{hosts.url}/acme/shop/pull/12",
        link.replace("/pull/", "/deployments/"),
    ):
        assert offers(hosts, store, investigation, other) == {}, other
    assert configured_types(settings(github_reverts={"repositories": ["acme/shop"]})) == []


@pytest.mark.parametrize("name", HOSTS)
def test_a_wish_for_a_repository_that_the_settings_do_not_name_is_refused(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    link = hosts.link(name).replace("acme/shop", "acme/other")
    reverts, investigation = opened(name, hosts, store), asked(store, name, link)
    assert "no longer allow" in refusal(reverts, outcome(investigation, link))
    assert hosts.requests == []


def test_only_an_established_first_cause_with_an_address_is_blamed() -> None:
    link = "https://github.com/acme/shop/pull/12"
    assert blamed_link(blaming(link)) == link
    assert blamed_link(a_diagnosis()) is None
    assert blamed_link(blaming("javascript:alert(1)")) is None
    assert blamed_link(blaming(link, verdict=Verdict.INSUFFICIENT_EVIDENCE)) is None
    other = a_diagnosis().causes[0].model_copy(update={"change": None})
    assert blamed_link(blaming(link).model_copy(update={"causes": (other,)})) is None


@pytest.mark.parametrize("name", HOSTS)
def test_check_names_the_repositories_and_a_refusal_is_said(
    name: str, hosts: FakeCodeHosts, store: Store
) -> None:
    reverts = opened(name, hosts, store)
    assert asyncio.run(type(reverts).who(reverts.vendor_settings)) == "acme/shop"
    link = hosts.link(name)
    investigation = asked(store, name, link)
    hosts.refuse_with = 403
    assert "refused" in refusal(reverts, outcome(investigation, link))
    hosts.refuse_with = None
    asyncio.run(reverts.answer(outcome(investigation, link)))
    assert len(hosts.drafts) == 1, "the next click may"
