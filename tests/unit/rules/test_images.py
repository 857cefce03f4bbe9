"""Which image an instance type starts from, and what is said where none exists."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import Architecture, InstanceType, instance_type, instance_types
from cdk_gpu_clusters.catalogue.images import Framework, ImagePurpose, OperatingSystem, images_for
from cdk_gpu_clusters.errors import ConfigError, Severity, errors_in
from cdk_gpu_clusters.rules.images import (
    check_image,
    check_image_id,
    check_moving_image,
    choose_image,
    framework_named,
    parameter_name,
)

DLAMI = "/aws/service/deeplearning/ami"
NEURON = "/aws/service/neuron/dlami"


@pytest.mark.parametrize(
    ("name", "system", "parameter"),
    [
        (
            "p5.48xlarge",
            "al2023",
            f"{DLAMI}/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
        ),
        ("p5.48xlarge", None, f"{DLAMI}/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"),
        ("g7.48xlarge", None, f"{DLAMI}/x86_64/base-with-single-cuda-ubuntu-24.04/latest/ami-id"),
        (
            "g7e.48xlarge",
            "ubuntu-24.04",
            f"{DLAMI}/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
        ),
        ("g5g.xlarge", "al2023", f"{DLAMI}/arm64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"),
        (
            "p6e-gb200.36xlarge",
            "ubuntu-24.04",
            f"{DLAMI}/arm64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id",
        ),
        ("trn2.48xlarge", "ubuntu-24.04", f"{NEURON}/base/ubuntu-24.04/latest/image_id"),
        ("inf2.xlarge", "al2023", f"{NEURON}/base/amazon-linux-2023/latest/image_id"),
        (
            "m8g.24xlarge",
            "al2023",
            "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64",
        ),
    ],
)
def test_an_image_is_chosen_by_accelerator_architecture_and_system(
    name: str, system: str | None, parameter: str
) -> None:
    assert choose_image(name, operating_system=system).parameter == parameter


@pytest.mark.parametrize(
    ("name", "system", "purpose", "expected", "works"),
    [
        ("inf1.24xlarge", "al2023", ImagePurpose.EC2, "GPU-AMI-003", "al2023 neuron (eks)"),
        ("p3dn.24xlarge", "al2023", ImagePurpose.EC2, "GPU-AMI-003", "al2023 nvidia (eks)"),
        ("p3dn.24xlarge", "ubuntu-22.04", ImagePurpose.EC2, "GPU-AMI-003", "al2023 nvidia (eks)"),
        ("g6f.xlarge", None, ImagePurpose.EC2, "GPU-AMI-003", "al2023 nvidia (eks)"),
        ("gr6f.4xlarge", "ubuntu-24.04", ImagePurpose.EC2, "GPU-AMI-003", "al2023 nvidia (eks)"),
        ("g7.48xlarge", "al2023", ImagePurpose.EC2, "GPU-AMI-003", "ubuntu-24.04 single-cuda (ec2)"),
        ("g7.48xlarge", None, ImagePurpose.EKS, "GPU-AMI-003", "ubuntu-24.04 single-cuda (ec2)"),
        ("g5g.xlarge", None, ImagePurpose.ECS, "GPU-AMI-001", "al2023 base (ec2)"),
        ("trn1.32xlarge", "bottlerocket", ImagePurpose.EKS, "GPU-AMI-002", "al2023 neuron"),
        ("p5.48xlarge", "bottlerocket", ImagePurpose.EC2, "GPU-AMI-002", "ubuntu-24.04 base"),
    ],
)
def test_where_no_image_exists_the_finding_says_what_would_work(
    name: str, system: str | None, purpose: ImagePurpose, expected: str, works: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        choose_image(name, operating_system=system, purpose=purpose)
    (finding,) = refused.value.findings
    assert finding.id == expected
    assert works in finding.allowed


def test_neuron_on_arm64_has_no_image() -> None:
    with pytest.raises(ConfigError, match="GPU-AMI-001"):
        choose_image(replace(instance_type("trn2.48xlarge"), architecture=Architecture.ARM64))


def test_an_image_of_the_wrong_kind_is_refused() -> None:
    gpu = choose_image("p5.48xlarge")
    assert [f.id for f in check_image("p6e-gb200.36xlarge", gpu)] == ["GPU-AMI-005"]
    assert [f.id for f in check_image("trn2.48xlarge", gpu)] == ["GPU-AMI-006"]
    assert [f.id for f in check_image("g6f.xlarge", gpu)] == ["GPU-AMI-003"]
    assert check_image("m7i.48xlarge", gpu) == []  # a CPU node may start from an image with drivers


def test_a_plain_image_lacks_the_drivers() -> None:
    (plain,) = images_for(accelerator=None, architecture=Architecture.X86_64, operating_system=OperatingSystem.AL2023)
    assert [f.id for f in check_image("p5.48xlarge", plain)] == ["GPU-AMI-006"]


def test_a_list_that_was_not_read_is_told() -> None:
    image = choose_image("p5.48xlarge", operating_system="ubuntu-22.04")
    (finding,) = check_image("p5.48xlarge", image)
    assert (finding.id, finding.severity) == ("GPU-AMI-004", Severity.INFO)


def test_a_variant_can_be_named() -> None:
    image = choose_image("p5.48xlarge", operating_system="al2023", variant="single-cuda")
    assert image.variant == "single-cuda"
    with pytest.raises(ConfigError, match="GPU-AMI-002"):
        choose_image("p5.48xlarge", variant="no-such-variant")


@pytest.mark.parametrize(
    ("name", "system", "parameter"),
    [
        ("p5.48xlarge", None, f"{DLAMI}/x86_64/oss-nvidia-driver-gpu-pytorch-2.13-amazon-linux-2023/latest/ami-id"),
        (
            "g6.xlarge",
            "ubuntu-24.04",
            f"{DLAMI}/x86_64/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id",
        ),
        (
            "p6e-gb200.36xlarge",
            "al2023",
            f"{DLAMI}/arm64/oss-nvidia-driver-gpu-pytorch-2.12-amazon-linux-2023/latest/ami-id",
        ),
    ],
)
def test_an_image_with_pytorch_is_chosen_by_its_variant(name: str, system: str | None, parameter: str) -> None:
    image = choose_image(name, operating_system=system, variant=Framework.PYTORCH)
    assert image.parameter == parameter
    assert image.framework is Framework.PYTORCH
    assert errors_in(check_image(name, image)) == []


@pytest.mark.parametrize(
    ("name", "system", "expected"),
    [
        ("p6-b300.48xlarge", None, "GPU-AMI-003"),
        ("p6-b300.48xlarge", "ubuntu-24.04", "GPU-AMI-003"),  # no list was read, and that of AL2023 omits it
        ("g7e.48xlarge", "al2023", "GPU-AMI-003"),
        ("p5.48xlarge", "ubuntu-22.04", "GPU-AMI-002"),
        ("trn2.48xlarge", "al2023", "GPU-AMI-002"),
        ("m8g.24xlarge", None, "GPU-AMI-002"),
    ],
)
def test_a_type_without_an_image_with_pytorch_is_refused(name: str, system: str | None, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        choose_image(name, operating_system=system, variant=Framework.PYTORCH)


@given(name=st.sampled_from(list(instance_types())), system=st.sampled_from([None, *OperatingSystem]))
def test_nobody_gets_a_framework_unasked(name: str, system: OperatingSystem | None) -> None:
    try:
        image = choose_image(name, operating_system=system)
    except ConfigError:
        return  # which types have none is the table's matter, above
    assert image.framework is None


def test_only_an_image_with_pytorch_serves_g6f_on_ec2() -> None:
    with pytest.raises(ConfigError) as refused:
        choose_image("g6f.xlarge")
    assert "al2023 pytorch (ec2)" in refused.value.findings[0].allowed
    assert choose_image("g6f.xlarge", variant=Framework.PYTORCH).framework is Framework.PYTORCH


def test_an_unknown_framework_is_refused_with_those_that_exist() -> None:
    assert framework_named("pytorch") is Framework.PYTORCH
    with pytest.raises(ConfigError) as refused:
        framework_named("tensorflow")
    (finding,) = refused.value.findings
    assert (finding.id, finding.got, finding.allowed) == ("GPU-AMI-010", "'tensorflow'", "'pytorch'")


def test_software_older_than_the_family_needs_is_a_warning() -> None:
    # The release note of Ubuntu 22.04 lists P6e-GB200 with kernel 6.8; AWS's table of minimums says 6.12.
    image = choose_image("p6e-gb200.36xlarge", operating_system="ubuntu-22.04")
    (finding,) = check_image("p6e-gb200.36xlarge", image)
    assert (finding.id, finding.severity, finding.got) == ("GPU-AMI-007", Severity.WARNING, "6.8")
    assert check_image("p6e-gb200.36xlarge", choose_image("p6e-gb200.36xlarge")) == []


@pytest.mark.parametrize("image_id", ["ami-0123456789abcdef0", "ami-12345678"])
def test_a_pinned_image_is_an_id(image_id: str) -> None:
    assert check_image_id(image_id) == []


@pytest.mark.parametrize("image_id", ["", "ami-", "ami-0123456789ABCDEF0", "ami-123", "al2023", f"{NEURON}/x"])
def test_what_is_no_image_id_is_refused(image_id: str) -> None:
    assert [finding.id for finding in check_image_id(image_id)] == ["GPU-AMI-008"]


@pytest.mark.parametrize("name", ["p5.48xlarge", "m7i.xlarge"])
def test_aws_pcs_has_one_image_for_nodes_with_and_without_gpus(name: str) -> None:
    image = choose_image(name, purpose=ImagePurpose.PCS)
    assert image.parameter == "/aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id"


def test_aws_pcs_has_an_image_for_arm_and_none_for_neuron() -> None:
    arm = choose_image("p6e-gb200.36xlarge", purpose=ImagePurpose.PCS)
    assert arm.parameter == "/aws/service/pcs/ami/dlami-base-ubuntu2404/arm64/latest/ami-id"
    with pytest.raises(ConfigError, match="GPU-AMI-001"):
        choose_image("trn2.48xlarge", purpose=ImagePurpose.PCS)


def test_an_eks_parameter_carries_the_kubernetes_version() -> None:
    image = choose_image("p5.48xlarge", purpose=ImagePurpose.EKS)
    assert parameter_name(image, kubernetes_version="1.34") == (
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    )
    for wrong in (None, "latest", "v1.34"):
        with pytest.raises(ConfigError, match="GPU-AMI-009"):
            parameter_name(image, kubernetes_version=wrong)
    ec2 = choose_image("p5.48xlarge")
    assert parameter_name(ec2) == ec2.parameter


@given(
    name=st.sampled_from(list(instance_types())),
    system=st.sampled_from([None, *OperatingSystem]),
    purpose=st.sampled_from(ImagePurpose),
)
def test_a_chosen_image_is_one_that_the_type_starts_from(
    name: str, system: OperatingSystem | None, purpose: ImagePurpose
) -> None:
    kind = instance_type(name)
    try:
        image = choose_image(kind, operating_system=system, purpose=purpose)
    except ConfigError:
        return  # which types have none is the table's matter, above
    assert errors_in(check_image(kind, image)) == []
    assert image.purpose is purpose
    assert image.architecture is kind.architecture
    assert system in (None, image.operating_system)
    assert image.families is None or kind.family in image.families


def test_every_family_but_four_has_an_ec2_image() -> None:
    assert {kind.family for kind in instance_types().values() if not _has_image(kind)} == {
        "inf1",
        "p3dn",
        "g6f",
        "gr6f",
    }


def _has_image(kind: InstanceType) -> bool:
    try:
        choose_image(kind)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("efa", "nodes", "serves", "advised"),
    [
        (True, 2, False, True),
        (True, None, False, True),
        (True, 1, False, False),
        (False, 8, False, False),
        (False, 1, True, True),
    ],
)
def test_an_image_that_moves_is_advised_on_where_nodes_must_be_alike(
    efa: bool, nodes: int | None, serves: bool, advised: bool
) -> None:
    findings = check_moving_image("/images/newest", efa=efa, node_count=nodes, serves_models=serves)
    assert [(one.id, one.severity) for one in findings] == ([("GPU-AMI-102", Severity.INFO)] if advised else [])
