"""What the pods of a job claim of DRA drivers: EFA interfaces, and a channel of the job's ComputeDomain.

Sources: Amazon EKS user guide, "Manage EFA devices on Amazon EKS" @ 43d79bd; kubernetes-sigs/kueue v0.19.2, docs,
"Dynamic Resource Allocation" (read 2026-11-27).
"""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.kubernetes.compute_domain import channel_claim, compute_domain
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_CLAIM, EFA_CLASS, PodClaim
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, kubernetes_object
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaims:
    """What the pods of a job claim, and the objects to which the claims refer.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> claims = DeviceClaims(name="llama", pool=pool, namespace="default", efa=EfaSoftware.DRA_DRIVER)
        >>> [one.template for one in claims.of_pod], [one["kind"] for one in claims.objects]
        (['llama-efa'], ['ResourceClaimTemplate'])

    Attributes:
        name: Name of the job.
        pool: Group of its nodes.
        namespace: Its namespace.
        efa: What gives its pods EFA interfaces; by the device plugin they claim none.
        has_domain: Whether it has a ComputeDomain.
    """

    name: str
    pool: NodePool
    namespace: str
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN
    has_domain: bool = False

    @property
    def of_pod(self) -> list[PodClaim]:
        """The claims of each pod."""
        channel = [channel_claim(self.name)] if self.has_domain else []
        return [*channel, PodClaim(name=EFA_CLAIM, template=self._efa_template)] if self._claims_efa else channel

    @property
    def objects(self) -> list[KubernetesObject]:
        """The ComputeDomain and the ResourceClaimTemplate, to be made before the job."""
        domain = [compute_domain(self.name, namespace=self.namespace)] if self.has_domain else []
        return [*domain, self._template()] if self._claims_efa else domain

    @property
    def _claims_efa(self) -> bool:
        return self.efa is EfaSoftware.DRA_DRIVER and self.pool.efa_count > 0

    @property
    def _efa_template(self) -> str:
        return f"{self.name}-efa"

    def _template(self) -> KubernetesObject:
        """A claim on all EFA interfaces of a node.

        It states their number: Kueue admits no claim on all devices of a class (kubernetes-sigs/kueue v0.19.2, docs,
        "Dynamic Resource Allocation", limitations).
        """
        exactly = {"deviceClassName": EFA_CLASS, "allocationMode": "ExactCount", "count": self.pool.efa_count}
        devices = {"requests": [{"name": EFA_CLAIM, "exactly": exactly}]}
        return kubernetes_object(
            "resource.k8s.io/v1",
            "ResourceClaimTemplate",
            self._efa_template,
            {"spec": {"devices": devices}},
            namespace=self.namespace,
        )
