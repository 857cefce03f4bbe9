"""Record what a real Kubernetes does in rollouts and evictions: `record_kubernetes.py FOLDER`.

FOLDER has `etcd`, `kube-apiserver`, `kube-controller-manager` and `kube-scheduler`. They are started on loopback, with
nodes and a kubelet of this program: a pod is ready four seconds after it was placed, and gone a second after its end.
The record is what tests hold their simulation against (docs/develop/testing.md, "A simulated cluster").
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

RECORD = Path(__file__).resolve().parents[1] / "tests" / "unit" / "kubernetes" / "recorded_kubernetes.json"
_ETCD, _PEER, _API = 24790, 24800, 24430
_START_SECONDS, _END_SECONDS = 4.0, 1.0
_PATIENCE_SECONDS = 180.0
_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
#: No Deployment has the name of one whose pods may still end.
_NAMES = (f"app-{number}" for number in itertools.count())
_MERGE = "application/strategic-merge-patch+json"

#: Replicas, maxSurge and maxUnavailable of Deployments that get a new version.
ROLLOUTS: list[tuple[int, int | str, int | str]] = [
    *((replicas, 0, "25%") for replicas in (1, 2, 3, 4, 7, 8, 12)),
    (4, "25%", 0),
    (4, "25%", "25%"),
    (3, 1, 0),
]
#: Replicas and what a budget says of them.
BUDGETS: list[tuple[int, Mapping[str, int | str]]] = [
    *(
        (replicas, {"maxUnavailable": percent})
        for replicas in (1, 2, 3, 7)
        for percent in ("25%", "34%", "50%", "100%")
    ),
    *((replicas, {"minAvailable": least}) for replicas in (1, 3, 7) for least in (replicas, 1, "50%", "100%")),
    (4, {"maxUnavailable": 0}),
    (4, {"maxUnavailable": 1}),
]


class Api:
    """The API server, without checks of its certificate: it is on loopback."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """One call.

        Raises:
            HTTPError: The server refuses.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"https://127.0.0.1:{_API}{path}", data=data, method=method)
        request.add_header("Content-Type", kind)
        request.add_header("Authorization", f"Bearer {self._token}")
        with urlopen(request, context=self._context, timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)

    def pods(self, name: str | None = None) -> list[dict[str, Any]]:
        """Pods, all or those with the label `app`."""
        query = "" if name is None else f"?labelSelector=app%3D{name}"
        return list(self.call("GET", f"{_PODS}{query}")["items"])


