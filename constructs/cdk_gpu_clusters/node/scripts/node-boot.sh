#!/usr/bin/env bash
# Checks the node stage by stage at every boot, then completes its launch: CONTINUE when ready, ABANDON when not.
# CompleteLifecycleAction takes no reason, so the reason goes first to boot.json, the journal, the serial console and
# the log group. A reboot checks again and completes nothing.
# shellcheck disable=SC2329 # the checks are called by name
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

FIRST_BOOT=true

# Every check prints its finding and gives 0 = good, 1 = not yet, 2 = never will be.

check_user_data() {
  # cloud-init lists failed modules here; "scripts_user" runs the x-shellscript parts, in this user data after ours.
  if grep -qs 'scripts.user' "$ROOT/run/cloud-init/result.json"; then
    echo "a shell script of the user data failed: see /var/log/cloud-init-output.log"
    return 2
  fi
  echo "cloud-init is done"
}

# check_unit NAME: what gpu-NAME.service said during this boot; an older word counts for nothing.
check_unit() {
  local said='not started'
  if grep -qsF "$(cat "$ROOT/proc/sys/kernel/random/boot_id")" "$STATE_DIR/$1.json"; then
    said=$(sed 's/.*"state":"\([a-z]*\)".*"reason":"\(.*\)".*/\1 \2/' "$STATE_DIR/$1.json")
  fi
  case $said in
  ok*) echo "${said#ok }" ;;
  failed*)
    echo "${said#failed }"
    return 2
    ;;
  *)
    echo "gpu-$1 has not finished: $said"
    return 1
    ;;
  esac
}
check_scratch() { check_unit scratch; }
check_lustre() { check_unit lustre; }

check_limits() {
  local pages
  if [[ -z ${GPU_HUGE_PAGES:-} ]]; then
    echo "memlock $(ulimit -l)"
    return
  fi
  sysctl -qp "$ROOT/etc/sysctl.d/99-gpu-cluster.conf" || true
  pages=$(cat "$ROOT/proc/sys/vm/nr_hugepages")
  echo "memlock $(ulimit -l), $pages huge pages of $GPU_HUGE_PAGES"
  ((pages >= GPU_HUGE_PAGES)) || return 2
}

check_gpu() {
  local list seen
  # A lost GPU keeps its row, and nvidia-smi still exits 0: only its cells say so.
  if ! list=$(timeout -k 5 60 nvidia-smi --query-gpu=index,uuid,memory.total --format=csv,noheader 2>&1); then
    echo "nvidia-smi: $list"
    return 1
  fi
  seen=$(grep -E '^[0-9]+, GPU-' <<<"$list" | grep -civE 'is lost|error|unable' || true)
  echo "$seen of $GPU_ACCELERATOR_COUNT GPUs answer"
  ((seen >= GPU_ACCELERATOR_COUNT))
}

check_mig() {
  local said status=0 seen
  said=$(check_unit mig) || status=$?
  if ((status)); then
    echo "$said"
    return "$status"
  fi
  seen=$(timeout -k 5 60 nvidia-smi -L 2>&1 | grep -c '^ *MIG ' || true)
  echo "$seen of $GPU_MIG_COUNT MIG devices"
  ((seen == GPU_MIG_COUNT)) || return 2
}

check_neuron() {
  local list seen
  if ! list=$(timeout -k 5 60 neuron-ls --json-output 2>&1); then
    echo "neuron-ls: $list"
    return 1
  fi
  seen=$(grep -o '"neuron_device"' <<<"$list" | wc -l)
  echo "$((seen)) of $GPU_ACCELERATOR_COUNT Neuron devices answer"
  ((seen >= GPU_ACCELERATOR_COUNT))
}

check_efa() {
  local device seen=0
  for device in "$ROOT"/sys/class/infiniband/{rdmap,efa}*; do
    if [[ -e $device ]]; then seen=$((seen + 1)); fi
  done
  if ((seen >= GPU_EFA_COUNT)) && command -v fi_info >/dev/null && ! timeout -k 5 60 fi_info -p efa >/dev/null 2>&1; then
    echo "fi_info -p efa finds no provider"
    return 1
  fi
  echo "$seen of $GPU_EFA_COUNT EFA devices"
  ((seen >= GPU_EFA_COUNT))
}

