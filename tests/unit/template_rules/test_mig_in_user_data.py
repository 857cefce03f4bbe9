"""Where user data says how GPUs are split, and what is left open."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.rule import Outcome
from templates import verdicts_of


def outcomes(script: str, rule: str, *, instance_type: str = "p4d.24xlarge") -> list[Outcome]:
    lines = "".join(f"            {line}\n" for line in script.splitlines())
    template = f"""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: {instance_type}
        UserData:
          Fn::Base64: !Sub |
{lines}
"""
    return [verdict.outcome for verdict in verdicts_of(template, rule)]


FITS, TOO_MUCH = "3g.20gb,2g.10gb,1g.5gb,1g.5gb", "4g.20gb,4g.20gb"


@pytest.mark.parametrize(
    "script",
    [
        "echo MIG_PARTITION='LAYOUT' >/etc/default/mig",
        'bootcmd:\n- [sh, -c, "printf %s \'MIG_PARTITION=\\"LAYOUT\\"\' >/etc/default/mig"]',
        "nvidia-smi mig -i 0 -cgi LAYOUT -C",
        "sudo nvidia-smi mig -C -cgi LAYOUT",
    ],
    ids=["shell", "cloud-config", "one GPU", "another order"],
)
def test_a_layout_is_found_wherever_it_stands(script: str) -> None:
    assert outcomes(script.replace("LAYOUT", FITS), "GPU-MIG-003") == [Outcome.COMPLIANT]
    assert outcomes(script.replace("LAYOUT", TOO_MUCH), "GPU-MIG-003") == [Outcome.NOT_COMPLIANT]


@pytest.mark.parametrize(("count", "outcome"), [(7, Outcome.COMPLIANT), (8, Outcome.NOT_COMPLIANT)])
def test_the_numbers_of_mig_parted_are_read(count: int, outcome: Outcome) -> None:
    config = f'mig-configs:\n  all:\n    - devices: all\n      mig-devices:\n        "1g.5gb": {count}\n'
    assert outcomes(config, "GPU-MIG-003") == [outcome]


def test_a_layout_of_another_gpu_is_told() -> None:
    script = f"nvidia-smi mig -cgi {FITS}"
    assert outcomes(script, "GPU-MIG-002", instance_type="p5.48xlarge") == [Outcome.NOT_COMPLIANT] * 3


def test_a_layout_of_the_deployment_is_left_open() -> None:
    assert outcomes("MIG_PARTITION=${AWS::StackName}", "GPU-MIG-003") == [Outcome.UNDECIDABLE]


def test_mig_that_is_only_switched_on_needs_a_gpu_that_has_it() -> None:
    assert outcomes("nvidia-smi -mig 1", "GPU-MIG-001") == [Outcome.COMPLIANT]
    assert outcomes("nvidia-smi -mig 1", "GPU-MIG-001", instance_type="g6.xlarge") == [Outcome.NOT_COMPLIANT]


def test_user_data_without_mig_is_no_matter() -> None:
    assert outcomes("nvidia-smi -pm 1", "GPU-MIG-001", instance_type="g6.xlarge") == [Outcome.NOT_APPLICABLE]
