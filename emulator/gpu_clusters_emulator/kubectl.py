"""What CDK's kubectl provider applies in a cluster: charts and manifests are kept, and nothing runs.

The functions of the provider would need Helm, kubectl and a Kubernetes API. Whether the call would get through is
looked at: the network of the function that runs them, and the access entry of its role.

Sources: aws-cdk-lib 2.275, aws_eks_v2: KubectlProvider, HelmChart, KubernetesManifest; Amazon EKS user guide
(awsdocs/amazon-eks-user-guide @ 4d52b4d), "Troubleshoot problems with Amazon EKS clusters and nodes" (wording of a
refusal), "Grant IAM users access to Kubernetes with EKS access entries", read 2026-11-22.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .faults import Fault, refuse
from .models.evictions import outages
from .node_groups import reaches
from .world import Json, Resource, Type, World

#: The resources, each with its property in JSON.
APPLIED: dict[str, str] = {
    "Custom::AWSCDK-EKS-HelmChart": "Values",
    "Custom::AWSCDK-EKS-KubernetesResource": "Manifest",
}
_FUNCTION = "AWS::Lambda::Function"


def kubectl_handler(type_name: str, here: Callable[[], World]) -> dict[str, Any]:
    """The handler of a resource that the kubectl provider applies, which is one of `APPLIED`."""

    def keep(physical_id: str, logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        world = here()
        refuse(f"{type_name} {logical_id}", _faults(type_name, given, world))
        made = Resource(type=type_name, physical_id=physical_id, region=world.region, properties=given)
        made.logical_id, made.stack_name = logical_id, stack_name
        world.add(made)
        return physical_id, {}

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        made = here().new_id("", f"{stack_name}/{logical_id}/applied", 36)
        return keep(made, logical_id, given, stack_name)

    def update(
        physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
    ) -> tuple[str, Json]:
        kept = keep(physical_id, logical_id or physical_id, new, stack_name)
        for kind, name in outages(_objects(old), _objects(new)):
            here().outages.append({"kind": kind, "name": name, "cluster": new["ClusterName"]})
        return kept

    def delete(physical_id: str, given: Json) -> None:
        world = here()
        refuse(f"{type_name} {physical_id}", _access_faults(given, world))
        world.remove(type_name, physical_id)

    return {"create": create, "update": update, "update_with_logical_id": True, "delete": delete}


def _faults(type_name: str, given: Json, world: World) -> Iterator[Fault]:
    yield from _access_faults(given, world)
    name = APPLIED[type_name]
    try:
        found = json.loads(given.get(name, "{}"))
    except json.JSONDecodeError as error:
        yield Fault("kubectl-json", f"{name} is not JSON: {error}", name)
        return
    if name == "Manifest":
        yield from _manifest_faults(found)


def _objects(given: Json) -> list[Json]:
    found = json.loads(given.get("Manifest", "[]"))
    return found if isinstance(found, list) else [found]


def _manifest_faults(found: Any) -> Iterator[Fault]:
    for position, one in enumerate(found if isinstance(found, list) else [found]):
        missing = [key for key in ("apiVersion", "kind") if not one.get(key)]
        missing += [] if one.get("metadata", {}).get("name") else ["metadata.name"]
        if missing:
            message = f"object {position} has no {', no '.join(missing)}"
            yield Fault("kubectl-manifest", message, "Manifest")


def _access_faults(given: Json, world: World) -> Iterator[Fault]:
    cluster = world.cluster(given["ClusterName"])
    if cluster is None:
        message = f"No cluster found for name: {given['ClusterName']}."
        yield Fault("cluster-missing", message, "ClusterName")
        return
    runner = _runner(given["ServiceToken"], world)
    if runner is None:
        return
    groups = runner.properties.get("VpcConfig", {}).get("SecurityGroupIds", [])
    is_public = cluster.properties["ResourcesVpcConfig"].get("EndpointPublicAccess", True)
    if not is_public and not reaches(set(groups), cluster, world):
        message = f"the function {runner.physical_id} does not reach the private endpoint of {cluster.physical_id}"
        yield Fault("kubectl-network", message, "ServiceToken")
    role = runner.properties["Role"]
    entries = [
        one
        for one in world.of_type(Type.ACCESS_ENTRY)
        if (one.properties["ClusterName"], one.properties["PrincipalArn"]) == (cluster.physical_id, role)
    ]
    if not entries and cluster.answered_by != "seed":
        message = f"You must be logged in to the server (Unauthorized): {role} has no access entry"
        yield Fault("kubectl-access", message, "ServiceToken")


def _runner(token: str, world: World) -> Resource | None:
    """The function that runs kubectl: the one that the framework's function calls."""
    functions = {one.attributes.get("Arn"): one for one in world.of_type(_FUNCTION)}
    framework = functions.get(token)
    if framework is None:
        return None
    variables = framework.properties.get("Environment", {}).get("Variables", {})
    return functions.get(variables.get("USER_ON_EVENT_FUNCTION_ARN"))
