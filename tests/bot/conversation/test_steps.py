"""A worker's answers, over real HTTP against a stateful Slack: once, in order, and to those who may
hear of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy.orm import Session

from faultline.analysis.case.folder import read_diagnosis, read_report
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.conversation.slack_posts import ConversationPosts
from faultline.bot.conversation.steps import ConversationSteps
from faultline.bot.conversation.visibility import ConversationVisibility
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.questions.slack_question import SlackQuestion
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.people_tables import QuestionRow
from faultline.bot.store.quotas import ModelSpending
from faultline.bot.store.store import ReplyTo, Store
from faultline.connectors.vendors.slack import SlackSettings
from faultline.connectors.vendors.traces import TracesSettings
from faultline.demo.run import recorded_cases
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack, SlackedMessage
from tests.bot.answer.writer.openai_server import says, serving
from tests.bot.conversation.cases import STARTED, write_answered, write_shop
from tests.bot.investigation.model.cases import claim, settings_for
from tests.bot.investigation.model.test_investigating import DONE
from tests.databases import store_engine

PUBLIC, PRIVATE, DM = "C0INCIDENTS", "C0SECRET", "D0ADA"


@dataclass
class Talk:
    """The bot's parts, and Slack."""

    slack: LoopbackSlack
    context: WorkerContext
    store: Store
    numbers: int = 0

    @property
    def conversations(self) -> Conversations:
        return Conversations(self.store.engine)

    def answered(self, channel: str, case: Path) -> tuple[str, str]:
        """An investigation answered in a thread of that channel: its id, and the thread."""
        thread = self.slack.say(channel, "[FIRING] checkout is slow", user="UALERTS")
        alert = Alert(
            source="slack",
            title=f"checkout is slow in {channel}",
            started_at=STARTED,
            labels={"fingerprint": thread},
        )
        found = self.store.accept(alert, reply_to=ReplyTo(channel, thread)).investigation_id or ""
        for file in sorted(p for p in case.rglob("*") if p.is_file()):
            self.context.cases.put(found, file.relative_to(case).as_posix(), file)
        self.store.start(found)
        self.store.finish(
            found, "done", verdict="cause_found", confidence=0.9, headline="orders-db is out of CPU"
        )
        return found, thread

    def ask(
        self, text: str, channel: str, thread: str | None = None, *, surface: str = "mention"
    ) -> str:
        """Somebody writes; the question's id, whether it was taken or not."""
        ts = self.slack.say(channel, text, thread_ts=thread)
        asked = SlackQuestion(text, "U0ADA", channel, thread or ts, ts, surface)  # type: ignore[arg-type]
        asyncio.run(MessageRouter(self.context.settings, self.conversations).take(asked))
        return asked.id

    def work(self, question: str, *, owner: str = "w1") -> None:
        """What the workflow does with it."""

        async def steps() -> None:
            worker = ConversationSteps(self.context, owner=owner)
            asked = self.conversations.get(question)
            word = worker.trace if asked is not None and asked.kind == "trace" else worker.word
            if await word(question):
                tried = await worker.post(question)
                if not tried["again"]:
                    await worker.finish(question, tried["why"])

        asyncio.run(steps())

    def replies(self, question: str) -> list[SlackedMessage]:
        """What the bot posted for it."""
        key = f"{question}:answer"
        return [
            m
            for m in self.slack.posts
            if ((m.metadata or {}).get("event_payload") or {}).get("key") == key
        ]

    def said(self, question: str) -> str:
        """The one answer, as Slack has it."""
        (message,) = self.replies(question)
        return json.dumps(message.blocks, ensure_ascii=False)


@pytest.fixture(scope="module")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_answered(write_shop(tmp_path_factory.mktemp("shop") / "case"))


