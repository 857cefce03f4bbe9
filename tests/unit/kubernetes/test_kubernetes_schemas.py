"""The checker of Kubernetes objects finds what an API server would refuse, and its schemas have sources."""

from __future__ import annotations

import copy
import hashlib
import re
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue.kubernetes import charts, kubernetes_versions
from kubernetes_schemas import CRDS, SOURCES, WrongObjectsError, check_objects

VERSIONS = [row.version for row in kubernetes_versions()]

_POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "main",
            "image": "python:3.13",
            "resources": {"limits": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32, "memory": "64Gi"}},
        }
    ],
}
_JOB_SPEC = {"parallelism": 2, "template": {"spec": _POD}}


def _object(api_version: str, kind: str, spec: Any) -> dict[str, Any]:
    return {**_bare(api_version, kind), "spec": spec}


def _bare(api_version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}}


JOB = _object("batch/v1", "Job", _JOB_SPEC)
CLUSTER_QUEUE = _object(
    "kueue.x-k8s.io/v1beta2",
    "ClusterQueue",
    {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "p5", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 128}]}],
            }
        ],
    },
)
JOB_SET = _object(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    {"replicatedJobs": [{"name": "nodes", "replicas": 1, "template": {"spec": _JOB_SPEC}}]},
)
LEADER_WORKER_SET = _object(
    "leaderworkerset.x-k8s.io/v1",
    "LeaderWorkerSet",
    {
        "replicas": 1,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {**_POD, "restartPolicy": "Always"}}},
    },
)
TRAIN_JOB = _object(
    "trainer.kubeflow.org/v1alpha1",
    "TrainJob",
    {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "image": "pytorch"}},
)
RUNTIME = _object(
    "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime",
    {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": {"spec": JOB_SET["spec"]}},
)
WORKFLOW = _object(
    "argoproj.io/v1alpha1",
    "Workflow",
    {
        "entrypoint": "all",
        "templates": [
            {
                "name": "all",
                "steps": [[{"name": "slice", "template": "one", "withSequence": {"count": "56"}}]],
            },
            {"name": "one", "container": _POD["containers"][0]},
        ],
    },
)
NODE_CLASS = _object(
    "karpenter.k8s.aws/v1",
    "EC2NodeClass",
    {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
    },
)
_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "one"}
_SECRET = {"name": "slurm", "key": "file"}
_STORAGE = {"host": "mariadb", "passwordKeyRef": _SECRET}
OTHERS = [
    _object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", {"nodeLabels": {"gpu": "H100"}}),
    _object("kueue.x-k8s.io/v1beta2", "LocalQueue", {"clusterQueue": "main"}),
    _object("kueue.x-k8s.io/v1beta2", "Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
    {**_bare("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass"), "value": 100},
    _object(
        "kueue.x-k8s.io/v1beta2",
        "Workload",
        {"queueName": "gpu-jobs", "podSets": [{"name": "main", "count": 2, "template": {"spec": _POD}}]},
    ),
    _object("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", RUNTIME["spec"]),
    _object("node.eks.aws/v1alpha1", "NodeConfig", {"cluster": {"name": "lab"}}),
    NODE_CLASS,
    _object("karpenter.sh/v1", "NodePool", {"template": {"spec": {"nodeClassRef": _CLASS, "requirements": []}}}),
    _object("karpenter.sh/v1alpha1", "NodeOverlay", {"requirements": [], "capacity": {"hugepages-2Mi": "5Gi"}}),
    _object("slinky.slurm.net/v1beta1", "Controller", {"extraConf": "GresTypes=gpu"}),
    _object("slinky.slurm.net/v1beta1", "Accounting", {"storageConfig": _STORAGE}),
    _object("slinky.slurm.net/v1beta1", "RestApi", {"controllerRef": {"name": "slurm"}}),
    _object("slinky.slurm.net/v1beta1", "LoginSet", {"controllerRef": {"name": "slurm"}, "sssdConfRef": _SECRET}),
    _object("slinky.slurm.net/v1beta1", "NodeSet", {"controllerRef": {"name": "slurm"}, "replicas": 2}),
]
_RAY_CLUSTER = {"headGroupSpec": {"template": {"spec": _POD}}}
OTHERS += [
    _object("ray.io/v1", "RayCluster", _RAY_CLUSTER),
    _object("ray.io/v1", "RayJob", {"entrypoint": "python tune.py", "rayClusterSpec": _RAY_CLUSTER}),
    _object("ray.io/v1", "RayService", {"serveConfigV2": "", "rayClusterConfig": _RAY_CLUSTER}),
]
_CHANNEL = {"resourceClaimTemplate": {"name": "llama-channel"}, "allocationMode": "Single"}
OTHERS.append(_object("resource.nvidia.com/v1beta1", "ComputeDomain", {"numNodes": 0, "channel": _CHANNEL}))
_TRIGGERS = [{"type": "prometheus", "metadata": {"query": "up"}}]
_LISTENERS = [{"name": "https", "protocol": "HTTPS", "port": 443}]
HTTP_ROUTE = _object(
    "gateway.networking.k8s.io/v1",
    "HTTPRoute",
    {"rules": [{"matches": [{"path": {"value": "/chat"}}], "backendRefs": [{"name": "chat", "port": 80}]}]},
)
ROLLOUT = _object("argoproj.io/v1alpha1", "Rollout", {"strategy": {"canary": {"steps": [{"setWeight": 10}]}}})
OTHERS += [
    HTTP_ROUTE,
    _object("gateway.networking.k8s.io/v1", "GatewayClass", {"controllerName": "gateway.k8s.aws/alb"}),
    _object("gateway.networking.k8s.io/v1", "Gateway", {"gatewayClassName": "one", "listeners": _LISTENERS}),
    _object("gateway.k8s.aws/v1", "LoadBalancerConfiguration", {"scheme": "internal"}),
    _object("gateway.k8s.aws/v1", "TargetGroupConfiguration", {"targetReference": {"name": "chat"}}),
    _object("keda.sh/v1alpha1", "TriggerAuthentication", {"podIdentity": {"provider": "aws"}}),
    _object("keda.sh/v1alpha1", "ScaledObject", {"scaleTargetRef": {"name": "chat"}, "triggers": _TRIGGERS}),
    _object("argoproj.io/v1alpha1", "AnalysisTemplate", {"metrics": [{"name": "errors", "provider": {}}]}),
    ROLLOUT,
]
_PICKER = {"name": "chat-pool-epp", "port": {"number": 9002}}
_SERVERS = {"selector": {"matchLabels": {"app.kubernetes.io/name": "chat"}}, "targetPorts": [{"number": 8000}]}
POOL = _object("inference.networking.k8s.io/v1", "InferencePool", {**_SERVERS, "endpointPickerRef": _PICKER})
PARAMETERS = _object("agentgateway.dev/v1alpha1", "AgentgatewayParameters", {"shutdown": {"min": 30, "max": 330}})
_PROXIES = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "models-inference"}
POLICY = _object(
    "agentgateway.dev/v1alpha1",
    "AgentgatewayPolicy",
    {"targetRefs": [_PROXIES], "frontend": {"http": {"http1IdleTimeout": "615s"}}},
)
OTHERS += [POOL, PARAMETERS, POLICY]
RIGHT = [JOB, CLUSTER_QUEUE, JOB_SET, LEADER_WORKER_SET, TRAIN_JOB, RUNTIME, WORKFLOW, *OTHERS]


