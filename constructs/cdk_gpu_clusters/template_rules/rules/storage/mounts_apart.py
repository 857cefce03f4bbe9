"""Shared file systems are mounted side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.storage import OVERLAP
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, user_data_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

_SHARED = r"(?:lustre|nfs4?|efs)"
# It begins where a word does: otherwise each letter of a long word, such as a script in base64, is tried in vain.
_FSTAB = re.compile(rf"(?<![^\s\"'#])(?P<source>[^\s\"'#]+)[ \t]+(?P<point>/\S*)[ \t]+{_SHARED}[ \t]")
_COMMAND = re.compile(rf"\bmount\b[^\n;&|]*?-t[ \t]+{_SHARED}\b(?P<rest>[^\n;&|]*)")
_OPTIONS = re.compile(r"(?<!\S)(?:-o[ \t]+\S+|-\w+)")


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    user_data = user_data_of(launch)
    mounts = sorted(set(_mounts(user_data.text))) if user_data else []
    if user_data is None or not (mounts or mounted_by(launch)):
        raise NotApplicable
    for (one, source), (other, another) in combinations(mounts, 2):
        if source != another and PurePosixPath(other).is_relative_to(one):
            yield Fault(at=user_data.value, got=f"{source} at {one}, {another} at {other}", allowed="apart")


def _mounts(text: str) -> Iterator[tuple[str, str]]:
    """Mount points, with what is mounted there."""
    for line in _FSTAB.finditer(text):
        yield line["point"], line["source"]
    for command in _COMMAND.finditer(text):
        words = [word.strip("\"'") for word in _OPTIONS.sub(" ", command["rest"]).split()]
        if len(words) == 2 and words[1].startswith("/"):  # not a variable of the script
            yield words[1], words[0]


RULE = TemplateRule(
    rule=OVERLAP,
    severity=Severity.WARNING,
    cause="the mount that comes later hides the files of the other, or hangs with it",
    fix="mount them side by side, such as /fsx and /home",
    url="https://man7.org/linux/man-pages/man8/mount.8.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData: lines of /etc/fstab, and mount -t lustre, nfs or efs",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #!/bin/sh
            echo "fs-01.fsx.us-east-1.amazonaws.com@tcp:/abcd /shared lustre relatime,_netdev 0 0" >>/etc/fstab
            echo "fs-02.efs.us-east-1.amazonaws.com:/ /shared/home nfs4 _netdev 0 0" >>/etc/fstab
            mount -a
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #!/bin/sh
            echo "fs-01.fsx.us-east-1.amazonaws.com@tcp:/abcd /shared lustre relatime,_netdev 0 0" >>/etc/fstab
            echo "fs-02.efs.us-east-1.amazonaws.com:/ /home nfs4 _netdev 0 0" >>/etc/fstab
            mount -a
""",
)
