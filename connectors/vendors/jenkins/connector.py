"""Jenkins: runs of jobs that deploy, and builds.

Jenkins' remote access API (www.jenkins.io/doc/book/using/remote-access-api), and the shapes of
cliffano/swaggy-jenkins, spec/jenkins-api.yml: GET /job/NAME/api/json alone, with a `tree` that
names what is answered. Parameters of builds are not asked for: they may hold secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.auth.server_access import access_of
from faultline.connectors.shared.changes.build_changes import BuildRules, BuildRun, BuildState
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    moment_of_ms,
    person,
    query_of,
)
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.jenkins.settings import JenkinsSettings
from faultline.connectors.vendors.pagerduty.answers import web_link

VENDOR = "jenkins"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
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


def build(jenkins_settings: JenkinsSettings, settings: SharedSettings) -> Jenkins | None:
    """The configured connector, or None without an address or a job. Raises SettingsError."""
    if jenkins_settings.url is None or not jenkins_settings.jobs:
        return None
    http = LinkedHttp(
        VENDOR,
        jenkins_settings.url,
        limits=jenkins_settings.limits(LIMITS),
        access=access_of(jenkins_settings, VENDOR),
    )
    return Jenkins(
        http,
        ServiceNames.of_catalogue(settings.services),
        jenkins_settings.jobs,
        jenkins_settings.deploys,
    )


class Jenkins(ChangeFeeds):
    """Builds of the jobs that the settings name."""

    name = VENDOR
    title = "Jenkins"
    needs = "Overall/Read and Job/Read"

    def __init__(self, http: LinkedHttp, names: ServiceNames, jobs: Names, deploys: Names) -> None:
        super().__init__(http, names)
        self._jobs = jobs
        self._rules = BuildRules((), deploys, self.counts)

    def feeds(self) -> Sequence[ChangeFeed]:
        """The builds of each job."""
        return [self._feed(job) for job in self._jobs]

    def _feed(self, job: str) -> ChangeFeed:
        # A job in folders has `/job/` before each part of its name.
        page = "".join(f"/job/{quote(part, safe='')}" for part in job.split("/"))

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [("tree", TREE)]
            response = await session.get(f"{page}/api/json", params, type=JenkinsJob)
            runs = [_run(job, jenkins_build) for jenkins_build in response.builds]
            cut = None
            oldest = response.builds[-1].at if len(response.builds) >= MOST_BUILDS else None
            if oldest is not None and oldest >= window.start:
                cut = f"only the latest {MOST_BUILDS} builds were asked"
            query = query_of(f"{page}/api/json", params)
            return self._rules.answer(runs, query, f"{self._http.base_url}{page}/", cut)

        return ChangeFeed(f"builds of {job}", read)


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
