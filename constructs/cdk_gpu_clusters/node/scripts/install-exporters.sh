#!/usr/bin/env bash
# Starts the exporters of GPU_EXPORTERS, and installs those that the image does not have from its package repositories. A
# node works without them: what is missing is recorded with its reason, and the node stays in service.
#
#   GPU_EXPORTERS  dcgm, node, or both
set -euo pipefail
UNIT=exporters
# shellcheck source=storage.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/storage.sh"

OWN=$ROOT/usr/local/lib/gpu-cluster/exporters
INSTALL_TRIES=4
ANSWER_TRIES=${GPU_ANSWER_TRIES:-30}
REASON='' WANTED=()

port_of() { if [[ $1 == dcgm ]]; then echo 9400; else echo 9100; fi; }

# answers PORT: whether an exporter is there.
answers() { run 10 curl -sf -m 5 --noproxy '*' -o /dev/null "http://127.0.0.1:$1/metrics"; }

has_unit() { run 20 systemctl cat "$1.service"; }

# installed PACKAGE: its version as the package manager has it, without the epoch; nothing if it is not installed.
installed() {
  local found=''
  case $(system) in
  ubuntu*) found=$(dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$1" 2>/dev/null | sed -n 's/^ii //p') || true ;;
  *) if ! found=$(rpm -q --qf '%{VERSION}-%{RELEASE}' "$1" 2>/dev/null); then found=''; fi ;;
  esac
  printf '%s' "${found#*:}"
}

# named PACKAGE VERSION: the version, with or without its last parts, as the package manager takes it. apt needs the epoch.
# Packages of the exporter have a number of their build from 4.8.3 on: 4.8.4.3955-1.
named() {
  local full
  if [[ $(system) != ubuntu* ]]; then
    if [[ $2 == *-* ]]; then printf '%s-%s' "$1" "$2"; else printf '%s-%s[-.]*' "$1" "$2"; fi
    return
  fi
  full=$(apt-cache madison "$1" | awk -v wanted="$2" \
    '{ plain = $3; sub(/^[0-9]+:/, "", plain); next_one = substr(plain, length(wanted) + 1, 1)
       if (index(plain, wanted) == 1 && next_one ~ /^[-.]?$/) { print $3; exit } }')
  printf '%s=%s' "$1" "${full:-$2}"
}

refresh() { if [[ $(system) == ubuntu* ]]; then packages update; fi; }

# install PACKAGE...: what a package only recommends is left out, such as timers that run as root.
install() {
  local option=--setopt=install_weak_deps=False
  if [[ $(system) == ubuntu* ]]; then option=--no-install-recommends; fi
  packages install "$option" "$@"
}

# with_patience COMMAND...: repositories and routes may be late.
with_patience() {
  local try
  for ((try = 1; ; try++)); do
    if "$@"; then return; fi
    if ((try >= INSTALL_TRIES || $(uptime_seconds) >= UNTIL)); then return 1; fi
    sleep 15
  done
}

# place FILE UNIT: a drop-in of this library.
place() {
  local folder=$ROOT/etc/systemd/system/$2.service.d
  mkdir -p "$folder"
  cp "$OWN/$1" "$folder/gpu-cluster-exporters.conf"
}

# begin UNIT PORT: start it, and see that it answers.
begin() {
  local try
  if ! { run 60 systemctl daemon-reload && run 60 systemctl enable "$1" && run 120 systemctl restart "$1"; }; then
    REASON="$1 does not start: $(words)"
    return 1
  fi
  for ((try = 0; try < ANSWER_TRIES; try++)); do
    if answers "$2"; then return; fi
    sleep 2
  done
  run 20 journalctl -q -u "$1" -n 3 -o cat || true
  REASON="$1 does not answer at port $2: $(words)"
  return 1
}

