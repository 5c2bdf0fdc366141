"""What the buttons under an answer do, each over real HTTP with a real signature."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultline.bot.settings.reply_targets import GitHubIssuesSettings, GitHubRevertsSettings
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import ReplyTo
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.loopback.slack_person import actions_of
from tests.bot.answer.targets.answers import a_diagnosis
from tests.bot.answer.targets.test_reverts import blaming
from tests.bot.conversation.slack.conftest import CHANNEL, Room, eventually


def shown(blocks: Any) -> str:
    """All text of blocks."""
    return json.dumps(blocks, ensure_ascii=False)


def test_the_answer_offers_what_can_be_done_with_it(room: Room) -> None:
    investigation, message = room.answered()
    offered = actions_of(message)
    assert set(offered) == {
        "faultline_evidence",
        "faultline_right",
        "faultline_wrong",
        "faultline_wider",
        "faultline_more",
    }
    assert offered["faultline_more"] == [f"{c} {investigation.id}" for c in ("again", "mute")]


def test_a_failed_investigation_offers_no_button_that_needs_an_answer(room: Room) -> None:
    _, message = room.failed()
    assert set(actions_of(message)) == {
        "faultline_wider",
        "faultline_again",
        "faultline_mute",
    }


def test_without_pagerduty_there_is_no_button_for_it(room: Room) -> None:
    quiet = room.settings.pagerduty.model_copy(update={"from_email": None})
    room.settings = room.settings.model_copy(update={"pagerduty": quiet})
    _, message = room.answered(reply_to=ReplyTo(CHANNEL, None, "P1"))
    assert not any(
        "pagerduty" in value for values in actions_of(message).values() for value in values
    )


def test_evidence_opens_a_modal_with_findings_links_and_what_could_not_be_had(room: Room) -> None:
    investigation, message = room.answered()
    ann = room.person()
    assert ann.click(message, "faultline_evidence").status_code == 200
    view = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a modal")[0]
    eventually(lambda: "Could not be collected" in shown(view.view), "the evidence")
    said = shown(view.view)
    assert "For payments" in said
    assert "Against payments" in said
    assert "payments error_ratio rose from 0.01 to 0.31" in said
    assert "rate limit reached" in said
    assert f"/investigations/{investigation.id}#F1" in said
    assert "app.datadoghq.com" in said
    assert room.people_did(investigation.id) == ["ann (U0ANN) looked at the evidence"]


def test_many_findings_are_paged(room: Room) -> None:
    finding = a_diagnosis().findings[2]
    many = tuple(
        finding.model_copy(update={"id": f"F{n}", "sentence": f"finding number {n}."})
        for n in range(10, 45)
    )
    _, message = room.answered(diagnosis=a_diagnosis(findings=(*a_diagnosis().findings, *many)))
    ann = room.person()
    ann.click(message, "faultline_evidence")
    view = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a modal")[0]
    eventually(lambda: "page 1 of 4" in shown(view.view), "the first page")
    assert "faultline_page_back" not in actions_of(view)
    ann.click(view, "faultline_page_on")
    eventually(lambda: "page 2 of 4" in shown(view.view), "the second page")
    assert "finding number 20." in shown(view.view)
    assert set(actions_of(view)) == {"faultline_page_back", "faultline_page_on"}
    ann.click(view, "faultline_page_back")
    eventually(lambda: "page 1 of 4" in shown(view.view), "the first page again")


def test_a_case_that_is_gone_is_told_in_the_modal(room: Room) -> None:
    investigation, message = room.answered()
    for file in (room.cases / investigation.id).iterdir():
        file.unlink()
    (room.cases / investigation.id).rmdir()
    ann = room.person()
    ann.click(message, "faultline_evidence")
    view = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a modal")[0]
    eventually(lambda: "the case folder is not there any more" in shown(view.view), "the reason")


def test_a_slow_case_is_shown_once_it_is_read(room: Room) -> None:
    _, message = room.answered()
    released: list[bool] = []
    read = room.face.context.answer

    async def slow(investigation: Any) -> Any:
        import asyncio

        while not released:
            await asyncio.sleep(0.01)
        return await read(investigation)

    room.face.context.answer = slow  # type: ignore[method-assign]
    ann = room.person()
    ann.click(message, "faultline_evidence")
    view = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a modal")[0]
    assert "Reading the case" in shown(view.view)
    released.append(True)
    eventually(lambda: "payments error_ratio rose" in shown(view.view), "the evidence")


def test_a_click_that_came_too_late_for_a_form_is_explained(room: Room) -> None:
    _, message = room.answered()
    room.person().click(
        message, "faultline_more", option=f"mute {message_id(message)}", trigger_s=-1.0
    )
    eventually(room.said_aside, "an explanation")
    assert "3 seconds" in room.said_aside()[0]
    assert "click again" in room.said_aside()[0]


def message_id(message: Any) -> str:
    return str(actions_of(message)["faultline_evidence"][0])


def test_right_is_kept_with_who_said_so_and_shown(room: Room) -> None:
    investigation, message = room.answered()
    room.person().click(message, "faultline_right", times=3)
    eventually(lambda: "*Right*, said ann (U0ANN)" in shown(message.blocks), "the edit")
    label = Labels(room.store.engine).get(investigation.id)
    assert label is not None
    assert (label.right, label.who) == (True, "ann (U0ANN)")
    assert room.people_did(investigation.id) == ["ann (U0ANN) said that the answer is right"]


def test_wrong_asks_for_the_cause_and_keeps_it(room: Room) -> None:
    investigation, message = room.answered()
    ann = room.person()
    ann.click(message, "faultline_wrong")
    form = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a form")[0]
    options = next(b for b in form.view["blocks"] if b.get("block_id") == "suspect")["element"][
        "options"
    ]
    assert [o["value"] for o in options] == ["payments", "db"]
    ann.submit(form, suspect="db", cause="a lost index, commit 4f2a9c1")
    assert form.closed
    label = Labels(room.store.engine).get(investigation.id)
    assert label is not None
    assert (label.right, label.cause) == (False, "db; a lost index, commit 4f2a9c1")
    eventually(lambda: "*Wrong*, said ann (U0ANN)" in shown(message.blocks), "the edit")
    assert "the cause was db; a lost index" in shown(message.blocks)


def test_wrong_alone_is_worth_keeping_and_somebody_else_may_say_otherwise(room: Room) -> None:
    investigation, message = room.answered()
    ann, bob = room.person(), room.person("bob")
    ann.click(message, "faultline_wrong")
    form = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a form")[0]
    ann.submit(form)
    eventually(lambda: "*Wrong*, said ann" in shown(message.blocks), "the edit")
    bob.click(message, "faultline_right")
    eventually(lambda: "*Right*, said bob (U0BOB)" in shown(message.blocks), "the edit")
    assert Labels(room.store.engine).count() == 1
    assert len(room.people_did(investigation.id)) == 2


def test_mute_asks_how_long_and_unmute_ends_it(room: Room) -> None:
    room.slack.users["U0ANN"] = {"is_admin": True}
    investigation, message = room.answered()
    ann = room.person()
    ann.click(message, "faultline_more", option=f"mute {investigation.id}")
    form = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a form")[0]
    ann.submit(form, **{"for": "8h", "reason": "known, being fixed"})
    (mute,) = Mutes(room.store.engine).active(investigation.accepted_at)
    assert mute.fingerprint == investigation.alert.fingerprint
    assert (mute.by, mute.reason, mute.title) == (
        "ann (U0ANN)",
        "known, being fixed",
        investigation.alert.title,
    )
    assert round((mute.until - mute.at).total_seconds()) == 8 * 3600
    eventually(lambda: "*Muted* until" in shown(message.blocks), "the edit")
    assert "faultline_unmute" in actions_of(message)
    assert f"mute {investigation.id}" not in actions_of(message)["faultline_more"]
    ann.click(message, "faultline_unmute")
    eventually(lambda: "*Muted* until" not in shown(message.blocks), "the edit")
    assert Mutes(room.store.engine).active(investigation.accepted_at) == []
    again = room.store.accept(investigation.alert.model_copy(update={"status": "resolved"}))
    assert again.outcome == "resolved"


def test_a_mute_until_resolved_ends_with_the_alert(room: Room) -> None:
    room.slack.users["U0ANN"] = {"is_admin": True}
    investigation, message = room.answered()
    ann = room.person()
    ann.click(message, "faultline_more", option=f"mute {investigation.id}")
    form = eventually(lambda: room.slack.surfaces.opened_by(ann.id), "a form")[0]
    ann.submit(form, **{"for": "resolved"})
    assert room.store.accept(investigation.alert).outcome == "muted"
    room.store.accept(investigation.alert.model_copy(update={"status": "resolved"}))
    assert room.store.accept(investigation.alert).outcome == "started"


@pytest.mark.parametrize("choice", ["again", "wider"])
def test_a_further_investigation_starts_once_in_the_same_thread(room: Room, choice: str) -> None:
    investigation, message = room.answered()
    ann = room.person()
    if choice == "again":
        ann.click(message, "faultline_more", option=f"again {investigation.id}", times=3)
    else:
        ann.click(message, "faultline_wider", times=3)
    follow_ups = FollowUps(room.store.engine)
    (started,) = follow_ups.started_from(investigation.id)
    found = room.store.get(started)
    assert found is not None
    assert (found.reply_to.slack_channel, found.reply_to.slack_thread) == (CHANNEL, message.ts)
    assert found.alert.title == investigation.alert.title
    assert (found.question or "").startswith("ann (U0ANN) asked for")
    scope = follow_ups.scope(started)
    assert scope is not None
    if choice == "wider":
        assert scope.window is not None
        assert scope.window.seconds == 3 * 2 * 3600
    else:
        assert scope.window is None


def test_a_thread_may_not_ask_for_any_number_of_further_investigations(room: Room) -> None:
    limited = room.settings.slack.model_copy(update={"further_per_hour": 1})
    room.face.context.settings = room.settings.model_copy(update={"slack": limited})
    investigation, message = room.answered()
    ann = room.person()
    ann.click(message, "faultline_wider", times=3)
    ann.click(message, "faultline_more", option=f"again {investigation.id}")
    eventually(
        lambda: any("as many further investigations" in said for said in room.said_aside()),
        "an explanation",
    )
    assert len(FollowUps(room.store.engine).started_from(investigation.id)) == 1


def test_the_answer_of_a_further_investigation_names_the_first(room: Room) -> None:
    investigation, message = room.answered()
    room.person().click(message, "faultline_wider")
    (started,) = FollowUps(room.store.engine).started_from(investigation.id)
    room.write_case(started, a_diagnosis(), *answer_parts())
    room.store.finish(started, "done", verdict="cause_found", confidence=0.8, headline="again")
    _, second = room.reply(started)
    assert second.thread_ts == message.ts
    assert f"/investigations/{investigation.id}|{investigation.id}" in shown(second.blocks)


def answer_parts() -> tuple[Any, Any]:
    from tests.bot.answer.targets.answers import a_gap, a_report

    return a_report(), [a_gap()]


def test_the_note_goes_to_the_incident_and_is_amended_by_a_further_answer(room: Room) -> None:
    room.pagerduty.open_incident("P1", "checkout", "checkout")
    investigation, message = room.answered(reply_to=ReplyTo(CHANNEL, None, "P1"))
    ann = room.person()
    ann.click(message, "faultline_more", option=f"pagerduty {investigation.id}")
    eventually(room.said_aside, "an explanation")
    assert "note on incident P1 is on its way" in room.said_aside()[-1]
    assert "asked for a PagerDuty note on incident P1" in room.people_did(investigation.id)[0]
    [incident] = room.pagerduty.incidents.values()
    assert incident.notes == [], "a server has no key: a worker writes it"
    room.note(investigation.id)
    room.reply(investigation.id)
    assert "Update the PagerDuty note" in shown(message.blocks)
    assert "PagerDuty note on incident P1" in shown(message.blocks)
    ann.click(message, "faultline_more", option=f"again {investigation.id}")
    (started,) = FollowUps(room.store.engine).started_from(investigation.id)
    room.write_case(started, a_diagnosis(), *answer_parts())
    room.store.finish(started, "done", verdict="cause_found", confidence=0.8, headline="again")
    _, second = room.reply(started)
    asides = len(room.said_aside())
    ann.click(second, "faultline_more", option=f"pagerduty {started}")
    eventually(lambda: len(room.said_aside()) > asides, "an explanation")
    room.note(started)
    [note] = incident.notes
    assert len(note.versions) == 2
    assert f"/investigations/{started}" in note.content


def test_a_click_on_an_old_message_says_why_nothing_is_sent(room: Room) -> None:
    investigation, message = room.answered(reply_to=ReplyTo(CHANNEL, None, "P1"))
    quiet = room.settings.pagerduty.model_copy(update={"from_email": None})
    room.face.context.settings = room.settings.model_copy(update={"pagerduty": quiet})
    room.person().click(message, "faultline_more", option=f"pagerduty {investigation.id}")
    eventually(room.said_aside, "an explanation")
    assert "no PagerDuty incident" in room.said_aside()[0]
    found = room.store.get(investigation.id)
    assert found is not None
    assert found.reply_to.other_addresses == {}


def test_a_click_asks_for_a_ticket_whose_link_comes_under_the_answer(room: Room) -> None:
    room.settings.__dict__["github_issues"] = GitHubIssuesSettings(repository="acme/ops")
    investigation, message = room.answered()
    option = f"github_issue {investigation.id}"
    assert option in actions_of(message)["faultline_more"]
    room.person().click(message, "faultline_more", option=option)
    found = room.store.get(investigation.id)
    assert found is not None
    assert found.reply_to.other_addresses == {
        "github_issues": f"{investigation.id} {investigation.id}"
    }
    assert "asked for a GitHub issue" in room.people_did(investigation.id)[0]
    eventually(room.said_aside, "an explanation")
    # A worker has made it.
    key = f"{investigation.id}:github_issues"
    room.store.claim_post(key, investigation.id, owner="w", lease=timedelta(seconds=1))
    room.store.record_post(key, "#7 https://github.com/acme/ops/issues/7")
    room.reply(investigation.id)
    assert "GitHub issue <https://github.com/acme/ops/issues/7|#7>" in shown(message.blocks)
    assert "Update the GitHub issue" in shown(message.blocks)


def test_a_click_asks_for_a_draft_that_reverts_the_blamed_change(room: Room) -> None:
    reverts = GitHubRevertsSettings(repositories=("acme/shop",))
    room.settings.__dict__["github_reverts"] = reverts
    _, other = room.answered()
    assert "Draft a revert" not in shown(other.blocks)
    link = "https://github.com/acme/shop/pull/12"
    investigation, message = room.answered(diagnosis=blaming(link))
    assert "Draft a revert of #12" in shown(message.blocks)
    gus = room.person("gus")
    room.slack.users[gus.id] = {"is_restricted": True}
    gus.click(message, "faultline_more", option=f"github_revert {investigation.id}")
    eventually(room.said_aside, "a refusal")
    room.person().click(message, "faultline_more", option=f"github_revert {investigation.id}")
    eventually(lambda: len(room.said_aside()) > 1, "an explanation")
    assert link in room.said_aside()[-1]
    found = room.store.get(investigation.id)
    assert found is not None
    assert found.reply_to.other_addresses == {
        "github_reverts": f"{investigation.id} {investigation.id} {link}"
    }
    assert [f"draft revert on GitHub of {link}" in one for one in room.people_did(found.id)] == [
        True
    ]


def test_a_guest_asks_for_no_ticket(room: Room) -> None:
    room.settings.__dict__["github_issues"] = GitHubIssuesSettings(repository="acme/ops")
    investigation, message = room.answered()
    gus = room.person("gus")
    room.slack.users[gus.id] = {"is_restricted": True}
    gus.click(message, "faultline_more", option=f"github_issue {investigation.id}")
    eventually(room.said_aside, "a line")
    found = room.store.get(investigation.id)
    assert found is not None
    assert found.reply_to.other_addresses == {}


def test_a_click_while_it_runs_again_does_not_make_the_message_a_failure(room: Room) -> None:
    investigation, message = room.answered(reply_to=ReplyTo(CHANNEL, None, "P1"))
    room.store.start(investigation.id)
    versions = len(message.versions)
    ann = room.person()
    ann.click(message, "faultline_right")
    ann.click(message, "faultline_more", option=f"pagerduty {investigation.id}")
    eventually(room.said_aside, "an explanation")
    assert "still being investigated" in room.said_aside()[0]
    assert len(message.versions) == versions
    assert Labels(room.store.engine).get(investigation.id) is not None


def test_an_investigation_that_is_not_known_is_explained(room: Room) -> None:
    _, message = room.answered()
    text = json.dumps(message.versions[-1][1]).replace(
        message_id(message), "20200101-000000-aaaaaa"
    )
    message.versions.append((message.text, json.loads(text)))
    room.person().click(message, "faultline_right")
    eventually(room.said_aside, "an explanation")
    assert "no longer known" in room.said_aside()[0]


def test_a_click_that_cannot_be_stored_is_refused(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    investigation, message = room.answered()
    from sqlalchemy.exc import OperationalError

    def broken(*_: object, **__: object) -> None:
        raise OperationalError("select", {}, Exception("locked"))

    monkeypatch.setattr(room.face.context.labels, "write", broken)
    assert room.person().click(message, "faultline_right").status_code == 503
    assert room.people_did(investigation.id) == []


def test_a_click_with_a_wrong_signature_changes_nothing(room: Room) -> None:
    investigation, message = room.answered()
    ann = room.person()
    ann.secret = "another"
    assert ann.click(message, "faultline_right").status_code == 401
    assert Labels(room.store.engine).get(investigation.id) is None


def test_hostile_names_and_words_neither_mention_nor_link(room: Room) -> None:
    _, message = room.answered()
    hostile = "<!channel> <http://evil.example|x> \u202eann `*_"
    eve = room.person("eve")
    eve.name = hostile
    eve.click(message, "faultline_wrong")
    form = eventually(lambda: room.slack.surfaces.opened_by(eve.id), "a form")[0]
    eve.submit(form, cause=hostile)
    eventually(lambda: "*Wrong*" in shown(message.blocks), "the edit")
    assert "<!channel>" not in shown(message.blocks)
    assert "<http://evil" not in shown(message.blocks)
    assert "\u202e" not in shown(message.blocks)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"payload=",
        b"payload=[]",
        b"payload=%7B%22type%22%3A%22block_actions%22%7D",
        b"payload=%7B%22type%22%3A%22view_submission%22%7D",
        b"payload=%7B%22type%22%3A%22block_actions%22%2C%22actions%22%3A%5B%7B%7D%5D%7D",
        b"payload=%7B%22type%22%3A%22shortcut%22%2C%22callback_id%22%3A%22x%22%7D",
        b"\xff\xfe",
        b"payload=" + b"%5B" * 50_000,
    ],
)
def test_misshapen_payloads_are_answered_and_change_nothing(room: Room, payload: bytes) -> None:
    ann = room.person()
    answer = ann._post("/slack/interactivity", payload, "application/x-www-form-urlencoded")
    assert answer.status_code in (200, 503)
    assert room.store.count() == 0
