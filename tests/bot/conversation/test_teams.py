"""Questions in Microsoft Teams, from a signed mention to the card in the thread: the words of
Slack, by the same steps of a worker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from sqlalchemy.orm import Session

from faultline.bot.conversation.steps import ConversationSteps
from faultline.bot.conversation.teams_posts import card_of_answer
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.tables import InvestigationRow
from tests.bot.answer.targets.fake_chats import CHANNEL
from tests.bot.conversation.cases import write_answered, write_shop
from tests.bot.intake.conftest import sqlite_store
from tests.bot.intake.teams_on_loopback import PEOPLE, Teams, chats, open_teams

__all__ = ["chats", "open_teams", "sqlite_store"]

NOT_THERE = "20200101-000000-000000"


@dataclass
class Thread:
    """The thread of an answer in a channel."""

    teams: Teams
    context: WorkerContext
    investigation: str
    root: str

    @property
    def conversation(self) -> dict[str, str]:
        return {"id": f"{CHANNEL};messageid={self.root}", "conversationType": "channel"}

    @property
    def questions(self) -> Conversations:
        return Conversations(self.teams.store.engine)

    def ask(self, text: str, who: str = "29:ann", **more: Any) -> str:
        """A mention in the thread; what is said at once."""
        return self.teams.say(text, who, **{"conversation": self.conversation, **more})

    def work(self, owner: str = "w1") -> list[dict[str, Any]]:
        """A worker answers all that waits; the cards that it posts."""
        before = len(self.teams.chats.messages)

        async def steps() -> None:
            worker = ConversationSteps(self.context, owner=owner)
            for question in self.questions.undispatched(10):
                if await worker.word(question):
                    tried = await worker.post(question)
                    if not tried["again"]:
                        await worker.finish(question, tried["why"])

        asyncio.run(steps())
        posted = self.teams.chats.messages[before:]
        assert {one.channel for one in posted} <= {self.conversation["id"]}, "in the thread"
        return [one.versions[-1]["attachments"][0]["content"] for one in posted]

    def told(self, text: str, who: str = "29:ann") -> str:
        """The one answer to a question."""
        assert self.ask(text, who) == ""
        [card] = self.work()
        return json.dumps(card, ensure_ascii=False)


@pytest.fixture(scope="module")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_answered(write_shop(tmp_path_factory.mktemp("shop") / "case"))


@pytest.fixture
def opened(
    open_teams: Callable[..., Teams], shop_folder: Path, tmp_path: Path, pool: ProcessPool
) -> Callable[..., Thread]:
    def made(own: dict[str, Any] | None = None, **more: Any) -> Thread:
        teams = open_teams(own=own or {}, **more)
        cases = CaseStore(tmp_path / "cases")
        context = WorkerContext(teams.settings, teams.store, cases, (), (), pool)
        found, root = teams.answered()
        thread = Thread(teams, context, found.id, root)
        with_case(thread, found.id, shop_folder)
        return thread

    return made


def with_case(thread: Thread, investigation: str, folder: Path) -> None:
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = file.relative_to(folder).as_posix()
        thread.context.cases.put(investigation, name, file)


@pytest.fixture
def thread(opened: Callable[..., Thread]) -> Thread:
    return opened()


def test_a_question_is_answered_in_its_thread_with_links_to_findings(
    thread: Thread, shared: Path
) -> None:
    assert thread.ask("is it the <b>database</b>?") == ""
    [card] = thread.work()
    schema = json.loads((shared / "specs" / "adaptive-card-1.5.0.schema.json").read_text())
    Draft7Validator(schema).validate(card)
    said = json.dumps(card)
    assert "Yes, I blame the database" in said
    page = f"https://faultline.example.com/investigations/{thread.investigation}"
    assert f'"Action.OpenUrl", "url": "{page}#F' in said
    assert card["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open the investigation", "url": page}
    ]
    assert thread.work() == [], "once"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("why not the cart?", "cart"),
        ("since when?", "UTC"),
        ("explain F1", "F1"),
        ("show logs of checkout", '"fontType": "Monospace"'),
        ("sing me a song", "I can't answer that"),
        ("write a postmortem", "/export/postmortem.md"),
        ("roll back the deploy", "I change nothing"),
    ],
)
def test_it_answers_what_it_answers_in_slack(thread: Thread, text: str, said: str) -> None:
    assert said in thread.told(text)


def test_a_chart_is_on_the_page(thread: Thread) -> None:
    assert thread.told("graph p99 of checkout").count("Image") == 0


def test_two_workers_and_the_same_mention_twice_answer_once(thread: Thread) -> None:
    mention = thread.teams.activity(text="<at>Bot</at> why?", conversation=thread.conversation)
    for _ in range(2):
        assert thread.teams.send(mention).json() == {}
    [question] = thread.questions.undispatched(10)

    async def both() -> None:
        one, other = (ConversationSteps(thread.context, owner=owner) for owner in ("w1", "w2"))
        await asyncio.gather(one.word(question), other.word(question))
        await asyncio.gather(one.post(question), other.post(question))

    before = len(thread.teams.chats.messages)
    asyncio.run(both())
    assert len(thread.teams.chats.messages) == before + 1


def test_an_answer_whose_sending_was_not_confirmed_is_found_and_not_sent_again(
    opened: Callable[..., Thread],
) -> None:
    thread = opened({"team": "a-team"})
    thread.ask("why?")
    thread.teams.chats.lose_answers = 1
    assert len(thread.work()) == 1, "it was taken, and the answer lost"
    assert thread.work() == []
    assert thread.questions.waiting() == 0


def test_teams_being_away_is_tried_again(thread: Thread) -> None:
    thread.ask("why?")
    thread.teams.chats.refuse_with = 503
    assert thread.work() == []
    thread.teams.chats.refuse_with = None
    assert len(thread.work()) == 1


def test_a_correction_is_kept_with_the_name_and_the_card_shows_it(thread: Thread) -> None:
    said = thread.told("you are wrong, it was the cart")
    assert "Recorded as the cause" in said
    label = Labels(thread.teams.store.engine).get(thread.investigation)
    assert label is not None
    assert (label.right, label.who) == (False, "Ann")
    with Session(thread.teams.store.engine) as session:
        row = session.get_one(InvestigationRow, thread.investigation)
        assert row.revision > (row.notified_revision or 0), "a worker edits the card"


def test_a_follow_up_is_answered_in_the_thread_and_asked_about_there(
    thread: Thread, shop_folder: Path
) -> None:
    said = thread.told("what about the last 6 hours?")
    [fresh] = [one for one in thread.teams.store.latest(9) if one.id != thread.investigation]
    assert fresh.id in said
    assert fresh.reply_to.other_addresses == {"msteams": thread.conversation["id"]}
    follow_ups = FollowUps(thread.teams.store.engine)
    assert follow_ups.parent(fresh.id) == thread.investigation
    assert "is still running" in thread.told("why?")
    thread.teams.store.start(fresh.id)
    thread.teams.store.finish(fresh.id, "done", verdict="cause_found", confidence=0.9, headline="x")
    with_case(thread, fresh.id, shop_folder)
    assert f"/investigations/{fresh.id}#F" in thread.told("why?")


def test_a_thread_starts_as_many_follow_ups_as_its_limit_says(
    opened: Callable[..., Thread],
) -> None:
    thread = opened({"further_per_hour": 1})
    assert "Starting a follow-up" in thread.told("what about the last 6 hours?")
    assert "limit of 1 follow-ups" in thread.told("what about the last 5 hours?")


def test_one_person_is_counted_for_questions_and_clicks_together(
    opened: Callable[..., Thread],
) -> None:
    thread = opened(people={"investigations_per_hour": 1})
    thread.teams.click("again", {"investigation": thread.investigation})
    assert "limit of 1 investigations per hour" in thread.told("what about the last 6 hours?")


def test_too_many_questions_are_said_to_be_too_many_once(opened: Callable[..., Thread]) -> None:
    thread = opened({"questions_per_hour": 2})
    for _ in range(5):
        assert thread.ask("why?") == ""
    cards = [*thread.work(), *thread.work(), *thread.work(), *thread.work()]
    assert len(cards) == 3
    assert "limit of 2 questions per hour" in json.dumps(cards[2])


def test_the_thread_of_an_investigation_that_somebody_asked_for_is_one_too(
    thread: Thread, shop_folder: Path
) -> None:
    there = {"id": f"{CHANNEL};messageid=77", "conversationType": "channel"}
    assert thread.ask("investigate checkout errors", conversation=there) == ""
    asked = thread.teams.store.latest(1)[0]
    thread.teams.store.start(asked.id)
    thread.teams.store.finish(asked.id, "done", verdict="cause_found", confidence=0.9, headline="x")
    thread.teams.reply(asked.id)
    with_case(thread, asked.id, shop_folder)
    thread.root = "77"
    assert f"/investigations/{asked.id}#F" in thread.told("is it the database?")


def test_outside_of_its_threads_it_says_how_to_ask(thread: Thread) -> None:
    there = {"id": f"{CHANNEL};messageid=4711", "conversationType": "channel"}
    assert "mention me with a question" in thread.ask("is it the database?", conversation=there)
    assert thread.ask("thanks!") == ""
    assert thread.work() == []


def test_an_id_of_another_thread_tells_nothing_of_it(thread: Thread, shop_folder: Path) -> None:
    other, _ = thread.teams.answered(title="merger talks leak")
    with_case(thread, other.id, shop_folder)
    thread.ask(f"why, {other.id}")
    thread.ask(f"why, {NOT_THERE}")
    one, absent = (json.dumps(card) for card in [*thread.work(), *thread.work()])
    assert "merger" not in one
    assert other.id not in one
    key = '"id": "msteams/'
    assert one.partition(key)[0] == absent.partition(key)[0], "it is like one that does not exist"


def test_secrets_of_a_question_are_neither_kept_nor_repeated(thread: Thread) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    assert thread.ask(f"is it the database with token {secret}?") == ""
    [waiting] = thread.questions.undispatched(10)
    kept = thread.questions.get(waiting)
    assert kept is not None
    assert "is it the database" in kept.text
    assert secret not in kept.text
    [card] = thread.work()
    assert secret not in json.dumps(card)


@pytest.mark.parametrize("who", ["29:gus", "29:ext", "29:foe", "29:nobody", "29:vi"])
def test_only_those_who_may_ask_are_answered(opened: Callable[..., Thread], who: str) -> None:
    thread = opened(login={"viewers": ["vi-id"]})
    thread.teams.chats.members["29:vi"] = {**PEOPLE["29:ann"], "aadObjectId": "vi-id"}
    assert thread.ask("is it the database?", who) != ""
    assert thread.questions.waiting() == 0


def test_with_teams_apart_a_channel_hears_of_its_own_team(opened: Callable[..., Thread]) -> None:
    own = {"payments": {"channels": [CHANNEL]}, "search": {"channels": ["19:other@thread.tacv2"]}}
    thread = opened(login={"isolation": "teams"}, teams=own)
    for team, heard in (("payments", True), ("search", False)):
        with Session(thread.teams.store.engine) as session, session.begin():
            session.get_one(InvestigationRow, thread.investigation).team = team
        assert ("I blame the database" in thread.told("is it the database?")) == heard


def test_a_card_holds_foreign_text_as_text_and_stays_within_its_size(shared: Path) -> None:
    hostile = "<at>everybody</at> [x](https://evil.example) **bold**"
    line = AnswerLine(
        text=hostile * 20,
        bold=hostile,
        links=((hostile, "https://ok.example/x"), ("bad", "javascript:alert(1)")),
    )
    answer = AnswerText(lead=hostile, lines=(line,) * 40, more=(hostile,), code=(hostile,) * 200)
    card = card_of_answer(answer, "a-key", "https://faultline.example.com/investigations/x")
    schema = json.loads((shared / "specs" / "adaptive-card-1.5.0.schema.json").read_text())
    Draft7Validator(schema).validate(card)
    said = json.dumps(card)
    assert len(said) < 25_000
    assert "javascript" not in said
    assert "26 more lines on the page" in said
    kinds = {part["type"] for part in card["body"]}
    assert kinds == {"RichTextBlock"}, "in which nothing is parsed"
