#!/usr/bin/env bash
# check_release.sh PROGRAM: a release is at most 40 MiB, and compiles nothing for the models of configs/ on any GPU that
# Pagoda knows. Prints its size.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
gpus="h200 h100 a100 l4 rtx4090 b200 rtx5090"

cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
for gpu in $gpus; do
  for config in configs/*.json; do
    said=$(XDG_CACHE_HOME=$cache "$program" warm --caps "$gpu" --json "$config")
    if [[ "$said" != *'"compiled":0,'* || "$said" == *'"packed":0,'* ]]; then
      echo "pagoda: the release does not carry the kernels of $config for $gpu: $said" >&2
      exit 1
    fi
  done
done
bytes=$(stat -c %s "$program")
echo "$program: $bytes bytes"
if [ "$bytes" -gt $((40 << 20)) ]; then
  echo "pagoda: a release has at most 40 MiB" >&2
  exit 1
fi
