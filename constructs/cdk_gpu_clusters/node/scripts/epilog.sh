#!/usr/bin/env bash
# slurmd runs it after each job, without a search path (Slurm documentation, "Prolog and Epilog Guide").
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec "${GPU_CLUSTER_ROOT:-}/usr/local/bin/gpunode" epilog
