"""The one place where boto3 is used: clients that send the operations of `aws_operations` and no
other.

Every request keeps within a pace (for each service, region and account), a deadline and a byte
budget; a role is assumed once and its credentials kept until they are about to expire. All calls
block; run them in a thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.environment_trust import ca_file_of_environment
from faultline.connectors.shared.transport.rate_limiter import RateLimiter, rate_limiter_of
from faultline.connectors.shared.transport.transport import retry_after
from faultline.connectors.vendors.aws.errors import no_answer, not_understood, refusal, retryable
from faultline.connectors.vendors.aws.operations import allowed, session_policy

VENDOR = "aws"
CONNECT_S, READ_S = 3.0, 10.0
CHUNK = 65_536
ATTEMPTS = 3
PAUSE_S = 0.5
ASSUMED_S = 3600
"""One hour, the longest that a role assumed by another role may be held (IAM, "Role chaining")."""
EARLY = timedelta(minutes=5)
"""Credentials are replaced so long before they expire."""
RATES: Mapping[str, float] = {
    "cloudtrail": 2,
    "logs": 5,
    "xray": 5,
    "codedeploy": 5,
    "cloudwatch": 8,
}
"""Requests a second for one account and region. CloudTrail: LookupEvents, 2/s. CloudWatch:
DescribeAlarms, 9/s. Logs: StartQuery and GetQueryResults, 5/s (each service's page of quotas); the
others are own, below what is documented."""
OTHER_RATE = 10.0
CONCURRENCY = 4


@dataclass(frozen=True)
class AwsAccount:
    """An account, and the role by which it is read; without a role the bot's own credentials are
    used."""

    name: str
    role_arn: str | None = None
    external_id: str | None = None


@dataclass(frozen=True)
class AwsPlace:
    """One region of one account."""

    account: AwsAccount
    region: str

    def __str__(self) -> str:
        return f"{self.account.name}/{self.region}"


@dataclass(frozen=True)
class Bounds:
    """What the calls of one collection share."""

    deadline: Deadline
    budget: ByteBudget


@dataclass(frozen=True)
class _RoleKeys:
    """Credentials in the form boto3 takes them; `until` is None for those that boto3 looks after
    itself."""

    options: Mapping[str, str]
    until: datetime | None


_bounds: ContextVar[Bounds] = ContextVar("bounds")


class AwsSession:
    """Clients for all places of the settings. Safe to use from several threads."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        self._endpoint_url = endpoint_url
        # Reentrant: assuming a role makes a client of STS under the same lock.
        self._lock = threading.RLock()
        self._base: Any = None
        self._keys: dict[AwsAccount, _RoleKeys] = {}
        self._clients: dict[tuple[str, AwsPlace], tuple[_RoleKeys, Any]] = {}

    def call(
        self,
        place: AwsPlace,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        bounds: Bounds,
    ) -> Any:
        """The answer to one operation. Raises ConnectorError, BudgetExceeded."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.limiter(place, service).permit_in_thread(bounds.deadline):
                    return self.once(place, service, operation, params, bounds)
            except Later as later:
                time.sleep(later.pause(attempt, bounds))
        raise AssertionError("ATTEMPTS is at least 1")

    def limiter(self, place: AwsPlace, service: str) -> RateLimiter:
        """The pace of one service in one place."""
        limits = Limits(requests_per_s=RATES.get(service, OTHER_RATE), concurrency=CONCURRENCY)
        return rate_limiter_of(VENDOR, f"{self._endpoint_url or 'aws'} {service} {place}", limits)

    def close(self) -> None:
        """Let go of connections."""
        with self._lock:
            for _, client in self._clients.values():
                client.close()
            self._clients.clear()

    def once(
        self,
        place: AwsPlace,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        bounds: Bounds,
    ) -> Any:
        """One try by somebody who has the turn. Raises ConnectorError, BudgetExceeded, Later."""
        from botocore import xform_name

        client = self._client(place, service, bounds)
        limiter = self.limiter(place, service)
        with _within(bounds):
            failed = True
            try:
                with _translated_errors(operation, service):
                    answer = getattr(client, xform_name(operation))(**params)
                failed = False
            except BudgetExceeded as over:
                # An answer that is too large breaks our limit; one that is late is a failure.
                failed = over.what == "time"
                raise
            except (ConnectorError, Later) as problem:
                error = problem.error if isinstance(problem, Later) else problem
                # A refusal is an answer: only silence and a 5xx open the circuit.
                failed = error.retryable and (error.status is None or error.status >= 500)
                raise
            finally:
                limiter.breaker.record(failed=failed)
        return answer

    def _client(self, place: AwsPlace, service: str, bounds: Bounds) -> Any:
        keys = self._credentials(place, service, bounds)
        with self._lock:
            client = self._clients.get((service, place))
            # A client keeps the credentials that it was made with.
            if client is None or client[0] is not keys:
                with _translated_errors(f"{service} client", service):
                    made = aws_client(
                        self._session(), service, place.region, self._endpoint_url, keys.options
                    )
                client = self._clients[service, place] = (keys, made)
            return client[1]

    def _session(self) -> Any:
        if self._base is None:
            self._base = boto_session()
        return self._base

    def _credentials(self, place: AwsPlace, service: str, bounds: Bounds) -> _RoleKeys:
        account = place.account
        if account.role_arn is None or service == "sts":
            return _AMBIENT_KEYS
        # Under the lock, so that one thread assumes the role and the others wait for it.
        with self._lock:
            assume = self._keys.get(account)
            if assume is None or assume.until is None or assume.until - datetime.now(UTC) < EARLY:
                assume = self._keys[account] = self._assume(place, account.role_arn, bounds)
            return assume

    def _assume(self, place: AwsPlace, role_arn: str, bounds: Bounds) -> _RoleKeys:
        params = {
            "RoleArn": role_arn,
            "RoleSessionName": "faultline",
            "DurationSeconds": ASSUMED_S,
            "Policy": session_policy(),
            **({"ExternalId": place.account.external_id} if place.account.external_id else {}),
        }
        answer = self.call(place, "sts", "AssumeRole", params, bounds)
        credentials = answer.get("Credentials") or {}
        until = credentials.get("Expiration")
        if not isinstance(until, datetime) or not all(credentials.get(name) for name in _KEY_NAMES):
            raise ConnectorError(VENDOR, "AssumeRole", "the answer holds no credentials")
        return _RoleKeys(
            {f"aws_{ours}": str(credentials[theirs]) for theirs, ours in _KEY_NAMES.items()},
            until.astimezone(UTC),
        )


_AMBIENT_KEYS = _RoleKeys({}, None)
_KEY_NAMES = {
    "AccessKeyId": "access_key_id",
    "SecretAccessKey": "secret_access_key",
    "SessionToken": "session_token",
}


class EndsEarly(Exception):
    """An answer shorter than it says it is."""


class Later(Exception):
    """A failure that may pass: asked again while there is time."""

    def __init__(self, error: ConnectorError, headers: Mapping[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.headers = headers

    def pause(self, attempt: int, bounds: Bounds) -> float:
        """Seconds until the next attempt; raises the failure itself when there is none."""
        pause = retry_after(self.headers, PAUSE_S * 2 ** (attempt - 1))
        if attempt == ATTEMPTS or pause > bounds.deadline.remaining:
            raise self.error from None
        return pause


@contextmanager
def _within(bounds: Bounds) -> Iterator[None]:
    token = _bounds.set(bounds)
    try:
        yield
    finally:
        _bounds.reset(token)


@contextmanager
def _translated_errors(operation: str, service: str) -> Iterator[None]:
    """Turn boto3's errors into ours."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        refused = refusal(service, operation, error.response)
        metadata: Mapping[str, Any] = error.response.get("ResponseMetadata") or {}
        headers: Mapping[str, Any] = metadata.get("HTTPHeaders") or {}
        if retryable(refused):
            raise Later(refused, {str(k).lower(): str(v) for k, v in headers.items()}) from None
        raise refused from None
    except EndsEarly:
        raise Later(
            ConnectorError(VENDOR, operation, "the response was cut off", retryable=True), {}
        ) from None
    except BotoCoreError as error:
        failed = no_answer(operation, error)
        if failed.retryable:
            raise Later(failed, {}) from None
        raise failed from None
    except (
        ResponseParserError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise not_understood(operation, error) from None


CA_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
"""botocore's own (botocore.configprovider; botocore.httpsession)."""


def boto_session() -> Any:
    """A separate session, with the credentials of the environment; what describes the services is
    read only once."""
    import boto3
    import botocore.session

    core = botocore.session.Session()
    authorities = ca_file_of_environment(*CA_VARIABLES)
    if authorities is not None:
        core.set_config_variable("ca_bundle", authorities)
    descriptions = _descriptions(core.get_config_variable("data_path"))
    core.register_component("data_loader", descriptions)
    session = boto3.session.Session(botocore_session=core)
    descriptions.search_paths[:] = dict.fromkeys(
        descriptions.search_paths
    )  # each session adds boto3's own folder
    return session


@cache
def _descriptions(data_path: str | None) -> Any:
    """Megabytes of JSON that do not change, kept as they are read; any number of threads may
    read."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


def aws_client(
    session: Any,
    service: str,
    region: str | None,
    endpoint_url: str | None,
    keys: Mapping[str, str],
    **config: Any,
) -> Any:
    """A client that refuses whatever is not listed, makes one attempt, and reads answers within the
    bounds."""
    from botocore.config import Config

    how = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        # We retry ourselves, within the pace and the deadline.
        retries={"total_max_attempts": 1},
        user_agent_extra="faultline",
        **config,
    )
    client = session.client(
        service, region_name=region, endpoint_url=endpoint_url, config=how, **keys
    )
    # First, so that no other handler runs before the guard.
    client.meta.events.register_first("before-call", refuse_writes)
    client.meta.events.register_first(
        "before-send", _Sender(client.meta.endpoint_url, client.meta.service_model)
    )
    return client


def refuse_writes(model: Any, params: Mapping[str, Any], **_: Any) -> None:
    """Raise ConnectorError for any operation that is not listed, and for an S3 request other than
    GET or HEAD."""
    service = model.service_model.service_name
    if not allowed(service, model.name) or (
        service == "s3" and params["method"] not in ("GET", "HEAD")
    ):
        raise ConnectorError(VENDOR, f"{service} {model.name}", "a connector only lists and reads")


class _Sender:
    """Sends in botocore's place, so that neither a long answer nor a slow one outgrows its bounds.

    botocore itself buffers answers of any size, does not notice one that ends early, and takes JSON
    that it cannot read for an empty answer (botocore.parsers, `_parse_body_as_json`).
    """

    def __init__(self, endpoint_url: str, model: Any) -> None:
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        self._json = str(model.resolved_protocol).endswith("json")
        timeout: Any = (CONNECT_S, READ_S)
        # Its stubs do not know that it may be a file.
        verify: Any = ca_file_of_environment(*CA_VARIABLES) or True
        self._http = URLLib3Session(
            timeout=timeout,
            proxies=get_environ_proxies(endpoint_url),
            max_pool_connections=CONCURRENCY,
            verify=verify,
        )

    def __call__(self, request: Any, **_: Any) -> Any:
        """The answer, read to its end."""
        from botocore.awsrequest import AWSResponse

        bounds = _bounds.get()
        bounds.deadline.check()
        # Leave the body to `_read`, which keeps within the bounds.
        request.stream_output = True
        response = self._http.send(request)
        done = False
        try:
            body = self._read(response, bounds)
            done = True
        finally:
            # A connection with an unread rest must not serve another request.
            response.raw.release_conn() if done else response.raw.close()
        if self._json and response.status_code < 300 and not _is_json(body):
            raise ValueError("it is not JSON")
        headers: Any = response.headers
        return AWSResponse(response.url, response.status_code, headers, _Read(body))

    @staticmethod
    def _read(response: Any, bounds: Bounds) -> bytes:
        from botocore.exceptions import ReadTimeoutError
        from urllib3.exceptions import HTTPError
        from urllib3.exceptions import ReadTimeoutError as Late

        body = bytearray()
        try:
            while chunk := response.raw.read1(CHUNK):
                bounds.budget.take(len(chunk))
                bounds.deadline.check()
                body += chunk
        except Late as error:
            raise ReadTimeoutError(endpoint_url=response.url, error=error) from None
        except HTTPError:
            raise EndsEarly from None
        declared = response.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > len(body):
            raise EndsEarly
        return bytes(body)


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(body or b"{}"), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False


class _Read:
    """A body that has arrived, as botocore reads one."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """All of it."""
        yield self._body

    def read(self, *_: Any, **__: Any) -> bytes:
        """What is left of it."""
        body, self._body = self._body, b""
        return body
