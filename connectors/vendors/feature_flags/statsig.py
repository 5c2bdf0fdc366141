"""Statsig's audit log: who changed which gate, dynamic config or experiment, and from what to what.

Console API as its published specification has it: GET /console/v1/audit_logs alone. Its times are
a date and a time as JavaScript writes them, its addresses of next pages lack a scheme: of them
only the number of the page is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    USUAL_LIMITS,
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    PagedList,
    Params,
    VendorChange,
    moment,
    next_number,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.feature_flags import StatsigSettings
from faultline.connectors.vendors.feature_flags.flag_changes import flip, state_diff

AUDIT_LOGS = "/console/v1/audit_logs"
PER_PAGE, MOST_PAGES = 100, 5
ACTIONS = frozenset(
    {
        "gate_create",
        "gate_update",
        "gate_overrides_update",
        "dynamic_config_create",
        "config_conditions_update",
        "config_default_value_update",
        "config_delete",
        "config_environments_update",
        "config_resalt",
        "config_revert",
        "config_review_commit",
        "config_state_toggle",
        "modify_override_config",
        "modify_overrides",
        "remove_override_config",
        "experiment_start",
        "experiment_stopped",
        "experiment_restart",
        "experiment_abandon",
        "experiment_rollout",
        "experiment_decision_make",
        "experiment_pause_assignment",
        "experiment_group_disable",
        "experiment_overrides_edit",
        "experiment_review_commit",
        "autotune_experiment_edit",
        "holdout_create",
        "holdout_delete",
        "holdout_update",
        "holdout_layer_parameter_values_update",
        "layer_parameters_edit",
        "layer_parameter_add",
        "layer_overrides_edit",
        "layer_review_commit",
        "update_layer_parameter",
        "delete_layer_parameter",
        "ID_list_update",
        "param_store_update",
        "param_store_delete",
    }
)
"""Actions that change what users are given."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"\w{3} (\w{3}) (\d\d) (\d{4})")
_TIME = re.compile(r"(\d\d:\d\d:\d\d) GMT([+-]\d\d)(\d\d)\b.*")


class StatsigEntry(msgspec.Struct):
    """One entry of the audit log. `changes` holds `old` and `new` of each field."""

    id: str
    name: str
    date: str
    time: str
    actionType: Any = ""
    changeLog: str = ""
    updatedBy: str = ""
    updatedByUserID: str = ""
    changes: Any = None

    @property
    def at(self) -> datetime | None:
        """`Mon Sep 26 2022` and `23:46:14 GMT+0000 (Coordinated Universal Time)`."""
        date, time = _DATE.fullmatch(self.date), _TIME.fullmatch(self.time)
        if date is None or time is None or date[1] not in _MONTHS:
            return None
        # Not strptime, which reads names of months in the machine's locale.
        month = _MONTHS.index(date[1]) + 1
        return moment(f"{date[3]}-{month:02}-{date[2]}T{time[1]}{time[2]}:{time[3]}")


class StatsigPagination(msgspec.Struct):
    """What comes next."""

    pageNumber: int | float = 1
    nextPage: str | None = None


class StatsigAudit(msgspec.Struct):
    """GET /console/v1/audit_logs."""

    data: list[StatsigEntry]
    pagination: StatsigPagination | None = None


def _following(page: LinkedPage[StatsigAudit], params: Params) -> Params | None:
    pagination = page.value.pagination
    # Count on by ourselves: the address of the next page is foreign text.
    return next_number(params) if pagination and pagination.nextPage else None


LOG = PagedList(StatsigAudit, lambda log: log.data, _following, MOST_PAGES, lambda entry: entry.at)


class Statsig(ChangeFeeds[StatsigSettings]):
    """Changes of a project's gates, configs, experiments and layers."""

    name = "statsig"
    title = "Statsig"
    needs = "a Console API key that may read"
    login: ClassVar = {"STATSIG-API-KEY": "{token}"}
    usual_limits = replace(USUAL_LIMITS, concurrency=1)
    """Statsig allows about 100 changes in 10 s and 900 in 15 min to a project (docs.statsig.com,
    "Console API", "Rate limiting"), and names no limit for reading."""

    def feeds(self) -> Sequence[ChangeFeed]:
        """The audit log."""
        return [ChangeFeed("flag changes", self._read)]

    async def _read(self, session: LinkedSession, window: Window) -> FeedAnswer:
        params = [("limit", str(PER_PAGE)), ("page", "1")]
        entries = await LOG.read(session, AUDIT_LOGS, params, window)
        changes = [_change(entry) for entry in entries.values]
        return FeedAnswer(changes, entries.query, cut=entries.cut)


def _change(entry: StatsigEntry) -> VendorChange | None:
    at = entry.at
    action = entry.actionType
    if at is None or not entry.name or not isinstance(action, str) or action not in ACTIONS:
        return None
    description = short(entry.changeLog, 140) or action.replace("_", " ")
    author = person(entry.updatedBy, entry.updatedByUserID)
    old, new = _states(entry.changes)
    title = flip(entry.name, None, description)
    return VendorChange(at, "flag", entry.name, title, author, diff=state_diff(old, new))


def _states(changes: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The fields that were changed, before and after."""
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    if isinstance(changes, dict):
        for name, pair in changes.items():
            if isinstance(pair, dict):
                old[name], new[name] = pair.get("old"), pair.get("new")
    return old, new
