#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures a preset once, then builds the targets, quietly unless something fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
folder=build/$preset
mkdir -p "$folder"
run() {
  if ! "$@" >"$folder/build.log" 2>&1; then
    tail -60 "$folder/build.log" >&2
    exit 1
  fi
}
[ -f "$folder/build.ninja" ] || { echo "configuring $preset" && run cmake --preset "$preset"; }
[ $# -gt 0 ] || set -- all
started=$SECONDS
run cmake --build "$folder" --target "$@"
[ $((SECONDS - started)) -lt 3 ] || echo "built $preset in $((SECONDS - started)) s"
