#!/usr/bin/env bash
# Brings the newest NVRTC of CUDA 12 to build/nvrtc/ once, for `make kernels`: what CUDA 13 compiles does not load with
# drivers of CUDA 12. It comes out of NVIDIA's PyPI package, whose SHA-256 is pinned here, and is no part of a release.
set -euo pipefail
cd "$(dirname "$0")/.."

package=nvidia-cuda-nvrtc-cu12==12.9.86
case $(uname -m) in
  x86_64) sha=210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4 ;;
  *)
    echo "pagoda: kernels are packed on x86-64 only, not on $(uname -m)" >&2
    exit 1 ;;
esac
library=build/nvrtc/libnvrtc.so.12
[ ! -f "$library" ] || exit 0

mkdir -p build
work=$(mktemp -d build/.nvrtc.XXXXXX)
trap 'rm -rf "$work"' EXIT
echo "bringing ${package/==/ } (86 MB)"
if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work" "$package" >"$work/log" 2>&1; then
  tail -2 "$work/log" >&2
  echo "pagoda: NVRTC could not be fetched from PyPI; connect this machine to the network, or put libnvrtc.so.12 and its libnvrtc-builtins into build/nvrtc/ by hand." >&2
  exit 1
fi
if ! echo "$sha  $(ls "$work"/*.whl)" | sha256sum --check --status; then
  echo "pagoda: the package $package is not the expected one (SHA-256 $sha); nothing was kept." >&2
  exit 1
fi
python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
mv "$work/unpacked/nvidia/cuda_nvrtc/lib" build/nvrtc
