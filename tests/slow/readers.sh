#!/bin/sh
# tests/tools/quantize_torch_test.py with the packages it needs (7 GB) in an environment of the build folder.
# Usage: readers.sh BUILD PROGRAM MODEL [NAME ...]
set -eu
environment=$1/python_torch
[ -x "$environment/bin/python3" ] || python3 -m venv "$environment"
"$environment/bin/pip" install -q --disable-pip-version-check torch transformers compressed-tensors gguf accelerate \
  'mlx[cpu]'
environment_python=$environment/bin/python3
shift
exec "$environment_python" "$(dirname "$0")/../tools/quantize_torch_test.py" "$@"
