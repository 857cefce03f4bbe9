#!/usr/bin/env bash
# Watches for the end of this instance (termination by its Auto Scaling group, Spot interruption), runs the user's
# /etc/gpu-cluster/on-drain REASON once with a deadline, then completes the terminating hook where there is one.
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

# ending: why this instance ends; fails while nothing says so.
ending() {
  local notice
  if [[ $(imds autoscaling/target-lifecycle-state) == Terminated ]]; then
    echo autoscaling-termination
  elif notice=$(imds spot/instance-action); then
    echo "spot-interruption $notice"
  else
    return 1
  fi
}

# drain REASON: the user's command, if there is one. Its failure or lateness must not hold the instance back.
drain() {
  local command=$ROOT/etc/gpu-cluster/on-drain begin=$SECONDS status=0
  if [[ ! -x $command ]]; then
    event drain skipped "$1: no executable /etc/gpu-cluster/on-drain"
    return
  fi
  event drain started "$1"
  timeout -k 5 "$GPU_DRAIN_DEADLINE" "$command" "$1" || status=$?
  case $status in
  0) event drain ok "$1" $((SECONDS - begin)) ;;
  124 | 137) event drain failed "on-drain was still running after $GPU_DRAIN_DEADLINE s" $((SECONDS - begin)) ;;
  *) event drain failed "on-drain exited with $status" $((SECONDS - begin)) ;;
  esac
}

mkdir -p "$STATE_DIR"
load_node
DRAINED=false
while :; do
  if REASON=$(ending); then
    if [[ $DRAINED == false ]]; then
      mkdir -p "${ENDING%/*}"
      printf '%s\n' "$REASON" >"$ENDING"
      drain "$REASON"
      DRAINED=true
      publish
    fi
    # A Spot notice may be followed by the group's own termination, whose hook is still to be completed.
    if [[ $REASON == autoscaling-termination ]]; then
      if [[ -n ${GPU_TERMINATE_HOOK:-} ]]; then
        complete_hook "$GPU_TERMINATE_HOOK" CONTINUE Terminating $(($(uptime_seconds) + 300)) || true
      fi
      exit 0
    fi
  fi
  sleep 5
done
