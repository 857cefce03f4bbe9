"""Examples under another orchestrator, and otherwise the same."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
#: Name of an example -> its text.
TEXTS = {path.stem: path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))}

#: What the names of examples begin with that are not for plain EC2.
OF_OTHERS = ("batch-", "eks-", "hyperpod-", "parallelcluster-", "pcs-")


def training_examples() -> list[str]:
    """Names of the examples that serve no models; only SageMaker launches nodes from a training plan."""
    return [name for name, text in TEXTS.items() if not re.search(r"(?m)^inference:|training_plan:", text)]


def own(text: str) -> str:
    """The orchestrator of a file."""
    found = re.search(r"(?m)^orchestrator: ([\w-]+)", text)
    return found[1] if found else "ec2"


def on(orchestrator: str, text: str) -> str:
    """A file with one word changed, the orchestrator."""
    if "\norchestrator:" in text:
        return re.sub(r"(?m)^orchestrator: [\w-]+", f"orchestrator: {orchestrator}", text)
    return text.replace("\nregion:", f"\norchestrator: {orchestrator}\nregion:", 1)
