"""Examples under another orchestrator, and otherwise the same."""

from __future__ import annotations

import re
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

#: What the names of examples begin with that are not for plain EC2.
OF_OTHERS = ("batch-", "eks-", "hyperpod-", "parallelcluster-", "pcs-")


def training_examples() -> list[str]:
    """Names of the examples that serve no models; only SageMaker launches nodes from a training plan."""
    texts = {path.stem: path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.yaml"))}
    return [name for name, text in texts.items() if not re.search(r"(?m)^inference:|training_plan:", text)]


def on(orchestrator: str, text: str) -> str:
    """A file with another orchestrator."""
    if "\norchestrator:" in text:
        return re.sub(r"(?m)^orchestrator: [\w-]+", f"orchestrator: {orchestrator}", text)
    return text.replace("\nregion:", f"\norchestrator: {orchestrator}\nregion:", 1)
