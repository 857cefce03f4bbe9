"""A Kubernetes API that has nodes, pods and nothing else, for the real kubectl.

It merges patches as the types of nodes say (conditions by their type, taints as a whole), keeps status and the rest
apart, and refuses what the API server refuses a kubelet: the node authorizer all reading but of its own node, unless
RBAC allows more, and the admission plugin NodeRestriction changes of taints and of other nodes (Kubernetes
documentation, "Using Node Authorization" and "Admission Controllers Reference"). Of pods a kubelet reads, changes the status of and
deletes those on its own node.
"""

from __future__ import annotations

import copy
import json
import re
import ssl
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nodebox.debian import program

if TYPE_CHECKING:
    from typing import Self

Json = dict[str, Any]
ADMIN = "admin"
#: Where a node that is booted finds it, in its own network.
INSIDE = "10.77.0.5"
_KUBELET = "system:node:"
_NODE = re.compile(r"/api/v1/nodes/([^/]+)(/status)?")
_POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/status)?")
# Open to everyone who is known, by the role system:basic-user.
_WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#: Lists whose entries are merged by a field; others are replaced.
_MERGE_KEYS = {"conditions": "type", "addresses": "type"}
_RESOURCES = [
    {
        "name": name,
        "singularName": "node",
        "namespaced": False,
        "kind": "Node",
        "verbs": ["get", "list", "patch"],
    }
    for name in ("nodes", "nodes/status")
]
_RESOURCES += [
    {"name": name, "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": verbs}
    for name, verbs in (("pods", ["get", "list", "delete"]), ("pods/status", ["patch"]))
]
_DISCOVERY: Mapping[str, Json] = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": _RESOURCES},
}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Request(NamedTuple):
    """Something that was asked for.

    Attributes:
        user: Who asked.
        verb: HTTP method.
        path: Without its query.
    """

    user: str
    verb: str
    path: str


class Kubernetes:
    """The API of one cluster, as a context manager.

    Args:
        folder: An empty folder.

    Attributes:
        nodes: Its nodes by name.
        pods: The node of each pod, which has a GPU, by its namespace and name.
        disrupted: Pods with the condition `DisruptionTarget`, in the order in which they got it.
        readers: Users that RBAC lets read all nodes.
        requests: What was asked for, discovery left out.
    """

    def __init__(self, folder: Path) -> None:
        self.nodes: dict[str, Json] = {}
        self.pods: dict[tuple[str, str], str] = {}
        self.disrupted: list[tuple[str, str]] = []
        self.readers = {ADMIN}
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self._folder = folder
        certificate, key = _make_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._certificate = certificate
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Call", (_Call,), {"cluster": self}))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> tuple[str, int]:
        """Where it answers, on this machine."""
        return "127.0.0.1", self._server.server_port

    @property
    def certificate(self) -> str:
        """Its certificate, which is its own authority."""
        return self._certificate.read_text()

    def add_node(self, name: str, instance_id: str) -> None:
        """Add a node that is ready."""
        self.nodes[name] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "resourceVersion": "1", "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": f"aws:///us-east-1a/{instance_id}"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
        }

    def grant(self, rights: list[Json], user: str) -> None:
        """Apply a role and its binding, as far as they let a user of the group read all nodes."""
        role, binding = rights
        assert binding["roleRef"] == {
            **binding["roleRef"],
            "kind": "ClusterRole",
            "name": role["metadata"]["name"],
        }
        [subject] = binding["subjects"]
        in_group = (subject["name"] == "system:nodes") == user.startswith(_KUBELET)
        reads = any("nodes" in rule["resources"] and {"get", "list"} <= set(rule["verbs"]) for rule in role["rules"])
        if in_group and reads:
            self.readers.add(user)

    def kubeconfig(self, user: str) -> Path:
        """The configuration of a user; a kubelet's is `system:node:` and the name of its node."""
        cluster = {
            "server": f"https://127.0.0.1:{self._server.server_port}",
            "certificate-authority": str(self._certificate),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "own", "user": {"token": user}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "own"}}],
            "current-context": "lab",
        }
        file = self._folder / f"{user.replace(':', '-')}.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    def condition(self, name: str, kind: str) -> Json:
        """A condition of a node; empty where it has none of that type."""
        found = [one for one in self.nodes[name]["status"]["conditions"] if one["type"] == kind]
        return found[0] if found else {}

    def taints(self, name: str) -> list[Json]:
        return list(self.nodes[name]["spec"].get("taints", []))

    def is_cordoned(self, name: str) -> bool:
        return bool(self.nodes[name]["spec"].get("unschedulable"))

    def changes(self) -> list[Request]:
        """What was asked for beside reading."""
        return [request for request in self.requests if request.verb != "GET"]

    def answer(self, request: Request, body: Json) -> Json:
        """Answer a request.

        Raises:
            Refusal: If it is not allowed, or there is no such thing.
        """
        if request.path in _DISCOVERY:
            return _DISCOVERY[request.path]
        if request.path == _WHO_AM_I:
            kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            return {**kind, "status": {"userInfo": {"username": request.user}}}
        if "/pods" in request.path:
            self.requests.append(request)
            return self._of_pods(request, body)
        match = _NODE.fullmatch(request.path)
        name = match[1] if match else ""
        if not match and request.path != "/api/v1/nodes":
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        self.requests.append(request)
        if request.verb == "GET":
            self._authorize_reading(request.user, name)
        if request.verb == "POST":
            return self._register(request.user, body)
        if not match:
            return {
                "kind": "NodeList",
                "apiVersion": "v1",
                "metadata": {},
                "items": list(self.nodes.values()),
            }
        if name not in self.nodes:
            raise Refusal(404, "NotFound", f'nodes "{name}" not found')
        if request.verb == "PATCH":
            self._patch(request.user, name, body, status=bool(match[2]))
        return self.nodes[name]

    def _of_pods(self, request: Request, body: Json) -> Json:
        mine = request.user.removeprefix(_KUBELET)
        pods = [_pod(*name, node) for name, node in self.pods.items() if node == mine or request.user == ADMIN]
        if match := _POD.fullmatch(request.path):
            pods = [
                pod for pod in pods if pod["metadata"]["namespace"] == match[1] and pod["metadata"]["name"] == match[2]
            ]
            if not pods:
                raise Refusal(403, "Forbidden", f'node "{mine}" can only delete pods with spec.nodeName set to itself')
            if request.verb == "DELETE":
                del self.pods[match[1], match[2]]
            if request.verb == "PATCH":
                [condition] = body["status"]["conditions"]
                assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
                assert match[3], "another part than the status"
                self.disrupted.append((match[1], match[2]))
            return pods[0]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}

    def _register(self, user: str, node: Json) -> Json:
        """A kubelet registers its own node, once."""
        name = str(node["metadata"]["name"])
        if user != f"{_KUBELET}{name}":
            raise _not_allowed(name, f'node "{user}" is not allowed to modify node "{name}"')
        if name in self.nodes:
            raise Refusal(409, "AlreadyExists", f'nodes "{name}" already exists')
        node["metadata"]["resourceVersion"] = "1"
        self.nodes[name] = node
        return node

    def _authorize_reading(self, user: str, name: str) -> None:
        own = user.removeprefix(_KUBELET)
        if user in self.readers or (user.startswith(_KUBELET) and name == own):
            return
        verb, what = (
            "get",
            f"\"nodes\" in API group \"\" at the cluster scope: node '{own}' cannot read '{name}'",
        )
        if not name:
            verb, what = (
                "list",
                f'"nodes" in API group "" at the cluster scope: node \'{own}\' cannot read all nodes',
            )
        subject = f'nodes "{name}"' if name else "nodes"
        raise Refusal(
            403,
            "Forbidden",
            f'{subject} is forbidden: User "{user}" cannot {verb} resource {what}, only its own Node object',
        )

    def _patch(self, user: str, name: str, patch: Json, *, status: bool) -> None:
        old = self.nodes[name]
        new = _merge(copy.deepcopy(old), patch)
        # Each of the two paths leaves the other's part alone.
        kept = ("spec",) if status else ("status",)
        new.update({part: old[part] for part in kept})
        own = user.removeprefix(_KUBELET)
        if user != own:
            if name != own:
                raise _not_allowed(name, f'node "{own}" is not allowed to modify node "{name}"')
            if new["spec"].get("taints") != old["spec"].get("taints"):
                raise _not_allowed(name, f'node "{own}" is not allowed to modify taints')
        new["metadata"]["resourceVersion"] = str(int(old["metadata"]["resourceVersion"]) + 1)
        self.nodes[name] = new


