#!/bin/sh
# slurmd runs it after each job, without a search path (Slurm documentation, "Prolog and Epilog Guide").
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
exec "${GPU_CLUSTER_ROOT:-}/usr/local/bin/gpunode" epilog
