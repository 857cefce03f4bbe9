#!/bin/bash
# Runs once, as root, at the first boot of a development node.
set -euo pipefail
install -d -m 1777 /opt/scratch
echo 'export HF_HOME=/opt/scratch/huggingface' >/etc/profile.d/90-dev-tools.sh
