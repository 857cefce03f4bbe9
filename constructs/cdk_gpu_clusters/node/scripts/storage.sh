# shellcheck shell=bash
# Shared by scratch-raid, mount-lustre, mount-nfs, limit-metadata and install-exporters: their results, until when they try,
# how they install packages, and how they mount.
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

# mounted POINT: "SOURCE TYPE" of what is mounted there.
mounted() { awk -v point="$ROOT$1" '$2 == point { there = $1 " " $3 } END { print there }' "$ROOT/proc/mounts"; }

# mount_at POINT TYPE SOURCE OPTIONS SHOWN: try until the deadline. SHOWN is a pattern of what `mounted` prints then. The
# program defines `hint`: what the words of mount usually mean.
mount_at() {
  local point=$1 directory=$ROOT$1 type=$2 source=$3 options=$4 shown=$5 try there last=''
  if [[ ! -d $directory ]]; then
    mkdir -p "$directory"
    # While nothing is mounted, nothing can fill the root volume by mistake.
    chattr +i "$directory" 2>/dev/null || true
  fi
  for ((try = 1; ; try++)); do
    there=$(mounted "$point")
    # shellcheck disable=SC2053 # a pattern
    if [[ $there == $shown ]]; then return; fi
    if [[ -n $there ]]; then fail "$point is taken by $there"; fi
    if ((try == 1)); then result mounting "$source at $point"; fi
    if run 120 mount -t "$type" -o "$options" "$source" "$directory"; then return; fi
    if (($(uptime_seconds) >= UNTIL)); then fail "$source at $point, tried $try times: $(words): $(hint)"; fi
    if [[ $SAID != "$last" ]]; then result waiting "$source at $point: $(words)"; fi
    last=$SAID
    sleep $((try < 6 ? try * 2 : 10 + RANDOM % 5))
  done
}

# probe POINT OPTIONS: a file can be made, reaches the servers, and goes away. The name is the node's own.
probe() {
  if [[ ,$2, == *,ro,* ]]; then
    run 60 ls "$ROOT$1" || fail "$1 is mounted but cannot be listed: $(words)"
    return
  fi
  # shellcheck disable=SC2016 # expands in the inner shell
  run 60 bash -c 'file=$(mktemp "$1/.gpu-cluster.XXXXXXXX") || exit
    trap "rm -f \"$file\"" EXIT
    echo probe >"$file" && sync "$file"' probe "$ROOT$1" || fail "$1 is mounted but takes no files: $(words)"
}

mkdir -p "$STATE_DIR"
trap 'fail "gpu-$UNIT stopped unexpectedly at: $BASH_COMMAND"' EXIT
result started
