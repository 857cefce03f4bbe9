"""Which endpoints a network without internet access needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.rules.endpoints import (
    NetworkFeature,
    check_endpoints,
    endpoints_for,
    gateways_for,
    reasons_for,
)

FEATURES = st.sets(st.sampled_from(NetworkFeature))


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], ()),
        ([NetworkFeature.SESSION_MANAGER], ("ssm", "ssmmessages")),
        ([NetworkFeature.SESSION_MANAGER, NetworkFeature.PARAMETERS], ("ssm", "ssmmessages")),
        ([NetworkFeature.LOGS, NetworkFeature.METRICS], ("logs", "monitoring")),
        ([NetworkFeature.AUTO_SCALING, NetworkFeature.EC2], ("autoscaling", "ec2")),
        ([NetworkFeature.CONTAINER_IMAGES], ("ecr.api", "ecr.dkr")),
        ([NetworkFeature.EKS], ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts")),
        ([NetworkFeature.KUBECTL], ("eks", "lambda", "sts")),
        ([NetworkFeature.PCS, NetworkFeature.FSX], ("fsx", "pcs")),
    ],
)
def test_endpoints_follow_from_what_the_nodes_do(features: list[NetworkFeature], expected: tuple[str, ...]) -> None:
    assert endpoints_for(features) == expected


@pytest.mark.parametrize("feature", NetworkFeature)
def test_every_feature_has_an_endpoint_and_a_reason(feature: NetworkFeature) -> None:
    reasons = reasons_for([feature])
    assert reasons
    assert all(why.startswith(f"{feature}: ") for whys in reasons.values() for why in whys)


@given(features=FEATURES)
def test_names_are_short_so_that_they_hold_in_every_partition(features: set[NetworkFeature]) -> None:
    services = endpoints_for(features)
    assert list(services) == sorted(set(services))
    assert not any(service.startswith(("com.", "cn.", "aws.")) for service in services)


@given(features=FEATURES, more=FEATURES)
def test_more_features_never_need_fewer_endpoints(features: set[NetworkFeature], more: set[NetworkFeature]) -> None:
    assert set(endpoints_for(features)) <= set(endpoints_for(features | more))


@given(
    features=FEATURES, present=st.sets(st.sampled_from([*endpoints_for(NetworkFeature), *gateways_for(NetworkFeature)]))
)
def test_what_is_missing_is_what_is_needed_and_not_there(features: set[NetworkFeature], present: set[str]) -> None:
    findings = check_endpoints(features, present)
    missing = {*endpoints_for(features), *gateways_for(features)} - present
    assert {finding.id for finding in findings} <= {"GPU-NET-121"}
    assert {finding.fix.split()[-1] for finding in findings} == missing


def test_s3_is_always_needed_and_is_a_gateway() -> None:
    (finding,) = check_endpoints([], [])
    assert finding.fix == "add the gateway endpoint s3"


def test_directory_buckets_have_a_gateway_of_their_own() -> None:
    """Amazon S3 user guide, "Networking for directory buckets": com.amazonaws.<region>.s3express, of type Gateway."""
    assert endpoints_for([NetworkFeature.S3_EXPRESS]) == ()
    assert gateways_for([NetworkFeature.S3_EXPRESS]) == ("s3", "s3express")
    (finding,) = check_endpoints([NetworkFeature.S3_EXPRESS], ["s3"])
    assert finding.fix == "add the gateway endpoint s3express"
