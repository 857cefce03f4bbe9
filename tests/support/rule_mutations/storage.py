"""Faults in storage."""

from __future__ import annotations

from mutations import put
from recorded_templates import Json
from rule_mutation import RuleMutation, first

FILE_SYSTEM = "AWS::FSx::FileSystem"
CORPUS = "p5en-express-preprocessing/moe-train-data-corpus"


def dropped_with_its_stack(template: Json) -> None:
    first(template, FILE_SYSTEM)["DeletionPolicy"] = "Delete"


MUTATIONS = (
    RuleMutation(
        rule="GPU-LUS-003",
        template="p4de-base-pod/base-pod-data-corpus",
        at=FILE_SYSTEM,
        change=put("StorageCapacity", 5000),
    ),
    RuleMutation(rule="GPU-LUS-040", template=CORPUS, change_template=dropped_with_its_stack),
)
