"""The rules read long user data once: what makes a text long must not make them slow."""

from __future__ import annotations

import time

import pytest

from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.template import Template

LENGTH = 200_000
LONG = {"a script in base64": "A" * LENGTH, "empty lines": "\n" * LENGTH, "blanks": " " * LENGTH}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_user_data_is_read_in_a_moment(text: str) -> None:
    """Tried at each letter of a word anew, one pattern took half a minute of this."""
    data = {"InstanceType": "p5.48xlarge", "UserData": {"Fn::Base64": f"#!/bin/sh\n{text}"}}
    nodes = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}
    template = Template.of({"Resources": {"Nodes": nodes}})
    begin = time.process_time()
    judge(template, every_rule())
    assert time.process_time() - begin < 3