def _pod(namespace: str, name: str, node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"},
    }


def _not_allowed(name: str, why: str) -> Refusal:
    return Refusal(403, "Forbidden", f'nodes "{name}" is forbidden: {why}')


def _merge(target: Json, patch: Json) -> Json:
    """A strategic merge patch, without deletions of list entries."""
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = _merge(target.get(key) or {}, value)
        elif key in _MERGE_KEYS:
            target[key] = _merge_list(target.get(key) or [], value, _MERGE_KEYS[key])
        else:
            target[key] = value
    return target


def _merge_list(target: list[Json], patch: list[Json], key: str) -> list[Json]:
    entries = {entry[key]: entry for entry in target}
    for entry in patch:
        entries[entry[key]] = _merge(entries.get(entry[key], {}), entry)
    return list(entries.values())


class _Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    cluster: ClassVar[Kubernetes]

    def do_GET(self) -> None:
        self._do()

    def do_PATCH(self) -> None:
        self._do(json.loads(self._body()))

    def do_DELETE(self) -> None:
        self._body()  # its options
        self._do()

    def do_POST(self) -> None:
        body = self._body()
        # A question of kubectl is in protobuf.
        self._do(json.loads(body) if body.startswith(b"{") else None)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _do(self, body: Json | None = None) -> None:
        user = self.headers.get("Authorization", "").removeprefix("Bearer ")
        request = Request(user, self.command, self.path.partition("?")[0])
        with self.cluster.lock:
            try:
                code, answer = 200, self.cluster.answer(request, body or {})
            except Refusal as refusal:
                code = refusal.code
                answer = {
                    "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": refusal.reason, "message": str(refusal), "code": code,
                }  # fmt: skip
            text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_request(self, *_: object) -> None:
        """Keep the test output quiet."""


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate, without which kubectl would send no token."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName=IP:127.0.0.1,IP:{INSIDE}",
            "-out", certificate, "-keyout", key,
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate, key
