"""A `kubectl` for the few things that a node asks of it, on a file of nodes; the real one is met by booted nodes.

The file holds `nodes` and `pods`, as `kubectl get ... --output=json` has them, and `refused`: part of a command line -> what the
API server says to it. The identity is that of the first node's kubelet. Every command line is added to `asked`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = """#!{python} -ES
import sys
sys.path.insert(0, {folder!r})
import kubectl
sys.exit(kubectl.main({state!r}, sys.argv[1:]))
"""


def main(state: str, arguments: list[str]) -> int:
    cluster = json.loads(Path(state).read_text())
    arguments = [word for word in arguments if not word.startswith(("--kubeconfig=", "--request-timeout="))]
    line = " ".join(arguments)
    cluster["asked"].append(line)
    status = 0
    for part, said in cluster["refused"].items():
        if part in line:
            sys.stderr.write(f"Error from server: {said}\n")
            status = 1
            break
    else:
        if arguments[:2] in (["get", "pods"], ["patch", "pod"], ["delete", "pod"]):
            _of_pods(cluster["pods"], arguments)
        else:
            COMMANDS[arguments[0]](cluster["nodes"], arguments[1:])
    Path(state).write_text(json.dumps(cluster))
    return status


def _get(nodes: list[Any], arguments: list[str]) -> None:
    if arguments[0] == "node":
        json.dump(_named(nodes, arguments[1]), sys.stdout)
        return
    wanted = dict(pair.split("=", 1) for word in arguments if word.startswith("--selector=") for pair in [word[11:]])
    found = [node for node in nodes if wanted.items() <= node["metadata"].get("labels", {}).items()]
    json.dump({"apiVersion": "v1", "kind": "List", "items": found}, sys.stdout)


def _of_pods(pods: list[Any], arguments: list[str]) -> None:
    if arguments[0] == "get":
        [node] = [word.rpartition("=")[2] for word in arguments if word.startswith("--field-selector=")]
        found = [pod for pod in pods if pod["spec"]["nodeName"] == node]
        json.dump({"apiVersion": "v1", "kind": "List", "items": found}, sys.stdout)
        return
    [namespace] = [word.partition("=")[2] for word in arguments if word.startswith("--namespace=")]
    named = [(namespace, word) for word in arguments[2:] if not word.startswith("--")]
    if arguments[0] == "patch":
        assert "--subresource=status" in arguments
        [patch] = [json.loads(word[8:]) for word in arguments if word.startswith("--patch=")]
        for pod in pods:
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) in named:
                pod["status"].setdefault("conditions", []).extend(patch["status"]["conditions"])
        return
    pods[:] = [pod for pod in pods if (pod["metadata"]["namespace"], pod["metadata"]["name"]) not in named]


def _patch(nodes: list[Any], arguments: list[str]) -> None:
    [patch] = [json.loads(word[8:]) for word in arguments if word.startswith("--patch=")]
    assert "--subresource=status" in arguments
    conditions = _named(nodes, arguments[1])["status"]["conditions"]
    for condition in patch["status"]["conditions"]:
        conditions[:] = [old for old in conditions if old["type"] != condition["type"]] + [condition]


def _taint(nodes: list[Any], arguments: list[str]) -> None:
    if arguments[2].endswith("-"):
        spec = _named(nodes, arguments[1])["spec"]
        spec["taints"] = [old for old in spec["taints"] if old["key"] != arguments[2][:-1]]
        return
    key, _, rest = arguments[2].partition("=")
    value, _, effect = rest.partition(":")
    taints = _named(nodes, arguments[1])["spec"].setdefault("taints", [])
    taints[:] = [old for old in taints if old["key"] != key] + [{"key": key, "value": value, "effect": effect}]


def _label(nodes: list[Any], arguments: list[str]) -> None:
    assert arguments[0] == "node"
    key, _, value = arguments[2].partition("=")
    _named(nodes, arguments[1])["metadata"].setdefault("labels", {})[key] = value


def _uncordon(nodes: list[Any], arguments: list[str]) -> None:
    _named(nodes, arguments[0])["spec"].pop("unschedulable", None)


def _cordon(nodes: list[Any], arguments: list[str]) -> None:
    _named(nodes, arguments[0])["spec"]["unschedulable"] = True


def _who_am_i(nodes: list[Any], arguments: list[str]) -> None:
    assert arguments[0] == "whoami"
    json.dump({"status": {"userInfo": {"username": f"system:node:{nodes[0]['metadata']['name']}"}}}, sys.stdout)


def _named(nodes: list[Any], name: str) -> Any:
    return next(node for node in nodes if node["metadata"]["name"] == name)


COMMANDS = {
    "get": _get,
    "patch": _patch,
    "taint": _taint,
    "label": _label,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "auth": _who_am_i,
}


def install(tools: Path, state: Path, nodes: list[dict[str, Any]]) -> None:
    """Put the program on a PATH.

    Args:
        tools: The folder.
        state: The file of nodes.
        nodes: What it holds.
    """
    state.write_text(json.dumps({"nodes": nodes, "pods": [], "refused": {}, "asked": []}))
    program = tools / "kubectl"
    folder = str(Path(__file__).parent)
    program.write_text(PROGRAM.format(python=sys.executable, folder=folder, state=str(state)))
    program.chmod(0o755)
