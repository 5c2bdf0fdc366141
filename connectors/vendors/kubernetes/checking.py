"""What `faultline check` says of a cluster: part by part what can be read, and what to change where
it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from faultline.connectors.vendors.kubernetes.change_inquiry import AUTOSCALERS
from faultline.connectors.vendors.kubernetes.inquiry import EVENTS
from faultline.connectors.vendors.kubernetes.session import Reads, Refusal
from faultline.connectors.vendors.kubernetes.state_inquiry import NAMESPACES, NODES, STATE_LISTS
from faultline.connectors.vendors.kubernetes.workloads import PATHS

MOST_CHECKED = 3
APPS = "apis/apps/v1"
CORE = "api/v1"
LOGS = "pods/log"
ROLE = "infra/kubernetes/read-only-rbac.yaml"
FORBIDDEN, UNKNOWN = 403, 404


@dataclass(frozen=True)
class ClusterPart:
    """Something that the connector reads."""

    words: str
    resource: str
    group: str = CORE
    space: str = ""
    verb: str = "list"

    @property
    def path(self) -> str:
        """Where it is listed."""
        if not self.space:
            return f"/{self.group}/{self.resource}"
        return f"/{self.group}/namespaces/{self.space}/{self.resource}"

    @property
    def label(self) -> str:
        """For humans."""
        return f"{self.words} in {self.space}" if self.space else self.words

    def explanation(self, refusal: Refusal) -> str:
        """Why it cannot be read, and what to change."""
        act = "read" if self.resource == LOGS else "listed"
        return f"{self.label} cannot be {act} ({refusal.reason}){self._remedy(refusal)}"

    def _remedy(self, refusal: Refusal) -> str:
        if refusal.status == FORBIDDEN:
            api_group = self.group.split("/")[1] if self.group != CORE else ""
            of_group = f" of {api_group}" if api_group else ""
            role = f"its role in {self.space}" if self.space else "a ClusterRole of its"
            way = f": add `{self.verb}` on `{self.resource}`{of_group} to {role}"
            if self.resource == LOGS:
                return f"{way}, or set kubernetes.logs = false"
            return f"{way}, or name it in kubernetes.without"
        if refusal.status == UNKNOWN:
            return f": this server does not know {self.group}; name it in kubernetes.without"
        return ""


def parts_of(
    spaces: Sequence[str], without: Collection[str], *, logs: bool, secrets: bool
) -> list[ClusterPart]:
    """Everything that is read for investigations in these namespaces. What a cluster may lack, as
    Gateway API, is not among it."""
    cluster_parts: list[ClusterPart] = []
    for space in spaces:
        for group, resource in PATHS.values():
            cluster_parts.append(ClusterPart(resource, resource, group, space))
        if logs:
            cluster_parts.append(ClusterPart("container logs", LOGS, CORE, space, "get"))
        for resource in ("replicasets", "controllerrevisions"):
            cluster_parts.append(ClusterPart(resource, resource, APPS, space))
        cluster_parts.append(ClusterPart("events", "events", EVENTS[0], space))
        cluster_parts.append(
            ClusterPart("autoscalers", "horizontalpodautoscalers", AUTOSCALERS, space)
        )
        cluster_parts.append(ClusterPart("config maps", "configmaps", CORE, space))
        if secrets:
            cluster_parts.append(ClusterPart("secrets", "secrets", CORE, space))
        for state_list in STATE_LISTS:
            if not state_list.optional:
                cluster_parts.append(
                    ClusterPart(state_list.words, state_list.resource, state_list.group, space)
                )
    for path in (NODES, NAMESPACES):
        resource = path.rpartition("/")[2]
        cluster_parts.append(ClusterPart(resource, resource))
    cluster_parts.append(ClusterPart("events of nodes", "events", EVENTS[0], "default"))
    return [part for part in cluster_parts if part.resource not in without]


async def refusals_of(reads: Reads, parts: Sequence[ClusterPart]) -> list[Refusal | None]:
    """Why each part cannot be read, None where it can. Raises what is no answer at all."""
    requested_refusals = [_refusal(reads, part) for part in parts]
    # All are waited for: the connections close with the session.
    answers = await asyncio.gather(*requested_refusals, return_exceptions=True)
    refusals: list[Refusal | None] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        refusals.append(answer)
    return refusals


async def _refusal(reads: Reads, part: ClusterPart) -> Refusal | None:
    if part.resource == LOGS:
        return await reads.log_refusal(part.space)
    # Even a check does not ask for their content.
    names_only = part.resource in ("configmaps", "secrets")
    refusal = await reads.refusal(part.path, names_only=names_only)
    if part.resource == "events" and refusal is not None and refusal.status == UNKNOWN:
        # An older server keeps them in the older group alone, which investigations ask then.
        older = part.path.replace(EVENTS[0], EVENTS[1], 1)
        return await reads.refusal(older)
    return refusal


def access_summary(parts: Sequence[ClusterPart], refusals: Sequence[Refusal | None]) -> str:
    """The parts that can be read, then each that cannot."""
    readable: list[str] = []
    refused: list[str] = []
    for part, refusal in zip(parts, refusals, strict=True):
        if refusal is None:
            readable.append(part.label)
        else:
            refused.append(part.explanation(refusal))
    clauses = [f"{', '.join(readable)} can be read"] if readable else []
    if refused:
        clauses += [*refused, f"{ROLE} has all of these rights"]
    return "; ".join(clauses)
