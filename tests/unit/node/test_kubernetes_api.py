"""A node of EKS without kubectl: its kubelet's configuration, as nodeadm writes it, against an API over TLS."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.actions.kubernetes import Kubernetes
from cdk_gpu_clusters.node.gpunode.actions.kubernetes_api import KubeletApi
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from services.kubernetes import Kubernetes as Api
from watched_node import INSTANCE, WatchedNode

MINE, OTHER = "ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal"
KUBELET = f"system:node:{MINE}"
#: As awslabs/amazon-eks-ami @ 81fec2e writes it (nodeadm/internal/kubelet/kubeconfig.template.yaml).
CONFIG = """---
apiVersion: v1
kind: Config
clusters:
  - name: kubernetes
    cluster:
      certificate-authority: {authority}
      server: {server}
current-context: kubelet
contexts:
  - name: kubelet
    context:
      cluster: kubernetes
      user: kubelet
users:
  - name: kubelet
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: aws
        args:
          - "eks"
          - "get-token"
          - "--cluster-name"
          - "research"
          - "--region"
          - "us-east-1"
"""
AWS = """#!/bin/sh
test "$*" = "eks get-token --cluster-name research --region us-east-1" || exit 1
echo '{credential}'
"""


class Site:
    """A cluster with two nodes, and the watched one of them."""

    def __init__(self, folder: Path, api: Api) -> None:
        self.watched = WatchedNode(folder)
        self.config = folder / "kubeconfig"
        host, port = api.address
        authority = folder / "ca.crt"
        authority.write_text(api.certificate)
        self.config.write_text(CONFIG.format(authority=authority, server=f"https://{host}:{port}"))
        self.login(KUBELET)

    def login(self, user: str) -> None:
        program = self.watched.tools / "aws"
        program.write_text(AWS.format(credential=json.dumps({"status": {"token": user}})))
        program.chmod(0o755)

    def kubernetes(self) -> Kubernetes:
        return Kubernetes(self.watched.node(kubeconfig=str(self.config), log_group="nodes"))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "api").mkdir()
    with Api(tmp_path / "api") as api:
        api.add_node(MINE, INSTANCE)
        api.add_node(OTHER, "i-0aaa")
        yield api


@pytest.fixture
def site(tmp_path: Path, api: Api, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path, api)
    monkeypatch.setenv("PATH", str(site.watched.tools))
    return site


def test_a_node_without_kubectl_cordons_itself(site: Site, api: Api) -> None:
    kubernetes = site.kubernetes()
    assert (kubernetes.why_out(), kubernetes.taken_out(Severity.REPLACE)) == ("", set())
    kubernetes.take_out(Severity.REPLACE, "Xid 79")
    condition = api.condition(MINE, "GpuHealthy")
    assert (condition["status"], condition["message"]) == ("False", "Xid 79")
    assert api.condition(MINE, "Ready")["status"] == "True"
    assert (api.is_cordoned(MINE), api.is_cordoned(OTHER), api.taints(MINE)) == (True, False, [])
    assert kubernetes.why_out() == f"node {MINE} is cordoned"


def test_a_node_that_ends_ends_its_pods(site: Site, api: Api) -> None:
    api.pods = {("jobs", "worker-0"): MINE, ("jobs", "worker-1"): OTHER}
    kubernetes = site.kubernetes()
    kubernetes.keep_new_work_away("block ends")
    assert kubernetes.end_work() == f"deleted 1 pods of {MINE}"
    assert (list(api.pods), api.disrupted) == ([("jobs", "worker-1")], [("jobs", "worker-0")])
    assert api.is_cordoned(MINE)


def test_a_kubelet_may_label_its_own_node(site: Site, api: Api) -> None:
    """Labels outside of kubernetes.io and k8s.io are free (Kubernetes documentation, NodeRestriction)."""
    label = "sagemaker.amazonaws.com/node-health-status"
    cluster = KubeletApi(str(site.config))
    cluster.label(MINE, label, "UnschedulablePendingReplacement")
    assert api.nodes[MINE]["metadata"]["labels"][label] == "UnschedulablePendingReplacement"
    with pytest.raises(ActionError, match="not allowed"):
        cluster.label(OTHER, label, "UnschedulablePendingReplacement")


def test_one_token_serves_many_calls_and_an_old_one_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    kubernetes, made = site.kubernetes(), site.watched.root / "tokens"
    program = site.watched.tools / "aws"
    program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho one >>{made}\n"))
    for _ in range(3):
        assert kubernetes.why_out() == ""
    assert made.read_text() == "one\n"
    late = time.monotonic() + 14 * 60
    monkeypatch.setattr(time, "monotonic", lambda: late)
    assert kubernetes.why_out() == ""
    assert made.read_text() == "one\none\n"


def test_a_refusal_says_who_may_not_do_what(site: Site, api: Api) -> None:
    api.nodes[MINE]["spec"]["providerID"] = "aws:///us-east-1a/i-0bbb"
    with pytest.raises(ActionError, match=f"none of 1 nodes is {INSTANCE}"):
        site.kubernetes().take_out(Severity.REPLACE, "Xid 79")
    site.login(f"system:node:{OTHER}x")
    with pytest.raises(ActionError, match="not found"):
        site.kubernetes().why_out()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not what nodeadm writes"),
        (CONFIG.replace("command: aws", "command: other"), "is not what nodeadm writes"),
        (CONFIG.replace("{server}", "http://127.0.0.1"), "is not what nodeadm writes"),
        (CONFIG.format(authority="/no/such/file", server="https://127.0.0.1:9"), "No such file"),
    ],
)
def test_another_configuration_is_refused_with_what_to_do(site: Site, text: str, words: str) -> None:
    site.config.write_text(text)
    with pytest.raises(ActionError, match=words):
        site.kubernetes().why_out()


def test_a_login_that_fails_is_reported(site: Site) -> None:
    (site.watched.tools / "aws").write_text("#!/bin/sh\necho no credentials\nexit 255\n")
    with pytest.raises(ActionError, match="aws eks get-token: no credentials"):
        site.kubernetes().why_out()


def test_a_server_of_another_authority_is_not_trusted(site: Site, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Api(tmp_path / "other") as other:
        (tmp_path / "ca.crt").write_text(other.certificate)
    with pytest.raises(ActionError, match="certificate"):
        site.kubernetes().why_out()
