"""What a deployment could give to a configuration, and what the function of AWS's custom resource gets of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: End of the name of an output -> what a deployment could give it.
_VALUES = {
    "SubnetId": "subnet-0123456789abcdef0",
    "GroupId": "sg-0123456789abcdef0",
    "FileSystemId": "fs-0123456789abcdef0",
    "VolumeId": "fsvol-0123456789abcdef0",
    "ReservationId": "cr-0123456789abcdef0",
    "BucketName": "a-bucket",
    "Url": "s3://assets/script.sh",
    "Arn": "arn:aws:iam::111122223333:policy/a",
}


def outputs_of(templates: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What a deployment could give the outputs of the templates, and no others.

    Args:
        templates: Templates by stack.
    """
    return {
        stack: {
            name: next((value for end, value in _VALUES.items() if name.endswith(end)), "a-name")
            for name in template.get("Outputs", {})
        }
        for stack, template in templates.items()
    }


def as_texts(value: object) -> Any:
    """A property as a custom resource gets it: CloudFormation passes numbers and truth values as texts."""
    if isinstance(value, dict):
        return {key: as_texts(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_texts(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def deployed(value: Any, ids: Mapping[str, str], outputs: Mapping[str, Mapping[str, str]]) -> Any:
    """A property with what only a deployment knows.

    Args:
        value: The property.
        ids: Ids of the template's resources by logical id.
        outputs: Outputs of other stacks.
    """
    if isinstance(value, list):
        return [deployed(one, ids, outputs) for one in value]
    match value:
        case {"Fn::GetStackOutput": {"StackName": stack, "OutputName": name}}:
            return outputs[stack][name]
        case {"Fn::Join": [separator, parts]}:
            return separator.join(deployed(parts, ids, outputs))
        case {"Fn::Sub": text}:
            return text.replace("${AWS::AccountId}", "111122223333")
        case {"Ref": name} | {"Fn::GetAtt": [name, _]}:
            return ids[name]
        case {**properties}:
            return {key: deployed(one, ids, outputs) for key, one in properties.items()}
    return value
