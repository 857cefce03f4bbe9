#!/usr/bin/env bash
# Mounts the NFS file systems of /etc/gpu-cluster/nfs-mounts at every boot: installs the client if the image has none,
# tries until the boot's deadline, then writes and deletes a file. /etc/fstab would try once, without a report.
#
# A line of /etc/gpu-cluster/nfs-mounts: MOUNT_POINT SERVER:/PATH OPTIONS
set -euo pipefail
UNIT=nfs
# shellcheck source=storage.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/storage.sh"

INSTALL_TRIES=4
# Where AWS ParallelCluster, too, keeps the home directory of the image's user if /home is shared
# (aws-parallelcluster-cookbook @ f75d84c, config_default_user_home.rb).
LOCAL=/local

# get_client: install mount.nfs, the package that mount(8) needs for the type.
get_client() {
  case $(system) in
  amzn*) packages install nfs-utils ;;
  ubuntu*) packages update && packages install nfs-common ;;
  *)
    SAID="no NFS client is known for $(system)"
    return 1
    ;;
  esac
}

ensure_client() {
  local try
  if command -v mount.nfs >/dev/null; then return; fi
  event nfs installing "no NFS client in the image"
  for ((try = 1; ; try++)); do
    if get_client; then break; fi
    if ((try >= INSTALL_TRIES || $(uptime_seconds) >= UNTIL)); then
      fail "no NFS client, and none could be installed: $(words): bake nfs-utils or nfs-common into the image"
    fi
    sleep 15
  done
  command -v mount.nfs >/dev/null || fail "the NFS client is installed, and there is still no mount.nfs"
}

# hint: what the words of mount.nfs usually mean on FSx and EFS.
# shellcheck disable=SC2329 # mount_at calls it
hint() {
  case $SAID in
  *"resolve"* | *"not known"*) echo "is the file system there, DNS on in the VPC, and an EFS mount target in this zone?" ;;
  *"access denied"*) echo "the file system does not export to this address: add its CIDR block to export_to" ;;
  *"No such file"*) echo "the file system has no such directory to mount" ;;
  *) echo "do the security groups of nodes and file system let NFS (TCP 2049) through?" ;;
  esac
}

# keep_local_homes: users that the image or cloud-init made keep their home directories, with their keys, on this node. The
# mount would hide them, and lock these users out. A run that was interrupted is completed by the next.
keep_local_homes() {
  local name home here moved=''
  while IFS=: read -r name _ _ _ _ home _; do
    here=${home#"$LOCAL"}
    if [[ $here != /home/?* || ! -d $ROOT$here ]]; then continue; fi
    # usermod changes nobody who is logged in.
    while [[ $home == "$here" ]] && ! run 30 usermod -d "$LOCAL$here" "$name"; do
      if (($(uptime_seconds) >= UNTIL)); then fail "$here would be hidden, and cannot move to $LOCAL$here: $(words)"; fi
      result waiting "to move $here: $(words)"
      sleep 5
    done
    mkdir -p "$ROOT$LOCAL${here%/*}"
    run 600 mv -T "$ROOT$here" "$ROOT$LOCAL$here" || fail "$here would be hidden, and cannot move: $(words)"
    moved+=" $LOCAL$here"
  done <"$ROOT/etc/passwd"
  if [[ -n $moved ]]; then event nfs moved "home directories of this node:$moved"; fi
}

mapfile -t MOUNTS <"$ROOT/etc/gpu-cluster/nfs-mounts"
# What this program makes on the way to a home directory is for everybody to pass.
umask 022
ensure_client
DONE=''
for LINE in "${MOUNTS[@]}"; do
  read -r POINT SOURCE OPTIONS <<<"$LINE"
  if [[ $POINT == /home && -z $(mounted /home) ]]; then keep_local_homes; fi
  mount_at "$POINT" nfs "$SOURCE" "$OPTIONS" "$SOURCE nfs*"
  probe "$POINT" "$OPTIONS"
  DONE+=" $POINT"
done
trap - EXIT
result ok "mounted:$DONE"