@pytest.fixture
def talk(tmp_path: Path, pool: ProcessPool) -> Iterator[Talk]:
    slack = LoopbackSlack(channels={PUBLIC: "incidents", PRIVATE: "secret", DM: "ada"})
    slack.private.add(PRIVATE)
    url, stop = serve_in_thread(slack.app)
    engine = store_engine(f"sqlite:///{tmp_path}/talk.sqlite")
    settings = Settings(
        slack=SlackSettings(bot_token=SecretStr("xoxb-1"), api_url=f"{url}/api"),
        traces=TracesSettings(locations=(f"{recorded_cases()}/{{job}}/traces",)),
    )
    store = Store(engine)
    context = WorkerContext(settings, store, CaseStore(tmp_path / "cases"), (), (), pool)
    yield Talk(slack, context, store)
    engine.dispose()
    stop()


def test_a_question_is_answered_in_its_thread_with_links_to_findings(
    talk: Talk, shop_folder: Path
) -> None:
    investigation, thread = talk.answered(PUBLIC, shop_folder)
    question = talk.ask("is it the database?", PUBLIC, thread, surface="thread")
    talk.work(question)
    said = talk.said(question)
    assert "Yes, I blame the database" in said
    assert f"/investigations/{investigation}#F" in said
    assert talk.replies(question)[0].thread_ts == thread
    kept = talk.conversations.get(question)
    assert kept is not None
    assert (kept.status, kept.investigation_id) == ("answered", investigation)


