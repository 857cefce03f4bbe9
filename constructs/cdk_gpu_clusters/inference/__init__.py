"""Fleets of model servers behind a load balancer."""

from cdk_gpu_clusters.inference.inference_fleet import InferenceFleet
from cdk_gpu_clusters.inference.load_balancer import InferenceLoadBalancer
from cdk_gpu_clusters.inference.model_server import ModelServer, ModelWeights, ServerSecret

__all__ = [
    "InferenceFleet",
    "InferenceLoadBalancer",
    "ModelServer",
    "ModelWeights",
    "ServerSecret",
]
