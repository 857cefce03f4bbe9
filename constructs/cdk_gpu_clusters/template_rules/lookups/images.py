"""Machine images that launches name by a public parameter of Systems Manager."""

from __future__ import annotations

import re

from cdk_gpu_clusters.catalogue.images import ImageParameter, image_parameters
from cdk_gpu_clusters.template_rules.lookups.launches import Launch
from cdk_gpu_clusters.template_rules.resolve import Unknown

_READ_AT_LAUNCH = re.compile(r"(?:\{\{)?resolve:ssm:([^:}]+)")
_VERSION = re.escape("{kubernetes_version}")


def image_parameter_of(launch: Launch) -> str | None:
    """The name of the parameter that a launch gets its image id from; None if it gets it in another way."""
    image = launch.data.get("ImageId")
    if found := _READ_AT_LAUNCH.match(image.shown()):
        return found[1]
    part = image.parts[0] if len(image.parts) == 1 else None
    if not isinstance(part, Unknown) or part.template is None:
        return None
    parameter = part.template.parameters.get(part.parameter)
    if not isinstance(parameter, dict) or not str(parameter.get("Type")).startswith(
        "AWS::SSM::Parameter::Value"
    ):
        return None
    default = parameter.get("Default")
    return default if isinstance(default, str) else None


def image_of(launch: Launch) -> ImageParameter | None:
    """What the catalogue knows of the image of a launch; None if it names none.

    Raises:
        Undecidable: If the image is named by its id, or by a parameter that the catalogue does not know.
    """
    image = launch.data.get("ImageId")
    if not image.exists:
        return None
    name = image_parameter_of(launch)
    if name is None:
        raise image.undecidable("what an image holds is not known by its id")
    for row in image_parameters():
        if re.fullmatch(re.escape(row.parameter).replace(_VERSION, r"1\.\d+"), name):
            return row
    raise image.undecidable(f"the catalogue has no image parameter {name!r}")
