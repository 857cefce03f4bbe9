#!/usr/bin/env bash
# Lets no users but root and those of GPU_METADATA_USERS reach the instance metadata service, and with it the role of the
# node. Rules of routing hold for programs of this network; containers with one of their own are a hop further away.
#
# Not nftables: the rules of Docker and firewalld stay apart, and iproute2 is in all images. systemd-networkd removes
# rules of others unless their protocol is "kernel" (networkd.conf(5), ManageForeignRoutingPolicyRules).
#
#   GPU_METADATA_USERS  names or numbers of users, separated by blanks
set -euo pipefail
UNIT=metadata
# shellcheck source=storage.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/storage.sh"

SERVICE=169.254.169.254

# rule PREFERENCE USERS ACTION...: a rule of routing, unless it is there already.
rule() {
  local preference=$1 users=$2
  shift 2
  run 10 ip -4 rule add pref "$preference" to "$SERVICE/32" uidrange "$users" protocol kernel "$@" ||
    [[ $SAID == *"File exists"* ]] || fail "ip rule: $(words)"
}

rule 1001 1-4294967294 prohibit
for user in $GPU_METADATA_USERS; do
  number=$user
  if [[ ! $user =~ ^[0-9]+$ ]]; then
    number=$(id -u "$user" 2>/dev/null) || fail "there is no user $user on this node"
  fi
  if ((number != 0)); then rule 1000 "$number-$number" lookup main; fi
done
trap - EXIT
result ok "$GPU_METADATA_USERS"
