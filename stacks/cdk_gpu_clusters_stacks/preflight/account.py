"""An AWS account: boto3 sessions, and answers that all checks share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Any, Self

from cdk_gpu_clusters_stacks.aws_session import NoSession, open_session, require_answer

from .call import Call, Unusable, no_answer

#: Answer of AWS: the parsed response, of all pages together.
Answer = Mapping[str, Any]
#: Service and Region -> boto3 client.
Clients = Callable[[str, str], Any]

# As many as a person's request for one cluster needs; botocore retries what AWS throttles all the same.
_AT_ONCE = 24
# Regions that are enabled in every account, for services that belong to the whole partition.
_FIRST_REGIONS = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
# What services call the token of the next page.
_PAGE_TOKENS = ("NextToken", "NextPageToken")


class Account:
    """An account in a Region, as far as it was asked.

    A question is a call with its parameters. It goes to AWS once; whoever asks it again waits for, or gets, the same
    answer. Use it in a `with` statement.

    Attributes:
        region: The cluster's Region.
        asked: Questions so far, in the order in which they were asked: service, operation, Region and parameters.
    """

    def __init__(self, clients: Clients, *, region: str) -> None:
        """Know an account.

        Args:
            clients: Gives a boto3 client for a service and a Region.
            region: The cluster's Region.
        """
        self.region = region
        self.asked: list[str] = []
        self._clients = clients
        self._made: dict[tuple[str, str], Any] = {}
        self._answers: dict[str, Future[Answer]] = {}
        self._lock = Lock()
        self._making = Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="aws")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def start(self, call: Call, *, region: str | None = None, **parameters: Any) -> Future[Answer]:
        """Ask without waiting.

        Args:
            call: The call.
            region: Another Region than the cluster's.
            parameters: Parameters of the call, as boto3 takes them.
        """
        where = region or self._place(call)
        key = json.dumps([call.service, call.operation, where, parameters], sort_keys=True, default=str)
        with self._lock:
            if key not in self._answers:
                self.asked.append(key)
                self._answers[key] = self._pool.submit(self._answer, call, where, parameters)
            return self._answers[key]

    def ask(self, call: Call, *, region: str | None = None, **parameters: Any) -> Answer:
        """The answer to a call, all pages of it.

        Raises:
            NoAnswer: If AWS gives none: `Denied`, `Absent`, `RegionSilent` or for another cause.
            Unusable: If the credentials cannot be used at all.
        """
        return self.start(call, region=region, **parameters).result()

    def _place(self, call: Call) -> str:
        if call.place == "region":
            return self.region
        from cdk_gpu_clusters.catalogue.regions import partition_of

        return _FIRST_REGIONS.get(partition_of(self.region), self.region)

    def _answer(self, call: Call, region: str, parameters: Mapping[str, Any]) -> Answer:
        try:
            client = self._client(call.service, region)
            if not client.can_paginate(call.operation):
                return _follow_tokens(getattr(client, call.operation), parameters)
            limits = {"PageSize": call.page_size, "MaxItems": call.most}
            config = {name: value for name, value in limits.items() if value is not None}
            pages = client.get_paginator(call.operation).paginate(**parameters, PaginationConfig=config)
            return dict(pages.build_full_result())
        except Exception as error:
            raise no_answer(call, error, region=region) from error

    def _client(self, service: str, region: str) -> Any:
        """Clients serve many threads, but are made by one at a time (boto3 guide, "Multithreading")."""
        with self._making:
            if (service, region) not in self._made:
                self._made[service, region] = self._clients(service, region)
            return self._made[service, region]


def _follow_tokens(ask: Callable[..., Answer], parameters: Mapping[str, Any]) -> Answer:
    """The answer to a call that botocore has no paginator for; its lists are of all pages if it has pages."""
    whole = dict(ask(**parameters))
    while name := next((one for one in _PAGE_TOKENS if whole.get(one)), None):
        for key, value in ask(**parameters, **{name: whole.pop(name)}).items():
            whole[key] = [*whole.get(key, ()), *value] if isinstance(value, list) else value
    return whole


# Credentials and clients of boto3, set up for many short calls.

# The standard mode retries throttling and lost connections with growing, random pauses (boto3 guide, "Retries").
_ATTEMPTS = 6
_CONNECT_SECONDS = 5
_READ_SECONDS = 20


def boto3_clients(profile: str | None = None, *, region: str | None = None) -> Clients:
    """Clients of the caller's credentials, or of those of a profile.

    Args:
        profile: Profile of the AWS configuration; the environment's by default.
        region: A Region in which EC2 must answer.

    Raises:
        Unusable: If boto3 is not installed, there are no credentials, or nothing answers.
    """
    try:
        session = open_session(profile)
        if region is not None:
            require_answer(session, [region])
    except NoSession as fault:
        raise Unusable(str(fault)) from None
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        max_pool_connections=_AT_ONCE,
    )

    def client(service: str, region: str) -> Any:
        make: Any = session.client
        return make(service, region_name=region, config=config)

    return client
