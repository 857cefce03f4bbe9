"""Finding a type by name, and what a wrong name is told."""

import dataclasses
import subprocess
import sys

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types, name_only_types
from cdk_gpu_clusters.errors import ConfigError


def test_a_record_is_frozen_and_shared() -> None:
    record = instance_type("p5.48xlarge")
    assert record is instance_types()["p5.48xlarge"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.vcpus = 1  # type: ignore[misc]
    assert not hasattr(record, "__dict__")


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("p5.49xlarge", "p5.48xlarge"),
        ("p6.b200.48xlarge", "p6-b200.48xlarge"),
        ("P5.48XLARGE", "p5.48xlarge"),
        ("g6e.9xlarge", "g6e.8xlarge"),
        ("m7i.5xlarge", "m7i.4xlarge"),
    ],
)
def test_an_unknown_type_is_told_the_nearest_names(wrong: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as raised:
        instance_type(wrong)
    (finding,) = raised.value.findings
    assert finding.id == "GPU-INST-001"
    assert finding.got == repr(wrong)
    assert nearest in finding.allowed


def test_a_name_like_no_other_is_still_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError) as raised:
        instance_type("zz")
    assert "such as g6.xlarge" in raised.value.findings[0].allowed


@pytest.mark.parametrize(
    "name",
    [
        "p6e-gb300.36xlarge",
        "p6e-gb300.72xlarge",
        "p6e-gb200.72xlarge",
        "trn3.48xlarge",
        "trn2-ac.24xlarge",
        "trn2u-ac.24xlarge",
    ],
)
def test_a_type_known_by_name_only_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        instance_type(name)
    (finding,) = raised.value.findings
    assert finding.id == "GPU-INST-002"
    assert name_only_types()[name] in finding.cause
    assert name not in instance_types()


def test_importing_reads_no_file_and_no_heavy_module() -> None:
    program = """
import builtins, pathlib, sys
reads = []
read_text, opened = pathlib.Path.read_text, pathlib.Path.open
pathlib.Path.read_text = lambda self, *a, **k: (reads.append(str(self)), read_text(self, *a, **k))[1]
pathlib.Path.open = lambda self, *a, **k: (reads.append(str(self)), opened(self, *a, **k))[1]
import cdk_gpu_clusters.catalogue, cdk_gpu_clusters.catalogue.images
import cdk_gpu_clusters.catalogue.prices, cdk_gpu_clusters.catalogue.regions
assert reads == [], reads
assert not {"aws_cdk", "jsii", "boto3", "botocore", "pydantic"} & sys.modules.keys()
cdk_gpu_clusters.catalogue.instance_type("p5.48xlarge")
assert reads, "the counter counts"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