# want_dcgm: into WANTED, what is missing of DCGM 4 and its exporter. The exporter is the one that NVIDIA pairs with the DCGM of
# the image. The proprietary module has the profiling metrics of Ampere and earlier (NVIDIA/dcgm-exporter, README).
want_dcgm() {
  local core dcgm exporter
  WANTED=()
  core=$(installed datacenter-gpu-manager-4-core)
  read -r dcgm exporter <<<"$(tail -n 1 "$OWN/dcgm-versions")"
  if [[ -z $core ]]; then
    core=$dcgm
    WANTED+=("$(named datacenter-gpu-manager-4-core "$core")")
  elif grep -q "^${core%%-*} " "$OWN/dcgm-versions"; then
    exporter=$(awk -v dcgm="${core%%-*}" '$1 == dcgm { print $2 }' "$OWN/dcgm-versions")
  else
    event exporters unpaired "DCGM $core is paired with no exporter that this release knows: $exporter is taken"
  fi
  if [[ -z $(installed datacenter-gpu-manager-4-proprietary) ]]; then
    WANTED+=("$(named datacenter-gpu-manager-4-proprietary "$core")")
  fi
  WANTED+=("$(named datacenter-gpu-manager-exporter "$exporter")")
}

install_dcgm() {
  refresh || return
  want_dcgm
  event exporters installing "${WANTED[*]}"
  install "${WANTED[@]}"
}

# shellcheck disable=SC2329 # started by its name
start_dcgm() {
  if ! has_unit nvidia-dcgm-exporter; then
    if [[ -n $(installed datacenter-gpu-manager) ]]; then
      REASON="the image has DCGM 3, and the package of the exporter needs DCGM 4: use a newer image"
      return 1
    fi
    if ! with_patience install_dcgm; then
      REASON="not in the image, and not installed: $(words): use an image with a repository of NVIDIA that the subnet reaches,"
      REASON+=" or bake datacenter-gpu-manager-exporter into it"
      return 1
    fi
  fi
  place dcgm-exporter.conf nvidia-dcgm-exporter
  place dcgm-engine.conf nvidia-dcgm
  # A reset of GPUs stops the services that hold them if they are enabled, and starts them again.
  if ! run 60 systemctl enable nvidia-dcgm; then
    REASON="nvidia-dcgm: $(words)"
    return 1
  fi
  begin nvidia-dcgm-exporter 9400
}

# node_unit: into NODE, the unit of the node exporter under one of its names in Debian, Fedora and Prometheus' own example.
node_unit() {
  for NODE in prometheus-node-exporter node-exporter node_exporter; do
    if has_unit "$NODE"; then return; fi
  done
  return 1
}

# install_node: Amazon Linux has it among its supplementary packages (amazonlinux/amazon-linux-2023 issue 462).
install_node() {
  case $(system) in
  ubuntu*) refresh && install prometheus-node-exporter ;;
  *) install spal-release && install golang-github-prometheus-node-exporter ;;
  esac
}

# shellcheck disable=SC2329 # started by its name
start_node() {
  if node_unit; then
    begin "$NODE" 9100
    return
  fi
  # Before the package starts it.
  if [[ $(system) == ubuntu* ]]; then place node-exporter.conf prometheus-node-exporter; fi
  if ! with_patience install_node; then
    REASON="not in the image, and not installed: $(words): bake the node exporter into it"
    return 1
  fi
  if ! node_unit; then
    REASON="its package has no unit of a known name: bake the node exporter into the image"
    return 1
  fi
  begin "$NODE" 9100
}

FAULTS='' DONE=''
for EXPORTER in $GPU_EXPORTERS; do
  PORT=$(port_of "$EXPORTER")
  if answers "$PORT" || "start_$EXPORTER"; then
    DONE+="${DONE:+, }$EXPORTER at port $PORT"
  else
    FAULTS+="${FAULTS:+; }$EXPORTER: $REASON"
  fi
done
if [[ -n $FAULTS ]]; then fail "$FAULTS${DONE:+; works: $DONE}"; fi
trap - EXIT
result ok "$DONE"
