#!/usr/bin/env bash
# gpunode COMMAND: the software of this node, on the Python of the system and with nothing that a user put on its path.
set -euo pipefail
PYTHON=${GPU_CLUSTER_PYTHON:-/usr/bin/python3}
# Where the EFA and Neuron installers put their programs; services do not have these on their path.
export PATH=$PATH:/usr/local/bin:/opt/amazon/efa/bin:/opt/aws/neuron/bin

if [[ ! -x $PYTHON ]]; then
  echo "gpunode needs Python 3.9 or later, and there is no $PYTHON: bake it into the image" >&2
  exit 69
fi
# Words that any Python understands come first.
exec "$PYTHON" -I -c '
import sys
if sys.version_info < (3, 9):
    sys.exit("gpunode needs Python 3.9 or later, and %s is %s: use a newer image" % (sys.executable, sys.version.split()[0]))
sys.path.insert(0, sys.argv.pop(1))
from gpunode.cli import main
sys.exit(main())
' "${GPU_CLUSTER_ROOT:-}/usr/local/lib/gpu-cluster" "$@"
