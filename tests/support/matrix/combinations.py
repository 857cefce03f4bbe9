"""The full product of the axes, and what makes two combinations the same template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from matrix.axes import EFA_WISHES, NO_WISH, POLICIES, PROFILES, PURCHASES, Image, Makes, Profile
from matrix.hardware import ULTRASERVERS, hardware_types
from matrix.scenario import Asked

ZONE = "us-east-1a"
SUBNET = "subnet-0123456789abcdef0"
#: Security group of an existing cluster of Amazon EKS, or of AWS PCS.
CLUSTER_GROUP = "sg-0c105e0123456789a"


@dataclass(frozen=True, slots=True)
class Combination:
    """One point of the product."""

    instance_type: str
    profile: Profile
    purchase: str
    policy: InterfacePolicy | None
    efa: bool | None
    image: Image

    @property
    def nodes(self) -> int:
        """A number of nodes that suits the type: an UltraServer is whole."""
        return ULTRASERVERS.get(self.instance_type, (2,))[0]

    @property
    def is_elastic(self) -> bool:
        """Whether the nodes come and go with their jobs: those of AWS PCS on Spot do here."""
        return self.profile.makes is Makes.COMPUTE_NODE_GROUP and PURCHASES[self.purchase].kind == "spot"

    @property
    def slices(self) -> str | None:
        """How each GPU is split: those of AWS PCS without EFA are here, into as many of the smallest as there are."""
        gpu = mig_gpu_of(instance_type(self.instance_type))
        if self.profile.makes is not Makes.COMPUTE_NODE_GROUP or self.efa is not False or self.is_elastic:
            return None
        if gpu is None or not gpu.profiles:
            return None
        plain = [profile for profile in gpu.profiles.values() if not profile.attributes]
        smallest = min(plain, key=lambda profile: (profile.compute_slices, profile.memory_slices))
        return ",".join([smallest.name] * smallest.max_instances)

    @property
    def asked(self) -> Asked:
        """The combination as the invariants read it."""
        return Asked(
            instance_type=self.instance_type,
            orchestrator=self.profile.orchestrator.value,
            purchase=PURCHASES[self.purchase],
            efa=self.efa,
            policy=self.policy.value if self.policy else None,
            system=self.image.system,
            image_id=self.image.image_id,
            minimum=0 if self.is_elastic else self.nodes,
            maximum=self.nodes,
            zone=ZONE,
            zones={SUBNET: ZONE},
            tags={"team": "matrix"},
            is_node_group=self.profile.makes is Makes.NODE_GROUP,
            is_compute_node_group=self.profile.makes is Makes.COMPUTE_NODE_GROUP,
            partition=self.slices,
            cluster_group=CLUSTER_GROUP,
        )

    def with_image(self, image: Image) -> Combination:
        """The same with another image."""
        return Combination(self.instance_type, self.profile, self.purchase, self.policy, self.efa, image)

    def __str__(self) -> str:
        efa = {None: "EFA by default", True: "EFA", False: "no EFA"}[self.efa]
        policy = self.policy.value if self.policy else "default layout"
        return f"{self.instance_type}, {self.profile.name}, {self.purchase}, {policy}, {efa}, {self.image.name} image"


def frames() -> Iterator[Combination]:
    """Every combination of the axes but the image, which bears on nothing but the image."""
    for profile in PROFILES:
        for name, purchase, policy, efa in product(hardware_types(), PURCHASES, POLICIES, EFA_WISHES):
            yield Combination(name, profile, purchase, policy, efa, NO_WISH)


def product_of_axes() -> Iterator[Combination]:
    """Every combination."""
    for frame in frames():
        for image in frame.profile.images:
            yield frame.with_image(image)
