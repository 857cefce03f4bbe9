#!/usr/bin/python3
"""`nodeadm init` as far as it reads a NodeConfig, sets up local disks, and starts containerd and kubelet.

A model, written from awslabs/amazon-eks-ami @ 81fec2e (read 2026-11-22), below nodeadm/: internal/configprovider (parts
of user data in their order, then the files of /etc/eks/nodeadm.d in that of their names), internal/api/merge.go and
validation.go, internal/cli/config.go (what the phases share), internal/kubelet/{config,environment,kubeconfig}.go,
internal/system/{local_disk,marker}.go, cmd/nodeadm/init/init.go. Left out: TLS settings of kubelet, containerd's
configuration, IPv6, Outposts, and the names that EC2 knows instances by.

Run as a program it is the image's nodeadm; tests import its rules.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from typing import Any

import yaml

MEDIA_TYPE = "application/node.eks.aws"
_IMDS = "169.254.169.254"
# defaultMaxENIs and ipv4AddressesPerInterface of nodeadm/internal/kubelet/instance-info.jsonl.
_INTERFACES = {
    "g6.xlarge": (4, 15),
    "p4d.24xlarge": (15, 50),
    "p4de.24xlarge": (15, 50),
    "p5.4xlarge": (4, 30),
    "p5.48xlarge": (2, 50),
}
_CONFIG = "/etc/kubernetes/kubelet/config.json"
_DROP_INS = "/etc/kubernetes/kubelet/config.json.d"
_KUBECONFIG = "/var/lib/kubelet/kubeconfig"
_CERTIFICATE = "/etc/kubernetes/pki/ca.crt"

Json = dict[str, Any]


class Fault(Exception):
    """Why nodeadm exits."""


def node_configs(user_data: str) -> list[Json]:
    """The NodeConfig objects of user data: each part of their type, or the whole text if it is no multi-part document."""
    message = message_from_string(user_data)
    if not message.is_multipart():
        return [_decoded(user_data)]
    parts = [part for part in message.walk() if part.get_content_type() == MEDIA_TYPE]
    return [_decoded(str(part.get_payload())) for part in parts]


def merged(configs: list[Json]) -> Json:
    """One NodeConfig out of several: a later one overrides an earlier one, but never with nothing.

    kubelet's flags are added to those before, kubelet's configuration is merged field by field, other lists are
    replaced.
    """
    if not configs:
        raise Fault("no config in chain")
    result: Json = {}
    for config in configs:
        _merge(result, config, path=())
    return result


def check(config: Json) -> None:
    """Refuse a NodeConfig that does not say which cluster the node joins."""
    cluster = config.get("spec", {}).get("cluster", {})
    for name in ("name", "apiServerEndpoint", "certificateAuthority", "cidr"):
        if not cluster.get(name):
            raise Fault(f"{name} is missing in cluster configuration")


def most_pods(instance_type: str) -> int:
    """As many pods as the interfaces of a type have addresses for."""
    interfaces, addresses = _INTERFACES[instance_type]
    return interfaces * (addresses - 1) + 2


def kubelet_files(config: Json, *, instance_type: str, node_name: str, provider_id: str) -> dict[str, str]:
    """What kubelet is started with, by path."""
    cluster, kubelet = config["spec"]["cluster"], config["spec"].get("kubelet", {})
    own = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "maxPods": most_pods(instance_type),
        "providerID": provider_id,
    }
    flags = [
        f"--config={_CONFIG}",
        "--cloud-provider=external",
        f"--hostname-override={node_name}",
        f"--kubeconfig={_KUBECONFIG}",
    ]
    files = {_CONFIG: json.dumps(own)}
    if kubelet.get("config"):
        flags.append(f"--config-dir={_DROP_INS}")
        given = {name: own[name] for name in ("kind", "apiVersion")} | kubelet["config"]
        files[f"{_DROP_INS}/40-nodeadm.conf"] = json.dumps(given)
    # The real one asks `aws eks get-token` for a token.
    user = {"name": "kubelet", "user": {"token": f"system:node:{node_name}"}}
    place = {"server": cluster["apiServerEndpoint"], "certificate-authority": _CERTIFICATE}
    files[_KUBECONFIG] = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubernetes", "cluster": place}],
            "users": [user],
            "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
            "current-context": "kubelet",
        }
    )
    files[_CERTIFICATE] = base64.b64decode(cluster["certificateAuthority"]).decode()
    # Flags of the NodeConfig come last, so that they win.
    arguments = " ".join([*flags, *kubelet.get("flags", [])])
    files["/etc/eks/kubelet/environment"] = f"NODEADM_KUBELET_ARGS={arguments}\n"
    return files


def disk_arguments(config: Json) -> list[str]:
    """Arguments of `setup-local-disks`; none if local disks are left alone."""
    storage = config["spec"].get("instance", {}).get("localStorage", {})
    if not storage.get("strategy"):
        return []
    directory = ["--dir", storage["mountPath"]] if storage.get("mountPath") else []
    names = {"Containerd": "containerd", "PodLogs": "pods-logs", "SOCI": "soci"}
    unbound = [f"--no-bind-{names[one]}" for one in storage.get("disabledMounts", [])]
    return [storage["strategy"].lower(), *directory, *unbound]


def _decoded(text: str) -> Json:
    config = yaml.safe_load(text)
    if (config.get("kind"), config.get("apiVersion")) != ("NodeConfig", "node.eks.aws/v1alpha1"):
        raise Fault(f"failed to decode node config: {config.get('kind')} {config.get('apiVersion')}")
    return dict(config)


def _merge(target: Json, source: Json, path: tuple[str, ...]) -> None:
    for name, value in source.items():
        place = (*path, name)
        if isinstance(value, dict):
            _merge(target.setdefault(name, {}), value, place)
        elif place == ("spec", "kubelet", "flags"):
            target[name] = [*target.get(name, []), *value]
        elif value:
            target[name] = value


class Instance:
    """This instance, as its metadata say it."""

    def __init__(self) -> None:
        self._token = ""
        self._token = self._ask("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})

    def __getitem__(self, path: str) -> str:
        return self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _ask(self, verb: str, path: str, headers: dict[str, str]) -> str:
        connection = http.client.HTTPConnection(_IMDS, timeout=10)
        connection.request(verb, f"/latest/{path}", headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.HTTPStatus.OK:
            raise Fault(f"{path}: {answer.status}")
        return text


def main() -> None:
    """Run the phases that are not skipped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["init"])
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--config-source", action="append", default=[])
    parser.add_argument("--config-cache", type=Path)
    options = parser.parse_args()
    instance = Instance()
    config = merged([one for source in options.config_source for one in _provided(source, instance)])
    check(config)
    cached = json.loads(options.config_cache.read_text()) if options.config_cache.exists() else None
    if "config" not in options.skip or cached != config:
        _configure(config, instance, options.config_cache)
    if "run" not in options.skip:
        _run(config)


def _provided(source: str, instance: Instance) -> list[Json]:
    if source == "imds://user-data":
        return [merged(node_configs(instance["user-data"]))]
    folder = Path(source.removeprefix("file://"))
    files = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml", ".json"))
    return [one for file in files for one in node_configs(file.read_text())]


def _configure(config: Json, instance: Instance, cache: Path) -> None:
    zone, number = instance["meta-data/placement/availability-zone"], instance["meta-data/instance-id"]
    files = kubelet_files(
        config,
        instance_type=instance["meta-data/instance-type"],
        node_name=instance["meta-data/local-hostname"],
        provider_id=f"aws:///{zone}/{number}",
    )
    for path, text in {**files, str(cache): json.dumps(config)}.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def _run(config: Json) -> None:
    arguments = disk_arguments(config)
    if arguments:
        subprocess.run(["setup-local-disks", *arguments], check=True)
    for daemon in ("containerd", "kubelet"):
        subprocess.run(["systemctl", "restart", daemon], check=True)


if __name__ == "__main__":
    try:
        main()
    except Fault as reason:
        sys.exit(f"nodeadm: {reason}")