class Kubelet(threading.Thread):
    """Makes pods ready and lets them end."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self._api, self._stopped = api, threading.Event()
        self._since: dict[str, float] = {}

    def stop(self) -> None:
        """End at the next turn."""
        self._stopped.set()
        self.join()

    def run(self) -> None:
        """Look after the pods, five times a second."""
        while not self._stopped.wait(0.2):
            # The next turn finds what went wrong in this one.
            with contextlib.suppress(URLError, ConnectionError, TimeoutError):
                for pod in self._api.pods():
                    with contextlib.suppress(HTTPError):
                        self._tend(pod)

    def _tend(self, pod: dict[str, Any]) -> None:
        name, uid, now = pod["metadata"]["name"], pod["metadata"]["uid"], time.monotonic()
        if pod["metadata"].get("deletionTimestamp"):
            if now - self._since.setdefault(f"{uid}/end", now) >= _END_SECONDS:
                self._api.call("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})
        elif pod["spec"].get("nodeName") and now - self._since.setdefault(uid, now) >= _START_SECONDS:
            ready = "broken" not in pod["metadata"]["labels"]
            if pod["status"]["phase"] != "Running":
                condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": _now()}
                status = {"status": {"phase": "Running", "conditions": [condition]}}
                self._api.call("PATCH", f"{_PODS}/{name}/status", status, kind=_MERGE)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@contextlib.contextmanager
def started(programs: Path, scratch: Path) -> Iterator[Api]:
    """The control plane, while it is used."""
    key, config, tokens, token = scratch / "key.pem", scratch / "config", scratch / "tokens", secrets.token_hex()
    tokens.write_text(f"{token},admin,1,system:masters\n")
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    cluster = {"server": f"https://127.0.0.1:{_API}", "insecure-skip-tls-verify": True}
    context = {"cluster": "one", "user": "one"}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "one", "cluster": cluster}],
                "users": [{"name": "one", "user": {"token": token}}],
                "contexts": [{"name": "one", "context": context}],
                "current-context": "one",
            }
        )
    )
    keys = [f"--service-account-{name}-file={key}" for name in ("key", "signing-key")]
    commands = [
        [
            "etcd",
            f"--data-dir={scratch / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{_ETCD}",
            f"--advertise-client-urls=http://127.0.0.1:{_ETCD}",
            f"--listen-peer-urls=http://127.0.0.1:{_PEER}",
        ],
        [
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{_ETCD}",
            f"--secure-port={_API}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={scratch}",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://localhost",
            *keys,
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ],
        [
            "kube-controller-manager",
            f"--kubeconfig={config}",
            f"--service-account-private-key-file={key}",
            "--controllers=deployment,replicaset,disruption,garbagecollector",
            "--leader-elect=false",
            "--port=0",
            "--secure-port=0",
        ],
        ["kube-scheduler", f"--kubeconfig={config}", "--leader-elect=false", "--port=0", "--secure-port=0"],
    ]
    with contextlib.ExitStack() as running:
        for command in commands:
            log = running.enter_context((scratch / f"{command[0]}.log").open("wb"))
            process = subprocess.Popen([str(programs / command[0]), *command[1:]], stdout=log, stderr=log)
            running.callback(process.wait)
            running.callback(process.terminate)
            if command[0] == "kube-apiserver":  # the others give up if it does not answer soon
                api = Api(token)
                until(functools.partial(api.call, "GET", "/api/v1/namespaces/default"))
        yield api


def until(check: Callable[[], Any]) -> Any:
    """What a check returns once it is true.

    Raises:
        TimeoutError: It never is.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(HTTPError, URLError, ConnectionError):
            if found := check():
                return found
        time.sleep(0.1)
    raise TimeoutError("the control plane does not answer as expected; read its logs")


