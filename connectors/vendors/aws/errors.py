"""What AWS says when it does not answer, in words for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.vendor_text import problem_of, short
from faultline.connectors.vendors.aws.operations import ACTIONS

VENDOR = "aws"
THROTTLED = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "LimitExceededException",
        "SlowDown",
    }
)
"""botocore's own list (botocore.retries.standard), and what Logs Insights says above its number of
queries at once."""
DENIED = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized"}
)
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
NOT_ACCEPTED = frozenset(
    {
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "AuthFailure",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
    }
)
NO_CREDENTIALS = (
    "no AWS credentials: none in the environment, a profile, or a role of the machine or container"
)
HAVE_EXPIRED = "the credentials have expired"
ARE_NOT_ACCEPTED = "the credentials are not accepted"
OF_CREDENTIALS = (NO_CREDENTIALS, HAVE_EXPIRED, ARE_NOT_ACCEPTED)
UNSUPPORTED = frozenset({"SubscriptionRequiredException"})
NEEDS_SUPPORT_PLAN = "AWS Health needs a paid support plan that includes its API"
SKEWED = frozenset({"RequestTimeTooSkewed"})
"""Codes as in "Common errors" of each service's API reference."""


def refusal(service: str, operation: str, response: Mapping[str, Any]) -> ConnectorError:
    """The error for an answer that says no."""
    error = response.get("Error") or {}
    code = short(str(error.get("Code") or ""), 60)
    status = _status(response)
    return ConnectorError(
        VENDOR,
        operation,
        _problem(service, operation, code, status, str(error.get("Message") or "")),
        status=status,
        retryable=code in THROTTLED or status == 429 or (status or 0) >= 500,
    )


def retryable(error: ConnectorError) -> bool:
    """Whether to ask again."""
    return error.retryable


def no_answer(operation: str, error: Exception) -> ConnectorError:
    """The error for a request that got no answer, or could not be sent."""
    from botocore.exceptions import (
        CredentialRetrievalError,
        HTTPClientError,
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
        ProfileNotFound,
    )

    if isinstance(
        error,
        (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound),
    ):
        return ConnectorError(VENDOR, operation, NO_CREDENTIALS)
    # botocore checks values before anything is sent.
    if isinstance(error, ParamValidationError):
        return ConnectorError(
            VENDOR, operation, "AWS rejected a value. Check the names in the settings"
        )
    waits = isinstance(error, HTTPClientError)
    return ConnectorError(VENDOR, operation, f"no answer ({type(error).__name__})", retryable=waits)


def not_understood(operation: str, error: Exception) -> ConnectorError:
    """The error for an answer that is cut off, no JSON or XML, or of another shape than
    documented."""
    name = short(str(error), 80) if isinstance(error, ValueError) else type(error).__name__
    return ConnectorError(VENDOR, operation, f"unexpected response: {name}")


def _status(response: Mapping[str, Any]) -> int | None:
    status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _problem(service: str, operation: str, code: str, status: int | None, message: str) -> str:
    if code in DENIED:
        return f"not permitted: the credentials need {ACTIONS.get((service, operation), operation)}"
    if code in UNSUPPORTED:
        return NEEDS_SUPPORT_PLAN
    if code in EXPIRED:
        return HAVE_EXPIRED
    if code in NOT_ACCEPTED:
        return ARE_NOT_ACCEPTED
    # Requests are signed with a time, which AWS compares with its own clock.
    if code in SKEWED:
        return (
            "this machine's clock is wrong: AWS refuses requests "
            "that are more than a few minutes off"
        )
    if code in THROTTLED or status == 429:
        return f"too many requests ({code})"
    if status is not None and status >= 500:
        return problem_of(status)
    # Here AWS's words name the parameter or the resource that is wrong.
    if status in (400, 404):
        return f"{code}: {short(message)}" if message else code or problem_of(status)
    return code or (problem_of(status) if status else "refused")
