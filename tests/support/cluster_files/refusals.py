"""What examples cannot do under another orchestrator."""

from __future__ import annotations

#: Example -> orchestrators, and the rules that refuse the example there, each at the key that it is about.
_TABLE: dict[str, dict[str, list[str]]] = {
    "batch-p5-capacity-block": {
        # HyperPod buys in its own way.
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
        ],
    },
    "eks-g5-dev": {
        # Spot.
        "batch": ["training.fleets.dev.capacity GPU-BAT-010"],
        "hyperpod-slurm hyperpod-eks": ["training.fleets.dev.max_nodes GPU-HYP-011"],
    },
    "eks-g6e-canary": {
        # On EKS, pods call the servers.
        "ec2": ["inference.fleets.chat.load_balancer GPU-INF-012"],
        # Slurm runs jobs, and no servers.
        "pcs": ["inference.fleets.chat GPU-SPEC-046"],
        # AWS Batch runs jobs, and no servers.
        "batch": ["monitoring.metrics GPU-SCR-002", "inference.fleets.chat GPU-SPEC-085"],
        "parallelcluster": ["monitoring.metrics GPU-SPEC-095", "inference.fleets.chat GPU-SPEC-046"],
        # HyperPod has no model servers of the file.
        "hyperpod-slurm": ["monitoring.metrics GPU-SCR-002", "inference.fleets.chat GPU-SPEC-089"],
        "hyperpod-eks": [
            "monitoring.metrics GPU-SCR-002",
            "eks.gateway GPU-SPEC-091",
            "inference.fleets.chat GPU-SPEC-089",
        ],
    },
    "eks-g6e-teams": {
        "hyperpod-eks": ["eks.teams GPU-SPEC-091"],
    },
    "eks-g6e-vllm": {
        "ec2": ["inference.fleets.llama.load_balancer GPU-INF-012"],
        "pcs parallelcluster": ["inference.fleets.llama GPU-SPEC-046"],
        "batch": ["inference.fleets.llama GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.llama GPU-SPEC-089"],
    },
    "eks-karpenter": {
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.jobs.max_nodes GPU-HYP-011",
            "training.fleets.notebooks.max_nodes GPU-HYP-011",
        ],
    },
    "eks-p4d-mig": {
        "ec2": ["inference.fleets.slices.load_balancer GPU-INF-012"],
        "pcs parallelcluster": ["inference.fleets.slices GPU-SPEC-046"],
        "batch": ["inference.fleets.slices GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.slices GPU-SPEC-089"],
    },
    "eks-p5-capacity-block": {
        "hyperpod-slurm hyperpod-eks": ["training.fleets.trainers.capacity GPU-HYP-010"],
    },
    "eks-p5-slurm": {
        "hyperpod-slurm hyperpod-eks": ["training.fleets.trainers.capacity GPU-HYP-010"],
    },
    "g5-single-gpu": {
        "pcs parallelcluster": ["inference.fleets.bert GPU-SPEC-046"],
        "batch": ["inference.fleets.bert GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.bert GPU-SPEC-089"],
    },
    "g6-dev-node": {
        # A closed network.
        "batch": ["training.fleets.dev GPU-SPEC-029"],
        "parallelcluster": ["network.egress GPU-PCL-017"],
    },
    "g6e-tensor-parallel": {
        "pcs parallelcluster": ["inference.fleets.llama GPU-SPEC-046"],
        "batch": ["inference.fleets.llama GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.llama GPU-SPEC-089"],
    },
    "hyperpod-eks-p5": {
        # A training plan, into which only SageMaker launches.
        "ec2 eks pcs batch parallelcluster": ["training.fleets.trainers.capacity GPU-HYP-025"],
    },
    "hyperpod-slurm-p5": {
        "ec2 eks pcs batch": ["training.fleets.trainers.capacity GPU-HYP-025"],
        "parallelcluster": ["training.fleets.trainers.capacity GPU-HYP-025", "monitoring.dashboard GPU-SPEC-095"],
    },
    "inf2-neuron": {
        # No such image with these drivers, or for this architecture.
        "pcs": ["inference.fleets.neuron GPU-SPEC-046", "inference.fleets.neuron.instance_type GPU-AMI-001"],
        "batch": ["inference.fleets.neuron GPU-SPEC-085"],
        "parallelcluster": ["inference.fleets.neuron GPU-SPEC-046"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.neuron GPU-SPEC-089"],
    },
    "p4d-mig-56-slices": {
        "pcs parallelcluster": ["inference.fleets.slices GPU-SPEC-046"],
        "batch": ["inference.fleets.slices GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.slices GPU-SPEC-089"],
    },
    "p4d-new-reservation": {
        "hyperpod-slurm hyperpod-eks": ["training.fleets.trainers.capacity GPU-HYP-010"],
    },
    "p4de-base-pod": {
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
        ],
    },
    "p5-capacity-block": {
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.root_volume GPU-HYP-011",
        ],
    },
    "p5-lustre": {
        # Nodes without GPUs, whose job needs an image.
        "batch": ["training.fleets.preprocessing GPU-SPEC-086"],
        # Nodes of two architectures.
        "parallelcluster": ["training.fleets GPU-PCL-011"],
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
        ],
    },
    "p5-mixed-mig": {
        "pcs parallelcluster": ["inference.fleets.mixed GPU-SPEC-046"],
        "batch": ["inference.fleets.mixed GPU-SPEC-085"],
        "hyperpod-slurm hyperpod-eks": ["inference.fleets.mixed GPU-SPEC-089"],
    },
    "p5en-express-preprocessing": {
        "batch": ["training.fleets.preprocessing GPU-SPEC-086", "training.fleets.preprocessing.capacity GPU-BAT-010"],
        "parallelcluster": ["training.fleets GPU-PCL-011"],
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
            "training.fleets.preprocessing.max_nodes GPU-HYP-011",
        ],
    },
    "p5en-spot": {
        # A limit of the Spot price.
        "eks": ["training.fleets.trainers.capacity GPU-EKS-041"],
        # A limit of the Spot price.
        "pcs": ["training.fleets.trainers.capacity GPU-PCS-061"],
        "batch": ["training.fleets.trainers.capacity GPU-BAT-010"],
        "hyperpod-slurm hyperpod-eks": ["training.fleets.trainers.capacity GPU-HYP-010"],
    },
    "p6-b300-existing-reservation": {
        # An existing network with subnets in one zone.
        "eks": ["network GPU-SPEC-035", "training.fleets.trainers.image GPU-SPEC-036"],
        # An image with a framework.
        "batch": ["training.fleets.trainers.image.os GPU-AMI-002"],
        "hyperpod-slurm": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.image GPU-HYP-011",
        ],
        "hyperpod-eks": [
            "network GPU-SPEC-035",
            "network.cidr GPU-IP-003",
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.image GPU-HYP-011",
        ],
    },
    "p6e-gb200-ultraserver": {
        # The block without its id.
        "eks": ["training.fleets.rack.capacity GPU-EKS-040"],
        "batch": [
            "training.fleets.rack GPU-SPEC-086",
            "training.fleets.rack.interface_policy GPU-BAT-009",
            "training.fleets.rack.instance_type GPU-AMI-001",
        ],
        # The block without its id.
        "parallelcluster": ["training.fleets.rack.capacity GPU-PCL-009"],
        "hyperpod-slurm hyperpod-eks": ["training.fleets.rack.capacity GPU-HYP-010"],
    },
    "parallelcluster-p5": {
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
        ],
    },
    "pcs-p4d-mig": {
        # MIG.
        "batch": ["training.fleets.slices.mig GPU-BAT-011"],
        # MIG.
        "parallelcluster": ["training.fleets.slices.mig GPU-PCL-003"],
        # MIG.
        "hyperpod-slurm": ["training.fleets.slices.mig GPU-HYP-016"],
    },
    "pcs-p5-capacity-block": {
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.trainers.checkpoints GPU-HYP-023",
        ],
    },
    "pcs-spot-queue": {
        "batch": ["training.fleets.spot.capacity GPU-BAT-010"],
        "hyperpod-eks": [
            "training.fleets.spot.max_nodes GPU-HYP-011",
            "training.fleets.steady.max_nodes GPU-HYP-011",
        ],
        "hyperpod-slurm": [
            "training.fleets.spot.max_nodes GPU-HYP-011",
            "training.fleets.spot.mounts./home GPU-HYP-015",
            "training.fleets.steady.max_nodes GPU-HYP-011",
            "training.fleets.steady.mounts./home GPU-HYP-015",
        ],
    },
    "train-and-serve": {
        "pcs": ["inference.fleets.servers GPU-SPEC-046"],
        "batch": ["inference.fleets.servers GPU-SPEC-085"],
        "parallelcluster": ["inference.fleets.servers GPU-SPEC-046", "monitoring.dashboard GPU-SPEC-095"],
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "inference.fleets.servers GPU-SPEC-089",
        ],
    },
    "trn1-training": {
        "pcs": ["training.fleets.trainers.instance_type GPU-AMI-001"],
        "batch": ["training.fleets.trainers.instance_type GPU-BAT-020"],
        # No Neuron driver in its images.
        "parallelcluster": ["training.fleets.trainers.instance_type GPU-PCL-018"],
    },
    "two-fleets": {
        "batch": ["training.fleets.preprocessing GPU-SPEC-086"],
        "parallelcluster": ["training.fleets GPU-PCL-011"],
        "hyperpod-slurm hyperpod-eks": [
            "training.fleets.trainers.capacity GPU-HYP-010",
            "training.fleets.preprocessing.max_nodes GPU-HYP-011",
        ],
    },
}

#: The same by example and orchestrator.
REFUSED = {
    (name, orchestrator): faults
    for name, rows in _TABLE.items()
    for words, faults in rows.items()
    for orchestrator in words.split()
}
