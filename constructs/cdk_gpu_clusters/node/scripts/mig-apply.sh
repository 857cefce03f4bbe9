#!/usr/bin/env bash
# Splits the GPUs by /etc/default/mig, at every boot and before anything uses them. It changes only what differs,
# judges by the state that it reads back and never by an exit code of nvidia-smi, and uses no network.
#
#   MIG_PARTITION  profiles of every GPU, by name or id: 1g.5gb,1g.5gb or 19,19; `off` does not split a GPU.
#                  One layout for all GPUs, or one per GPU in the order of nvidia-smi -L, separated by semicolons.
#   MIG_GPU_COUNT  GPUs to wait for; 1 or more if left out.
#   MIG_MINIMUM_DRIVER  oldest driver release for the layout; not checked if left out.
#   MIG_BOOTHOOK   set where cloud-init runs this and waits for it: then a reboot need not wait for cloud-init.
#
# MIG mode that stays pending is tried with a GPU reset, then with one reboot; a marker keeps it at one. A layout with
# which CUDA does not start gets that reboot, too.
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

RESULT=$STATE_DIR/mig.json
MARKER=$STATE_DIR/mig-reboot
DRIVER_WAIT=${MIG_DRIVER_WAIT:-300}
PATIENCE=${MIG_PATIENCE:-300}
# A reset of eight GPUs takes longest.
SMI_WAIT=${MIG_SMI_WAIT:-300}
WORK=$(mktemp -d)
# What NVIDIA's mig-parted stops before it changes the mode, as far as it runs as a unit.
CLIENTS=(nvsm nvidia-dcgm dcgm dcgm-exporter kubelet)
FABRIC=nvidia-fabricmanager
STOPPED=()
WANT=()
PROFILES=''
BOOT=$(cat "$ROOT/proc/sys/kernel/random/boot_id")

# smi WORDS...: run nvidia-smi. A slow one is left alone, since a signal to it can freeze a GPU (NVIDIA/dcgm-exporter
# issue 84), and no other is started after it.
smi() {
  local said=$WORK/$BASHPID status ended
  if [[ -e $WORK/left ]]; then
    echo 'nvidia-smi has not returned'
    return 124
  fi
  exec {ended}< <(if nvidia-smi "$@" >"$said" 2>&1; then echo 0; else echo "$?"; fi)
  if ! read -r -t "$SMI_WAIT" -u "$ended" status; then
    : >"$WORK/left"
    echo "nvidia-smi $* did not end within $SMI_WAIT s"
    return 124
  fi
  exec {ended}<&-
  cat "$said"
  return "$status"
}

# result STATE [REASON]: to the journal, and to the file that the boot check of the node reads.
result() {
  event mig "$1" "${2:-}" "$SECONDS"
  printf '{"state":"%s","boot_id":"%s","reason":%s}\n' "$1" "$BOOT" "$(json_text "${2:-}")" >"$RESULT.new"
  mv -f "$RESULT.new" "$RESULT"
}

fail() {
  trap - EXIT
  rm -rf "$WORK"
  restart_clients
  result failed "$1"
  printf 'gpu-mig: %s\n' "$1" >"$ROOT/dev/console" || true
  exit 1
}

# modes: "INDEX, Enabled|Disabled|[N/A]" of every GPU that answers.
modes() { smi --query-gpu=index,mig.mode.current --format=csv,noheader | grep -E '^[0-9]+, ' || true; }

wait_for_driver() {
  local seen
  while :; do
    seen=$(modes | grep -vci 'lost\|error\|unable' || true)
    if ((seen >= ${MIG_GPU_COUNT:-1})); then return; fi
    if ((SECONDS >= DRIVER_WAIT)); then
      fail "driver: $seen of ${MIG_GPU_COUNT:-1} GPUs answer after $DRIVER_WAIT s: $(smi -L | head -n 1)"
    fi
    sleep 2
  done
}

# check_driver: an older one would only report later that the GPU has no MIG, or not this profile.
check_driver() {
  local driver
  driver=$(smi -i 0 --query-gpu=driver_version --format=csv,noheader)
  if ! printf '%s\n' "${MIG_MINIMUM_DRIVER:-0}" "$driver" | sort -CV; then
    fail "driver: $driver is too old, this layout needs $MIG_MINIMUM_DRIVER"
  fi
}

