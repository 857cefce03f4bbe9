"""CloudFormation's rolling update of an Auto Scaling group, by `AutoScalingRollingUpdate`.

It takes no time: an instance that is replaced ends at once, and the new one is in service at once, whatever hooks and
pauses say. Source: CloudFormation user guide, "UpdatePolicy attribute" (instances that do not match the present launch
template are replaced, `MaxBatchSize` at a time, one if it is left out).
"""

from __future__ import annotations

from .groups import IN_SERVICE, Group
from .launches import current_template, launch
from .world import Resource, World


def roll(world: World, resource: Resource, group: Group) -> None:
    """Replace the instances of an older launch template, where the update policy says so."""
    policy = resource.update_policy.get("AutoScalingRollingUpdate")
    if policy is None:
        return
    present = current_template(world, group)
    old = [one for one in group.staying if (one.template_id, one.template_version) != present]
    size = max(1, int(policy.get("MaxBatchSize", 1)))
    for start in range(0, len(old), size):
        batch = old[start : start + size]
        for one in batch:
            group.instances.remove(one)
            group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", "a rolling update")
        for made in launch(world, group, len(batch)):
            made.lifecycle_state, made.waits = IN_SERVICE, {}
