#!/usr/bin/env bash
# The model servers of this node: one container for each of its GPUs, groups of GPUs, MIG slices or Neuron devices.
#   prepare    install what is missing, pull the image, copy the weights, find the devices, start everything
#   run I      be server I: fetch its secrets with the instance's role, run its container in the foreground
#   ready      exit 0 when every server answers its health checks (a stage of the boot checks)
#   drain      take no new requests and let the running ones end (/etc/gpu-cluster/on-drain)
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"
# shellcheck source=/dev/null
. "$ROOT/etc/gpu-cluster/model-servers.env"

RUN=$ROOT/run/gpu-cluster

# package NAME COMMAND: from the distribution, where the image lacks it.
package() {
  if command -v "$2" >/dev/null; then return 0; fi
  if command -v dnf >/dev/null; then
    dnf install -y -q "$1"
  else
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${3:-$1}"
  fi
}

# field NAME: that entry of the JSON object on standard input.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# secret ARN [FIELD]: the value of a secret or parameter.
secret() {
  local value
  case $1 in
  *:secretsmanager:*)
    value=$(aws secretsmanager get-secret-value --secret-id "$1" --query SecretString --output text)
    ;;
  *) value=$(aws ssm get-parameter --name "$1" --with-decryption --query Parameter.Value --output text) ;;
  esac
  if [[ -n ${2:-} ]]; then value=$(field "$2" <<<"$value"); fi
  printf '%s' "$value"
}

# write_secrets INDEX: the secrets of a server, in memory (/run is a tmpfs), in a folder of root. Docker and containerd
# keep what `--env` gives on disk (docker inspect; containerd's metadata), so the container reads this file instead.
write_secrets() {
  local folder=$RUN/model-secrets entry name arn key value text=''
  for entry in "${MODEL_SECRETS[@]}"; do
    read -r name arn key <<<"$entry"
    value=$(secret "$arn" "$key")
    text+="export $name='${value//\'/\'\\\'\'}'"$'\n'
  done
  [[ -d $folder ]] || mkdir -m 0700 "$folder"
  # Any user of the container may read it; nobody but root gets into the folder.
  (umask 0333 && rm -f "$folder/$1" && printf '%s' "$text" >"$folder/$1")
}

# words_of_server: the program of the container and its arguments, each with a NUL behind it.
words_of_server() {
  docker image inspect --format '{{json .Config}}' "$MODEL_IMAGE" | python3 -c '
import json, sys
image = json.load(sys.stdin)
words = (image.get("Entrypoint") or []) + (sys.argv[1:] or image.get("Cmd") or [])
sys.stdout.write("".join(word + "\0" for word in words))' "${MODEL_COMMAND[@]}"
}

log_in() {
  local host=${MODEL_IMAGE%%/*} user pair
  if [[ -n $MODEL_REGISTRY_LOGIN ]]; then
    if [[ $MODEL_IMAGE != */* || $host != *[.:]* ]]; then host=docker.io; fi
    pair=$(secret "$MODEL_REGISTRY_LOGIN")
    user=$(field username <<<"$pair")
    field password <<<"$pair" | docker login --username "$user" --password-stdin "$host"
  elif [[ $host =~ \.dkr[.-]ecr(-fips)?\.([a-z0-9-]+)\. ]]; then
    aws ecr get-login-password --region "${BASH_REMATCH[2]}" |
      docker login --username AWS --password-stdin "$host"
  fi
}

# devices: what each server gets, one line each.
devices() {
  local found
  if [[ $MODEL_KIND != mig ]]; then
    printf '%s\n' "${MODEL_DEVICES[@]}"
    return
  fi
  found=$(nvidia-smi -L | grep -o 'UUID: MIG-[^)]*' | cut -d' ' -f2 || true)
  if (($(grep -c . <<<"$found" || true) != MODEL_COUNT)); then
    echo "nvidia-smi -L lists $(grep -c . <<<"$found" || true) MIG slices, $MODEL_COUNT are expected" >&2
    return 1
  fi
  printf '%s\n' "$found"
}

