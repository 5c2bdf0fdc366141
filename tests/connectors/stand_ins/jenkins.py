"""Jenkins: a job that builds checkout and one that deploys it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins.ci_runs import BROKEN, BUILT, COMMIT, DEPLOYED, FAILED, LONG_AGO

DEPLOY, BUILD = "/job/shop/job/deploy-checkout/api/json", "/job/shop/job/checkout/job/main/api/json"
TOOK = timedelta(minutes=2)


def settings(url: str) -> dict[str, Any]:
    """Two jobs."""
    jobs = ["shop/deploy-checkout", "shop/checkout/main"]
    return {"jenkins": {"url": url, "username": "faultline", "token": "11a0b1c2d3", "jobs": jobs}}


def build(number: int, at: datetime, result: str | None, commit: str) -> dict[str, Any]:
    """A build that ended at that time, as the tree that is asked for has it."""
    cause = {
        "_class": "hudson.model.Cause$UserIdCause",
        "userName": "Dana Ng",
    }
    revision = {
        "_class": "hudson.plugins.git.util.BuildData",
        "lastBuiltRevision": {"SHA1": commit},
    }
    return {
        "_class": "org.jenkinsci.plugins.workflow.job.WorkflowRun",
        "actions": [{"_class": "hudson.model.CauseAction", "causes": [cause]}, {}, revision],
        "building": result is None,
        "duration": int(TOOK.total_seconds() * 1000) if result else 0,
        "number": number,
        "result": result,
        "timestamp": int((at - TOOK).timestamp() * 1000),
        "url": f"https://jenkins.example.com/job/shop/job/deploy-checkout/{number}/",
    }


def job(name: str, builds: list[dict[str, Any]]) -> dict[str, Any]:
    """A job."""
    return {
        "_class": "org.jenkinsci.plugins.workflow.job.WorkflowJob",
        "fullName": name,
        "builds": builds,
    }


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    deploys = [
        build(42, DEPLOYED, "SUCCESS", COMMIT),
        build(41, DEPLOYED - TOOK, "ABORTED", COMMIT),
        build(7, LONG_AGO, "SUCCESS", BROKEN),
    ]
    builds = [build(102, FAILED, "FAILURE", BROKEN), build(101, BUILT, "SUCCESS", COMMIT)]
    server.on(DEPLOY, Reply(job("shop/deploy-checkout", deploys)))
    server.on(BUILD, Reply(job("shop/checkout/main", builds)))
