"""Which machine image a node boots."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from cdk_gpu_clusters._cdk import region_of, resolved_or_none, stack_of
from cdk_gpu_clusters.catalogue.images import Framework, ImageParameter, OperatingSystem, root_device_name
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.images import framework_named, image_context_key, not_pinned

# Values of the parameters of each stack by name: its fleets share them.
_PARAMETERS: WeakKeyDictionary[cdk.Stack, dict[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image as a launch template needs it.

    Attributes:
        image_id: `ami-…`, or a token for it.
        moves_unasked: Whether each deployment takes the newest image by default, and not by choice.
        root_device_name: Device name of its root volume.
        operating_system: Its operating system.
    """

    image_id: str
    root_device_name: str
    operating_system: OperatingSystem
    moves_unasked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImage:
    """Which machine image a node boots; make one with a class method.

    Example:
        >>> NodeImage.latest("ubuntu-24.04").operating_system.value
        'ubuntu-24.04'
        >>> NodeImage.pinned("al2023", framework="pytorch").framework.value
        'pytorch'

    Attributes:
        operating_system: Operating system of the image; None for the first whose images serve the type.
        image_id: A fixed image, None to take one by parameter.
        parameter: A Systems Manager parameter, None for the type's recommended one.
        is_pinned: Whether the image is the one that was looked up once into `cdk.context.json`. None: that one if it
            was looked up, else the newest.
        framework: Framework that the recommended image has installed; None for the image without one.
    """

    operating_system: OperatingSystem | None = None
    image_id: str | None = None
    parameter: str | None = None
    is_pinned: bool | None = False
    framework: Framework | None = None

    @classmethod
    def recommended(cls, *, framework: str | None = None) -> NodeImage:
        """The recommended image of the instance type: as `gpu-clusters pin-image` wrote it down, else the newest.

        This is what fleets take whose image you do not choose.

        Args:
            framework: `pytorch` for AWS's Deep Learning AMI with PyTorch; the image without a framework if left out.

        Raises:
            ConfigError: If no image with the framework is known.
        """
        return cls(is_pinned=None, framework=_framework(framework))

    @classmethod
    def latest(cls, operating_system: str | None = None, *, framework: str | None = None) -> NodeImage:
        """The newest recommended image of the instance type, as a CloudFormation parameter of SSM type.

        It moves when the stack is deployed. Running nodes are replaced only if the update policy is `ROLLING`.

        Args:
            operating_system: `al2023`, `ubuntu-24.04` or `ubuntu-22.04`; the first of them that serves the type if
                left out.
            framework: `pytorch` for AWS's Deep Learning AMI with PyTorch; the image without a framework if left out.

        Raises:
            ConfigError: If no image with the framework is known.
        """
        return cls(operating_system=_system(operating_system), framework=_framework(framework))

    @classmethod
    def pinned(cls, operating_system: str | None = None, *, framework: str | None = None) -> NodeImage:
        """The recommended image as it was when `gpu-clusters pin-image` wrote it down.

        Args:
            operating_system: `al2023`, `ubuntu-24.04` or `ubuntu-22.04`; the first of them that serves the type if
                left out.
            framework: `pytorch` for AWS's Deep Learning AMI with PyTorch; the image without a framework if left out.

        Raises:
            ConfigError: If no image with the framework is known.
        """
        return cls(operating_system=_system(operating_system), framework=_framework(framework), is_pinned=True)

    @classmethod
    def from_id(cls, image_id: str, *, operating_system: str = "al2023") -> NodeImage:
        """One image that never moves.

        Args:
            image_id: `ami-…`.
            operating_system: What it runs; it decides the name of the root device.
        """
        return cls(operating_system=OperatingSystem(operating_system), image_id=image_id)

    @classmethod
    def from_parameter(cls, parameter: str, *, operating_system: str = "al2023") -> NodeImage:
        """The image whose id is in a Systems Manager parameter, read when the stack is deployed.

        Args:
            parameter: Name of the parameter, such as one that an image pipeline writes.
            operating_system: What the image runs; it decides the name of the root device.
        """
        return cls(operating_system=OperatingSystem(operating_system), parameter=parameter)

    def resolve(self, scope: Construct, row: ImageParameter | None) -> ResolvedImage:
        """The image for nodes, in a scope.

        Args:
            scope: Where it is used.
            row: The catalogue's row of it, as the fleet's plan has it; None for your own image.

        Raises:
            ConfigError: If a pinned image was never looked up.
        """
        if row is None:
            system = self.operating_system or OperatingSystem.AL2023
            image_id = self.image_id or _from_parameter(scope, str(self.parameter))
            return ResolvedImage(image_id, root_device_name(system), system)
        pinned = None if self.is_pinned is False else _looked_up(scope, row.parameter)
        if pinned is None and self.is_pinned:
            raise ConfigError([not_pinned(_known_region(scope), row.parameter)])
        image_id = pinned or _from_parameter(scope, row.parameter)
        moves = pinned is None and self.is_pinned is None
        return ResolvedImage(image_id, root_device_name(row.operating_system), row.operating_system, moves)


def _system(name: str | None) -> OperatingSystem | None:
    return None if name is None else OperatingSystem(name)


def _framework(name: str | None) -> Framework | None:
    return None if name is None else framework_named(name)


def _from_parameter(scope: Construct, parameter: str) -> str:
    stack = stack_of(scope)
    made = _PARAMETERS.setdefault(stack, {})
    if parameter not in made:
        made[parameter] = ssm.StringParameter.value_for_typed_string_parameter_v2(
            stack, parameter, ssm.ParameterValueType.AWS_EC2_IMAGE_ID
        )
    return made[parameter]


def _known_region(scope: Construct) -> str | None:
    return resolved_or_none(region_of(stack_of(scope)))


def _looked_up(scope: Construct, parameter: str) -> str | None:
    region = _known_region(scope)
    image_id = None if region is None else scope.node.try_get_context(image_context_key(region, parameter))
    return None if image_id is None else str(image_id)
