"""`image` of a fleet: the Amazon Machine Image, in one of three forms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from ._base import SpecModel, form_of

ImageId = Annotated[str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")]
ParameterName = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_./-]+$", max_length=1011)]
OperatingSystem = Literal["al2023", "ubuntu-24.04", "ubuntu-22.04"]


class ImageById(SpecModel):
    """One image, by id. It never moves."""

    id: ImageId = Field(description="Id of the image.", examples=["ami-0123456789abcdef0"])


class ImageByParameter(SpecModel):
    """The image that an SSM parameter names when the stack is deployed."""

    parameter: ParameterName = Field(
        description="Name of an SSM parameter that holds an image id.", examples=["/images/training/latest"]
    )


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
    return form_of(value, IMAGE_FORMS)


ImageSpec = Annotated[
    Annotated[ImageById, Tag("<image id>")]
    | Annotated[ImageByParameter, Tag("<image parameter>")]
    | Annotated[ImageByOs, Tag("<image os>")],
    Discriminator(_form),
]
