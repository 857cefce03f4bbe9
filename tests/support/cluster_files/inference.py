"""Cluster files with inference fleets: the least one, and one with every key."""

from __future__ import annotations

MINIMAL = """\
version: 1
name: serve
region: us-east-1
network: { availability_zone: us-east-1a }
inference:
  fleets:
    chat:
      instance_type: g6.12xlarge
      nodes: 2
      server: { image: vllm/vllm-openai:v0.11.0 }
      load_balancer: { plain_http: true }
"""

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf"
PARAMETER = "arn:aws:ssm:us-east-1:111122223333:parameter/models/key"
REGISTRY = "111122223333.dkr.ecr.us-east-1.amazonaws.com"

#: A fleet on demand with every key, one on reserved GPUs that are split, and a training fleet with split GPUs.
EVERYTHING = f"""\
version: 1
name: all
region: us-east-1
account: "111122223333"
tags: {{ project: llama }}
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b, us-east-1c] }}
data:
  models:
    lustre: {{ storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125 }}
inference:
  fleets:
    chat:
      instance_type: g6e.48xlarge
      min_nodes: 2
      max_nodes: 8
      capacity: on_demand
      placement: none
      image: {{ os: ubuntu-24.04 }}
      root_volume: {{ size_gib: 500, iops: 6000, throughput_mib_per_s: 1000 }}
      scratch: false
      mounts: {{ /fsx: models }}
      tags: {{ owner: search }}
      alarms: {{ idle_minutes: 30, topic_arn: "arn:aws:sns:us-east-1:111122223333:ops", emails: [ops@example.org] }}
      update: never
      devices_per_server: 4
      ready_timeout_seconds: 3600
      min_servers_per_node: 2
      requests_per_minute_per_node: 120
      server:
        image: {REGISTRY}/models/server:v7
        command: [--model, /opt/gpu-cluster/model, --tensor-parallel-size, "4"]
        port: 8001
        health_path: /ready
        environment: {{ MAX_MODEL_LEN: "8192" }}
        secrets: {{ HF_TOKEN: {{ arn: "{SECRET}", json_field: token }}, API_KEY: {{ arn: "{PARAMETER}" }} }}
        registry_login: {{ arn: "{SECRET.replace("hub", "registry")}" }}
        weights: {{ s3_uri: s3://my-models/llama-3.1 }}
        shared_memory_gib: 16
        max_concurrent_requests: 32
      load_balancer:
        certificate_arn: arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab
        clients: [10.0.0.0/16, sg-0123456789abcdef0]
        idle_timeout_seconds: 600
        drain_timeout_seconds: 120
        access_log_bucket: my-logs
    slices:
      instance_type: p4d.24xlarge
      nodes: 2
      capacity: {{ new_reservation: {{ end_date: 2027-01-31T00:00Z }} }}
      mig: 1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb
      fabric_manager_order: before
      server:
        image: vllm/vllm-openai:v0.11.0
        weights: {{ path: /models/small }}
      load_balancer: {{ plain_http: true }}
training:
  fleets:
    lab:
      instance_type: p4d.24xlarge
      nodes: 1
      capacity: spot
      efa: false
      mig: [{", ".join(['"3g.20gb,4g.20gb"'] * 7)}, off]
"""

PUBLIC = """\
version: 1
name: open
region: us-east-1
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0]
  availability_zone: us-east-1a
  service_subnets: { us-east-1a: subnet-0123456789abcdef1, us-east-1b: subnet-0123456789abcdef2 }
  public_subnets: { us-east-1a: subnet-0123456789abcdef3, us-east-1b: subnet-0123456789abcdef4 }
inference:
  fleets:
    chat:
      instance_type: inf2.48xlarge
      nodes: 2
      server: { image: vllm/vllm-openai:v0.11.0 }
      load_balancer:
        certificate_arn: arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab
        internet_facing: true
        clients: [0.0.0.0/0]
"""
