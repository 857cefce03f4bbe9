#!/usr/bin/env bash
# gpu-peers ...: the short name of `gpunode peers`.
set -euo pipefail
exec "${GPU_CLUSTER_ROOT:-}/usr/local/bin/gpunode" peers "$@"
