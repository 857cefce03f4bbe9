#!/usr/bin/env bash
# ray-node find: choose the head of Ray, and write the choice for `start`. Runs as root, since it asks AWS.
# ray-node start: start Ray on this node, as the head or as a worker of it, until it ends.
#
# The head is the node that the name in /etc/gpu-cluster/ray.env leads to. Without a name the nodes of the fleet choose:
# a head that answers stays; where none answers, the node with the lowest address becomes it, after a while in which
# nobody answered. A node that is not in service yet may have a lower address, and is not asked.
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

# Ray's own default (Ray documentation, "Cluster Management CLI", ray start --port).
PORT=6379
CHOICE=$ROOT/run/gpu-ray.env
# A head listens within seconds of its start: 1.5 s measured with Ray 2.60.
QUIET_SECONDS=${GPU_RAY_QUIET_SECONDS:-30}

fail() {
  echo "gpu-ray: $1" >&2
  exit 1
}

answers() { timeout 2 bash -c "exec 3<>/dev/tcp/$1/$PORT" 2>/dev/null; }

# by_name NAME: the address that a name leads to.
by_name() {
  local found
  found=$(getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }') || true
  [[ -n $found ]] || fail "no address for the head's name $1"
  printf '%s' "$found"
}

# by_choice OWN: the address of the head that this fleet has, or chooses.
by_choice() {
  local own=$1 peers peer since=$SECONDS
  while :; do
    peers=$(gpu-peers --order address) || fail "the nodes of the fleet are not known yet"
    for peer in $peers; do
      if [[ $peer != "$own" ]] && answers "$peer"; then
        printf '%s' "$peer"
        return
      fi
    done
    [[ ${peers%%$'\n'*} == "$own" ]] || since=$SECONDS
    if ((SECONDS - since >= QUIET_SECONDS)); then
      printf '%s' "$own"
      return
    fi
    sleep 2
  done
}

find_head() {
  local own head gpus=0
  load_node
  # shellcheck source=/dev/null
  . "$ROOT/etc/gpu-cluster/ray.env"
  own=$(imds local-ipv4) || fail "the metadata service does not tell this node's address"
  if [[ -n $RAY_HEAD ]]; then head=$(by_name "$RAY_HEAD"); else head=$(by_choice "$own"); fi
  if [[ ${GPU_ACCELERATOR:-} == gpu ]]; then gpus=$GPU_ACCELERATOR_COUNT; fi
  printf '%s\n' "RAY_PROGRAM=$RAY_PROGRAM" "RAY_OWN=$own" "RAY_OF=$head" "RAY_GPUS=$gpus" >"$CHOICE.new"
  mv "$CHOICE.new" "$CHOICE"
  echo "gpu-ray: the head is $head"
}

start() {
  # shellcheck source=/dev/null
  . "$CHOICE"
  [[ -x $RAY_PROGRAM ]] || fail "there is no $RAY_PROGRAM: the image, or a user-data part, must install Ray"
  local arguments=(--node-ip-address="$RAY_OWN" --num-gpus="$RAY_GPUS" --disable-usage-stats --block)
  if [[ $RAY_OF == "$RAY_OWN" ]]; then
    arguments+=(--head --port="$PORT" --dashboard-host=127.0.0.1)
    # A head without GPUs is there for nothing else: no task may take its memory.
    if ((RAY_GPUS == 0)); then arguments+=(--num-cpus=0); fi
  else
    arguments+=(--address="$RAY_OF:$PORT")
  fi
  exec "$RAY_PROGRAM" start "${arguments[@]}"
}

case ${1:-} in
find) find_head ;;
start) start ;;
*) fail "usage: ray-node find | start" ;;
esac
