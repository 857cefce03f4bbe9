#!/usr/bin/env bash
# What torchrun runs for each rank in place of Python, under `gpunode run --pin`: Python, pinned next to the rank's GPU.
set -euo pipefail
exec "${GPU_CLUSTER_ROOT:-}/usr/local/bin/gpunode" run --pin --python -- "$@"
