"""A question to an answered investigation, asked in a field of its page: the answer is
another page.

The process that serves the pages passes in what answers (`AnswerQuestion`), because this package
does not depend on conversations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.runtime.throttle import CallRate, client_address
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import visitor_of

AnswerQuestion = Callable[[StoredInvestigation, Path, str], Awaitable[AnswerText]]
"""Answers a question from the case folder. Raises FaultlineError."""

LONGEST = 500
"""Characters of a question; a longer one tells a story."""
PER_WINDOW, WINDOW_S = 30, 300.0
"""Questions of one visitor: each reads a case, which may take a second of the server's time."""

_COMMAND = re.compile(r"kubectl [a-z][^;]*")
"""The one program whose commands answers give."""


@dataclass(frozen=True)
class LinkedLine:
    """A line of the answer; links lead to this site by path, elsewhere by address."""

    bold: str
    command: str
    """What a person may run in a shell; `text` goes on after it."""
    text: str
    links: tuple[tuple[str, str], ...]


class QuestionPage:
    """The handler of `/investigations/{id}/question`."""

    def __init__(self, site: Site, answer: AnswerQuestion) -> None:
        self.site = site
        self._answer = answer
        self._rate = CallRate(WINDOW_S)

    async def ask(self, request: Request) -> Response:
        """Answer one question."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        # Foreign input: no file, and few fields of a bounded size.
        form = await request.form(max_files=0, max_fields=6, max_part_size=4 * LONGEST)
        raw_question = form.get("question")
        question = " ".join(raw_question.split()) if isinstance(raw_question, str) else ""
        if not question or len(question) > LONGEST:
            sentence = f"Ask one question of at most {LONGEST} characters."
            return self.site.problem(request, 400, "Not asked", sentence)
        if investigation.status != "done":
            sentence = "This investigation has no answer that could be asked about."
            return self.site.problem(request, 409, "Not yet", sentence)
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            sentence = trouble or "There is no case folder."
            return self.site.problem(request, 404, "No case folder", sentence)
        # After the other checks, so that a refused question takes no place.
        wait = self._rate.wait_s(self._asking(request), PER_WINDOW)
        if wait:
            sentence = f"{PER_WINDOW} questions in {WINDOW_S / 60:.0f} minutes are the limit. "
            sentence += f"Ask again in {wait} s."
            return self.site.problem(request, 429, "Too many questions", sentence)
        try:
            answer = await self._answer(investigation, folder, question)
        except (FaultlineError, OSError) as error:
            sentence = f"{error}."
            return self.site.problem(request, 422, "This case cannot be read", sentence)
        home = f"/investigations/{investigation.id}"
        return self.site.page(
            request,
            "question.html",
            i=investigation,
            question=question,
            answer=answer,
            lines=[self._linked(line, home) for line in answer.lines],
            download=FORMATS.get(answer.export or ""),
        )

    def _asking(self, request: Request) -> str:
        visitor = visitor_of(request)
        # All who hold the access token are one visitor by name.
        address = client_address(request, self.site.settings.server.trusted_proxies)
        return f"{visitor.who if visitor else ''} {address}"

    def _linked(self, line: AnswerLine, home: str) -> LinkedLine:
        phrase = f"{self.site.settings.server.public_url}{home}"
        links = []
        for title, url in line.links:
            path = url.removeprefix(phrase)
            links.append((title, url if path == url else f"{home}{path}"))
        command = _COMMAND.match(line.text)
        shell = command[0] if command else ""
        return LinkedLine(line.bold, shell, line.text[len(shell) :].lstrip("; "), tuple(links))