def add_node(api: Api, name: str) -> None:
    """A node that is ready."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
    api.call("POST", "/api/v1/nodes", node)
    room = {"cpu": "96", "memory": "768Gi", "pods": "250"}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _now(), "lastTransitionTime": _now()}],
    }
    api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, kind=_MERGE)


def deploy(api: Api, name: str, replicas: int, *, surge: int | str = 0, away: int | str = "25%") -> None:
    """A Deployment, until its pods are ready."""
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": away}},
        "template": _template(name, "v1"),
    }
    meta = {"name": name}
    api.call("POST", _DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    until(lambda: ready(api, name) == replicas)


def _template(name: str, version: str, **labels: str) -> dict[str, Any]:
    container = {"name": "server", "image": f"server:{version}", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": {"app": name, **labels}}, "spec": {"containers": [container]}}


def ready(api: Api, name: str) -> int:
    """Pods of a Deployment that are ready and do not end."""
    return sum(_is_ready(one) for one in api.pods(name))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return not pod["metadata"].get("deletionTimestamp") and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def remove(api: Api, name: str) -> None:
    """A Deployment and its pods go."""
    api.call("DELETE", f"{_DEPLOYMENTS}/{name}", {"propagationPolicy": "Background"})
    until(lambda: not api.pods(name))


def rollout(api: Api, replicas: int, surge: int | str, away: int | str) -> dict[str, Any]:
    """The fewest ready pods, and the most pods that do not end, while a new version replaces the old one."""
    name = next(_NAMES)
    deploy(api, name, replicas, surge=surge, away=away)
    api.call("PATCH", f"{_DEPLOYMENTS}/{name}", {"spec": {"template": _template(name, "v2")}}, kind=_MERGE)
    fewest, most = replicas, replicas

    def is_done() -> bool:
        nonlocal fewest, most
        pods = [one for one in api.pods(name) if not one["metadata"].get("deletionTimestamp")]
        fewest, most = min(fewest, sum(map(_is_ready, pods))), max(most, len(pods))
        new = [one for one in pods if one["spec"]["containers"][0]["image"] == "server:v2"]
        return len(new) == len(pods) == replicas and all(map(_is_ready, new))

    until(is_done)
    remove(api, name)
    return {"replicas": replicas, "maxSurge": surge, "maxUnavailable": away, "fewest_ready": fewest, "most_pods": most}


def budget(api: Api, replicas: int, spec: Mapping[str, int | str]) -> dict[str, Any]:
    """What the controller makes of a budget, and how many pods may be evicted one after the other."""
    name = next(_NAMES)
    deploy(api, name, replicas)
    _protect(api, name, name, spec)
    status = until(lambda: _status_of(api, name, replicas))
    evicted = [_evict(api, one["metadata"]["name"]) for one in api.pods(name)]
    _unprotect(api, name)
    remove(api, name)
    return {
        "replicas": replicas,
        "spec": spec,
        "desired_healthy": status["desiredHealthy"],
        "evicted": evicted.count(201),
        "answers": sorted(set(evicted)),
    }


def _protect(api: Api, name: str, of: str, spec: Mapping[str, int | str]) -> None:
    body = {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {**spec, "selector": {"matchLabels": {"app": of}}},
    }
    api.call("POST", _BUDGETS, body)


def _unprotect(api: Api, name: str) -> None:
    api.call("DELETE", f"{_BUDGETS}/{name}")


def _status_of(api: Api, name: str, healthy: int) -> dict[str, Any] | None:
    status = api.call("GET", f"{_BUDGETS}/{name}").get("status", {})
    return status if status.get("currentHealthy") == healthy and status.get("observedGeneration") else None


def _evict(api: Api, pod: str) -> int:
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    try:
        api.call("POST", f"{_PODS}/{pod}/eviction", body)
    except HTTPError as refused:
        return refused.code
    return 201


def unhealthy(api: Api, replicas: int, broken: int, percent: str) -> dict[str, Any]:
    """Which evictions are allowed where some pods are never ready: of one that is, and of one that is not."""
    name = next(_NAMES)
    deploy(api, name, replicas, away=f"{100 * broken // replicas}%")
    template = _template(name, "v2", broken="true")
    api.call("PATCH", f"{_DEPLOYMENTS}/{name}", {"spec": {"template": template}}, kind=_MERGE)

    def those(ready_ones: bool) -> list[str]:
        alive = [one for one in api.pods(name) if not one["metadata"].get("deletionTimestamp")]
        running = [one for one in alive if one["status"]["phase"] == "Running"]
        return [one["metadata"]["name"] for one in running if _is_ready(one) is ready_ones]

    until(lambda: len(those(False)) == broken and len(those(True)) == replicas - broken)
    _protect(api, name, name, {"maxUnavailable": percent})
    until(lambda: _status_of(api, name, replicas - broken))
    sick = _evict(api, those(False)[0])
    until(lambda: _status_of(api, name, replicas - broken))
    healthy = _evict(api, those(True)[0]) if replicas > broken else None
    _unprotect(api, name)
    remove(api, name)
    return {
        "replicas": replicas,
        "broken": broken,
        "maxUnavailable": percent,
        "of_unready": sick == 201,
        "of_ready": None if healthy is None else healthy == 201,
    }


def two_budgets(api: Api) -> int:
    """The answer to the eviction of a pod that two budgets cover."""
    app = next(_NAMES)
    deploy(api, app, 2)
    for name in ("one", "two"):
        _protect(api, name, app, {"maxUnavailable": "100%"})
        until(functools.partial(_status_of, api, name, 2))
    answer = _evict(api, api.pods(app)[0]["metadata"]["name"])
    for name in ("one", "two"):
        _unprotect(api, name)
    remove(api, app)
    return answer


def record(programs: Path) -> dict[str, Any]:
    """All observations."""
    with tempfile.TemporaryDirectory() as folder, started(programs, Path(folder)) as api:
        version = api.call("GET", "/version")
        for name in ("one", "two"):
            add_node(api, name)
        kubelet = Kubelet(api)
        kubelet.start()
        try:
            return {
                "commit": version["gitCommit"],
                "rollouts": [rollout(api, *one) for one in ROLLOUTS],
                "budgets": [budget(api, *one) for one in BUDGETS],
                "unready": [unhealthy(api, *one) for one in UNREADY],
                "two_budgets": two_budgets(api),
            }
        finally:
            kubelet.stop()


#: Replicas, how many of them are never ready, and the share of the budget.
UNREADY = [(4, 1, "25%"), (4, 1, "50%"), (4, 2, "25%"), (2, 2, "100%"), (1, 1, "100%"), (8, 2, "25%")]


def main() -> int:
    """Record into the folder of the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the programs")
    found = record(parser.parse_args().folder)
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
