"""A cluster with every kind of store, and edits of its file: harmless ones, and ones that would lose data."""

from __future__ import annotations

CLUSTER = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
data:
  corpus:
    lustre: { storage_capacity_gib: 9600, throughput_mb_per_s_per_tib: 500, metadata_iops: 6000 }
    repositories:
      - { path: /data, bucket: my-corpus, auto_import: [new, changed, deleted] }
  fast:
    lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: true }
  elastic:
    lustre:
      storage_type: INTELLIGENT_TIERING
      throughput_capacity_mb_per_s: 8000
      read_cache: NO_CACHE
      metadata_iops: 6000
  checkpoints:
    checkpoints: { express_zone_id: use1-az4, expire_after_days: 30 }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 4, capacity: spot, mounts: { /fsx: fast }, checkpoints: checkpoints }
    second: { instance_type: p5.48xlarge, nodes: 2, capacity: spot, mounts: { /fsx: fast, /corpus: corpus } }
    helpers: { instance_type: m8g.4xlarge, nodes: 2, mounts: { /fsx: corpus } }
    shared: { instance_type: p4d.24xlarge, nodes: 1, capacity: spot, efa: false, scratch: false, mig: "3g.20gb,4g.20gb" }
inference:
  fleets:
    chat: { instance_type: g6.12xlarge, nodes: 2, mounts: { /models: corpus }, server: { image: "vllm/vllm-openai:v0.11.0" }, load_balancer: { plain_http: true } }
