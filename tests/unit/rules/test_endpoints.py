"""Which endpoints a network without internet access needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.rules.endpoints import (
    GATEWAY_ENDPOINTS,
    Feature,
    check_endpoints,
    endpoints_for,
    reasons_for,
)

FEATURES = st.sets(st.sampled_from(Feature))


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], ()),
        ([Feature.SESSION_MANAGER], ("ssm", "ssmmessages")),
        ([Feature.SESSION_MANAGER, Feature.PARAMETERS], ("ssm", "ssmmessages")),
        ([Feature.LOGS, Feature.METRICS], ("logs", "monitoring")),
        ([Feature.AUTO_SCALING, Feature.EC2], ("autoscaling", "ec2")),
        ([Feature.CONTAINER_IMAGES], ("ecr.api", "ecr.dkr")),
        ([Feature.EKS], ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts")),
        ([Feature.KUBECTL], ("eks", "lambda", "sts")),
        ([Feature.PCS, Feature.FSX], ("fsx", "pcs")),
    ],
)
def test_endpoints_follow_from_what_the_nodes_do(features: list[Feature], expected: tuple[str, ...]) -> None:
    assert endpoints_for(features) == expected


@pytest.mark.parametrize("feature", Feature)
def test_every_feature_has_an_endpoint_and_a_reason(feature: Feature) -> None:
    reasons = reasons_for([feature])
    assert reasons
    assert all(why.startswith(f"{feature}: ") for whys in reasons.values() for why in whys)


@given(features=FEATURES)
def test_names_are_short_so_that_they_hold_in_every_partition(features: set[Feature]) -> None:
    services = endpoints_for(features)
    assert list(services) == sorted(set(services))
    assert not any(service.startswith(("com.", "cn.", "aws.")) for service in services)


@given(features=FEATURES, more=FEATURES)
def test_more_features_never_need_fewer_endpoints(features: set[Feature], more: set[Feature]) -> None:
    assert set(endpoints_for(features)) <= set(endpoints_for(features | more))


@given(features=FEATURES, present=st.sets(st.sampled_from([*endpoints_for(Feature), *GATEWAY_ENDPOINTS])))
def test_what_is_missing_is_what_is_needed_and_not_there(features: set[Feature], present: set[str]) -> None:
    findings = check_endpoints(features, present)
    missing = {*endpoints_for(features), "s3"} - present
    assert {finding.id for finding in findings} <= {"GPU-NET-121"}
    assert {finding.fix.split()[-1] for finding in findings} == missing


def test_s3_is_always_needed_and_is_a_gateway() -> None:
    (finding,) = check_endpoints([], [])
    assert finding.fix == "add the gateway endpoint s3"