# read_wish: WANT[GPU] is the layout of each GPU.
read_wish() {
  local rows count gpu layouts
  rows=$(modes)
  count=$(wc -l <<<"$rows")
  IFS=';' read -ra layouts <<<"${MIG_PARTITION// /}"
  if ((${#layouts[@]} != 1 && ${#layouts[@]} != count)); then
    fail "MIG_PARTITION has ${#layouts[@]} layouts for $count GPUs"
  fi
  for ((gpu = 0; gpu < count; gpu++)); do
    WANT[gpu]=${layouts[gpu % ${#layouts[@]}]}
    if [[ -z ${WANT[gpu]} ]]; then fail "MIG_PARTITION leaves the layout of GPU $gpu empty"; fi
    if [[ ${WANT[gpu]} != off ]] && grep -q "^$gpu, .*N/A" <<<"$rows"; then fail "GPU $gpu cannot be split with MIG"; fi
  done
}

# wrong_mode: the GPUs whose mode is not the wanted one.
wrong_mode() {
  local gpu mode wanted
  while IFS=', ' read -r gpu mode; do
    wanted=Enabled
    if [[ ${WANT[gpu]} == off ]]; then wanted=Disabled; fi
    if [[ $mode != "$wanted" && ! ($wanted == Disabled && $mode == *N/A*) ]]; then echo "$gpu"; fi
  done < <(modes)
}

refuse_if_busy() {
  local gpu=$1 busy
  busy=$(smi -i "$gpu" --query-compute-apps=pid,name --format=csv,noheader | grep -E '^[0-9]+, ' || true)
  if [[ -n $busy ]]; then fail "GPU $gpu is in use by ${busy//$'\n'/; }: stop it, then systemctl restart gpu-mig"; fi
}

stop_clients() {
  local unit
  for unit in "$@"; do
    if systemctl is-active --quiet "$unit"; then
      systemctl stop "$unit"
      STOPPED+=("$unit")
    fi
  done
}

restart_clients() {
  # --no-block: units that are ordered after this one would wait for it for ever.
  if ((${#STOPPED[@]})); then systemctl start --no-block "${STOPPED[@]}" || true; fi
  STOPPED=()
}

destroy() {
  smi -i "$1" mig -dci || true
  smi -i "$1" mig -dgi || true
}

# set_modes: switch MIG on and off where it differs, at last with a reset and with one reboot.
set_modes() {
  local gpu said='' wrong
  wrong=$(wrong_mode)
  if [[ -z $wrong ]]; then return; fi
  for gpu in $wrong; do refuse_if_busy "$gpu"; done
  stop_clients "${CLIENTS[@]}"
  for gpu in $wrong; do
    if [[ ${WANT[gpu]} == off ]]; then
      destroy "$gpu" >/dev/null
      said+=$(smi -i "$gpu" -mig 0 || true)
    else
      said+=$(smi -i "$gpu" -mig 1 || true)
    fi
  done
  reset_gpus
  # Hopper and later reset with the fabric manager stopped, Ampere with it running: the other way comes second.
  if [[ -n $(wrong_mode) ]] && systemctl is-active --quiet "$FABRIC"; then
    stop_clients "$FABRIC"
    reset_gpus
  fi
  wrong=$(wrong_mode)
  if [[ -n $wrong ]]; then reboot_once "MIG mode of GPU ${wrong//$'\n'/, } is pending: $said"; fi
}

# On Ampere the daemon (NVIDIA/gpu-operator issue 118) and nvidia_drm (NVIDIA/mig-parted issue 181) hold GPUs open, and
# the reset is refused. Hopper and later forget the mode when nothing holds them, so there both stay.
reset_gpus() {
  local wrong daemon='' drm=''
  wrong=$(wrong_mode | paste -sd, -)
  if [[ -z $wrong ]]; then return; fi
  if [[ $(smi -i 0 --query-gpu=compute_cap --format=csv,noheader || true) == 8.* ]]; then
    if systemctl is-active --quiet nvidia-persistenced; then daemon=1 && systemctl stop nvidia-persistenced; fi
    if [[ -d $ROOT/sys/module/nvidia_drm ]] && rmmod nvidia_drm; then drm=1; fi
  fi
  event mig reset "$wrong: $(smi --gpu-reset -i "$wrong" || true)"
  if [[ -n $drm ]]; then modprobe nvidia_drm || true; fi
  # At once: without it the driver forgets the instances that are made next.
  if [[ -n $daemon ]]; then systemctl start nvidia-persistenced || true; fi
}

# judge: nvidia-smi lists slices on which CUDA does not start. Where the fabric manager is still to come, or CUDA cannot
# be tried, since gpunode is missing or is just being unpacked, the boot checks judge.
judge() {
  local said status=0
  said=$(timeout -k 5 180 gpunode cuda 2>&1) || status=$?
  if ((status == 3)) && [[ $said != *CUDA_ERROR_SYSTEM_NOT_READY* ]]; then reboot_once "$said"; fi
  event mig "$(if ((status)); then echo unjudged; else echo judged; fi)" "$said"
}

# cloud_init_rests: it is through, or can do no more before this unit is. Debian and Ubuntu order its last stage after
# multi-user.target, which waits for this unit.
cloud_init_rests() {
  if [[ -n ${MIG_BOOTHOOK:-} ]]; then return; fi
  if [[ ! -d $ROOT/run/cloud-init || -e $ROOT/run/cloud-init/result.json ]]; then return; fi
  [[ " $(systemctl show --property=After --value cloud-final) " == *' multi-user.target '* ]] || return 1
  [[ $(systemctl show --property=ActiveState --value cloud-config) != activating ]]
}

reboot_once() {
  if [[ -e $MARKER ]]; then fail "$1, also after a reboot"; fi
  # cloud-init never repeats a user script that a reboot cut short: let it finish, but not for ever.
  until cloud_init_rests || ((SECONDS >= DRIVER_WAIT + PATIENCE)); do sleep 2; done
  echo "$BOOT" >"$MARKER"
  # `gpunode boot` then restarts the time-out of the launch.
  echo "$BOOT" >"$STATE_DIR/rebooted"
  sync
  result rebooting "$1"
  STOPPED=()
  trap - EXIT
  systemctl --no-block reboot
  # Not done: what is ordered after this unit must not start before the reboot.
  sleep "$PATIENCE"
  fail "$1, and the reboot did not come"
}

# ids LAYOUT: the layout as profile ids in the order given, with names looked up in the GPUs' own listing.
ids() {
  awk -v wish="$1" '
    { gsub(/\|/, " ") }
    $2 == "MIG" && $4 ~ /^[0-9]+$/ { id[$3] = $4; id[$4] = $4; names = names " " $3 }
    END {
      count = split(wish, name, ",")
      for (i = 1; i <= count; i++) {
        if (!(name[i] in id)) { print "no profile " name[i] ", only" names; exit 1 }
        line = line (i > 1 ? "," : "") id[name[i]]
      }
      print line
    }' <<<"$PROFILES"
}

# present GPU: ids of its GPU instances in sorted order, each with a compute instance, which is what a process uses.
present() {
  local instances devices
  instances=$(smi -i "$1" mig -lgi | awk '{ gsub(/\|/, " ") } $2 == "MIG" && $4 ~ /^[0-9]+$/ { print $4 }' | sort | paste -sd, - || true)
  devices=$(smi -L | awk -v gpu="GPU $1:" '/^GPU/ { own = index($0, gpu) == 1 } own && /^ +MIG / { n++ } END { print n + 0 }')
  if ((devices == $(tr ',' '\n' <<<"$instances" | grep -c .))); then
    echo "$instances"
  else
    echo "$instances with $devices devices"
  fi
}

sorted() { tr ',' '\n' <<<"$1" | sort | paste -sd, -; }

# orders IDS: the orders to try, one per line: as given, then with the first 0, 1, 2... kept and the rest turned round.
orders() {
  awk -v ids="$1" 'BEGIN {
    count = split(ids, id, ",")
    print ids
    seen[ids]
    for (kept = 0; kept < count - 1; kept++) {
      line = ""
      for (i = 1; i <= count; i++) line = line (i > 1 ? "," : "") id[i <= kept ? i : count + kept + 1 - i]
      if (!(line in seen)) print line
      seen[line]
    }
  }'
}

# split GPU: give it the wanted layout. Sources differ in where a driver puts an instance, and a small one can lie where
# a large one must: large instances come first, then other orders. The tests prove that one of them works for every
# layout that fits, whether the driver takes the first free place or the last.
split() {
  local gpu=$1 wish there order said=''
  if [[ -z $PROFILES ]]; then PROFILES=$(smi -i "$gpu" mig -lgip || true); fi
  if ! wish=$(ids "${WANT[gpu]}"); then fail "GPU $gpu: $wish"; fi
  there=$(present "$gpu")
  if [[ $there == "$(sorted "$wish")" ]]; then
    event mig present "GPU $gpu: ${WANT[gpu]}"
    return
  fi
  refuse_if_busy "$gpu"
  for order in $(orders "$wish"); do
    if [[ -n $there ]]; then destroy "$gpu" >/dev/null; fi
    said=$(smi -i "$gpu" mig -cgi "$order" -C || true)
    there=$(present "$gpu")
    if [[ $there == "$(sorted "$wish")" ]]; then
      event mig created "GPU $gpu: ${WANT[gpu]}"
      return
    fi
  done
  fail "GPU $gpu: ${WANT[gpu]} is wanted, ${there:-nothing} is there: $said"
}

mkdir -p "$STATE_DIR"
trap 'fail "mig-apply stopped unexpectedly at: $BASH_COMMAND"' EXIT
result started
if [[ -r $ROOT/etc/default/mig ]]; then
  # shellcheck source=/dev/null
  . "$ROOT/etc/default/mig"
fi
if [[ -z ${MIG_PARTITION:-} ]]; then fail "/etc/default/mig sets no MIG_PARTITION"; fi
wait_for_driver
check_driver
read_wish
set_modes
for GPU in "${!WANT[@]}"; do
  if [[ ${WANT[GPU]} != off ]]; then split "$GPU"; fi
done
judge
rm -f "$MARKER"
trap - EXIT
restart_clients
# It names slices to container runtimes and notices no new ones: those of a running node, or of a first boot, where it may
# come before this unit is known.
if systemctl is-enabled --quiet nvidia-cdi-refresh 2>/dev/null; then systemctl start --no-block nvidia-cdi-refresh; fi
result ok "$(smi -L | grep -c '^ *MIG ' || true) MIG devices"
rm -rf "$WORK"
