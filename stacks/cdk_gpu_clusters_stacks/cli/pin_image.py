"""`gpu-clusters pin-image`: look up the image behind a Systems Manager parameter once, and write it down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cdk_gpu_clusters.rules.images import image_context_key
from cdk_gpu_clusters_stacks.aws_session import NoSession

from . import complete, files, output
from .group import examples, new_app

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
    from cdk_gpu_clusters_stacks.aws_session import open_session

    context = _context(context_file)
    answer = open_session().client("ssm", region_name=region).get_parameter(Name=parameter)
    image_id = str(answer["Parameter"]["Value"])
    context[image_context_key(region, parameter)] = image_id
    files.write_text(context_file, json.dumps(context, indent=2, sort_keys=True) + "\n")
    return image_id


def _context(file: Path) -> dict[str, Any]:
    """What a context file holds; nothing where there is none. A file that is no such file is never written over."""
    try:
        context = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as fault:
        output.refuse(f"pin-image: {file} cannot be read as JSON ({fault}); correct or move it first")
    if not isinstance(context, dict):
        output.refuse(f"pin-image: {file} holds no JSON object; correct or move it first")
    return context


@app.command(
    epilog=examples(
        "gpu-clusters pin-image cluster.yaml",
        "gpu-clusters pin-image --region us-east-1 /aws/service/deeplearning/ami/x86_64/"
        "base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id",
    )
)
def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER_FILE | PARAMETER",
            help="Cluster file, to pin every image that it leaves to the library, or a Systems Manager parameter.",
        ),
    ],
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            help="Region of the parameter, such as us-east-1; a file has its own.",
            autocompletion=complete.regions,
        ),
    ] = None,
) -> None:
    """Look up the image behind a Systems Manager parameter once, and write it into cdk.context.json."""
    if what.endswith((".yaml", ".yml")):
        found, region = _left_to_the_library(Path(what), region)
    elif region is None:
        output.refuse("a parameter is read in a Region: give --region")
    else:
        found = [what]
    for parameter in found:
        try:
            image_id = pin_image(parameter, region=region)
        except NoSession as fault:
            output.refuse(f"pin-image: {fault}")
        except typer.Exit:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the account answers is for the user to read
            output.stop(f"gpu-clusters pin-image: cannot read {parameter} in {region}: {error}")
        output.write(f"{CONTEXT_FILE}: {parameter} in {region} is pinned to {image_id}\n")


def _left_to_the_library(file: Path, region: str | None) -> tuple[list[str], str]:
    """The parameters of the images that a cluster file leaves to the library or to a pin, and its Region."""
    from cdk_gpu_clusters_stacks.plan import plan_cluster

    cluster = output.read(file)
    if region not in (None, cluster.region):
        output.refuse(f"{file} is of {cluster.region}, not of --region {region}")
    images = [fleet.image for fleet in plan_cluster(cluster).fleets if fleet.image is not None]
    found = [image.parameter for image in images if image.can_be_pinned and image.parameter is not None]
    if not found:
        output.write(f"{file}: no fleet leaves its image to the library; nothing to pin\n")
    return list(dict.fromkeys(found)), cluster.region
