# shellcheck shell=bash
# Shared by scratch-raid, mount-lustre and limit-metadata: their results, until when they try, and how they install packages.
# Sourced with UNIT set, never run.
# shellcheck source=lib.sh
. "${GPU_CLUSTER_ROOT:-}/usr/local/libexec/gpu-cluster/lib.sh"

# shellcheck source=/dev/null
. "$ROOT/etc/gpu-cluster/node.env"
RESULT=$STATE_DIR/${UNIT:?}.json
BOOT=$(cat "$ROOT/proc/sys/kernel/random/boot_id")
SAID=''
# A minute before the boot must be done, so that the reason still gets into its result; but GPU_PATIENCE seconds at
# least, for a person who restarts the unit later.
UNTIL=$(($(uptime_seconds) + ${GPU_PATIENCE:-60}))
if ((UNTIL < GPU_BOOT_DEADLINE - 60)); then UNTIL=$((GPU_BOOT_DEADLINE - 60)); fi

# result STATE [REASON]: to the journal, and to the file that the boot check of the node reads.
result() {
  event "$UNIT" "$1" "${2:-}" "$SECONDS"
  printf '{"state":"%s","boot_id":"%s","reason":%s}\n' "$1" "$BOOT" "$(json_text "${2:-}")" >"$RESULT.new"
  mv -f "$RESULT.new" "$RESULT"
}

fail() {
  trap - EXIT
  result failed "$1"
  printf 'gpu-%s: %s\n' "$UNIT" "$1" >"$ROOT/dev/console" || true
  exit 1
}

# run SECONDS COMMAND...: its output is in SAID.
run() {
  local status=0
  SAID=$(timeout -k 5 "$@" 2>&1) || status=$?
  if ((status == 124 || status == 137)); then SAID+=" no answer in $1 s"; fi
  return "$status"
}

# words: the end of the last command's output, on one line.
words() { grep . <<<"$SAID" | tail -n 3 | paste -sd ' ' - || true; }

# system: the operating system, such as amzn 2023 or ubuntu 24.04.
system() {
  # shellcheck source=/dev/null
  (. "$ROOT/etc/os-release" && printf '%s %s' "$ID" "${VERSION_ID:-}")
}

# packages COMMAND [NAME...]: with short time-outs, since a closed network answers nothing at all.
packages() {
  case $(system) in
  # needrestart would restart services, among them the one that runs this.
  ubuntu*) run 600 env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qy -o Acquire::Retries=2 \
    -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=120 "$@" ;;
  *) run 600 dnf -qy --setopt=timeout=20 --setopt=retries=2 "$@" ;;
  esac
}

mkdir -p "$STATE_DIR"
trap 'fail "gpu-$UNIT stopped unexpectedly at: $BASH_COMMAND"' EXIT
result started
