#!/usr/bin/env bash
# This machine's figures for the two models of the tests. PEER_BENCH=<path of llama-bench> times it in turn.
set -euo pipefail
cd "$(dirname "$0")/.."
models="models/SmolLM2-135M-Instruct.Q4_1.gguf models/gemma-3-270m-q4_k_m.gguf"
if [ -n "${PEER_BENCH-}" ]; then
  # shellcheck disable=SC2086  # a list of paths
  exec tools/bench_beside.py --peer "$PEER_BENCH" $models
fi
for model in $models; do build/release/bin/pagoda bench "$model" -p 512 -n 64 -d 0,2048 -b 1; done
