"""SQS: which queue takes the messages that consumers of a queue gave up on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.evidence import AwsEvidence, words
from faultline.connectors.vendors.aws.resource import Resource

LONGEST_NAME = 80
"""Of a queue (SQS API reference, CreateQueue)."""
REDRIVE = "RedrivePolicy"


class _Redrive(msgspec.Struct):
    deadLetterTargetArn: str = ""


async def dead_letter_queues(
    calls: AwsCalls, resources: Sequence[Resource], aws_evidence: AwsEvidence
) -> list[Resource]:
    """The dead-letter queues of those resources that are queues."""
    queues = [resource for resource in resources if resource.kind == "queue"]
    dead = await asyncio.gather(
        *(_dead_letter_queue(calls, queue, aws_evidence) for queue in queues)
    )
    return list(dict.fromkeys(queue for queue in dead if queue is not None))


async def _dead_letter_queue(
    calls: AwsCalls, queue: Resource, aws_evidence: AwsEvidence
) -> Resource | None:
    query = f"GetQueueAttributes {queue.place} {queue.name} {REDRIVE}"
    try:
        # Operations on a queue take its URL, not its name.
        url = await calls.call(queue.place, "sqs", "GetQueueUrl", QueueName=queue.name)
        answer = await calls.call(
            queue.place,
            "sqs",
            "GetQueueAttributes",
            QueueUrl=words(url.get("QueueUrl"), 2_000),
            AttributeNames=[REDRIVE],
        )
    except FaultlineError as error:
        aws_evidence.lacks("metrics", query, error)
        return None
    name = _target(answer.get("Attributes"))
    return replace(queue, kind="dead_letter_queue", name=name) if name else None


def _target(attributes: Any) -> str:
    """The name of the queue that a redrive policy names."""
    if not isinstance(attributes, Mapping):
        return ""
    try:
        # The attribute is JSON in a text.
        policy = msgspec.json.decode(str(attributes.get(REDRIVE) or "{}"), type=_Redrive)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    # An ARN of SQS ends in the queue's name.
    name = policy.deadLetterTargetArn.rpartition(":")[2]
    return name if len(name) <= LONGEST_NAME else ""