# refuse_without_disks FOLDER: what belongs to the local disks would fill the root volume if these are not mounted.
refuse_without_disks() {
  if [[ -z ${GPU_SCRATCH:-} || $1/ != "$GPU_SCRATCH"/* ]]; then return; fi
  if grep -q " $ROOT$GPU_SCRATCH " "$ROOT/proc/mounts"; then return; fi
  echo "the local disks are not mounted at $GPU_SCRATCH: journalctl -u gpu-scratch" >&2
  return 1
}

prepare() {
  local -a units=()
  package docker docker docker.io
  package haproxy haproxy
  # The package may have started it with a configuration of its own.
  systemctl disable --now haproxy || true
  systemctl enable --now docker
  load_node
  mkdir -p "$RUN"
  devices >"$RUN/model-devices"
  # Docker writes logins into this folder: in memory, and only until the image is there.
  export DOCKER_CONFIG=$RUN/docker-login
  trap 'rm -rf "$DOCKER_CONFIG"' EXIT
  [[ -d $DOCKER_CONFIG ]] || mkdir -m 0700 "$DOCKER_CONFIG"
  log_in
  docker pull --quiet "$MODEL_IMAGE"
  if [[ -n $MODEL_WEIGHTS_URI ]]; then
    refuse_without_disks "$MODEL_WEIGHTS_PATH"
    aws s3 sync --only-show-errors "$MODEL_WEIGHTS_URI" "$MODEL_WEIGHTS_PATH"
  elif [[ -n $MODEL_WEIGHTS_PATH && ! -d $MODEL_WEIGHTS_PATH ]]; then
    echo "the weights are not there: $MODEL_WEIGHTS_PATH" >&2
    return 1
  fi
  if [[ -n $MODEL_CACHE_PATH ]]; then
    refuse_without_disks "$MODEL_CACHE_PATH"
    # For servers of any user, as /tmp is.
    mkdir -p "$ROOT$MODEL_CACHE_PATH"
    chmod 1777 "$ROOT$MODEL_CACHE_PATH"
  fi
  for ((i = 0; i < MODEL_COUNT; i++)); do units+=("gpu-model-server@$i"); done
  systemctl start --no-block gpu-model-balancer "${units[@]}"
}

run() {
  local index=$1 device number
  local -a options=() words=("${MODEL_COMMAND[@]}")
  device=$(sed -n "$((index + 1))p" "$RUN/model-devices")
  if [[ $MODEL_KIND == neuron ]]; then
    for number in ${device//,/ }; do options+=(--device "/dev/neuron$number"); done
  else
    # The quotes are docker's own: without them it would take the comma for the next field.
    options+=(--gpus "\"device=$device\"")
  fi
  if [[ -n $MODEL_SHM_GIB ]]; then options+=(--shm-size "${MODEL_SHM_GIB}g"); fi
  if [[ -n $MODEL_WEIGHTS_PATH ]]; then
    options+=(--volume "$MODEL_WEIGHTS_PATH:$MODEL_WEIGHTS_PATH:ro")
  fi
  if [[ -n $MODEL_CACHE_PATH ]]; then options+=(--volume "$MODEL_CACHE_PATH:$MODEL_CACHE_PATH"); fi
  load_node
  if ((${#MODEL_SECRETS[@]})); then
    write_secrets "$index"
    mapfile -d '' -t words < <(words_of_server)
    if ((${#words[@]} == 0)); then
      echo "the image has no program: give the server a command" >&2
      return 1
    fi
    # shellcheck disable=SC2016 # expands in the container
    words=(-c '. /run/model-secrets && exec "$@"' sh "${words[@]}")
    options+=(--volume "$RUN/model-secrets/$index:/run/model-secrets:ro" --entrypoint /bin/sh)
  fi
  docker rm -f "model-server-$index" >/dev/null 2>&1 || true
  # Its output goes to the journal of this unit; docker keeps no second copy.
  exec docker run --rm --name "model-server-$index" --log-driver none --pull never \
    --publish "127.0.0.1:$((MODEL_FIRST_PORT + index)):$MODEL_PORT" \
    --env-file "$ROOT/etc/gpu-cluster/model-server.environment" --env "MODEL_SERVER_INDEX=$index" \
    --ulimit memlock=-1 --security-opt no-new-privileges \
    "${options[@]}" "$MODEL_IMAGE" "${words[@]}"
}

ready() {
  local up
  # Column 18 is the state, 37 the result of the last check: HAProxy starts with unchecked servers as up.
  up=$(curl -sf -m 5 --noproxy '*' "http://127.0.0.1:$MODEL_STATS_PORT/;csv" |
    awk -F, '$1 == "servers" && $2 != "BACKEND" && $18 == "UP" && $37 ~ /OK$/' | wc -l) || up=0
  echo "$((up)) of $MODEL_COUNT model servers answer (journalctl -u 'gpu-model-server*')"
  ((up >= MODEL_COUNT))
}

drain() {
  # The health check of the node fails from now on, and requests are still served. A termination deregisters the node,
  # but a Spot notice does not: the load balancer notices after two checks, 10 s apart and with a time-out of 5 s.
  curl -sf -m 5 --noproxy '*' -o /dev/null -X POST "http://127.0.0.1:$MODEL_STATS_PORT/drain" || true
  sleep 25
  systemctl stop gpu-model-balancer
}

case ${1:-} in
prepare | run | ready | drain) "$@" ;;
*)
  echo "usage: model-servers prepare | run I | ready | drain" >&2
  exit 64
  ;;
esac
