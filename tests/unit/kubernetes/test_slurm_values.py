"""Values of Slinky's chart from groups of nodes: the files of Slurm, what a user adds, and what cannot work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.software import SlurmCluster, SlurmDatabase, slurm_values
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.slurm_conf import JOB_SETTINGS
from kubernetes_pools import CORPUS, VERSIONS
from kubernetes_schemas import check_objects

TRAIN = node_pool("train", instance_type="p5.48xlarge", node_count=16, mounts={"/fsx": CORPUS})
B200 = node_pool("b200", instance_type="p6-b200.48xlarge", node_count=2)
CPU = node_pool("cpu", instance_type="m7i.4xlarge", node_count=4)
SLICES = node_pool(
    "slices", instance_type="p4d.24xlarge", node_count=2, efa=False, mig=MigLayout(["3g.20gb", "2g.10gb", "1g.5gb"])
)
IDS = {"slices": [[2, 3, 9]] * 8}


def _database(host: str = "DB.lab.internal", *, secret: str | None = None) -> SlurmDatabase:
    return SlurmDatabase(host=host, secret_name=secret or "db.password")


def errors(pools: list[NodePool], cluster: SlurmCluster | None = None) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        slurm_values(pools, cluster)
    return [(one.id, one.path) for one in caught.value.findings]


def test_whole_gpus_are_detected_without_nvml_and_with_it_where_the_image_has_it() -> None:
    plain = slurm_values([TRAIN, CPU])
    assert plain["configFiles"]["gres.conf"] == "AutoDetect=nvidia\n"
    assert plain["nodesets"]["train"]["extraConfMap"] == {"Gres": "gpu:h100:8"}
    assert "extraConfMap" not in plain["nodesets"]["cpu"]
    image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/slurmd:nvml"
    with_nvml = slurm_values([TRAIN, SLICES, CPU], SlurmCluster(nvml_image=image))
    assert with_nvml["configFiles"]["gres.conf"] == "AutoDetect=nvml\n"
    images = {name: one["slurmd"]["image"] for name, one in with_nvml["nodesets"].items()}
    assert images["train"] == images["slices"] == image
    assert images["cpu"] == plain["nodesets"]["cpu"]["slurmd"]["image"]


def test_slices_without_nvml_have_a_record_each_for_the_nodes_of_their_group() -> None:
    text = slurm_values([TRAIN, SLICES], SlurmCluster(gpu_instance_ids=IDS))["configFiles"]["gres.conf"]
    first, second, *records = text.splitlines()
    assert (first, second) == ("AutoDetect=nvidia", "NodeName=slices-[0-1] AutoDetect=off")
    assert len(records) == 8 * 3
    assert all(one.startswith("NodeName=slices-[0-1] Name=gpu Type=") for one in records)
    only = slurm_values([SLICES], SlurmCluster(gpu_instance_ids=IDS))
    assert only["nodesets"]["slices"]["extraConfMap"] == {"Gres": "gpu:3g.20gb:8,gpu:2g.10gb:8,gpu:1g.5gb:8"}
    assert only["configFiles"]["gres.conf"].startswith("NodeName=slices-[0-1] AutoDetect=off")


def test_nodes_without_gpus_need_no_gres() -> None:
    values = slurm_values([CPU])
    assert list(values["configFiles"]) == ["cgroup.conf"]
    assert "GresTypes" not in values["controller"]["extraConfMap"]
    assert values["accounting"] == {"enabled": False}


def test_each_depth_of_the_network_has_a_tree_of_its_own() -> None:
    values = slurm_values([TRAIN, B200, CPU])
    topologies = yaml.safe_load(values["configFiles"]["topology.yaml"])
    assert topologies == [
        {"topology": "flat", "cluster_default": True, "flat": True},
        {"topology": "ec2-3", "cluster_default": False, "tree": {"switches": [{"switch": "ec2-3"}]}},
        {"topology": "ec2-4", "cluster_default": False, "tree": {"switches": [{"switch": "ec2-4"}]}},
    ]
    partitions = {name: one["partition"]["configMap"] for name, one in values["nodesets"].items()}
    assert {name: one.get("Topology") for name, one in partitions.items()} == {
        "train": "ec2-3", "b200": "ec2-4", "cpu": None,
    }  # fmt: skip
    assert [name for name, one in partitions.items() if one.get("Default") == "YES"] == ["train"]
    unknown = node_pool("train", instance_type="p5.48xlarge", node_count=2, network_topology=False)
    assert "topology.yaml" not in slurm_values([unknown])["configFiles"]


def test_settings_of_the_user_join_ours() -> None:
    database = SlurmDatabase(host="db.example", secret_name="db")
    cluster = SlurmCluster(accounting=database, settings={"PrologFlags": "X11", "JobRequeue": "0", "MinJobAge": "60"})
    assert slurm_values([TRAIN], cluster)["controller"]["extraConfMap"] == {
        **JOB_SETTINGS,
        "PrologFlags": "Alloc,Contain,X11",
        "JobRequeue": "0",
        "MinJobAge": "60",
        "ReturnToService": "2",
        "TaskPlugin": "task/affinity,task/cgroup",
        "GresTypes": "gpu",
        "AccountingStorageTRES": "gres/gpu",
    }


def test_values_of_the_user_replace_ours_key_by_key() -> None:
    given = {"nodesets": {"train": {"replicas": 4}}, "restapi": {"replicas": 2}}
    values, before = slurm_values([TRAIN], SlurmCluster(values=given)), slurm_values([TRAIN])
    assert values["nodesets"]["train"] == {**before["nodesets"]["train"], "replicas": 4}
    assert values["restapi"] == {**before["restapi"], "replicas": 2}


def test_logins_know_users_of_a_directory_and_can_be_left_out() -> None:
    values = slurm_values([TRAIN], SlurmCluster(sssd_secret="directory", root_authorized_keys="ssh-ed25519 A"))
    assert values["sssd"] == {"secretRef": {"name": "directory", "key": "sssd.conf"}}
    assert values["loginsets"]["login"]["rootSshAuthorizedKeys"] == "ssh-ed25519 A"
    assert slurm_values([TRAIN], SlurmCluster(login=False))["loginsets"] == {}


def test_the_state_has_a_storage_class_made_here_or_the_one_that_is_named() -> None:
    values = slurm_values([TRAIN])
    assert values["controller"]["persistence"] == {"storageClassName": values["extraObjects"][0]["metadata"]["name"]}
    named = slurm_values([CPU], SlurmCluster(storage_class="gp3"))
    assert (named["controller"]["persistence"], named["extraObjects"]) == ({"storageClassName": "gp3"}, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_user_sees_of_files_is_on_nodes_and_logins(version: str) -> None:
    values = slurm_values([TRAIN, CPU])
    volumes = [one for one in values["extraObjects"] if one["kind"].startswith("PersistentVolume")]
    assert [(one["kind"], one["metadata"]["name"]) for one in volumes] == [
        ("PersistentVolume", f"slurm-{CORPUS.name}"),
        ("PersistentVolumeClaim", CORPUS.name),
    ]
    assert volumes[1]["metadata"]["namespace"] == "slurm"
    assert check_objects(volumes, version) == 2
    pods = [_pod("slurmd", one) for one in values["nodesets"].values()]
    pods += [_pod("login", one) for one in values["loginsets"].values()]
    assert check_objects(pods, version) == len(pods)
    mounted = [
        {one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]} - {"/dev/shm"}  # noqa: S108
        for pod in pods
    ]
    assert mounted == [{"/fsx"}, set(), {"/fsx"}]


def _pod(container: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """The pod that the operator makes, as far as it comes from here: its fields have no schema in the CRDs."""
    image = part[container]["image"]
    made = {**part[container], "name": container, "image": f"{image['repository']}:{image['tag']}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": container},
        "spec": {**part["podSpec"], "containers": [made]},
    }


@pytest.mark.parametrize(
    ("pools", "cluster", "expected"),
    [
        ([], None, [("GPU-SLK-001", "pools")]),
        ([TRAIN, TRAIN], None, [("GPU-SLK-001", "pools")]),
        ([node_pool("default", instance_type="p5.48xlarge", node_count=1)], None, [("GPU-SLK-001", "pools")]),
        ([node_pool("big", instance_type="m7i.large", node_count=1025)], None, [("GPU-SLK-001", "pools")]),
        (
            [node_pool("a" * 40, instance_type="m7i.large", node_count=1)],
            None,
            [("GPU-K8S-001", f"pools.{'a' * 40}")],
        ),
        ([CPU], SlurmCluster(accounting=_database(host="db:3306")), [("GPU-SLK-004", "accounting.host")]),
        ([CPU], SlurmCluster(accounting=_database(secret="My_DB")), [("GPU-SLK-004", "accounting.secret_name")]),
        (
            [CPU],
            SlurmCluster(sssd_secret="of users", storage_class="-gp3"),
            [("GPU-SLK-004", "sssd_secret"), ("GPU-SLK-004", "storage_class")],
        ),
        ([SLICES], None, [("GPU-GRES-006", "pools.slices.mig")]),
        (
            [SLICES],
            SlurmCluster(gpu_instance_ids={"slices": [[2]]}),
            [("GPU-GRES-002", "pools.slices.gpu_instance_ids")],
        ),
        ([TRAIN], SlurmCluster(gpu_instance_ids=IDS), [("GPU-SLK-003", "gpu_instance_ids")]),
        ([TRAIN], SlurmCluster(values={"nodesets": {"trian": {"replicas": 1}}}), [("GPU-SLK-003", "nodesets")]),
        (
            [TRAIN],
            SlurmCluster(values={"nodesets": {"train": {"extraConfMap": {"Gres": ["gpu:1g.10gb:7"]}}}}),
            [("GPU-GRES-003", "nodesets.train.extraConfMap.Gres")],
        ),
        (
            [TRAIN],
            SlurmCluster(values={"nodesets": {"train": {"extraConfMap": {"Gres": "gpu:h100:16"}}}}),
            [("GPU-GRES-003", "nodesets.train.extraConfMap.Gres")],
        ),
        (
            [TRAIN],
            SlurmCluster(values={"loginsets": {"login": {"service": {"spec": {"type": "LoadBalancer"}}}}}),
            [("GPU-SLK-002", "loginsets.login.service")],
        ),
        (
            [TRAIN],
            SlurmCluster(settings={"ReturnToService": "1", "returntoservice": "0"}),
            [("GPU-SLK-005", "settings.ReturnToService"), ("GPU-SLK-005", "settings.returntoservice")],
        ),
        (
            [TRAIN],
            SlurmCluster(values={"controller": {"extraConfMap": {"ReturnToService": 0}}}),
            [("GPU-SLK-005", "controller.extraConfMap.ReturnToService")],
        ),
        # The text replaces all of the map.
        (
            [TRAIN],
            SlurmCluster(values={"controller": {"extraConf": "MinJobAge=60"}}),
            [("GPU-SLK-005", "controller.extraConf.ReturnToService")],
        ),
        # Without a type the chart's own stands.
        ([TRAIN], SlurmCluster(values={"loginsets": {"more": {}}}), [("GPU-SLK-002", "loginsets.more.service")]),
    ],
)
def test_what_cannot_work_is_found(
    pools: list[NodePool], cluster: SlurmCluster | None, expected: list[tuple[str, str]]
) -> None:
    assert errors(pools, cluster) == expected


@pytest.mark.parametrize(
    ("pools", "values"),
    [
        ([node_pool("big", instance_type="m7i.large", node_count=1024)], {}),
        ([node_pool("a" * 39, instance_type="m7i.large", node_count=1)], {}),
        ([TRAIN], {"nodesets": {"train": {"extraConfMap": {"Gres": "gpu:h100:8"}}}}),
        ([TRAIN], {"controller": {"extraConfMap": {"ReturnToService": "2"}}}),
        ([TRAIN], {"controller": {"extraConf": "# ours\nMinJobAge=60\nreturnToService=2\n"}}),
        ([TRAIN], {"loginsets": {"more": {"service": {"spec": {"type": "ClusterIP"}}}}}),
        (
            [TRAIN],
            {
                "loginsetDefaults": {
                    "service": {
                        "metadata": {
                            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}
                        },
                    }
                },
                "loginsets": {"login": {"service": {"spec": {"type": "LoadBalancer"}}}},
            },
        ),
    ],
)
def test_what_is_nearest_to_it_is_not(pools: list[NodePool], values: Mapping[str, Any]) -> None:
    cluster = SlurmCluster(values=values, accounting=_database(), storage_class="gp3.fast")
    assert slurm_values(pools, cluster)["clusterName"] == "slurm"