"""

_CORPUS = "storage_capacity_gib: 9600, throughput_mb_per_s_per_tib: 500, metadata_iops: 6000"
_FAST = "storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: true"
_ELASTIC = CLUSTER[CLUSTER.index("  elastic:") : CLUSTER.index("  checkpoints:")]
_HELPERS = "    helpers: { instance_type: m8g.4xlarge, nodes: 2, mounts: { /fsx: corpus } }\n"
_SERVING = CLUSTER[CLUSTER.index("inference:") :]
_MORE_SERVING = _SERVING.partition("  fleets:\n")[2].replace("chat:", "search:").replace("corpus", "elastic")
_LINK = "      - { path: /data, bucket: my-corpus, auto_import: [new, changed, deleted] }\n"
_MORE = "      - { path: /results, bucket: my-results, auto_export: [new] }\n"

#: Name -> text before, text after.
HARMLESS = {
    "nodes": ("nodes: 4", "nodes: 16"),
    "type": ("p5.48xlarge", "p5en.48xlarge"),
    "fleet removed": (_HELPERS, ""),
    "fleet added": (_HELPERS, _HELPERS + "    more: { instance_type: g6.xlarge, nodes: 1 }\n"),
    "MIG layout": ("3g.20gb,4g.20gb", "1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb"),
    "MIG switched off": (', mig: "3g.20gb,4g.20gb"', ""),
    "inference fleet removed": (_SERVING, ""),
    "inference fleet added": (_SERVING, _SERVING + _MORE_SERVING),
    "another model server": ("v0.11.0", "v0.11.1"),
    "tags": ("region: us-east-1\n", "region: us-east-1\ntags: { project: llama }\n"),
    "more storage": (_CORPUS, _CORPUS.replace("9600", "12000")),
    "more storage with EFA": (_FAST, _FAST.replace("38400", "57600")),
    "more metadata operations": (_CORPUS, _CORPUS.replace("6000", "12000")),
    "more elastic throughput": ("throughput_capacity_mb_per_s: 8000", "throughput_capacity_mb_per_s: 12000"),
    "association added": (_LINK, _LINK + _MORE),
    "association removed": (f"    repositories:\n{_LINK}", ""),
    "association that exports, too": ("auto_import: [new, changed, deleted]", "auto_export: [new]"),
    "association to unlink": ("auto_import: [new", "on_removal: unlink, auto_import: [new"),
    "maintenance": (_CORPUS, f"{_CORPUS}, weekly_maintenance_start_time: '7:03:00'"),
    "compression": (_CORPUS, f"{_CORPUS}, compression: false"),
    "checkpoints kept longer": ("expire_after_days: 30", "expire_after_days: 90, keep_deleted_days: 7"),
    "no versions": ("expire_after_days: 30", "expire_after_days: 30, versioned: false"),
    "store added": ("training:", "  second:\n    checkpoints: {}\ntraining:"),
    "store with a directory bucket added": (
        "training:",
        "  fresh:\n    checkpoints: { express_zone_id: use1-az4 }\ntraining:",
    ),
    "store removed": (_ELASTIC, ""),
}
#: Name -> text before, text after, the findings as `line:column id`.
HARMFUL = {
    "EFA switched on": (_CORPUS, f"{_CORPUS}, efa: true", "7:103 GPU-LUS-030"),
    "EFA switched off": (", efa: true }", ", efa: false }", "11:83 GPU-LUS-030"),
    "smaller": (_CORPUS, _CORPUS.replace("9600", "4800"), "7:37 GPU-LUS-031"),
    "throughput": (_CORPUS, _CORPUS.replace("500", "1000"), "7:72 GPU-LUS-033"),
    "less throughput": (_CORPUS, _CORPUS.replace("500", "250"), "7:72 GPU-LUS-033"),
    "throughput with EFA": (_FAST, _FAST.replace("250", "500"), "11:73 GPU-LUS-032"),
    "fewer metadata operations": (_CORPUS, _CORPUS.replace("6000", "3000"), "7:92 GPU-LUS-031"),
    "less elastic throughput": (
        "throughput_capacity_mb_per_s: 8000",
        "throughput_capacity_mb_per_s: 4000",
        "15:37 GPU-LUS-031",
    ),
    "without EFA, and smaller": (
        _FAST,
        _CORPUS.replace(", metadata_iops: 6000", ""),
        "11:5 GPU-LUS-030, 11:5 GPU-LUS-031, 11:37 GPU-LUS-031",
    ),
    "key": (
        _CORPUS,
        f"{_CORPUS}, encryption_key_arn: 'arn:aws:kms:us-east-1:111122223333:key/a'",
        "7:118 GPU-SPEC-024",
    ),
    "another bucket for a directory": ("bucket: my-corpus", "bucket: other", "9:32 GPU-SPEC-024"),
    "another prefix for a directory": ("my-corpus,", "my-corpus, prefix: a/,", "9:51 GPU-SPEC-024"),
    "another range": (
        "{ availability_zone: us-east-1a }",
        "{ availability_zone: us-east-1a, cidr: 10.1.0.0/16 }",
        "7:5 GPU-SPEC-024, 11:5 GPU-SPEC-024, 13:5 GPU-SPEC-024",
    ),
    "another zone of the directory bucket": ("use1-az4", "use1-az5", "19:37 GPU-SPEC-024"),
    "bucket name": (
        "expire_after_days: 30",
        "expire_after_days: 30, bucket_name: mine",
        "19:83 GPU-SPEC-024",
    ),
    "another kind of store": (
        "    checkpoints: { express_zone_id: use1-az4, expire_after_days: 30 }",
        f"    lustre: {{ {_FAST} }}",
        "18:3 GPU-SPEC-024, 22:108 GPU-SPEC-021",
    ),
    "cluster renamed": ("name: lab", "name: lab2", "2:7 GPU-SPEC-024"),
    "another Region": (
        "region: us-east-1\n",
        "region: us-west-2\n",
        "3:9 GPU-SPEC-024, 4:31 GPU-NET-104, 19:37 GPU-NET-104",
    ),
}


def edited(before: str, after: str) -> str:
    """The cluster's file with one edit."""
    assert CLUSTER.count(before) >= 1, before
    return CLUSTER.replace(before, after, 1)
