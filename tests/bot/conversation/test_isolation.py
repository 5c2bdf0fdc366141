"""With `login.isolation = "teams"` a channel hears of its own team's investigations and of
nobody's, and no others."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from faultline.bot.conversation.slack.home import HomeTab
from faultline.bot.policy.people import SlackPerson
from faultline.bot.settings.people import LoginSettings, TeamSettings
from faultline.bot.store.tables import InvestigationRow
from faultline.bot.store.visibility import ALL
from tests.bot.conversation.slack.conftest import Room, room
from tests.bot.conversation.test_steps import DM, PUBLIC, Talk, shop_folder, talk

__all__ = ["room", "shop_folder", "talk"]

SEARCH = "C0SEARCH"
TEAMS = {
    "payments": TeamSettings(channels=(PUBLIC,), groups=("payments",)),
    "search": TeamSettings(channels=(SEARCH,), groups=("search",)),
}


def belongs(talk: Talk, name: str, team: str) -> None:
    """Whose it is."""
    with Session(talk.store.engine) as session, session.begin():
        session.get_one(InvestigationRow, name).team = team


@pytest.fixture
def apart(talk: Talk) -> Talk:
    """The same, with teams apart."""
    talk.slack.channels[SEARCH] = "search"
    login = LoginSettings(isolation="teams")
    given = talk.context.settings.model_copy(update={"login": login, "teams": TEAMS})
    talk.context = replace(talk.context, settings=given)
    return talk


@pytest.mark.parametrize(("where", "surface"), [(SEARCH, "mention"), (DM, "dm")])
def test_another_teams_investigation_is_not_spoken_of_though_its_channel_is_public(
    apart: Talk, shop_folder: Path, where: str, surface: str
) -> None:
    theirs, _ = apart.answered(PUBLIC, shop_folder)
    belongs(apart, theirs, "payments")
    named, absent = (f"why, {name}" for name in (theirs, "20200101-000000-000000"))
    said = []
    for text in (named, absent):
        question = apart.ask(text, where, surface=surface)
        apart.work(question)
        said.append(apart.said(question))
    assert said[0] == said[1], "it is like one that does not exist"
    assert theirs not in said[0]
    for text in ("status", "why?"):
        question = apart.ask(text, where, surface=surface)
        apart.work(question)
        assert theirs not in apart.said(question)


def test_its_own_team_and_nobodys_are_spoken_of(apart: Talk, shop_folder: Path) -> None:
    mine, thread = apart.answered(PUBLIC, shop_folder)
    nobodys, _ = apart.answered(PUBLIC, shop_folder)
    belongs(apart, mine, "payments")
    question = apart.ask("status", PUBLIC)
    apart.work(question)
    said = apart.said(question)
    assert mine in said
    assert nobodys in said
    further = apart.ask("is it the database?", PUBLIC, thread, surface="thread")
    apart.work(further)
    assert "I blame the database" in apart.said(further)


def test_the_home_tab_shows_what_belongs_to_nobody(room: Room) -> None:
    theirs, _ = room.answered(title="payments are slow")
    nobodys, _ = room.answered(title="disk of db-2")
    with Session(room.store.engine) as session, session.begin():
        session.get_one(InvestigationRow, theirs.id).team = "payments"
    tab: HomeTab = room.face.home
    shown = [i.id for i in tab._read(ALL).latest]
    assert set(shown) == {theirs.id, nobodys.id}
    tab._context.settings = room.settings.model_copy(
        update={"login": LoginSettings(isolation="teams"), "teams": TEAMS}
    )
    home = tab._read(asyncio.run(tab._context.visible_to(SlackPerson("U0ANN", "member"))))
    assert [i.id for i in home.latest] == [nobodys.id]
    assert "payments are slow" not in json.dumps([i.alert.title for i in home.latest])
    assert room.store.count("done", ALL) == 2
