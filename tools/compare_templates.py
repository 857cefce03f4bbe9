"""Compare the templates of every example with those of another checkout, whatever the logical ids are.

    python tools/compare_templates.py OTHER_CHECKOUT                all examples; status 1 if a template differs
    python tools/compare_templates.py OTHER_CHECKOUT p5-lustre.yaml

Both checkouts synthesize the same cluster files in this environment, so that only the library differs. Before the
comparison each logical id becomes a digest of what the resource is and refers to. Left out are metadata, hashes of
assets, and the packed files of the node software: they differ with every edit of a comment.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
SOURCE_ROOTS = ("constructs", "emulator", "stacks")
ROUNDS = 6  # how far a difference of one resource reaches those that refer to it
BUILD_ALL = """
import sys
from pathlib import Path
import aws_cdk
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
app = aws_cdk.App(analytics_reporting=False)
for file in sys.argv[1:]:
    build_cluster(app, load_cluster(Path(file)))
app.synth()
"""
HASH = re.compile(r"[0-9a-f]{64}")
PACKED = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}(?:\n[A-Za-z0-9+/]+={0,2})*")
SECTIONS = ("Resources", "Parameters", "Outputs")

Template = dict[str, Any]


def main() -> int:
    """Print what differs; the exit status is 1 if anything does."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("other", type=Path, help="a checkout of another commit")
    options.add_argument("examples", nargs="*", help="names of files in examples/; all if left out")
    given = options.parse_args()
    files = [REPOSITORY / "examples" / name for name in given.examples]
    files = files or sorted((REPOSITORY / "examples").glob("*.yaml"))
    before, after = (normalized(synthesize(root, files)) for root in (given.other.resolve(), REPOSITORY))
    lines = list(differences(before, after))
    print("\n".join(lines))
    entries = sum(len(template) for template in after.values())
    print(f"{len(after)} templates, {entries} entries, {len(lines)} lines of differences")
    return 1 if lines else 0


def synthesize(root: Path, files: list[Path]) -> dict[str, Template]:
    """The templates that a checkout makes of cluster files, by stack."""
    context = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", BUILD_ALL, *map(str, files)],
            cwd=root,
            env={
                **os.environ,
                "CDK_VALIDATION": "false",
                "CDK_OUTDIR": folder,
                "CDK_CONTEXT_JSON": json.dumps(context),
                "PYTHONPATH": os.pathsep.join(str(root / name) for name in SOURCE_ROOTS),
            },
            check=True,
            stderr=subprocess.DEVNULL,  # advice about the examples
        )
        return {
            path.name.removesuffix(".template.json"): json.loads(path.read_text())
            for path in sorted(Path(folder).rglob("*.template.json"))
        }


def normalized(templates: Mapping[str, Template]) -> dict[str, list[str]]:
    """Each template as the texts of its entries, with digests in place of logical ids."""
    entries = {
        (stack, name): f"{section} {json.dumps(_plain(entry), sort_keys=True)}"
        for stack, template in templates.items()
        for section in SECTIONS
        for name, entry in template.get(section, {}).items()
    }
    kinds = {key: _kind(text) for key, text in entries.items()}
    digests = dict(kinds)
    known = re.compile("|".join(sorted({re.escape(name) for _, name in entries}, key=len, reverse=True)))
    for _ in range(ROUNDS):
        texts = {key: _with_digests(key[0], text, known, digests) for key, text in entries.items()}
        digests = {
            key: f"<{kinds[key]} {hashlib.sha256(text.encode()).hexdigest()[:12]}>" for key, text in texts.items()
        }
    found: dict[str, list[str]] = {stack: [] for stack in templates}
    for (stack, _), text in texts.items():
        found[stack].append(text)
    return found


def _kind(text: str) -> str:
    section, _, entry = text.partition(" ")
    return str(json.loads(entry).get("Type", section))


def _with_digests(stack: str, text: str, known: re.Pattern[str], digests: Mapping[tuple[str, str], str]) -> str:
    """A text with a digest for each logical id: of its own stack, else of the one that another stack exports."""
    others = {name: digest for (_, name), digest in digests.items()}
    return known.sub(lambda found: digests.get((stack, found[0]), others[found[0]]), text)


def _plain(value: Any) -> Any:
    """A value of a template without what differs from commit to commit."""
    if isinstance(value, dict):
        return {
            key: sorted(each) if key == "DependsOn" and isinstance(each, list) else _plain(each)
            for key, each in value.items()
            if key != "Metadata"
        }
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return PACKED.sub("<packed>", HASH.sub("<hash>", value))
    return value


def differences(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    """What was taken away and added, stack by stack."""
    for stack in sorted(before.keys() | after.keys()):
        old, new = Counter(before.get(stack, [])), Counter(after.get(stack, []))
        gone, came = sorted((old - new).elements()), sorted((new - old).elements())
        if gone or came:
            yield f"== {stack}: {len(gone)} entries differ or are gone, {len(came)} differ or are new"
            yield from difflib.unified_diff(_lines(gone), _lines(came), "before", "after", n=1, lineterm="")


def _lines(texts: list[str]) -> list[str]:
    """Entries as indented JSON; digests that follow from another difference are not shown."""
    found: list[str] = []
    for text in texts:
        section, _, entry = text.partition(" ")
        shown = json.dumps(json.loads(entry), indent=1)
        found += [section, *re.sub(r"<([\w:]*) [0-9a-f]{12}>", r"<\1>", shown).splitlines()]
    return found


if __name__ == "__main__":
    raise SystemExit(main())