def changed(item: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of an object with one field set, or taken away where the value is None."""
    copied = copy.deepcopy(item)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place: Any = copied
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copied


@pytest.mark.parametrize("version", VERSIONS)
def test_right_objects_are_counted(version: str) -> None:
    assert check_objects(RIGHT, version) == len(RIGHT) == 38


def test_every_custom_kind_has_an_object_here() -> None:
    kinds = {(item["apiVersion"].partition("/")[0], item["kind"]) for item in RIGHT}
    schemas = [yaml.safe_load(path.read_text("utf-8")) for path in CRDS.glob("*_*.yaml")]
    assert {(schema["group"], schema["kind"]) for schema in schemas} == kinds - {("batch", "Job")}


_CONTAINER = "template/spec/containers/0"


@pytest.mark.parametrize(
    ("item", "path", "value", "says"),
    [
        (JOB, "spec/paralelism", 2, r"'paralelism' was unexpected"),
        (JOB, "spec/parallelism", "two", r"spec\.parallelism: 'two' is not of type"),
        (JOB, "spec/template", None, r"spec: 'template' is a required property"),
        (JOB, f"spec/{_CONTAINER}/resources/limit", {}, r"resources: .*'limit' was unexpected"),
        (JOB, f"spec/{_CONTAINER}/resources/limits/memory", [], r"limits\.memory: "),
        (JOB, "apiVersion", "batch/v2", "no schema for this kind"),
        (JOB, "apiVersion", "batch.example.com/v1", "no schema for this kind"),
        (JOB, "kind", "JobSpec", "no schema for this kind"),
        (JOB, "metadata/lables", {}, r"metadata: .*'lables' was unexpected"),
        (JOB, "metadata/name", None, "neither name nor generateName"),
        (CLUSTER_QUEUE, "spec/cohort", "all", r"spec: .*'cohort' was unexpected"),
        (CLUSTER_QUEUE, "spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "many", "does not match"),
        (CLUSTER_QUEUE, "spec/resourceGroups/0/coveredResources", None, "'coveredResources' is a required"),
        (CLUSTER_QUEUE, "spec/queueingStrategy", "Fifo", "'Fifo' is not one of"),
        (CLUSTER_QUEUE, "spec/namespaceSelector/matchLables", {}, "'matchLables' was unexpected"),
        (CLUSTER_QUEUE, "spec/resourceGroups/0/coveredResources", ["nvidia.com/gpu", "cpu"], "the same number of"),
        (CLUSTER_QUEUE, "spec/resourceGroups/0/flavors/0/resources/0/borrowingLimit", "8", "must be nil when cohort"),
        (CLUSTER_QUEUE, "spec/preemption", {"borrowWithinCohort": {"policy": "LowerPriority"}}, "Never and borrow"),
        (CLUSTER_QUEUE, "spec/flavorFungibility", {"preference": "BorrowingOverPreemption"}, "are TryNextFlavor"),
        (CLUSTER_QUEUE, "apiVersion", "kueue.x-k8s.io/v1", "no schema for this kind"),
        (CLUSTER_QUEUE, "kind", "ClusterQueues", "no schema for this kind"),
        (
            JOB_SET,
            "spec/replicatedJobs/0/template/spec/template/spec/containers",
            None,
            "'containers' is a required",
        ),
        (JOB_SET, "spec/replicatedJobs/0/name", None, "'name' is a required property"),
        (JOB_SET, "spec/replicatedJobs/0/replicas", "1", r"replicas: '1' is not of type 'integer'"),
        (
            LEADER_WORKER_SET,
            "spec/leaderWorkerTemplate/workerTemplate",
            None,
            "'workerTemplate' is a required",
        ),
        (LEADER_WORKER_SET, "spec/replicas", -1, "-1 is less than the minimum of 0"),
        (TRAIN_JOB, "spec/runtimeRef/name", None, "'name' is a required property"),
        (TRAIN_JOB, "spec/trainer/numNode", 1, "'numNode' was unexpected"),
        (RUNTIME, "spec/mlPolicy/torch/numProcPerNode", 8, "'numProcPerNode' was unexpected"),
        (WORKFLOW, "spec/templates/0/steps/0/0/withSequence/cuont", "1", "'cuont' was unexpected"),
        (WORKFLOW, "spec/templates/1/container/resources/limits", 3, r"limits: 3 is not of type"),
        (NODE_CLASS, "spec/amiSelectorTerms/0/alias", "al2023", r"alias: 'alias' is improperly formatted"),
        (HTTP_ROUTE, "spec/rules/0/matches/0/path/value", "chat", r"path: value must be an absolute path"),
        # A Service is the default kind of a backend, and a Service has a port.
        (HTTP_ROUTE, "spec/rules/0/backendRefs/0/port", None, r"Must have port for Service reference"),
        (POOL, "spec/endpointPickerRef/port", None, r"endpointPickerRef: port is required when kind is 'Service'"),
        (POOL, "spec/targetPorts", [{"number": 8000}, {"number": 8000}], r"targetPorts: port number must be unique"),
        (PARAMETERS, "spec/shutdown/max", 29, r"shutdown: The 'min' value must be less than or equal to"),
        (POLICY, "spec/frontend/http/http1IdleTimeout", "10minutes", r"http1IdleTimeout: invalid duration value"),
        (POLICY, "spec/targetRefs/0/sectionName", "http", r"may only target a Gateway or port, not a listener"),
        (ROLLOUT, "spec/strategy/canary/steps/0/setWeight", "10", r"setWeight: '10' is not of type 'integer'"),
        (NODE_CLASS, "spec/role", None, r"spec: must specify exactly one of \['role', 'instanceProfile'\]"),
    ],
)
def test_a_wrong_object_is_told(item: dict[str, Any], path: str, value: object, says: str) -> None:
    with pytest.raises(WrongObjectsError, match=says):
        check_objects([changed(item, path, value)], "1.36")


def test_all_faults_come_at_once_with_the_names_of_their_objects() -> None:
    wrong = [changed(JOB, "spec/paralelism", 2), JOB_SET, changed(WORKFLOW, "spec/entrypoint", 1)]
    with pytest.raises(WrongObjectsError) as told:
        check_objects(wrong, "1.36")
    first, *faults = str(told.value).splitlines()
    assert first == "2 faults in 3 objects for Kubernetes 1.36"
    assert [fault.split(": ")[0].strip() for fault in faults] == [
        "batch/v1 Job one",
        "argoproj.io/v1alpha1 Workflow one",
    ]


def test_a_kind_that_is_too_new_has_no_schema_in_an_old_version() -> None:
    claims = _object("resource.k8s.io/v1", "ResourceClaim", {"devices": {}})
    assert check_objects([claims], "1.34") == 1
    with pytest.raises(WrongObjectsError, match="no schema for this kind"):
        check_objects([claims], "1.33")


def test_each_schema_of_a_custom_kind_has_its_source() -> None:
    sources = yaml.safe_load(SOURCES.read_text("utf-8"))
    files = {path.name for path in CRDS.iterdir()} - {SOURCES.name}
    assert sorted(files) == sorted(source["file"] for source in sources)
    for source in sources:
        content = (CRDS / source["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == source["sha256"], source["file"]
        assert re.fullmatch(r"[0-9a-f]{40}", source["commit"])
        assert re.fullmatch(r"[0-9a-f]{64}", source["source_sha256"])
        assert source["licence"] in {"Apache-2.0", "MIT-0"}
        assert re.fullmatch(r"2026-\d\d-\d\d", source["read"])
        assert source["repository"].count("/") == 1
        assert source["path"].endswith(".yaml")


def test_the_custom_kinds_are_those_of_the_charts() -> None:
    sources = yaml.safe_load(SOURCES.read_text("utf-8"))
    commits = {source["repository"]: source["commit"] for source in sources}
    installed = {chart.source_repository: chart.commit for chart in charts()}
    assert {name: installed[name] for name in commits if name in installed} == {
        name: commit for name, commit in commits.items() if name in installed
    }
    assert sorted(set(commits) - set(installed)) == [
        "argoproj/argo-rollouts",
        "argoproj/argo-workflows",
        "awslabs/amazon-eks-ami",
        "kedacore/keda",
        "kubernetes-sigs/gateway-api",
        "kubernetes-sigs/gateway-api-inference-extension",
    ]
