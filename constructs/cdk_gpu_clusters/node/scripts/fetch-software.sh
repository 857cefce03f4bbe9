#!/usr/bin/env bash
# Fetches the files of this node that its user data has no room for, and unpacks them at the root: gpu-software, at the
# first boot. It tries until the boot's deadline, since the role's policy and the route to S3 may come later than the
# node, and unpacks only the bytes that were deployed. The boot checks are among these files: if they are missing or
# do not run, this script reports why and abandons the launch instead of them.
set -euo pipefail
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

ARCHIVE=$STATE_DIR/software.tar
GROUP=$ROOT/run/gpu-cluster/group
WRONG_TRIES=3
SAID=''

fail() {
  trap - EXIT
  event software failed "$1" "$SECONDS"
  printf '{"state":"failed","reason":%s,"instance_id":"%s","boot_id":"%s"}\n' "$(json_text "software: $1")" \
    "${INSTANCE_ID:-}" "$(cat "$ROOT/proc/sys/kernel/random/boot_id")" >"$STATE_DIR/boot.json"
  printf 'gpu-node-boot: %s failed: software: %s\n' "${INSTANCE_ID:-}" "$1" >"$ROOT/dev/console" || true
  if [[ -n ${INSTANCE_ID:-} ]] && command -v aws >/dev/null; then
    publish
    if [[ -n ${GPU_LAUNCH_HOOK:-} ]]; then
      complete_hook "$GPU_LAUNCH_HOOK" ABANDON Pending $((GPU_BOOT_DEADLINE + 300)) || true
    fi
  fi
  exit 1
}

# get: the object to ARCHIVE; SAID is why not. A closed network answers nothing at all, hence the short time-outs.
get() {
  local status=0
  SAID=$(timeout -k 5 120 aws s3api get-object --cli-connect-timeout 10 --cli-read-timeout 30 \
    --bucket "$GPU_SOFTWARE_BUCKET" --key "$GPU_SOFTWARE_KEY" "$ARCHIVE" 2>&1) || status=$?
  if ((status == 124 || status == 137)); then SAID+=" no answer in 120 s"; fi
  SAID=$(grep . <<<"$SAID" | paste -sd ' ' - || true)
  return "$status"
}

# hint: what the words of the AWS CLI usually mean here.
hint() {
  case $SAID in
  *AccessDenied*) echo "the role, the bucket, its key or an endpoint policy refuses; an object that is gone looks the same" ;;
  *NoSuch*) echo "was it deleted? The next deployment of the stack uploads it again" ;;
  *redentials*) echo "has the instance its role?" ;;
  *) echo "does the subnet reach S3, by a gateway endpoint or NAT?" ;;
  esac
}

fetch() {
  local pause=1 wrong=0 last='' digest
  while :; do
    if get; then
      digest=$(sha256sum "$ARCHIVE" | cut -d ' ' -f 1)
      if [[ $digest == "$GPU_SOFTWARE_SHA256" ]]; then return; fi
      SAID="its sha256 is $digest, $GPU_SOFTWARE_SHA256 was deployed"
      if ((++wrong == WRONG_TRIES)); then fail "$OBJECT: $SAID: delete the object and deploy the stack again"; fi
    elif [[ $SAID == *NoSuch* ]] || (($(uptime_seconds) >= GPU_BOOT_DEADLINE)); then
      fail "$OBJECT: $SAID: $(hint)"
    fi
    if [[ $SAID != "$last" ]]; then event software waiting "$SAID" "$SECONDS"; fi
    last=$SAID
    sleep "$pause"
    pause=$((pause < 8 ? pause * 2 : 10))
  done
}

# ask_group: where this node is, for gpunode, which need not ask then before it completes the launch.
ask_group() {
  local answer
  answer=$(membership 2>/dev/null) || return 0
  mkdir -p "${GROUP%/*}"
  printf '%s\n' "$answer" >"$GROUP.new"
  mv -f "$GROUP.new" "$GROUP"
}

mkdir -p "$STATE_DIR"
trap 'fail "fetch-software stopped unexpectedly at: $BASH_COMMAND"' EXIT
# A reboot, for MIG: the next boot fetches.
trap 'trap - EXIT; exit 143' TERM
load_node
OBJECT=s3://$GPU_SOFTWARE_BUCKET/$GPU_SOFTWARE_KEY
command -v aws >/dev/null || fail "the image has no AWS CLI: bake it in"
fetch
if [[ -n ${GPU_LAUNCH_HOOK:-} ]]; then ask_group & fi
tar -xf "$ARCHIVE" -C "$ROOT/"
rm -f "$ARCHIVE"
# The user of jobs, before units that may name it; where it is missing, only jobs fail.
if [[ -z $ROOT ]]; then systemd-sysusers gpu-job.conf || true; fi
SAID=$("$ROOT/usr/local/bin/gpunode" --help 2>&1) || fail "${SAID##*$'\n'}"
trap - EXIT
event software ok "$OBJECT" "$SECONDS"
