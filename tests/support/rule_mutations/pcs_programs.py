"""Nodes of AWS PCS without the programs that the settings of their cluster name."""

from __future__ import annotations

from recorded_templates import Json
from rule_mutation import RuleMutation

_USER_DATA = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="part"\n\n--part--\n'


def made_by_others(template: Json) -> None:
    """Let the nodes on Spot be those of someone else: their user data has none of our software, nor do scripts."""
    resources = template["Resources"]
    groups = (one["Properties"] for one in resources.values() if one["Type"] == "AWS::PCS::ComputeNodeGroup")
    group = next(one for one in groups if one.get("PurchaseOption") == "SPOT")
    del group["NodeLifecycleActions"]
    launch = resources[group["CustomLaunchTemplate"]["TemplateId"]["Ref"]]["Properties"]["LaunchTemplateData"]
    launch["UserData"] = {"Fn::Base64": _USER_DATA}


MUTATIONS = (RuleMutation(rule="GPU-PCS-068", template="pcs_cluster/everything_on", change_template=made_by_others),)
