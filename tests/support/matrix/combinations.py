"""The full product of the axes, and what makes two combinations the same template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from matrix.axes import EFA_WISHES, NO_WISH, POLICIES, PROFILES, PURCHASES, Image, Makes, Profile
from matrix.hardware import ULTRASERVERS, hardware_types
from matrix.scenario import Asked

ZONE = "us-east-1a"
SUBNET = "subnet-0123456789abcdef0"
#: Security group of an existing cluster of Amazon EKS.
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
            minimum=self.nodes,
            maximum=self.nodes,
            zone=ZONE,
            zones={SUBNET: ZONE},
            tags={"team": "matrix"},
            is_node_group=self.profile.makes is Makes.NODE_GROUP,
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
