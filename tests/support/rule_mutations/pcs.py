"""Faults in clusters of AWS PCS, their node groups and queues, and in their Slurm settings and GRES."""

from __future__ import annotations

from collections.abc import Callable

from mutations import Mutation, drop, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first

EVERYTHING = "pcs_cluster/everything_on"
CLUSTER = "AWS::PCS::Cluster"
GROUP = "AWS::PCS::ComputeNodeGroup"
QUEUE = "AWS::PCS::Queue"
TEMPLATE = "AWS::EC2::LaunchTemplate"
ROLE = "AWS::IAM::Role"
INTERFACES = "LaunchTemplateData.NetworkInterfaces"
RECORDS = "SlurmConfiguration.GresCustomSettings"
H100 = {"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0-7]"}


def of_block(properties: Json) -> bool:
    """Whether a launch template, or a node group, launches into the Capacity Block, with EFA."""
    data = properties.get("LaunchTemplateData")
    return "InstanceMarketOptions" in data if data else properties["PurchaseOption"] == "CAPACITY_BLOCK"


def of_spot(properties: Json) -> bool:
    return bool(properties["PurchaseOption"] == "SPOT")


def of_slices(properties: Json) -> bool:
    """Whether a node group declares MIG slices."""
    return "GresCustomSettings" in properties["SlurmConfiguration"]


def has_own_reservation(properties: Json) -> bool:
    target = properties["LaunchTemplateData"].get("CapacityReservationSpecification", {})
    return "CapacityReservationResourceGroupArn" in target.get("CapacityReservationTarget", {})


def has_metrics(properties: Json) -> bool:
    """Whether it is the cluster with everything on; the other one is small and plain."""
    return bool(properties["Size"] == "MEDIUM")


def joins_pcs(properties: Json) -> bool:
    return bool(properties.get("Path") == "/aws-pcs/")


def setting(name: str, value: str | None) -> Mutation:
    """Give a custom setting of `slurm.conf` another value, or none."""

    def change(properties: Json) -> None:
        configuration = properties.setdefault("SlurmConfiguration", {})
        others = [one for one in configuration.get("SlurmCustomSettings", []) if one["ParameterName"] != name]
        given = [] if value is None else [{"ParameterName": name, "ParameterValue": value}]
        configuration["SlurmCustomSettings"] = others + given

    return change


def both(*changes: Mutation) -> Mutation:
    """Several changes."""

    def change(properties: Json) -> None:
        for each in changes:
            each(properties)

    return change


def in_script(stage: str, change: Callable[[Json], None]) -> Mutation:
    """Change the last script of a stage."""
    return lambda properties: change(properties["NodeLifecycleActions"]["Stages"][stage][-1])


def one_more_interface(properties: Json) -> None:
    interfaces = properties["LaunchTemplateData"]["NetworkInterfaces"]
    interfaces.append({**interfaces[1], "NetworkCardIndex": 0, "InterfaceType": "interface"})


def last_interface(**values: object) -> Mutation:
    return lambda properties: properties["LaunchTemplateData"]["NetworkInterfaces"][-1].update(values)


_NO_ROOM = f"""\
Content-Type: multipart/mixed; boundary="part"
MIME-Version: 1.0

--part
Content-Type: text/x-shellscript

#!/bin/sh
# {"x" * 14_000}
--part--
"""


def user_data_of_one_part(template: Json) -> None:
    _give_user_data(template, "#!/bin/sh\ntrue\n")


def user_data_without_room(template: Json) -> None:
    _give_user_data(template, _NO_ROOM)


def _give_user_data(template: Json, text: str) -> None:
    """To the nodes that nothing else in the template asks anything of."""
    (name,) = {
        one["Properties"]["CustomLaunchTemplate"]["TemplateId"]["Ref"]
        for one in template["Resources"].values()
        if one["Type"] == GROUP and of_spot(one["Properties"])
    }
    launch = template["Resources"][name]["Properties"]["LaunchTemplateData"]
    launch["UserData"] = {"Fn::Base64": text}


def clusters_at_once(template: Json) -> None:
    first(template, CLUSTER, has_metrics)["DependsOn"] = []


def _planted(
    rule: str,
    at: str,
    change: Mutation,
    where: Callable[[Json], bool] = lambda _: True,
    *,
    also: tuple[str, ...] = (),
) -> RuleMutation:
    return RuleMutation(rule=rule, template=EVERYTHING, at=at, change=change, where=where, also=also)