def test_what_the_case_cannot_answer_is_met_with_silence_or_the_truth(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    unasked = talk.ask("why is the moon round?", PUBLIC, thread, surface="thread")
    talk.work(unasked)
    assert talk.replies(unasked) == []
    asked = talk.ask("sing me a song", PUBLIC, thread)
    talk.work(asked)
    assert "I can't answer that" in talk.said(asked)


def test_two_workers_and_a_repeat_answer_once_with_the_same_words(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    question = talk.ask("what changed?", PUBLIC, thread)
    assert talk.ask("what changed?", PUBLIC, thread) != question

    async def both() -> None:
        one, other = (ConversationSteps(talk.context, owner=owner) for owner in ("w1", "w2"))
        await asyncio.gather(one.word(question), other.word(question))
        await asyncio.gather(one.post(question), other.post(question))

    asyncio.run(both())
    talk.work(question)
    assert len(talk.replies(question)) == 1


def test_slack_being_away_is_tried_again(talk: Talk, shop_folder: Path) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    question = talk.ask("what changed?", PUBLIC, thread)
    talk.slack.traffic.fail_next(1, 503, call="chat.postMessage")
    talk.work(question)
    assert talk.replies(question) == []
    talk.work(question)
    assert len(talk.replies(question)) == 1


@pytest.mark.parametrize(("asked_ago_h", "again"), [(0, True), (30, False)])
def test_only_a_fresh_question_is_tried_again(
    talk: Talk, shop_folder: Path, asked_ago_h: float, again: bool
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    question = talk.ask("what changed?", PUBLIC, thread)

    async def tried() -> bool:
        worker = ConversationSteps(talk.context, owner="w1")
        assert await worker.word(question)
        with Session(talk.store.engine) as session, session.begin():
            row = session.get(QuestionRow, question)
            assert row is not None
            row.asked_at -= timedelta(hours=asked_ago_h)
        talk.slack.traffic.fail_next(9, 503, call="chat.postMessage")
        return (await worker.post(question))["again"]

    assert asyncio.run(tried()) is again


def test_questions_of_a_thread_wait_for_each_other_and_of_others_do_not(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    _, other = talk.answered(PUBLIC, shop_folder)
    first, second = (talk.ask(text, PUBLIC, thread) for text in ("why?", "since when?"))
    elsewhere = talk.ask("why?", PUBLIC, other)
    assert set(talk.conversations.undispatched(10)) == {first, elsewhere}
    talk.work(first)
    assert set(talk.conversations.undispatched(10)) == {second, elsewhere}


def test_an_unanswered_question_follows_its_edit_and_goes_with_its_deletion(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    edited, deleted = talk.ask("why?", PUBLIC, thread), talk.ask("since when?", PUBLIC, thread)
    talk.conversations.edit(edited, "what is missing?")
    talk.conversations.withdraw(deleted)
    talk.work(edited)
    talk.work(deleted)
    assert "no answer within 20 s" in talk.said(edited)
    assert talk.replies(deleted) == []
    assert not talk.conversations.edit(edited, "too late")


def test_quiet_threads_channels_and_settings_are_kept(talk: Talk, shop_folder: Path) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    talk.work(talk.ask("quiet", PUBLIC, thread))
    assert (
        talk.conversations.get(talk.ask("what changed?", PUBLIC, thread, surface="thread")) is None
    )
    talk.work(talk.ask("listen", PUBLIC, thread))
    assert (
        talk.conversations.get(talk.ask("what changed?", PUBLIC, thread, surface="thread"))
        is not None
    )
    for changed in (
        {"follow_ups": "mentions"},
        {"follow_ups": "off"},
        {"quiet_channels": (PUBLIC,)},
    ):
        slack = talk.context.settings.slack.model_copy(update=changed)
        settings = talk.context.settings.model_copy(update={"slack": slack})
        message_router = MessageRouter(settings, talk.conversations)
        asked = SlackQuestion(
            "what changed?",
            "U0ADA",
            PUBLIC,
            thread,
            talk.slack.say(PUBLIC, "?", thread_ts=thread),
            "thread",
        )
        assert not asyncio.run(message_router.take(asked)).stored
    assert (
        talk.conversations.get(talk.ask("what changed?", PUBLIC, "1.1", surface="thread")) is None
    ), "not our thread"


def test_too_many_questions_are_said_to_be_too_many_once(talk: Talk, shop_folder: Path) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    slack = talk.context.settings.slack.model_copy(update={"questions_per_hour": 2})
    talk.context = WorkerContext(
        talk.context.settings.model_copy(update={"slack": slack}),
        talk.store,
        talk.context.cases,
        (),
        (),
        talk.context.pool,
    )
    asked = [talk.ask("why?", PUBLIC, thread) for _ in range(5)]
    kinds = [found.kind if (found := talk.conversations.get(one)) else None for one in asked]
    assert kinds == ["question", "question", "limited", None, None]


def test_a_further_investigation_is_started_once_with_its_scope(
    talk: Talk, shop_folder: Path
) -> None:
    parent, thread = talk.answered(PUBLIC, shop_folder)
    question = talk.ask("what about the last 6 hours?", PUBLIC, thread, surface="thread")
    for _ in range(2):
        talk.work(question)
    fresh = [i for i in talk.store.latest() if i.id != parent]
    assert len(fresh) == 1
    follow_ups = FollowUps(talk.store.engine)
    assert follow_ups.parent(fresh[0].id) == parent
    scope = follow_ups.scope(fresh[0].id)
    assert scope is not None
    assert scope.window is not None
    assert scope.window.end - scope.window.start == timedelta(hours=6)
    assert fresh[0].reply_to == ReplyTo(PUBLIC, thread)
    assert fresh[0].id in talk.said(question)
    assert f"A follow-up of {parent}; I'll answer in this thread" in talk.said(question)


def test_a_thread_may_ask_for_as_many_further_investigations_as_its_limit_says(
    talk: Talk, shop_folder: Path
) -> None:
    parent, thread = talk.answered(PUBLIC, shop_folder)
    slack = talk.context.settings.slack.model_copy(update={"further_per_hour": 2})
    talk.context = WorkerContext(
        talk.context.settings.model_copy(update={"slack": slack}),
        talk.store,
        talk.context.cases,
        (),
        (),
        talk.context.pool,
    )
    asked = []
    for hours in (3, 4, 5):
        text = f"what about the last {hours} hours?"
        asked.append(talk.ask(text, PUBLIC, thread, surface="thread"))
        talk.work(asked[-1])
    assert len([i for i in talk.store.latest() if i.id != parent]) == 2
    assert "limit of 2 follow-ups" in talk.said(asked[2])


def test_slack_is_asked_once_whether_a_channel_is_public(talk: Talk, shop_folder: Path) -> None:
    investigation, _ = talk.answered(PUBLIC, shop_folder)

    async def asked_twice() -> None:
        posts = ConversationPosts(talk.context.settings, talk.store, talk.conversations, owner="w1")
        visibility = ConversationVisibility(talk.store, posts)
        assert await visibility.is_public(PUBLIC)
        assert await visibility.is_public(PUBLIC)
        assert not await visibility.is_public(PRIVATE)

    asyncio.run(asked_twice())
    assert investigation
    assert talk.slack.traffic.calls["conversations.info"] == 2


def test_nobody_hears_of_a_channel_that_he_cannot_see(talk: Talk, shop_folder: Path) -> None:
    public, _ = talk.answered(PUBLIC, shop_folder)
    secret, _ = talk.answered(PRIVATE, shop_folder)
    for text, channel, surface in (
        ("status", DM, "dm"),
        ("status", PUBLIC, "mention"),
        (f"why, {secret}", DM, "dm"),
        (f"explain F1 of {secret}", PUBLIC, "mention"),
        ("what happened?", DM, "dm"),
    ):
        question = talk.ask(text, channel, surface=surface)
        talk.work(question)
        assert PRIVATE not in talk.said(question)
        assert "orders-db" not in talk.said(question).replace(
            "orders-db is out of CPU", ""
        ) or public in talk.said(question)
    named = talk.ask(f"why, {public}", DM, surface="dm")
    talk.work(named)
    assert "orders-db" in talk.said(named), "a public channel's may be shown in a direct message"
    here = talk.ask("status", PRIVATE)
    talk.work(here)
    assert secret in talk.said(here)
    assert public not in talk.said(here)


def test_a_trace_is_diagnosed_and_its_report_attached_once(talk: Talk) -> None:
    place = recorded_cases() / "slow-rank" / "traces"
    question = talk.ask(f"trace {place}", PUBLIC)
    talk.work(question)
    talk.work(question)
    assert "rank 2" in talk.said(question)
    files = [f for f in talk.slack.files.values() if f.name.endswith(".html")]
    assert [(f.shared_in, f.content[:15]) for f in files] == [([PUBLIC], b"<!doctype html>")]
    refused = talk.ask("trace s3://elsewhere/secrets", PUBLIC)
    talk.work(refused)
    assert "none of the configured traces.locations" in talk.said(refused)
    (said,) = talk.replies(refused)
    assert len(said.blocks) == 1, "nothing stands below the refusal"


def test_a_trace_that_was_read_already_is_not_announced_again(talk: Talk) -> None:
    question = talk.ask(f"trace {recorded_cases() / 'slow-rank' / 'traces'}", PUBLIC)

    async def began() -> tuple[str, str]:
        worker = ConversationSteps(talk.context, owner="w1")
        first = await worker.begin_trace(question)
        assert await worker.trace(question)
        # Another worker resumes the workflow from its first step.
        return first, await ConversationSteps(talk.context, owner="w2").begin_trace(question)

    assert asyncio.run(began()) == ("begun", "nothing to say")
    assert len(talk.replies(question)) == 1


def test_what_the_table_does_not_understand_goes_to_the_model_and_its_words_through_the_guard(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    cpu = next(f for f in read_diagnosis(shop_folder).findings if f.signal == "cpu_percent")
    claims = [
        claim("rose", cpu.id, subjects=["orders-db"]),
        claim("fell", cpu.id),
        claim("affected", subjects=["https://evil.example"]),
    ]
    guesses = [
        {"text": "A query may have lost its index.", "because": [cpu.id]},
        {"text": "The network is broken, see https://evil.example.", "because": [cpu.id]},
    ]
    with serving(DONE, says({"claims": claims, "inferences": guesses})) as server:
        settings = talk.context.settings.model_copy(update={"model": settings_for(server).model})
        talk.context = replace(talk.context, settings=settings)
        question = talk.ask("compare it with tuesday morning, briefly", PUBLIC, thread)
        talk.work(question)
        assert "compare it with tuesday" in server.sent
    said = talk.said(question)
    assert "CPU" in said
    assert "Inferred by the model, not shown by evidence" in said
    assert "A query may have lost its index." in said
    assert f"#{cpu.id}" in said
    assert "evil.example" not in said
    assert "network" not in said
    assert "3 claims refused" in said


def test_a_question_that_no_budget_is_left_for_says_so_under_what_code_answers(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    ModelSpending(talk.store.engine).add(PUBLIC, 5_000, 0.0)
    with serving(DONE) as server:
        model = settings_for(server, max_tokens_per_channel_day=5_000).model
        settings = talk.context.settings.model_copy(update={"model": model})
        talk.context = replace(talk.context, settings=settings)
        question = talk.ask("compare it with tuesday morning, briefly", PUBLIC, thread)
        talk.work(question)
        assert server.requests == []
    said = talk.said(question)
    assert "Not asked: the model's budget for this channel today is used up (5,000 tokens)" in said


def test_hostile_questions_come_back_as_nothing_but_text(talk: Talk, shop_folder: Path) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    for text in (
        "what about <!channel>?",
        "check https://evil.example/x too",
        "explain F1 and @here <@U1> \u202e",
        "\x00",
    ):
        question = talk.ask(text, PUBLIC, thread)
        talk.work(question)
        for message in talk.replies(question):
            shown = json.dumps(message.blocks)
            assert "<!channel>" not in message.text
            assert '"type": "user"' not in shown
            assert '"url": "https://evil.example' not in shown


def test_a_correction_is_kept_shown_under_the_answer_and_weighed(
    talk: Talk, shop_folder: Path
) -> None:
    investigation, thread = talk.answered(PUBLIC, shop_folder)
    found = talk.store.get(investigation)
    assert found is not None
    diagnosis = read_diagnosis(shop_folder)
    answer = Answer(diagnosis, read_report(shop_folder), (), (), None)
    target = SlackReplies(talk.context.settings, talk.store, owner="w1")
    asyncio.run(target.answer(Outcome(found, answer)))
    question = talk.ask("you are wrong, it was the payments deploy", PUBLIC, thread)
    talk.work(question)
    talk.work(question)
    label = Labels(talk.store.engine).get(investigation)
    assert label is not None
    assert (label.right, label.cause, label.who) == (False, "the payments deploy", "U0ADA")
    assert len(Labels(talk.store.engine).all()) == 1
    people = [line.text for line in talk.store.progress(investigation) if line.stage == "people"]
    assert people == ["A person said that the answer is wrong: the cause was the payments deploy"]
    assert "I blame orders-db (95 %)" in talk.said(question)
    shown = [json.dumps(m.blocks) for m in talk.slack.posts if m.metadata is not None]
    assert any("*Wrong*, said <@U0ADA>" in one and "the payments deploy" in one for one in shown)


def test_a_series_comes_back_as_a_picture_and_a_draft_as_a_file(
    talk: Talk, shop_folder: Path
) -> None:
    _, thread = talk.answered(PUBLIC, shop_folder)
    calm = talk.ask("graph cart latency", PUBLIC, thread)
    talk.work(calm)
    assert '"type": "image"' in talk.said(calm)
    assert [f.content[:4] for f in talk.slack.files.values()] == [b"\x89PNG"]
    draft = talk.ask("write a postmortem", PUBLIC, thread)
    talk.work(draft)
    talk.work(draft)
    files = [f for f in talk.slack.files.values() if f.name == "postmortem.md"]
    assert [f.shared_in for f in files] == [[PUBLIC]]
    assert b"# Postmortem draft: checkout is 3.7x slower" in files[0].content


def test_a_trace_answer_can_be_asked_about_in_its_thread(talk: Talk) -> None:
    doctored = talk.ask(f"trace {recorded_cases() / 'slow-rank' / 'traces'}", PUBLIC)
    talk.work(doctored)
    thread = doctored.partition(":")[2]
    asked = talk.ask("which rank is it?", PUBLIC, thread, surface="thread")
    talk.work(asked)
    assert "rank 2" in talk.said(asked)
    off = talk.ask("order pizza", PUBLIC, thread)
    talk.work(off)
    assert "I can't answer that from the traces" in talk.said(off)


def test_trouble_told_in_a_direct_message_begins_an_investigation_once(talk: Talk) -> None:
    question = talk.ask("why is checkout throwing 504s?", DM, surface="dm")
    talk.work(question)
    talk.work(question)
    assert "I'm looking into it" in talk.said(question)
    (started,) = talk.store.latest()
    assert started.question == "why is checkout throwing 504s?"
    other = talk.ask("who is on call?", DM, surface="dm")
    talk.work(other)
    assert len(talk.store.latest()) == 1
