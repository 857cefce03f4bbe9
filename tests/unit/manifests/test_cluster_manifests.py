"""What `gpu-clusters manifests` writes: sound objects, and a script that installs them in order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest
from cdk_gpu_clusters_stacks.jobs.kubernetes import job_manifest
from cdk_gpu_clusters_stacks.manifests import cluster_manifests
from cdk_gpu_clusters_stacks.spec.eks import GatewaySpec
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from kubernetes_schemas import check_objects

EXAMPLES = Path(__file__).parents[3] / "examples"
#: Examples, and how many objects each makes.
COUNTS = {
    "eks-g5-dev": 7,
    "eks-g6e-canary": 15,
    "eks-g6e-teams": 35,
    "eks-g6e-vllm": 10,
    "eks-p4d-mig": 11,
    "eks-p5-capacity-block": 11,
    "eks-p5-slurm": 2,
    "g6e-tensor-parallel": 11,
    "inf2-neuron": 9,
    "p4d-mig-56-slices": 11,
    "p5-lustre": 13,
    "p5-mixed-mig": 23,
    "train-and-serve": 16,
    "two-fleets": 11,
}


def files_of(name: str, tmp_path: Path, extra: str = "") -> dict[str, str]:
    """The files of an example, with its orchestrator changed to EKS."""
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").replace("orchestrator: ec2\n", "")
    file = tmp_path / "cluster.yaml"
    file.write_text(text + extra + ("" if "orchestrator: eks" in text else "\norchestrator: eks\n"))
    reading = read_cluster(file)
    assert reading.spec is not None, reading.findings
    return cluster_manifests(reading.spec)


def objects_of(files: dict[str, str]) -> list[dict[str, object]]:
    return [
        one
        for path, text in files.items()
        if path.endswith(".yaml") and not path.startswith("software/")
        for one in YAML(typ="safe", pure=True).load_all(text)
    ]


@pytest.mark.parametrize("name", COUNTS)
def test_every_object_is_one_that_kubernetes_takes(name: str, tmp_path: Path) -> None:
    objects = objects_of(files_of(name, tmp_path))
    for version in kubernetes_versions():
        assert check_objects(objects, version.version) == COUNTS[name]


def test_a_trainer_adds_its_job_and_its_chart(tmp_path: Path) -> None:
    files = files_of("two-fleets", tmp_path, "\neks: { software: { trainer: true } }\n")

    assert any(path.endswith("kubeflow-trainer.values.yaml") for path in files)
    kinds = [one["kind"] for one in objects_of({p: t for p, t in files.items() if p.endswith("train-job.yaml")})]
    assert set(kinds) == {"TrainingRuntime", "TrainJob"}
    assert check_objects(objects_of(files), kubernetes_versions()[-1].version) > 0


def test_ray_adds_its_chart_its_job_and_a_place_for_its_heads(tmp_path: Path) -> None:
    files = files_of("two-fleets", tmp_path, "\neks: { software: { ray: true } }\n")

    assert any(path.endswith("kuberay-operator.values.yaml") for path in files)
    jobs: list[Any] = objects_of({path: text for path, text in files.items() if path.endswith("ray-job.yaml")})
    names = [one["metadata"]["name"] for one in jobs if one["kind"] == "RayJob"]
    assert len(set(names)) == len(names) > 0
    queue: Any
    (queue,) = [one for one in objects_of(files) if one["kind"] == "ClusterQueue"]
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][-1]
    assert (flavor["name"], flavor["resources"][0]) == ("ray-heads", {"name": "cpu", "nominalQuota": str(len(names))})
    assert check_objects(objects_of(files), kubernetes_versions()[-1].version) > 0


def test_nodes_of_slurm_have_no_queue_and_no_jobs_of_kubernetes(tmp_path: Path) -> None:
    all_of_it = files_of("eks-p5-slurm", tmp_path)
    assert not [path for path in all_of_it if path.startswith(("jobs/", "cluster/queues", "cluster/volume"))]

    files = files_of("two-fleets", tmp_path, "\neks: { software: { slurm: { fleets: [trainers] }, ray: true } }\n")
    objects: list[Any] = objects_of(files)
    flavors = {one["metadata"]["name"] for one in objects if one["kind"] == "ResourceFlavor"}
    assert "trainers" not in flavors
    assert flavors - {"ray-heads"}, "other fleets are queued"
    assert "trainers" not in " ".join(path for path in files if path.startswith("jobs/"))
    values: Any = YAML(typ="safe", pure=True).load(
        next(files[path] for path in files if path.endswith("-slurm.values.yaml"))
    )
    assert list(values["nodesets"]) == ["trainers"]


def test_volumes_of_slurm_get_what_the_stacks_tell_before_its_chart_is_installed(tmp_path: Path) -> None:
    files = files_of("eks-p5-slurm", tmp_path)
    lines = files["install.sh"].splitlines()
    (chart,) = [line for line in lines if "charts/slurm " in line]
    assert chart.startswith('envsubst "\\${CORPUS_FILE_SYSTEM_ID} \\${CORPUS_DNS_NAME} \\${CORPUS_MOUNT_NAME}" <')
    assert chart.endswith("--values -")  # its pods run on nodes that may come later
    asked = [index for index, line in enumerate(lines) if line.startswith("CORPUS_")]
    assert max(asked) < min(index for index, line in enumerate(lines) if line.startswith("helm "))
    values: Any = YAML(typ="safe", pure=True).load(
        next(files[path] for path in files if path.endswith("-slurm.values.yaml"))
    )
    (volume,) = [one for one in values["extraObjects"] if one["kind"] == "PersistentVolume"]
    assert volume["spec"]["csi"]["volumeHandle"] == "${CORPUS_FILE_SYSTEM_ID}"


def test_teams_add_their_queues_namespaces_and_volumes(tmp_path: Path) -> None:
    teams = "\neks: { teams: { research: { quotas: [{ fleet: trainers, nominal: 8 }] } } }\n"
    files, alone = files_of("p5-lustre", tmp_path, teams), files_of("p5-lustre", tmp_path)

    assert set(files) - set(alone) == {"cluster/team-research.yaml"}
    assert [path for path in alone if files[path] != alone[path]] == [
        "install.sh",
        "software/6-kueue.values.yaml",
        "cluster/queues.yaml",
    ]
    ours: list[Any] = objects_of({path: text for path, text in files.items() if "team-" in path})
    kinds = [one["kind"] for one in ours]
    assert kinds[0] == "ClusterQueue"
    assert kinds[-2:] == ["PersistentVolume", "PersistentVolumeClaim"]
    assert {one["metadata"].get("namespace", "research") for one in ours} == {"research"}
    shared: list[Any] = objects_of({"cluster/queues.yaml": files["cluster/queues.yaml"]})
    assert [one["kind"] for one in shared if "research" in str(one)] == ["ClusterQueue", "ClusterRoleBinding"]
    assert check_objects(objects_of(files), kubernetes_versions()[-1].version) > 0


RACK = "ultraserver_block: arn:aws:resource-groups:us-east-1:111122223333:group/rack, reservation: cr-0123456789abcdef0"


@pytest.mark.parametrize(("nodes", "of_job"), [(9, 9), (18, 18), (36, 18)])
def test_jobs_of_ultraservers_have_a_domain_of_one_ultraserver(nodes: int, of_job: int, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: gb200\nregion: us-east-1\norchestrator: eks\n"
        "network: { availability_zone: us-east-1-dfw-2a }\n"
        "eks: { software: { compute_domains: true, trainer: true, ray: true } }\n"
        "training: { fleets: { rack: { instance_type: p6e-gb200.36xlarge, "
        f"nodes: {nodes}, capacity: {{ {RACK}, ends_at: 2026-12-15T11:30Z }} }} }} }}\n"
    )
    spec = read_cluster(file).spec
    assert spec is not None
    files = cluster_manifests(spec)
    assert files["install.sh"].index("dra-driver-nvidia-gpu") < files["install.sh"].index("kueue.values.yaml")
    objects: list[Any] = objects_of(files)
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)
    domains = [one["metadata"]["name"] for one in objects if one["kind"] == "ComputeDomain"]
    assert domains == ["rack-job", "rack-ray", "rack-train-job", "rack-nccl-test"]
    (job,) = [one for one in objects if one["kind"] == "JobSet" and one["metadata"]["name"] == "rack-job"]
    assert job["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == of_job
    (ray,) = [one for one in objects if one["kind"] == "RayJob"]
    (workers,) = ray["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert workers["replicas"] == of_job
    (claim,) = workers["template"]["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == "rack-ray-channel"
    assert "resourceClaims" not in ray["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]

    file.write_text(file.read_text().replace("compute_domains: true", "compute_domains: false"))
    spec = read_cluster(file).spec
    assert spec is not None
    plain: list[Any] = objects_of(cluster_manifests(spec))
    assert not [one for one in plain if one["kind"] == "ComputeDomain"]


def test_a_model_over_an_ultraserver_has_a_domain_and_its_route_goes_to_the_leader(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: gb200\nregion: us-east-1\norchestrator: eks\n"
        "network: { availability_zone: us-east-1-dfw-2a }\n"
        "eks: { software: { compute_domains: true } }\n"
        "inference: { fleets: { large: { instance_type: p6e-gb200.36xlarge, nodes: 18, nodes_per_server: 18, "
        f"capacity: {{ {RACK}, ends_at: 2026-12-15T11:30Z }}, server: {{ image: vllm/vllm-openai:v0.21.0, "
        "secrets: { TOKEN: { arn: 'arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf' } } } } } }\n"
    )
    spec = read_cluster(file).spec
    assert spec is not None
    text = cluster_manifests(spec)["services/large.yaml"]
    assert "Secret large-server is not made here" in text
    objects: list[Any] = objects_of({"services/large.yaml": text})
    assert [one["kind"] for one in objects] == ["ComputeDomain", "LeaderWorkerSet", "Service", "PodDisruptionBudget"]
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)
    servers = objects[1]["spec"]
    assert (servers["replicas"], servers["leaderWorkerTemplate"]["size"]) == (1, 18)

    gateway = GatewaySpec(plain_http=True, clients=("10.0.0.0/16",))
    routed = spec.model_copy(update={"eks": spec.eks.model_copy(update={"gateway": gateway})})
    route: list[Any] = objects_of({"routes/large.yaml": cluster_manifests(routed)["routes/large.yaml"]})
    (rule,) = next(one for one in route if one["kind"] == "HTTPRoute")["spec"]["rules"]
    assert [one["name"] for one in rule["backendRefs"]] == [objects[2]["metadata"]["name"]]


def test_every_job_claims_its_efa_interfaces_where_the_driver_gives_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    text = (
        "version: 1\nname: lab\nregion: us-east-1\norchestrator: eks\nnetwork: { availability_zone: us-east-1a }\n"
        "eks: { software: { efa: dra-driver, ray: true, trainer: true } }\n"
        "training: { fleets: { trainers: { instance_type: p5.48xlarge, nodes: 2 } } }\n"
    )
    file.write_text(text)
    spec = read_cluster(file).spec
    assert spec is not None
    files = cluster_manifests(spec)
    assert "aws-dranet" in files["install.sh"]
    assert "aws-efa-k8s-device-plugin" not in files["install.sh"]
    objects: list[Any] = objects_of(files)
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)
    templates = {one["metadata"]["name"] for one in objects if one["kind"] == "ResourceClaimTemplate"}
    assert templates == {f"trainers-{job}-efa" for job in ("job", "train-job", "nccl-test", "ray")}
    # The quota of the queue has the resource, under which Kueue counts the claims.
    jobs = [str(one) for one in objects if one["kind"] in {"JobSet", "TrainingRuntime", "RayJob"}]
    assert [one for one in jobs if "resourceClaimTemplateName" not in one or "vpc.amazonaws.com/efa" in one] == []
    job = job_manifest(JobRequest(job_id="7", command=("torchrun", "train.py"), nodes=2), spec, "trainers")
    assert "kind: ResourceClaimTemplate" in job

    file.write_text(text.replace("efa: dra-driver, ", ""))
    spec = read_cluster(file).spec
    assert spec is not None
    assert "ResourceClaimTemplate" not in str(cluster_manifests(spec))


def test_jobs_outside_all_teams_have_the_nodes_that_their_queue_can_have(tmp_path: Path) -> None:
    job = "jobs/workers/torchrun.yaml"
    # 4 of 16 GPUs are of no team, 8 are lent, and 4 are kept: three of four nodes.
    (shared,) = [one for one in objects_of({job: files_of("eks-g6e-teams", tmp_path)[job]}) if one["kind"] == "JobSet"]
    (replicated,) = shared["spec"]["replicatedJobs"]  # type: ignore[index]
    assert replicated["template"]["spec"]["parallelism"] == 3
    kept = "\neks: { teams: { all: { quotas: [{ fleet: trainers, nominal: 128, lending_limit: 0 }] } } }\n"
    assert not [path for path in files_of("p5-lustre", tmp_path, kept) if path.startswith("jobs/trainers")]
    assert [path for path in files_of("p5-lustre", tmp_path) if path.startswith("jobs/trainers")]


def test_in_a_closed_network_charts_and_their_images_come_from_the_mirror(tmp_path: Path) -> None:
    mirror = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"
    files = files_of("eks-p5-capacity-block", tmp_path)
    file = tmp_path / "cluster.yaml"
    file.write_text(file.read_text().replace("eks:\n", f"eks:\n  software: {{ mirror: {mirror} }}\n"))
    spec = read_cluster(file).spec
    assert spec is not None
    mirrored = cluster_manifests(spec)
    public = re.compile(r"nvcr\.io|registry\.k8s\.io|ghcr\.io|602401143452|https://|public\.ecr\.aws|quay\.io")

    assert public.search(files["install.sh"])
    assert not public.search(mirrored["install.sh"])
    for path, text in mirrored.items():
        assert not public.search(text), path


@pytest.mark.parametrize("name", ["eks-p5-capacity-block", "eks-p4d-mig", "eks-p5-slurm"])
def test_the_script_installs_charts_then_objects_with_what_the_stacks_tell(name: str, tmp_path: Path) -> None:
    files = files_of(name, tmp_path)
    for path, text in files.items():
        target = tmp_path / "manifests" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    tools = tmp_path / "bin"
    tools.mkdir()
    record = tmp_path / "record"
    fakes = {
        "helm": 'echo "helm $3" >>"$RECORD"\n',
        "kubectl": 'echo "kubectl $(cat "$([ "$3" = - ] && echo /dev/stdin || echo "$3")" | grep -c "^kind:")" >>"$RECORD"\n',
        "aws": 'echo "value-of-$(echo "$*" | sed "s/.*OutputKey==.\\([A-Za-z]*\\).*/\\1/")"\n',
        "envsubst": 'tee -a "$RECORD.in" | sed "s/\\${CORPUS_FILE_SYSTEM_ID}/$CORPUS_FILE_SYSTEM_ID/"\n',
    }
    for tool, body in fakes.items():
        (tools / tool).write_text(f"#!/bin/sh\n{body}")
        (tools / tool).chmod(0o755)
    done = subprocess.run(
        ["sh", str(tmp_path / "manifests" / "install.sh")],
        env={"PATH": f"{tools}:{os.environ['PATH']}", "RECORD": str(record)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = record.read_text().splitlines()
    charts = [path.split("/")[1].split("-", 1)[1].removesuffix(".values.yaml") for path in files if "values" in path]
    assert [step for step in steps if step.startswith("helm")] == [f"helm {chart}" for chart in charts]
    first_object = next(index for index, step in enumerate(steps) if step.startswith("kubectl"))
    assert first_object == len(charts)
    assert len(steps) - first_object == sum(path.startswith(("cluster/", "services/")) for path in files)


@pytest.mark.parametrize("name", ["eks-p5-capacity-block", "eks-g6e-vllm", "eks-p5-slurm"])
def test_the_script_is_sound_shell(name: str, tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text(files_of(name, tmp_path)["install.sh"])
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_script_stops_where_a_stack_lacks_an_output(tmp_path: Path) -> None:
    (tmp_path / "install.sh").write_text(files_of("eks-p5-capacity-block", tmp_path)["install.sh"])
    for tool, body in {"helm": "", "aws": "echo None\n", "kubectl": "exit 9\n"}.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{body}")
        (tmp_path / tool).chmod(0o755)
    done = subprocess.run(
        ["sh", str(tmp_path / "install.sh")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "deploy it first" in done.stderr) == (1, True)