MUTATIONS = (
    _planted("GPU-EFA-022", TEMPLATE, last_interface(InterfaceType="efa-only"), of_block),
    _planted("GPU-EFA-023", TEMPLATE, one_more_interface, of_block),
    _planted("GPU-EFA-024", TEMPLATE, last_interface(DeviceIndex=0), of_block),
    _planted("GPU-GRES-003", GROUP, setting("Gres", "gpu:1g.5gb:57"), of_slices),
    _planted("GPU-GRES-005", GROUP, setting("Gres", "gpu::8"), of_slices),
    _planted("GPU-PCS-011", TEMPLATE, last_interface(SubnetId="subnet-0123456789abcdef9"), has_own_reservation),
    _planted("GPU-PCS-012", GROUP, put("PurchaseOption", "ONDEMAND"), of_block),
    _planted("GPU-PCS-013", GROUP, put("InstanceConfigs.0.InstanceType", "p5e.48xlarge"), of_block),
    _planted("GPU-PCS-014", ROLE, drop("Path"), joins_pcs),
    RuleMutation(rule="GPU-PCS-015", template=EVERYTHING, change_template=user_data_of_one_part),
    _planted("GPU-PCS-016", GROUP, put("ScalingConfiguration.MaxInstanceCount", 512), of_spot),
    _planted("GPU-PCS-017", CLUSTER, both(put("Scheduler.Version", "24.05"), drop("SlurmConfiguration"))),
    _planted("GPU-PCS-018", QUEUE, put("Name", "q")),
    # An idle time of its own, and slices that are detected: both of later versions than one that nears its end.
    _planted("GPU-PCS-019", CLUSTER, put("Scheduler.Version", "25.05"), has_metrics, also=("GPU-PCS-017",)),
    _planted("GPU-PCS-020", QUEUE, setting("Weight", "5")),
    _planted("GPU-PCS-021", CLUSTER, put("SlurmConfiguration.SlurmCustomSettings", [])),
    _planted("GPU-PCS-022", CLUSTER, put("SlurmConfiguration.Accounting.DefaultPurgeTimeInDays", 0)),
    _planted("GPU-PCS-023", GROUP, in_script("NodeReady", put("Name", "x" * 65))),
    _planted("GPU-PCS-024", GROUP, in_script("NodeReady", drop("ScriptSource.Checksum"))),
    _planted(
        "GPU-PCS-025",
        GROUP,
        in_script("NodeBootstrapped", lambda one: one.update(Name="verify", OnError="CONTINUE")),
        of_block,
    ),
    RuleMutation(rule="GPU-PCS-026", template=EVERYTHING, change_template=clusters_at_once),
    _planted(
        "GPU-PCS-027", CLUSTER, put("Networking.SubnetIds", ["subnet-0123456789abcde01", "subnet-0123456789abcde02"])
    ),
    _planted(
        "GPU-PCS-028",
        TEMPLATE,
        put(
            "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget",
            {"CapacityReservationId": "cr-0fedcba9876543210"},
        ),
        has_own_reservation,
    ),
    _planted("GPU-PCS-029", TEMPLATE, put("LaunchTemplateData.DisableApiTermination", True)),
    _planted(
        "GPU-PCS-030",
        GROUP,
        both(setting("Gres", "gpu:h100:8"), put(RECORDS, [{**H100, "File": "/dev/nvidia[0-3]"}])),
        of_block,
    ),
    _planted(
        "GPU-PCS-031",
        GROUP,
        both(setting("Gres", "gpu:h100:8"), put(RECORDS, [{**H100, "NodeName": "nodes-[1-2]"}])),
        of_block,
    ),
    _planted("GPU-PCS-032", GROUP, both(setting("Gres", None), drop(RECORDS)), of_slices),
    _planted("GPU-PCS-033", GROUP, setting("Parameters", "l3cache_as_socket"), of_block),
    _planted("GPU-PCS-034", GROUP, put("ScalingConfiguration.MinInstanceCount", 0), of_slices),
    # The block has one type, and a smaller one of the family has fewer cards.
    _planted(
        "GPU-PCS-035",
        GROUP,
        lambda group: group["InstanceConfigs"].append({"InstanceType": "p5.4xlarge"}),
        of_block,
        also=("GPU-EFA-004", "GPU-EFA-006", "GPU-FAB-005", "GPU-PCS-013"),
    ),
    _planted("GPU-PCS-036", GROUP, put("ScalingConfiguration.MinInstanceCount", 9), of_spot),
    _planted("GPU-PCS-037", CLUSTER, setting("CommunicationParameters", None), has_metrics),
    RuleMutation(rule="GPU-PCS-039", template=EVERYTHING, change_template=user_data_without_room),
    _planted("GPU-PCS-040", CLUSTER, setting("PrologFlags", "Alloc,Contain,NoHold")),
    _planted("GPU-PCS-041", CLUSTER, setting("PrologFlags", "Alloc")),
    _planted("GPU-PCS-043", CLUSTER, put("SlurmConfiguration.CgroupCustomSettings.0.ParameterValue", "no")),
)
