"""Jenkins: runs of jobs that deploy, and builds.

Jenkins' remote access API (www.jenkins.io/doc/book/using/remote-access-api), and the shapes of
cliffano/swaggy-jenkins, spec/jenkins-api.yml: GET /job/NAME/api/json alone, with a `tree` that
names what is answered. Parameters of builds are not asked for: they may hold secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    FeedAnswer,
    moment_of_ms,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedSession, query_of
from faultline.connectors.shared.vendor_text import web_link
from faultline.connectors.vendors.ci import JenkinsSettings
from faultline.connectors.vendors.ci.build_changes import BuildFeeds, BuildRun, BuildState

MOST_BUILDS = 100
"""Of a job, the latest: as many as Jenkins gives without reading all from disk."""
# `{0,N}` bounds the list at the server.
TREE = (
    "fullName,builds[number,url,result,building,timestamp,duration,"
    f"actions[lastBuiltRevision[SHA1],causes[userName]]]{{0,{MOST_BUILDS}}}"
)
STATES: dict[str, BuildState] = {"SUCCESS": "done", "UNSTABLE": "done", "FAILURE": "failed"}
"""javadoc.jenkins.io, hudson.model.Result; the others were aborted or not built."""
LONGEST_MS = 7 * 24 * 3600 * 1000


class _Revision(msgspec.Struct):
    SHA1: str = ""


class _Cause(msgspec.Struct):
    userName: str = ""


class _Action(msgspec.Struct):
    lastBuiltRevision: _Revision | None = None
    causes: list[_Cause] | None = None


class JenkinsBuild(msgspec.Struct):
    """One build. `timestamp` is when it began, in ms since 1970, `duration` in ms."""

    number: int
    timestamp: int = 0
    duration: int = 0
    url: str = ""
    result: str | None = None
    building: bool = False
    actions: list[_Action | None] | None = None

    @property
    def at(self) -> datetime | None:
        """When it ended, or began where it has not."""
        began = moment_of_ms(self.timestamp)
        if began is None or self.building:
            return began
        # Bounded: the number is foreign, and a time holds only so much.
        return began + timedelta(milliseconds=min(max(0, self.duration), LONGEST_MS))

    @property
    def state(self) -> BuildState | None:
        """How it ended."""
        return "running" if self.building else STATES.get(self.result or "")

    @property
    def revision(self) -> str:
        """The commit that was built, where its job checks one out."""
        for action in self.actions or ():
            if action is not None and action.lastBuiltRevision is not None:
                return action.lastBuiltRevision.SHA1
        return ""

    @property
    def author(self) -> str | None:
        """Who started it."""
        names = [c.userName for a in self.actions or () if a for c in a.causes or ()]
        return person(*names)


class JenkinsJob(msgspec.Struct):
    """The fields of a job that are asked for."""

    builds: list[JenkinsBuild]
    fullName: str = ""


class Jenkins(BuildFeeds[JenkinsSettings]):
    """Builds of the jobs that the settings name."""

    name = "jenkins"
    title = "Jenkins"
    needs = "Overall/Read and Job/Read"
    required = ("url", "jobs")

    def feeds(self) -> Sequence[ChangeFeed]:
        """The builds of each job."""
        return [
            ChangeFeed(f"builds of {job}", partial(self._read, job)) for job in self._section.jobs
        ]

    async def _read(self, job: str, session: LinkedSession, window: Window) -> FeedAnswer:
        # A job in folders has `/job/` before each part of its name.
        page = "".join(f"/job/{quote(part, safe='')}" for part in job.split("/"))
        params = [("tree", TREE)]
        response = await session.get(f"{page}/api/json", params, type=JenkinsJob)
        runs = [_run(job, jenkins_build) for jenkins_build in response.builds]
        cut = None
        oldest = response.builds[-1].at if len(response.builds) >= MOST_BUILDS else None
        if oldest is not None and oldest >= window.start:
            cut = f"only the latest {MOST_BUILDS} builds were asked"
        query = query_of(f"{page}/api/json", params)
        return self._rules.answer(runs, query, f"{self._http.base_url}{page}/", cut)


def _run(job: str, jenkins_build: JenkinsBuild) -> BuildRun:
    return BuildRun(
        job,
        str(jenkins_build.number),
        jenkins_build.at,
        jenkins_build.state,
        revision=jenkins_build.revision,
        author=jenkins_build.author,
        link=web_link(jenkins_build.url),
    )
