"""`pcs`: the Slurm cluster of AWS PCS that the fleets join, with `orchestrator: pcs`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from cdk_gpu_clusters.node.users import UserDirectory

from ._base import AsTuple, Name, SpecModel, Text
from .changes import NO_CHANGE, Resource, makes, replaces, updates
from .data import SecurityGroupId
from .fleet import ScriptPath
from .network import Cidr

SlurmVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]{2}\.[0-9]{2}$")]
ClusterId = Annotated[str, StringConstraints(pattern=r"^pcs_[a-zA-Z0-9]+$")]
Settings = dict[Text, Text]


#: What belongs to one cluster for its life.
_MEMBERS = (Resource.COMPUTE_NODE_GROUP, Resource.FLEET_QUEUE, Resource.QUEUE, Resource.LOGIN_NODES)
#: What is written into the user data of all nodes.
_TEMPLATES = (Resource.PCS_TEMPLATE, Resource.LOGIN_TEMPLATE)


class AccountingSpec(SpecModel):
    """The accounting database of the cluster, which AWS PCS keeps."""

    enabled: Annotated[bool, updates(Resource.SLURM_CLUSTER)] = Field(
        default=True, description="Whether Slurm records jobs, for `sacct` and fair shares."
    )
    keep_days: Annotated[int | None, updates(Resource.SLURM_CLUSTER)] = Field(
        default=None, description="Days after which records are removed. Default: they are kept."
    )


class DirectorySpec(SpecModel):
    """An LDAP directory, such as AWS Managed Microsoft AD, from which nodes take their users through SSSD."""

    uris: Annotated[tuple[Text, ...], AsTuple, updates(*_TEMPLATES)] = Field(
        description="`ldaps://` addresses of its servers, in the order of preference.",
        min_length=1,
        examples=[["ldaps://ad.example.com"]],
    )
    search_base: Annotated[Text, updates(*_TEMPLATES)] = Field(
        description="Where users and groups are.", examples=["dc=example,dc=com"]
    )
    bind_dn: Annotated[Text, updates(*_TEMPLATES)] = Field(
        description="Name with which the nodes search.", examples=["cn=reader,dc=example,dc=com"]
    )
    password_secret: Annotated[Text, updates(*_TEMPLATES)] = Field(
        description="Name or ARN of the secret of Secrets Manager with the password of `bind_dn`: its text, or the "
        "JSON field `password`."
    )
    schema_name: Annotated[Literal["rfc2307", "rfc2307bis", "ad"], updates(*_TEMPLATES)] = Field(
        default="rfc2307bis", description="Schema of sssd-ldap(5); `ad` for Active Directory, whose ids are mapped."
    )
    ca_file: Annotated[Text | None, updates(*_TEMPLATES)] = Field(
        default=None,
        description="File on the node with the certificates of the directory's authority. Default: that of the image.",
    )

    @property
    def settings(self) -> UserDirectory:
        """The directory as nodes know it."""
        return UserDirectory(
            uris=self.uris,
            search_base=self.search_base,
            bind_dn=self.bind_dn,
            password_secret=self.password_secret,
            schema=self.schema_name,
            ca_file=self.ca_file or "",
        )


class LoginNodesSpec(SpecModel):
    """The small nodes on which people submit jobs. They have no public address."""

    nodes: Annotated[int, updates(Resource.LOGIN_NODES)] = Field(
        default=1, ge=0, le=10, description="Number of login nodes; 0 makes none."
    )
    instance_type: Annotated[Text, replaces(Resource.LOGIN_NODES)] = Field(
        default="m7i.large", description="EC2 instance type, without accelerators."
    )
    mounts: Annotated[
        dict[Text, Name],
        updates(Resource.LOGIN_TEMPLATE, Resource.LOGIN_NODES, Resource.LOGIN_MOUNT_RULES),
        makes(Resource.LOGIN_MOUNT_RULES),
    ] = Field(
        default={},
        description="Mount point -> store of `data`. Mount the same home directories as on the fleets.",
        examples=[{"/home": "home"}],
    )
    ssh_cidrs: Annotated[
        tuple[Cidr, ...],
        AsTuple,
        updates(Resource.LOGIN_TEMPLATE, Resource.LOGIN_SECURITY_GROUP),
        makes(Resource.LOGIN_SECURITY_GROUP),
    ] = Field(
        default=(),
        description="IPv4 ranges inside the network that may reach SSH. Default: none; sessions come through Systems "
        "Manager.",
    )
    ssh_key_name: Annotated[Text | None, updates(Resource.LOGIN_TEMPLATE)] = Field(
        default=None, description="EC2 key pair of the default user. Default: none."
    )


class QueueSpec(SpecModel):
    """A queue, which Slurm calls a partition."""

    fleets: Annotated[tuple[Name, ...], AsTuple, updates(Resource.QUEUE)] = Field(
        description="Training fleets whose nodes run its jobs.", min_length=1
    )
    slurm_settings: Annotated[Settings, updates(Resource.QUEUE)] = Field(
        default={},
        description="Settings of the partition in slurm.conf, by name.",
        examples=[{"MaxTime": "1-00:00:00"}],
    )


class ExistingPcsSpec(SpecModel):
    """A cluster of AWS PCS that exists already. Nothing is looked up."""

    cluster_id: Annotated[ClusterId, replaces(*_MEMBERS)] = Field(
        description="Id of the cluster.", examples=["pcs_abc1234567"]
    )
    slurm_version: Annotated[SlurmVersion, updates(*_TEMPLATES)] = Field(
        description="Its version of Slurm, in quotes.", examples=["26.05"]
    )
    security_group_ids: Annotated[tuple[SecurityGroupId, ...], AsTuple, updates(*_TEMPLATES)] = Field(
        description="Its security groups, which nodes join to reach the controller.", min_length=1
    )
    slurm_settings: Annotated[Settings | None, NO_CHANGE] = Field(
        default=None,
        description="Its custom settings of slurm.conf, by name, as `aws pcs get-cluster` shows them. Default: "
        "unknown, and not checked.",
        examples=[{"Prolog": "/etc/gpu-cluster/prolog.d/*"}],
    )


class PcsSpec(SpecModel):
    """The Slurm cluster: made here, or an existing one."""

    existing: Annotated[ExistingPcsSpec | None, NO_CHANGE] = Field(
        default=None, description="A cluster that exists already. Default: one is made, in a stack of its own."
    )
    size: Annotated[Literal["small", "medium", "large"], replaces(Resource.SLURM_CLUSTER)] = Field(
        default="small",
        description="Most nodes and jobs: `small` 32 and 256, `medium` 512 and 8,192, `large` 2,048 and 16,384. "
        "Another size is another cluster.",
    )
    slurm_version: Annotated[SlurmVersion | None, updates(Resource.SLURM_CLUSTER, *_TEMPLATES)] = Field(
        default=None,
        description="Version of Slurm, in quotes. Default: the one that this version of the library is tested with. "
        "AWS PCS updates the cluster in place.",
        examples=["26.05"],
    )
    accounting: Annotated[AccountingSpec, NO_CHANGE] = Field(
        default=AccountingSpec(), description="The accounting database."
    )
    slurm_settings: Annotated[Settings, updates(Resource.SLURM_CLUSTER)] = Field(
        default={},
        description="Settings of the cluster in slurm.conf, by name, over those of the library.",
        examples=[{"SchedulerParameters": "bf_continue"}],
    )
    rest_api: Annotated[bool, updates(Resource.SLURM_CLUSTER)] = Field(
        default=False, description="Whether AWS PCS runs slurmrestd, the REST API of Slurm."
    )
    metrics: Annotated[bool, updates(Resource.SLURM_CLUSTER, Resource.SCRAPER, Resource.NODE_ADDRESSES)] = Field(
        default=False,
        description="Whether the controller shows metrics in the OpenMetrics format on its port, inside the network.",
    )
    scale_down_idle_minutes: Annotated[int | None, updates(Resource.SLURM_CLUSTER)] = Field(
        default=None, ge=1, description="Minutes after which an idle node of an elastic fleet ends. Default: 10."
    )
    node_settings: Annotated[dict[Name, Settings], updates(Resource.COMPUTE_NODE_GROUP)] = Field(
        default={},
        description="Settings of the nodes of a fleet in slurm.conf: name of the fleet -> settings by name, over those "
        "of the library.",
        examples=[{"spot": {"Weight": "1"}}],
    )
    login: Annotated[LoginNodesSpec, NO_CHANGE] = Field(default=LoginNodesSpec(), description="The login nodes.")
    users: Annotated[ScriptPath | None, updates(*_TEMPLATES)] = Field(
        default=None,
        description="Path of a YAML file with the users of all nodes and their groups, relative to the cluster file. "
        "Default: the image's own user only.",
        examples=["users.yaml"],
    )
    directory: Annotated[DirectorySpec | None, updates(*_TEMPLATES)] = Field(
        default=None, description="LDAP directory from which all nodes take users, through SSSD. Default: none."
    )
    queues: Annotated[dict[Name, QueueSpec], makes(Resource.FLEET_QUEUE)] = Field(
        default={}, description="Queues by name. Default: one for each training fleet, named after it."
    )
