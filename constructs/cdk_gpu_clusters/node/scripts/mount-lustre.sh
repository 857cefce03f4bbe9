#!/usr/bin/env bash
# Mounts the FSx for Lustre file systems of /etc/gpu-cluster/mounts at every boot: installs the client if the image has
# none, tries until the boot's deadline, then writes and deletes a file. /etc/fstab would try once, without a report.
#
# A line of /etc/gpu-cluster/mounts: MOUNT_POINT DNS_NAME MOUNT_NAME OPTIONS [efa]
set -euo pipefail
UNIT=lustre
# shellcheck source=storage.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/storage.sh"

# FSx for Lustre user guide, "Installing the Lustre client".
REPOSITORY=https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu
KEY=https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc
# AWS publishes no fingerprint. This one is pinned by a public installer of the client (read 2026-11-23).
FINGERPRINT=9C36DD9C515F10DBC3AA835C5D5CCC3383A962E1
INSTALL_TRIES=4
KERNEL=$(uname -r)

# FSx for Lustre user guide, "Performance tips": for clients of more than 64 vCPUs, and of more than 64 GiB.
LARGE_CPUS=64 LARGE_GIB=64
CPUS=$(nproc --all)
GIB=$(awk '/^MemTotal:/ { print int($2 / 1048576) }' "$ROOT/proc/meminfo")

has_client() { command -v mount.lustre >/dev/null && run 60 modprobe lustre; }

# get_key FILE: the key of the repository, if it is the one that is known, and no other with it.
get_key() {
  local home found
  run 60 curl -sSf -m 20 --retry 2 -o "$1.new" "$KEY" || return 1
  home=$(mktemp -d)
  found=$(gpg --homedir "$home" --batch --show-keys --with-colons "$1.new" 2>/dev/null |
    awk -F: '$1 == "pub" { first = 1 } $1 == "fpr" && first { print $10; first = 0 }') || true
  rm -rf "$home"
  if [[ $found != "$FINGERPRINT" ]]; then
    rm -f "$1.new"
    SAID="the key of the repository is not the known one: ${found:-no key}"
    WHY="check $KEY, and bake the Lustre client into the image"
    return 1
  fi
  mv "$1.new" "$1"
}

# get_client: install the client of this system; WHY is what kept it from that.
get_client() {
  local codename ring=$ROOT/usr/share/keyrings/fsx-lustre.asc package=lustre-client-modules-$KERNEL
  case $(system) in
  amzn*)
    WHY="bake lustre-client into the image, or let the subnet reach the Amazon Linux repository (in S3)"
    packages install lustre-client
    ;;
  ubuntu*)
    WHY="bake $package into the image, or let the subnet reach $REPOSITORY"
    # shellcheck source=/dev/null
    codename=$(. "$ROOT/etc/os-release" && printf '%s' "$VERSION_CODENAME")
    mkdir -p "${ring%/*}" "$ROOT/etc/apt/sources.list.d"
    get_key "$ring" || return 1
    echo "deb [signed-by=${ring#"$ROOT"}] $REPOSITORY $codename main" >"$ROOT/etc/apt/sources.list.d/fsx-lustre.list"
    packages update || return 1
    packages install "$package" && return
    if [[ $SAID == *"Unable to locate package"* ]]; then
      WHY="$REPOSITORY has no client for kernel $KERNEL: bake linux-aws and lustre-client-modules-aws into the image"
    fi
    return 1
    ;;
  *)
    SAID="no Lustre client is known for $(system)"
    WHY="bake one into the image"
    return 1
    ;;
  esac
}

ensure_client() {
  local try WHY=''
  if has_client; then return; fi
  event lustre installing "no client for kernel $KERNEL in the image"
  for ((try = 1; ; try++)); do
    if get_client; then break; fi
    if ((try >= INSTALL_TRIES || $(uptime_seconds) >= UNTIL)); then
      fail "no Lustre client for $(system), kernel $KERNEL, and none could be installed: $(words): $WHY"
    fi
    sleep 15
  done
  command -v mount.lustre >/dev/null || fail "the Lustre client is installed, and there is still no mount.lustre"
  run 60 modprobe lustre || fail "the Lustre client is installed, but kernel $KERNEL does not load it: $(words)"
}

# hint: what the words of mount.lustre usually mean on FSx.
hint() {
  case $SAID in
  *"parse NID"* | *"not known"*) echo "the name does not resolve: is the file system there, and DNS on in the VPC?" ;;
  *"No such file"*) echo "the file system has another mount name" ;;
  *"Invalid argument"*) echo "a 2.15 client needs a file system of version 2.12 or later" ;;
  *) echo "do the security groups of nodes and file system let TCP 988 and 1018-1023 through, both ways?" ;;
  esac
}

# efa STEP...: set EFA up, or measure whether it is used. Without EFA, Lustre works over TCP, so it is only reported.
efa() {
  if run 600 gpunode lustre-efa "$@"; then
    event lustre-efa ok "$1: $(words)" "$SECONDS"
    return
  fi
  event lustre-efa failed "$1: $(words)" "$SECONDS"
  OVER="; data take TCP, not EFA: $(words)"
  return 1
}

# tune_modules: options that the modules take when they are loaded, which is below if the image has not done it.
tune_modules() {
  if ((CPUS <= LARGE_CPUS)); then return; fi
  mkdir -p "$ROOT/etc/modprobe.d"
  printf "options %s\n" "ptlrpc ptlrpcd_per_cpt_max=32" "ksocklnd credits=2560" >"$ROOT/etc/modprobe.d/gpu-lustre.conf"
  if [[ -e $ROOT/sys/module/ptlrpc ]]; then event lustre-tuning waiting "the modules are loaded: from the next boot on"; fi
}

# set_params NAME=VALUE...: settings of mounted file systems, which the kernel forgets. Lustre works without them.
set_params() {
  if ! run 30 lctl set_param "$@"; then event lustre-tuning failed "$(words)"; fi
}

tune_mounts() {
  if ((GIB > LARGE_GIB)); then
    set_params 'ldlm.namespaces.*.lru_max_age=600000' "ldlm.namespaces.*.lru_size=$((100 * CPUS))"
  fi
  if ((CPUS > LARGE_CPUS)); then
    set_params 'osc.*OST*.max_rpcs_in_flight=32' 'mdc.*.max_rpcs_in_flight=64' 'mdc.*.max_mod_rpcs_in_flight=50'
  fi
}

mapfile -t MOUNTS <"$ROOT/etc/gpu-cluster/mounts"
tune_modules
ensure_client
DONE='' OVER='' BY_EFA=()
# Before the first mount: later it would find a network that is in use.
if [[ " ${MOUNTS[*]} " == *" efa "* ]] && efa set-up; then OVER=' over EFA'; fi
for LINE in "${MOUNTS[@]}"; do
  read -r POINT NAME VOLUME OPTIONS NETWORK <<<"$LINE"
  # The kernel knows the server by its address, so that only the mount name can be compared.
  mount_at "$POINT" lustre "$NAME@tcp:/$VOLUME" "$OPTIONS" "*:/$VOLUME lustre"
  probe "$POINT" "$OPTIONS"
  DONE+=" $POINT"
  # The probe writes, as little as it may.
  if [[ $NETWORK == efa && ,$OPTIONS, != *,ro,* ]]; then BY_EFA+=("$POINT"); fi
done
tune_mounts
if [[ $OVER == ' over EFA' && ${#BY_EFA[@]} -gt 0 ]]; then efa probe "${BY_EFA[@]}" || true; fi
trap - EXIT
result ok "mounted:$DONE$OVER"
