"""KMS keys that the file names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import define_rule

from ..answer import Absent, NoAnswer
from ..call import KEY
from ..check import Check, Inquiry, Verdict, failed, passed
from ..cluster import Cluster

KEY_ENABLED = define_rule(
    "GPU-PRE-131",
    "the KMS keys are there and enabled",
    source='AWS KMS developer guide, "Key states of AWS KMS keys"',
)
KEY_ENCRYPTS = define_rule(
    "GPU-PRE-132",
    "the KMS keys are symmetric, customer managed, and encrypt",
    source="AWS KMS API reference, KeyMetadata; S3 and FSx take symmetric keys only",
)


def _keys(cluster: Cluster) -> Mapping[str, str]:
    return cluster.keys


def _enabled(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(KEY, KeyId=arn)["KeyMetadata"]
    except Absent:
        yield failed(f"there is no {arn}", fix="correct the ARN")
        return
    if found.get("KeyState") != "Enabled":
        yield failed(f"{arn} is {found.get('KeyState')}", fix="enable it, or cancel its deletion")
    else:
        yield passed(f"{arn} is enabled")


def _encrypts(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(KEY, KeyId=arn)["KeyMetadata"]
    except Absent as absent:
        raise NoAnswer(f"there is no {arn}", fix="see GPU-PRE-131") from absent
    spec, usage = found.get("KeySpec", "SYMMETRIC_DEFAULT"), found.get("KeyUsage", "ENCRYPT_DECRYPT")
    if (spec, usage) != ("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"):
        yield failed(f"{arn} is {spec} for {usage}", fix="name a symmetric key that encrypts")
    elif found.get("KeyManager") == "AWS":
        yield failed(
            f"{arn} is managed by AWS: its policy cannot let the nodes in", fix="name a key of your own"
        )


_NO_KEY = "the file names no key"

CHECKS = (
    Check(rule=KEY_ENABLED, calls=(KEY,), subjects=_keys, judge=_enabled, unless=_NO_KEY),
    Check(rule=KEY_ENCRYPTS, calls=(KEY,), subjects=_keys, judge=_encrypts, unless=_NO_KEY),
)
