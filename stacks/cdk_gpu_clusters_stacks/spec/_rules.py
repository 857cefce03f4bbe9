"""Rules of the cluster file as a text: what is wrong before any rule about clusters can be asked."""

from __future__ import annotations

from cdk_gpu_clusters.errors import define_rule

_FORMAT = "cluster file format, version 1"

READABLE = define_rule("GPU-SPEC-001", "the cluster file can be read as UTF-8 text", source=_FORMAT)
YAML_SYNTAX = define_rule("GPU-SPEC-002", "the cluster file is one plain YAML document", source="YAML 1.2.2, yaml.org")
MAPPING = define_rule("GPU-SPEC-003", "the cluster file is a mapping of keys to values", source=_FORMAT)
DUPLICATE_KEY = define_rule("GPU-SPEC-004", "a key appears once in its mapping", source="YAML 1.2.2, section 3.2.1.3")
UNKNOWN_KEY = define_rule("GPU-SPEC-005", "every key is one that the format has", source=_FORMAT)
MISSING_KEY = define_rule("GPU-SPEC-006", "every required key is there", source=_FORMAT)
WRONG_TYPE = define_rule("GPU-SPEC-007", "a value has the type that its key asks for", source=_FORMAT)
WRONG_VALUE = define_rule("GPU-SPEC-008", "a value is one of those that its key accepts", source=_FORMAT)
ONE_FORM = define_rule("GPU-SPEC-009", "a value with several forms has exactly one of them", source=_FORMAT)
ORCHESTRATOR = define_rule("GPU-SPEC-010", "the orchestrator is one that this version builds", source=_FORMAT)
NAME = define_rule(
    "GPU-SPEC-011",
    "a name is valid in the names of stacks",
    source='AWS CloudFormation user guide, "Specify stack details": letters, digits, hyphens, at most 128 characters',
)
NODE_COUNT = define_rule("GPU-SPEC-012", "a fleet has a number of nodes, or a range", source=_FORMAT)
USER_DATA_FILE = define_rule("GPU-SPEC-013", "a script that the file names exists and is UTF-8 text", source=_FORMAT)
TAGS = define_rule(
    "GPU-SPEC-014",
    "tags keep the limits of AWS",
    source='AWS Tagging guide, "Tag naming limits and requirements": 50 per resource, key 1 to 128, '
    'value 0 to 256 characters, no key that starts with aws:; AWS IAM user guide, "Tags for IAM resources": letters, '
    "numbers, spaces and _ . : / = + - @, keys that do not differ in case alone",
)
SUBNET_RANGE = define_rule("GPU-SPEC-015", "an address range describes the subnet that the fleets use", source=_FORMAT)
FIXED_SIZE = define_rule(
    "GPU-SPEC-018",
    "a fleet on a block has a fixed number of nodes",
    source='EC2 Auto Scaling guide, "Use Capacity Blocks": scale out at the start, to zero before the end',
)
SUBNET_TWICE = define_rule("GPU-SPEC-019", "a subnet is named once", source=_FORMAT)
STORE = define_rule(
    "GPU-SPEC-021", "a store that a fleet names is in data, and is of the kind asked for", source=_FORMAT
)
STORE_SUBNET = define_rule(
    "GPU-SPEC-022",
    "a file system is in one subnet of the network, named where there are several",
    source="FSx API reference, CreateFileSystem: SubnetIds; its change replaces the file system",
)
EXPRESS_ZONE = define_rule(
    "GPU-SPEC-023",
    "a directory bucket is in the zone of the fleets, which can reach it",
    source='Amazon S3 user guide, "Networking for directory buckets": one zone, and a gateway endpoint of its own',
)
STORE_CHANGE = define_rule(
    "GPU-SPEC-024",
    "no change of the file replaces a store that is deployed",
    source="CloudFormation schemas of AWS::FSx::FileSystem, AWS::S3::Bucket and AWS::S3Express::DirectoryBucket "
    "(cfn-lint 1.58.0): createOnlyProperties",
)
FOREIGN_GROUP = define_rule(
    "GPU-SPEC-020",
    "a resource group of reservations is in the cluster's Region",
    source='AWS EC2 user guide, "Capacity Reservation groups": reservations and groups are regional',
)
FLEETS = define_rule("GPU-SPEC-026", "a cluster has a fleet, in training or in inference", source=_FORMAT)
FLEET_NAME = define_rule(
    "GPU-SPEC-027",
    "no two fleets have one name",
    source="the stacks of reservations made here are named after fleets of both kinds",
)
PUBLIC_SUBNETS = define_rule(
    "GPU-SPEC-028",
    "an internet-facing load balancer is in public subnets of an existing network",
    source="Elastic Load Balancing user guide for Application Load Balancers: two zones; a network made here has one "
    "public subnet at most, its NAT gateway's",
)
CLOSED_REGISTRY = define_rule(
    "GPU-SPEC-029",
    "in a closed network made here images come from ECR in its Region",
    source="Amazon ECR user guide, interface VPC endpoints: a Region's endpoint serves its own registries",
)
FOREIGN_ARN = define_rule(
    "GPU-SPEC-030",
    "certificates and secrets are in the cluster's Region",
    source='Elastic Load Balancing user guide for Application Load Balancers, "SSL certificates"; AWS Secrets Manager '
    "and Systems Manager API references: regional",
)
SERVICE_SUBNETS = define_rule(
    "GPU-SPEC-031",
    "inference nodes without reserved capacity are in service_subnets of an existing network",
    source=_FORMAT,
)
SILENT_ALARMS = define_rule("GPU-SPEC-032", "alarms that are switched off have no recipients", source=_FORMAT)
BLOCK_SHRINKS = define_rule(
    "GPU-SPEC-042",
    "a fleet keeps all nodes of a Capacity Block that it was deployed with",
    source='EC2 user guide, "Capacity Blocks for ML": a block is paid for up front',
)
NO_LOCAL_DISKS = define_rule(
    "GPU-SPEC-043",
    "scratch is asked for on types with local disks",
    source="EC2 DescribeInstanceTypes, InstanceStorageInfo",
)
PCS_SECTION = define_rule("GPU-SPEC-044", "the section of a Slurm cluster is for orchestrator pcs", source=_FORMAT)
PCS_EXISTING = define_rule(
    "GPU-SPEC-045", "a Slurm cluster is made here, or exists already: then others say how it is", source=_FORMAT
)
PCS_INFERENCE = define_rule(
    "GPU-SPEC-046",
    "a Slurm cluster has training fleets only",
    source="slurm.conf(5): Slurm runs jobs; this library has model servers on plain EC2 and on Amazon EKS",
)
PCS_LOGIN = define_rule(
    "GPU-SPEC-047",
    "login nodes have no accelerators, and mount file systems of the file",
    source='AWS PCS user guide, "AWS PCS login nodes": users submit jobs there, and none runs there',
)
PCS_QUEUE = define_rule(
    "GPU-SPEC-048",
    "queues and settings of nodes name training fleets, and every training fleet is in a queue",
    source='AWS PCS user guide, "AWS PCS queues"',
)
PCS_USERS = define_rule(
    "GPU-SPEC-049", "the list of users is a YAML file in the folder of the cluster file or below it", source=_FORMAT
)
EKS_SECTION = define_rule("GPU-SPEC-033", "the section of an EKS cluster is for orchestrator eks", source=_FORMAT)
EKS_EXISTING = define_rule(
    "GPU-SPEC-034",
    "a cluster of EKS is made here, or exists already: then others say how it is",
    source=_FORMAT,
)
EKS_SUBNETS = define_rule(
    "GPU-SPEC-035",
    "a cluster of EKS that is made in an existing network gets service_subnets in two zones",
    source='Amazon EKS user guide, "View Amazon EKS networking requirements for VPC and subnets": two subnets in two '
    "Availability Zones",
)
EKS_IMAGE = define_rule(
    "GPU-SPEC-036",
    "nodes of EKS boot the image of EKS for their accelerator",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates": an image of your own takes over '
    "the bootstrap, too",
)
EKS_UNUSED = define_rule(
    "GPU-SPEC-037",
    "a key of a fleet that only plain EC2 uses has no effect on EKS",
    source="on EKS a Service takes the place of the load balancer, and kubelet that of the lifecycle hooks",
)
EKS_NEURON = define_rule(
    "GPU-SPEC-038",
    "Neuron devices are shown to pods on EKS by AWS's Neuron device plugin, which is installed by hand",
    source="AWS Neuron documentation, Kubernetes: its device plugin shows aws.amazon.com/neuron; no chart was read",
)
EKS_MIRROR = define_rule(
    "GPU-SPEC-039",
    "in a closed network made here charts and images of a cluster of EKS come from ECR in its Region",
    source="Amazon ECR user guide, interface VPC endpoints: a Region's endpoint serves its own registries",
)
EKS_GATEWAY = define_rule(
    "GPU-SRV-020",
    "a gateway of EKS has models behind it, clients before it, and a name in its hosted zone",
    source="kubernetes-sigs/aws-load-balancer-controller @ 11eb202, pkg/gateway/model/model_build_security_group.go: "
    "without source ranges all addresses may connect; kubernetes-sigs/external-dns @ 9f26451, docs/sources/gateway.md",
)
EKS_SERVING_NETWORK = define_rule(
    "GPU-SRV-021",
    "what serves models on EKS reaches AWS from the network of the cluster",
    source="AWS Load Balancer Controller: it calls EC2, Elastic Load Balancing and AWS WAF; Route 53 is reached by the "
    "internet; KEDA and Argo Rollouts query aps-workspaces",
)
EKS_QUEUE_METRICS = define_rule(
    "GPU-SRV-022",
    "KEDA and Argo Rollouts read the metrics of model servers from a workspace of monitoring.metrics",
    source="kedacore/keda @ 68a5b50, pkg/scalers/prometheus_scaler.go; argoproj/argo-rollouts @ 838d4e7, "
    "metricproviders/prometheus; a collector sends metrics to one destination",
)
CANARY_ROLLOUTS = define_rule(
    "GPU-SPEC-070",
    "a canary is of a model on Amazon EKS, with eks.software.argo_rollouts",
    source="argoproj/argo-rollouts @ 838d4e7, docs/architecture.md: without its controller a Rollout has no pods",
)
CANARY_METRICS = define_rule(
    "GPU-SPEC-071",
    "a canary is of a server of vLLM, by whose metrics it is judged",
    source="this library: the collector of a cluster file scrapes servers whose image names vLLM; vllm-project/vllm "
    "@ 005a810, vllm/v1/metrics/loggers.py",
)
EKS_NAMES = define_rule(
    "GPU-SPEC-040",
    "a fleet of model servers on EKS has a name that no job or server of another fleet gets",
    source="gpu-clusters manifests: <fleet>-job, -train-job, -nccl-test, -all, and -mig-<profile>",
)
NODE_SCALING = define_rule(
    "GPU-SPEC-060",
    "what launches nodes of Amazon EKS for pods is installed by the deployment: with orchestrator eks, and "
    "eks.software.apply",
    source=_FORMAT,
)
SLINKY_FLEETS = define_rule(
    "GPU-SPEC-061", "a Slurm cluster on Kubernetes has training fleets of the file, each once", source=_FORMAT
)
SLINKY_SIZE = define_rule(
    "GPU-SPEC-062",
    "a fleet of a Slurm cluster on Kubernetes has a fixed number of nodes",
    source="SlinkyProject/slurm-operator @ 87313da, docs/usage/autoscaling.md and helm/slurm/values.yaml: a NodeSet "
    "has `replicas` pods, unless KEDA changes them",
)
RAY_ON_EC2 = define_rule(
    "GPU-SPEC-063",
    "Ray on the nodes of a fleet is for orchestrator ec2",
    source="this library: kubelet and slurmd start the jobs of their nodes; KubeRay runs Ray on EKS",
)
SLINKY_UPDATE = define_rule(
    "GPU-SPEC-064",
    "Amazon EKS replaces nodes of a Slurm cluster only if their jobs end within 15 minutes",
    source='Amazon EKS user guide, "Understand each phase of node updates": PodEvictionFailure after 15 minutes; '
    "SlinkyProject/slurm-operator @ 87313da, internal/builder/workerbuilder/worker_pdb.go: a budget over all pods with "
    "jobs, of which none may be evicted; docs/usage/nodeset-operations.md, Workload Disruption Protection",
)
EKS_EFA = define_rule(
    "GPU-SPEC-065",
    "EFA interfaces by claims are for managed node groups with a fixed number of nodes, outside of Slurm",
    source='Amazon EKS user guide, "Manage hardware devices on Amazon EKS" (read 2026-11-27): Karpenter supports DRA '
    "since 1.15, which is later than the version of the catalogue; aws/karpenter-provider-aws @ 1d92708, "
    "charts/karpenter/values.yaml: ignoreDRARequests. This library: the tags by which the Cluster Autoscaler knows "
    "EFA, and NodeSets of Slurm, name the resource of the device plugin",
)
MODEL_OVER_NODES = define_rule(
    "GPU-SPEC-078",
    "a model over several nodes is a vLLM server on all GPUs of a fixed number of nodes, with orchestrator eks",
    source="vLLM documentation, Parallelism and Scaling: --nnodes; kubernetes-sigs/lws v0.10.0: LeaderWorkerSet. This "
    "library: nodes of inference fleets have no EFA, so that only the NVLink of an UltraServer connects them",
)
DOMAIN_SOFTWARE = define_rule(
    "GPU-SPEC-079",
    "a model over several nodes of an UltraServer has NVIDIA's DRA driver: eks.software.compute_domains",
    source="kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, docs: it makes the ResourceClaimTemplate that pods name",
)
EKS_WEIGHTS = define_rule(
    "GPU-SPEC-041",
    "weights on EKS lie on a file system that the fleet mounts, or come from S3",
    source="a pod sees no folder of its node",
)
BATCH_SECTION = define_rule("GPU-SPEC-084", "the section of AWS Batch is for orchestrator batch", source=_FORMAT)
BATCH_INFERENCE = define_rule(
    "GPU-SPEC-085",
    "AWS Batch has training fleets only",
    source='AWS Batch user guide, "Jobs": a job runs until its container ends; this library has model servers on plain '
    "EC2 and on Amazon EKS",
)
BATCH_JOBS = define_rule(
    "GPU-SPEC-086",
    "a job of AWS Batch is of a training fleet, with an image for its nodes",
    source="aws/deep-learning-containers, .github/config/image/pytorch/2.13-ec2-cuda.yml: AWS's image with PyTorch is "
    "built for NVIDIA GPUs on x86_64",
)
BATCH_UNUSED = define_rule(
    "GPU-SPEC-087",
    "a key of a fleet that containers of AWS Batch cannot use has no effect",
    source='Amazon ECS developer guide, "Task networking for tasks with the awsvpc network mode": '
    "ECS_AWSVPC_BLOCK_IMDS; containers of multi-node jobs have an interface of their own",
)
HYPERPOD_SECTION = define_rule(
    "GPU-SPEC-088", "the section of SageMaker HyperPod is for its orchestrators", source=_FORMAT
)
HYPERPOD_INFERENCE = define_rule(
    "GPU-SPEC-089",
    "a cluster of HyperPod has training fleets only",
    source="this library: it has model servers on plain EC2 and on Amazon EKS",
)
HYPERPOD_GROUPS = define_rule(
    "GPU-SPEC-090",
    "a group of HyperPod is a training fleet, whose name the groups of Slurm do not have",
    source="botocore 1.44.5, sagemaker service model: ClusterInstanceGroupSpecification: a group has a name of its own",
)
HYPERPOD_UNUSED = define_rule(
    "GPU-SPEC-091",
    "a fleet on HyperPod has no key without effect",
    source="CloudFormation registry schema of AWS::SageMaker::Cluster (2026-10-20): no such property of an instance "
    "group; SageMaker launches the nodes in an account of its own",
)
PARALLELCLUSTER_SOURCE = define_rule(
    "GPU-SPEC-092",
    "a cluster that becomes one of AWS ParallelCluster runs jobs on nodes of its own",
    source="aws-parallelcluster 3.16.1 on PyPI, Scheduling of the configuration: slurm",
)
PARALLELCLUSTER_SECTION = define_rule(
    "GPU-SPEC-093",
    "the section of a cluster of AWS ParallelCluster is for orchestrator parallelcluster",
    source=_FORMAT,
)
PARALLELCLUSTER_LOGIN = define_rule(
    "GPU-SPEC-094",
    "head and login nodes of AWS ParallelCluster have no accelerators",
    source="aws-parallelcluster 3.16.1 on PyPI: no job runs there; slurm.conf lists compute nodes only",
)
PARALLELCLUSTER_MONITORING = define_rule(
    "GPU-SPEC-095",
    "nodes that a deployment makes are shown, scraped and stopped",
    source="aws-parallelcluster 3.16.1 on PyPI: pcluster makes nodes in a stack of its own, after those of the file",
)