# stage NAME CHECK: repeat CHECK until it is good, can never be, or the deadline of the boot is reached.
stage() {
  local name=$1 check=$2 begin=$SECONDS pause=1 reason='' last='' status
  event "$name" started
  while :; do
    status=0
    reason=$("$check") || status=$?
    # Neither worth waiting for, nor to be given work.
    if [[ -s $ENDING ]]; then status=2 reason="this instance is about to end: $(<"$ENDING")"; fi
    if ((status == 0)); then
      event "$name" ok "$reason" $((SECONDS - begin))
      return
    fi
    if ((status == 2 || $(uptime_seconds) >= GPU_BOOT_DEADLINE)); then
      event "$name" failed "$reason" $((SECONDS - begin))
      finish failed "$name: $reason"
    fi
    if [[ $reason != "$last" ]]; then event "$name" waiting "$reason" $((SECONDS - begin)); fi
    last=$reason
    sleep "$pause"
    pause=$((pause < 8 ? pause * 2 : 10))
  done
}

# write_result STATE REASON: what happened, for people and for later health checks.
write_result() {
  local boot_id joined
  boot_id=$(cat "$ROOT/proc/sys/kernel/random/boot_id" 2>/dev/null || true)
  joined=$(printf ',%s' "${EVENTS[@]}")
  printf '{"state":"%s","reason":%s,"instance_id":"%s","boot_id":"%s","first_boot":%s,"uptime_seconds":%d,"events":[%s]}\n' \
    "$1" "$(json_text "$2")" "${INSTANCE_ID:-}" "$boot_id" "$FIRST_BOOT" "$(uptime_seconds)" "${joined:1}" \
    >"$STATE_DIR/boot.json.new"
  mv -f "$STATE_DIR/boot.json.new" "$STATE_DIR/boot.json"
}

# launch RESULT: complete the launching hook, once in the life of the instance.
launch() {
  [[ $FIRST_BOOT == true && -n ${INSTANCE_ID:-} ]] || return 0
  # 300 s more than the checks had: the answer must still get out when they used up all their time.
  if [[ -z $GPU_LAUNCH_HOOK ]] || complete_hook "$GPU_LAUNCH_HOOK" "$1" Pending $((GPU_BOOT_DEADLINE + 300)); then
    : >"$STATE_DIR/launched-$INSTANCE_ID"
  fi
}

# finish STATE REASON: say it everywhere, complete the launch, leave.
finish() {
  trap - EXIT
  event node "$1" "$2" "$SECONDS"
  write_result "$1" "$2"
  if [[ $1 == ready ]]; then
    launch CONTINUE
    publish
  else
    printf 'gpu-node-boot: %s %s: %s\n' "${INSTANCE_ID:-}" "$1" "$2" >"$ROOT/dev/console" || true
    publish
    launch ABANDON
  fi
  write_result "$1" "$2"
  [[ $1 == ready ]] || exit 1
  exit 0
}

mkdir -p "$STATE_DIR"
event node started
trap 'finish failed "node-boot stopped unexpectedly at: $BASH_COMMAND"' EXIT
load_node
if [[ -e $STATE_DIR/launched-$INSTANCE_ID ]]; then FIRST_BOOT=false; fi
write_result starting ''
# Before the user's scripts, which may have failed for the want of a mount.
if [[ -n ${GPU_SCRATCH:-} ]]; then stage scratch check_scratch; fi
if ((${GPU_MOUNTS:-0} > 0)); then stage lustre check_lustre; fi
stage user-data check_user_data
stage limits check_limits
if ((GPU_ACCELERATOR_COUNT > 0)); then stage driver "check_$GPU_ACCELERATOR"; fi
if ((${GPU_MIG_COUNT:-0} > 0)); then stage mig check_mig; fi
if ((GPU_EFA_COUNT > 0)); then stage efa check_efa; fi
for CHECK in "$ROOT"/etc/gpu-cluster/ready.d/*; do # what else this node must have; the same statuses
  if [[ -x $CHECK ]]; then stage "${CHECK##*/}" "$CHECK"; fi
done
finish ready ''
