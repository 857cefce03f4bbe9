"""`image` of a fleet: the Amazon Machine Image, in one of three forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, Discriminator, Field, StringConstraints, Tag

from ._base import SpecModel, form_of

ImageId = Annotated[str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")]
ParameterName = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_./-]+$", max_length=1011)]
OperatingSystem = Literal["al2023", "ubuntu-24.04", "ubuntu-22.04"]


#: What an image of the user's own runs.
RunningSystem = Annotated[
    OperatingSystem,
    Field(description="Operating system of the image. It decides the name of the root device."),
]


class ImageById(SpecModel):
    """One image, by id. It never moves."""

    id: ImageId = Field(description="Id of the image.", examples=["ami-0123456789abcdef0"])
    os: RunningSystem = "al2023"


class ImageByParameter(SpecModel):
    """The image that an SSM parameter names when the stack is deployed."""

    parameter: ParameterName = Field(
        description="Name of an SSM parameter that holds an image id.", examples=["/images/training/latest"]
    )
    os: RunningSystem = "al2023"


class ImageByOs(SpecModel):
    """An AWS Deep Learning AMI for the fleet's accelerator and architecture."""

    os: OperatingSystem = Field(description="Operating system of the image.")
    pinned: bool = Field(
        default=False,
        description="True: the image is looked up once and kept in cdk.context.json. "
        "False: the newest image is taken at each deploy; running nodes are not replaced.",
    )


#: Leading key of a form -> the tag under which pydantic reports its faults.
IMAGE_FORMS = {"id": "<image id>", "parameter": "<image parameter>", "os": "<image os>"}


def _form(value: object) -> str | None:
    """The form by its leading key; `os` leads only where no other does."""
    others = {key: tag for key, tag in IMAGE_FORMS.items() if key != "os"}
    keys = type(value).model_fields if isinstance(value, BaseModel) else value
    leads = isinstance(keys, Mapping) and any(key in keys for key in others)
    return form_of(value, others if leads else IMAGE_FORMS)


ImageSpec = Annotated[
    Annotated[ImageById, Tag("<image id>")]
    | Annotated[ImageByParameter, Tag("<image parameter>")]
    | Annotated[ImageByOs, Tag("<image os>")],
    Discriminator(_form),
]
