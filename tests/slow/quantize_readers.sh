#!/bin/sh
# tests/tools/quantize_readers_test.py with the packages it needs, in an environment of the build folder.
# Usage: quantize_readers.sh BUILD PROGRAM MODEL [FORMAT ...]
set -eu
environment=$1/python_readers
[ -x "$environment/bin/python3" ] || python3 -m venv "$environment"
"$environment/bin/pip" install -q --disable-pip-version-check gguf numpy safetensors ml_dtypes
environment_python=$environment/bin/python3
shift
exec "$environment_python" "$(dirname "$0")/../tools/quantize_readers_test.py" "$@"
