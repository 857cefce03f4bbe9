"""Run with ParallelCluster: what it understands of each YAML text in a JSON list from stdin, as a JSON list.

Its schema makes the objects that its stacks are made of; placement groups and capacity are what those objects decide,
not what the text has.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import yaml
from pcluster.schemas.cluster_schema import ClusterSchema


def meaning(text: str) -> dict[str, Any]:
    """The nodes and the shared storage of a file."""
    config = ClusterSchema(cluster_name="cluster").load(yaml.safe_load(text))
    resources = []
    for queue in config.scheduling.queues:
        for one in queue.compute_resources:
            placement = queue.get_placement_group_settings_for_compute_resource(one)
            target = one.capacity_reservation_target or queue.capacity_reservation_target
            resources.append(
                {
                    "types": one.instance_types,
                    "min": one.min_count,
                    "max": one.max_count,
                    "capacity": queue.capacity_type.value,
                    "reservation": target
                    and (target.capacity_reservation_id or target.capacity_reservation_resource_group_arn),
                    "efa": bool(one.efa and one.efa.enabled),
                    "placed": placement["key"] is not None,
                    "exclusive": bool(queue.job_exclusive_allocation),
                }
            )
    storage = [
        {
            "directory": f"/{one.mount_dir.lstrip('/')}",
            "kind": one.shared_storage_type.name,
            # The file system of a volume would be asked for in AWS.
            "id": one.volume_id if hasattr(one, "volume_id") else one.file_system_id,
        }
        for one in config.shared_storage or ()
    ]
    logins = config.login_nodes.pools if config.login_nodes else ()
    return {
        "resources": resources,
        "storage": storage,
        "logins": sum(pool.count for pool in logins),
        "idle_minutes": config.scheduling.settings.scaledown_idletime,
        "key": config.head_node.ssh.key_name,
        "tags": {tag.key: tag.value for tag in config.tags or ()},
    }


json.dump([meaning(text) for text in json.load(sys.stdin)], sys.stdout)
