#!/usr/bin/env bash
# Mounts the local NVMe disks as one file system at every boot: RAID0 with xfs, made once and found again after reboots.
# A disk that holds anything is never wiped. Where the image has put all of them under one mount of its own, as
# dlami-nvme.service of the Deep Learning AMIs does, that is used as it is.
#
#   GPU_SCRATCH          mount point
#   GPU_SCRATCH_DISKS    disks that must be there
#   GPU_SCRATCH_PATTERN  names of the disks in /dev/disk/by-id
set -euo pipefail
UNIT=scratch
# shellcheck source=storage.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/storage.sh"

PATTERN=${GPU_SCRATCH_PATTERN:-nvme-Amazon_EC2_NVMe_Instance_Storage_*}
LABEL=gpu-scratch
DIRECTORY=$ROOT$GPU_SCRATCH

# disks: the devices themselves. by-id has several names for one, and names of partitions.
disks() {
  local link
  shopt -s nullglob
  for link in "$ROOT"/dev/disk/by-id/$PATTERN; do
    if [[ $link != *-part[0-9]* ]]; then readlink -f "$link"; fi
  done | sort -u
}

# of_image: the one mount point that all disks are under already; fails when there is none.
of_image() {
  local disk own place=''
  for disk in "${DISKS[@]}"; do
    own=$(lsblk -nro MOUNTPOINT "$disk" | grep '^/' | sort -u) || return 1
    if [[ $own == *$'\n'* || $own != "${place:-$own}" ]]; then return 1; fi
    place=$own
  done
  printf '%s' "$place"
}

# array: our array, under whatever name it was assembled.
array() {
  local device
  for device in "$ROOT"/dev/md/* "$ROOT"/dev/md[0-9]*; do
    if mdadm --detail --export "$device" 2>/dev/null | grep -qE "^MD_NAME=(.*:)?$LABEL\$"; then
      printf '%s' "$device"
      return
    fi
  done
  return 1
}

# need COMMAND PACKAGE
need() {
  if command -v "$1" >/dev/null; then return; fi
  packages install "$2" || fail "no $1, and $2 could not be installed: $(words): bake $2 into the image"
}

refuse_unless_blank() {
  local disk held
  for disk in "$@"; do
    held=$(wipefs -n --noheadings -O TYPE "$disk" | paste -sd ' ' -)
    if [[ -n $held ]]; then
      fail "${disk#"$ROOT"} holds $held and is not wiped: turn scratch off, or clear the disk with wipefs -a"
    fi
  done
}

mount_at() {
  mkdir -p "$DIRECTORY"
  run 120 mount "$@" "$DIRECTORY" || fail "mount $* at $GPU_SCRATCH: $(words)"
}

# device: the block device of scratch, made if it is not there, and known to be blank then.
device() {
  local one
  if ((${#DISKS[@]} == 1)); then
    one=${DISKS[0]}
    refuse_unless_blank "$one"
  elif one=$(array); then
    refuse_unless_blank "$one"
  else
    refuse_unless_blank "${DISKS[@]}"
    one=$ROOT/dev/md/$LABEL
    event scratch creating "RAID0 of ${#DISKS[@]} disks"
    run 120 mdadm --create "$one" --run --level=0 --raid-devices=${#DISKS[@]} --name=$LABEL --homehost=any "${DISKS[@]}" ||
      fail "mdadm: $(words)"
    udevadm settle || true
  fi
  DEVICE=$one
}

if awk -v point="$DIRECTORY" '$2 == point { found = 1 } END { exit !found }' "$ROOT/proc/mounts"; then
  trap - EXIT
  result ok "$GPU_SCRATCH is mounted already"
  exit
fi
udevadm settle || true
mapfile -t DISKS < <(disks)
if ((${#DISKS[@]} < GPU_SCRATCH_DISKS)); then fail "${#DISKS[@]} of $GPU_SCRATCH_DISKS local disks are there"; fi
if PLACE=$(of_image); then
  mount_at --bind "$PLACE"
  HOW="the image's own $PLACE"
else
  need mkfs.xfs xfsprogs
  if ((${#DISKS[@]} > 1)); then
    need mdadm mdadm
    run 60 mdadm --assemble --scan || true
    udevadm settle || true
  fi
  HOW="as before, disks: ${#DISKS[@]}"
  if ! DEVICE=$(blkid -c /dev/null -t LABEL=$LABEL -o device | head -n 1) || [[ -z $DEVICE ]]; then
    device
    # -K: the disks of a new instance are trimmed already.
    run 600 mkfs.xfs -q -K -L $LABEL "$DEVICE" || fail "mkfs.xfs ${DEVICE#"$ROOT"}: $(words)"
    HOW="new, disks: ${#DISKS[@]}"
  fi
  mount_at -o noatime "$DEVICE"
fi
chmod 1777 "$DIRECTORY"
trap - EXIT
result ok "$GPU_SCRATCH: $HOW"
