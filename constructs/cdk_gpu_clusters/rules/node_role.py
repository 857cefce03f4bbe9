"""What the role of a node has to allow."""

from __future__ import annotations

#: What SSM Agent needs for sessions, which replace SSH, and the action by which it registers its node (AWS Systems
#: Manager user guide, "Add Session Manager permissions to an existing IAM role"). AmazonSSMManagedInstanceCore adds
#: Run Command, and all parameters of the account. SSM Agent 3.3.40.0 and later do without ec2messages ("Reference:
#: ec2messages, ssmmessages, and other API operations").
SESSION_ACTIONS = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
    "ssm:UpdateInstanceInformation",
)
