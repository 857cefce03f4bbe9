#!/usr/bin/env bash
# Lists the nodes of this fleet that are in service, in the form that a launcher wants.
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

usage() {
  cat <<'END'
usage: gpu-peers [--format plain|mpirun|torchrun|imex|json] [--rdzv-endpoint] [--own-first] [--slots N] [--port P]
                 [--wait N [--timeout SECONDS]] [--write | --output FILE]
The nodes in service in this node's Auto Scaling group, by private IPv4 in numeric order: all nodes agree on rank 0.
  mpirun --hostfile <(gpu-peers --format mpirun) ...
  eval "$(gpu-peers --format torchrun)"      sets MASTER_ADDR MASTER_PORT NNODES NODE_RANK NPROC_PER_NODE
  torchrun --rdzv-endpoint "$(gpu-peers --rdzv-endpoint)" ...
  gpu-peers --format imex --output /etc/nvidia-imex/nodes_config.cfg && systemctl restart nvidia-imex
--wait: until N nodes are in service (600 s), else exit 75. --write: to /etc/gpu-cluster/hosts, as mpirun by default.
END
}

misuse() {
  printf 'gpu-peers: %s\n' "$1" >&2
  exit 64
}

FORMAT='' PORT=29500 SLOTS='' WAIT=0 TIMEOUT=600 OUTPUT='' OWN_FIRST=false
while (($#)); do
  case $1 in
  --format | --slots | --port | --wait | --timeout | --output)
    (($# > 1)) || misuse "$1 needs a value"
    name=${1#--}
    printf -v "${name^^}" %s "$2"
    shift
    ;;
  --rdzv-endpoint) FORMAT=rdzv ;;
  --own-first) OWN_FIRST=true ;;
  --write)
    OUTPUT=$ROOT/etc/gpu-cluster/hosts
    FORMAT=${FORMAT:-mpirun}
    ;;
  -h | --help)
    usage
    exit
    ;;
  *) misuse "unknown argument $1 (see --help)" ;;
  esac
  shift
done
FORMAT=${FORMAT:-plain}
for number in "$WAIT" "$TIMEOUT" "$PORT" "${SLOTS:-1}"; do
  [[ $number =~ ^[0-9]+$ ]] || misuse "$number is not a number"
done
case $FORMAT in
plain | mpirun | json) ;;
torchrun | rdzv | imex)
  [[ $OWN_FIRST == false ]] || misuse "--own-first breaks $FORMAT: all nodes must see the same order"
  ;;
*) misuse "unknown format $FORMAT (plain, mpirun, torchrun, imex or json)" ;;
esac

# peers GROUP: "ADDRESS<tab>INSTANCE" of the nodes in service, in numeric order of the address.
peers() {
  local in_service
  in_service=$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$1" --output text \
    --query "AutoScalingGroups[].Instances[?LifecycleState=='InService'].InstanceId[]" | tr '\t' '\n')
  # By tag, not by id: a few pages for thousands of nodes, and no long command line.
  aws ec2 describe-instances --output text \
    --filters "Name=tag:aws:autoscaling:groupName,Values=$1" Name=instance-state-name,Values=running \
    --query 'Reservations[].Instances[].[PrivateIpAddress,InstanceId]' |
    awk -F'\t' 'NR == FNR { ready[$1]; next } $2 in ready' <(printf '%s\n' "$in_service") - |
    sort -t. -k1,1n -k2,2n -k3,3n -k4,4n
}

render() {
  local slots=${SLOTS:-$GPU_SLOTS} first=${ADDRESSES[0]} rank=-1 i comma='' own
  case $FORMAT in
  plain | imex) printf '%s\n' "${ADDRESSES[@]}" ;;
  mpirun) printf "%s slots=$slots\n" "${ADDRESSES[@]}" ;;
  rdzv) printf '%s:%s\n' "$first" "$PORT" ;;
  torchrun)
    for i in "${!IDS[@]}"; do
      if [[ ${IDS[i]} == "$INSTANCE_ID" ]]; then rank=$i; fi
    done
    if ((rank < 0)); then
      printf 'gpu-peers: this node (%s) is not in service, so it has no rank\n' "$INSTANCE_ID" >&2
      return 69
    fi
    printf 'MASTER_ADDR=%s\nMASTER_PORT=%s\nNNODES=%d\nNODE_RANK=%d\nNPROC_PER_NODE=%d\n' \
      "$first" "$PORT" "${#IDS[@]}" "$rank" "$slots"
    ;;
  json)
    for i in "${!IDS[@]}"; do
      own=false
      if [[ ${IDS[i]} == "$INSTANCE_ID" ]]; then own=true; fi
      printf '%s{"private_ip":"%s","instance_id":"%s","own":%s}' "${comma:-[}" "${ADDRESSES[i]}" "${IDS[i]}" "$own"
      comma=,
    done
    printf ']\n'
    ;;
  esac
}

load_node
MEMBERSHIP=$(membership)
if [[ -z $MEMBERSHIP ]]; then
  echo "gpu-peers: this instance is not in an Auto Scaling group, so it has no peers" >&2
  exit 69
fi
GROUP=${MEMBERSHIP%%$'\t'*}
while :; do
  LIST=$(peers "$GROUP")
  COUNT=$(grep -c . <<<"$LIST" || true)
  if ((COUNT > 0 && COUNT >= WAIT)); then break; fi
  if ((WAIT == 0 || SECONDS >= TIMEOUT)); then
    echo "gpu-peers: $COUNT of $((WAIT ? WAIT : 1)) nodes of $GROUP in service after $SECONDS s" >&2
    exit 75
  fi
  # Spread out: a thousand nodes must not ask in step.
  sleep $((5 + RANDOM % 5))
done
if [[ $OWN_FIRST == true ]]; then
  LIST=$({ grep -w "$INSTANCE_ID" <<<"$LIST" && grep -vw "$INSTANCE_ID" <<<"$LIST"; } || echo "$LIST")
fi
ADDRESSES=() IDS=()
while IFS=$'\t' read -r address id; do
  ADDRESSES+=("$address")
  IDS+=("$id")
done <<<"$LIST"
TEXT=$(render)
if [[ -z $OUTPUT ]]; then
  printf '%s\n' "$TEXT"
else
  mkdir -p "$(dirname "$OUTPUT")"
  printf '%s\n' "$TEXT" >"$OUTPUT.$$"
  mv -f "$OUTPUT.$$" "$OUTPUT"
fi
