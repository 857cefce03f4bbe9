#!/usr/bin/env bash
# A systemctl that knows which units run (one per line in $FAKE_UNITS) and are enabled ($FAKE_UNITS.enabled), and whose
# reboot gives a new boot id.
set -euo pipefail
echo "$*" >>"$FAKE_UNITS.log"
[[ $1 != --no-block ]] || shift
verb=$1
shift
for unit in "$@"; do
  case $unit in
  --quiet | --no-block) ;;
  *)
    case $verb in
    is-active) grep -qx "$unit" "$FAKE_UNITS" || exit 3 ;;
    is-enabled) grep -qsx "$unit" "$FAKE_UNITS.enabled" || exit 1 ;;
    stop) sed -i "/^$unit$/d" "$FAKE_UNITS" ;;
    start) echo "$unit" >>"$FAKE_UNITS" ;;
    esac
    ;;
  esac
done
if [[ $verb == reboot && -n ${FAKE_REBOOT:-} ]]; then : >"$FAKE_REBOOT"; fi
