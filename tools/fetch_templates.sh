#!/usr/bin/env bash
# Brings the 70 public chat templates that the slow test renders to models/templates/. They are other projects' work
# and stay out of the tree: they come out of the source package of llama-cpp-python, checked against a pinned hash.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.3.36
archive=models/downloads/llama_cpp_python-$version.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
target=models/templates

[ -f $target/.complete ] && exit 0
mkdir -p models/downloads $target
if [ ! -f $archive ]; then
  python3 -m pip --disable-pip-version-check --quiet download --no-deps --no-binary :all: \
    --dest models/downloads "llama-cpp-python==$version"
fi
echo "$sha256  $archive" | sha256sum --check --quiet
tar --extract --gzip --file $archive --directory $target --strip-components 5 \
  "llama_cpp_python-$version/vendor/llama.cpp/models/templates"
touch $target/.complete
