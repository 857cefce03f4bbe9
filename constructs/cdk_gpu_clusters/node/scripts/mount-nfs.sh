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
HOME_TRIES=6
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

# set_home USER DIRECTORY: usermod refuses while the user has a process (usermod(8), exit value 8), and somebody may log in
# before this runs. Only the path of new logins changes: vipw, which has the same lock, writes it in any case.
set_home() {
  local status=0 editor=$STATE_DIR/set-home
  run 30 usermod -d "$2" "$1" || status=$?
  if ((status != 8)); then return "$status"; fi
  cat >"$editor" <<'END'
#!/bin/sh -e
awk -F: -v OFS=: '$1 == ENVIRON["NAME"] { $6 = ENVIRON["DIRECTORY"] } 1' "$1" >"$1.new"
cat "$1.new" >"$1"
rm "$1.new"
END
  chmod 700 "$editor"
  NAME=$1 DIRECTORY=$2 EDITOR=$editor VISUAL=$editor run 30 vipw -q || return
  # vipw takes a file of the same second for an unchanged one.
  awk -F: -v name="$1" -v home="$2" '$1 == name && $6 == home { found = 1 } END { exit !found }' "$ROOT/etc/passwd"
}

# move_home USER DIRECTORY: to $LOCAL, all of it or nothing. Programs that run in it go on there: a rename moves no file.
move_home() {
  local name=$1 here=$2 there=$LOCAL$2 try
  for ((try = 1; ; try++)); do
    if set_home "$name" "$there"; then break; fi
    # Something else may make users at the same time.
    if ((try == HOME_TRIES || $(uptime_seconds) >= UNTIL)); then return 1; fi
    sleep 5
  done
  mkdir -p "$ROOT${there%/*}"
  if run 600 mv -T "$ROOT$here" "$ROOT$there"; then return; fi
  local said=$SAID
  set_home "$name" "$here" || true
  SAID=$said
  return 1
}

# keep_local_homes: users that the image or cloud-init made keep their home directories, with their keys, on this node. The
# mount would hide them, and lock these users out. A run that was interrupted is completed by the next.
keep_local_homes() {
  local name home here moved=''
  # The list of before: it changes meanwhile.
  while IFS=: read -r name _ _ _ _ home _; do
    here=${home#"$LOCAL"}
    if [[ $here != /home/?* || ! -d $ROOT$here ]]; then continue; fi
    if move_home "$name" "$here"; then
      moved+=" $LOCAL$here"
    else
      # The next boot tries again. A node must not be lost for it.
      event nfs unmoved "$here of $name stays, hidden by the mount: $(words)"
    fi
  done <<<"$(cat "$ROOT/etc/passwd")"
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
