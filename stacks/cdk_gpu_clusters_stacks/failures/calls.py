"""The read-only AWS calls that failures are read from, beside those of preflight."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.preflight.call import define_call

# EC2 Auto Scaling keeps activities for six weeks, CloudTrail its events for 90 days (their
# API references, DescribeScalingActivities and LookupEvents).
STACK_EVENTS = define_call("cloudformation", "describe_stack_events", most=500)
STACK_RESOURCES = define_call("cloudformation", "list_stack_resources")
ACTIVITIES = define_call("autoscaling", "describe_scaling_activities", most=500)
GROUPS = define_call("autoscaling", "describe_auto_scaling_groups")
FLEETS = define_call("ec2", "describe_fleets")
FLEET_HISTORY = define_call("ec2", "describe_fleet_history")
TRAIL = define_call("cloudtrail", "lookup_events", most=500)
DECODED = define_call("sts", "decode_authorization_message")
EKS_NODE_GROUP = define_call("eks", "describe_nodegroup")
PCS_NODE_GROUP = define_call("pcs", "get_compute_node_group")
LOG_EVENTS = define_call("logs", "filter_log_events", most=500)
