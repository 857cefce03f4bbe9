"""`gpu-clusters pin-image`: look up the image behind a Systems Manager parameter once, and write it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cdk_gpu_clusters.rules.images import image_context_key

from . import output
from .group import new_app

CONTEXT_FILE = Path("cdk.context.json")

app = new_app()


def pin_image(parameter: str, *, region: str, context_file: Path = CONTEXT_FILE) -> str:
    """Read the parameter in an account and write the image id into a context file.

    Args:
        parameter: Name of the parameter.
        region: Region to read it in.
        context_file: File to write; made if it does not exist, and otherwise only the one key is changed.

    Returns:
        The image id.
    """
    import boto3  # only the live command needs it, and only users of it have it

    answer = boto3.client("ssm", region_name=region).get_parameter(Name=parameter)
    image_id = str(answer["Parameter"]["Value"])
    context = json.loads(context_file.read_text()) if context_file.exists() else {}
    context[image_context_key(region, parameter)] = image_id
    context_file.write_text(json.dumps(context, indent=2, sort_keys=True) + "\n")
    return image_id


@app.command(
    epilog="Example: gpu-clusters pin-image --region us-east-1 "
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
)
def run(
    parameter: Annotated[str, typer.Argument(help="Name of the Systems Manager parameter.")],
    region: Annotated[str, typer.Option("--region", help="Region of the stack, such as us-east-1.")],
) -> None:
    """Look up the image behind a Systems Manager parameter once, and write it into cdk.context.json."""
    try:
        image_id = pin_image(parameter, region=region)
    except Exception as error:  # noqa: BLE001 - whatever the account answers is for the user to read
        output.stop(f"gpu-clusters pin-image: cannot read {parameter} in {region}: {error}")
    output.write(f"{CONTEXT_FILE}: {parameter} in {region} is pinned to {image_id}\n")
