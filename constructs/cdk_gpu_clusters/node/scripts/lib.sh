# shellcheck shell=bash
# Shared by the node scripts: settings, events, instance metadata (IMDSv2 only), lifecycle hooks, the node's log.
# Sourced, never run. GPU_CLUSTER_ROOT and GPU_CLUSTER_IMDS point the scripts at another root and metadata address.

# Without it, a failed call inside $(...) would pass for an empty answer.
shopt -s inherit_errexit

ROOT=${GPU_CLUSTER_ROOT:-}
IMDS=${GPU_CLUSTER_IMDS:-http://169.254.169.254}
STATE_DIR=$ROOT/var/lib/gpu-cluster
EVENTS=()
PATH=$PATH:/usr/local/bin:/opt/amazon/efa/bin:/opt/aws/neuron/bin
export AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=5 AWS_PAGER=
# By default the CLI asks the metadata service for credentials once, and waits 1 s.
export AWS_METADATA_SERVICE_TIMEOUT=5 AWS_METADATA_SERVICE_NUM_ATTEMPTS=3

# Seconds since the kernel started: the clock of the boot deadline, so that a slow start counts against it.
UPTIME_AT_START=0
if [[ -r $ROOT/proc/uptime ]]; then UPTIME_AT_START=$(cut -d. -f1 "$ROOT/proc/uptime"); fi
uptime_seconds() { printf '%d' $((UPTIME_AT_START + SECONDS)); }

json_text() {
  local text=${1//[[:cntrl:]]/ } backslash="\\"
  text=${text//"$backslash"/"$backslash$backslash"}
  printf '"%s"' "${text//\"/"$backslash\""}"
}

# event STAGE STATE [REASON] [SECONDS]: one JSON line to the journal, kept for the result file and the log group.
event() {
  local line
  line=$(printf '{"time":"%s","instance_id":%s,"stage":"%s","state":"%s","seconds":%d,"reason":%s}' \
    "$(date -u +%FT%TZ)" "$(json_text "${INSTANCE_ID:-}")" "$1" "$2" "${4:-0}" "$(json_text "${3:-}")")
  printf '%s\n' "$line"
  EVENTS+=("$line")
}

# imds PATH: one metadata value; fails when there is none.
imds() {
  local token
  token=$(curl -sf -m 2 --retry 3 --noproxy '*' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
    "$IMDS/latest/api/token") || return 1
  curl -sf -m 2 --noproxy '*' -H "X-aws-ec2-metadata-token: $token" "$IMDS/latest/meta-data/$1"
}

# load_node: the settings of the user data, and who this instance is.
load_node() {
  # shellcheck source=/dev/null
  . "$ROOT/etc/gpu-cluster/node.env"
  for _ in 1 2 3 4 5; do
    if INSTANCE_ID=$(imds instance-id); then break; fi
    sleep 2
  done
  [[ -n $INSTANCE_ID ]]
  export AWS_DEFAULT_REGION=${GPU_REGION:-$(imds placement/region)}
}

# membership: "GROUP<tab>LIFECYCLE STATE", nothing when this instance is in no Auto Scaling group; fails when AWS does.
# The user data cannot name the group: the group needs the launch template that holds the user data.
membership() {
  aws autoscaling describe-auto-scaling-instances --instance-ids "$INSTANCE_ID" --output text \
    --query 'AutoScalingInstances[].[AutoScalingGroupName,LifecycleState]'
}

# complete_hook HOOK RESULT PHASE UNTIL: complete the action while the state begins with PHASE (Pending, Terminating).
# Errors are retried until UNTIL (seconds of uptime): the policy that allows the call may be attached after the boot.
complete_hook() {
  local hook=$1 result=$2 phase=$3 until=$4 pause=1 alone=0 error=$STATE_DIR/last-error answer group state
  while :; do
    if answer=$(membership 2>"$error"); then
      IFS=$'\t' read -r group state <<<"$answer"
      if [[ -z $group ]]; then
        if ((++alone == 3)); then
          event hook skipped "not in an Auto Scaling group"
          return 0
        fi
      elif [[ $state != "$phase" && $state != "$phase:Wait" ]]; then
        event hook skipped "nothing to complete: $group has this instance $state"
        return 0
      elif aws autoscaling complete-lifecycle-action --lifecycle-hook-name "$hook" \
        --auto-scaling-group-name "$group" --instance-id "$INSTANCE_ID" \
        --lifecycle-action-result "$result" 2>"$error"; then
        event hook ok "$hook of $group: $result"
        return 0
      fi
    fi
    if (($(uptime_seconds) >= until)); then
      event hook failed "$hook not completed: $(tr '\n' ' ' <"$error")"
      return 1
    fi
    sleep "$pause"
    pause=$((pause < 16 ? pause * 2 : 30))
  done
}

# publish: the events to the stream of this instance in the fleet's log group. Never fatal: the journal has them too.
publish() {
  [[ -n ${GPU_LOG_GROUP:-} && -n ${INSTANCE_ID:-} ]] || return 0
  local file=$STATE_DIR/log-events.json error=$STATE_DIR/last-error stamp line comma='' pause
  local address
  address=$(imds local-ipv4) || address=''
  # The role may write no other: gpunode/node.py, record_name.
  local -a stream=(--log-group-name "$GPU_LOG_GROUP" --log-stream-name "$INSTANCE_ID${address:+/$address}")
  stamp=$(date +%s000)
  {
    printf '['
    for line in "${EVENTS[@]}"; do
      printf '%s{"timestamp":%s,"message":%s}' "$comma" "$stamp" "$(json_text "$line")"
      comma=,
    done
    printf ']'
  } >"$file"
  for pause in 1 2 4 8 0; do
    if aws logs create-log-stream "${stream[@]}" 2>"$error" || grep -q ResourceAlreadyExists "$error"; then
      if aws logs put-log-events "${stream[@]}" --log-events "file://$file" >/dev/null 2>"$error"; then return 0; fi
    fi
    sleep "$pause"
  done
  event log failed "$GPU_LOG_GROUP: $(tr '\n' ' ' <"$error")"
}
