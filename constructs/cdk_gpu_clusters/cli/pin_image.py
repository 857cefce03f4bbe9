"""Look up the image behind a Systems Manager parameter once, and write it into `cdk.context.json`.

python -m cdk_gpu_clusters.cli.pin_image --region us-east-1 /aws/service/deeplearning/ami/…/latest/ami-id
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cdk_gpu_clusters.rules.image_pin import image_context_key

CONTEXT_FILE = Path("cdk.context.json")


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


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 if the image was written, 1 with a line on standard error otherwise."""
    parser = argparse.ArgumentParser(prog="pin_image", description=__doc__.split("\n\n")[0])
    parser.add_argument("--region", required=True, help="Region of the stack, such as us-east-1")
    parser.add_argument("parameter", help="name of the Systems Manager parameter")
    given = parser.parse_args(arguments)
    try:
        image_id = pin_image(given.parameter, region=given.region)
    except Exception as error:  # noqa: BLE001 - whatever the account answers is for the user to read
        print(f"pin_image: cannot read {given.parameter} in {given.region}: {error}", file=sys.stderr)
        return 1
    print(f"{CONTEXT_FILE}: {given.parameter} in {given.region} is pinned to {image_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
