#!/usr/bin/env bash
# Brings what slow tests read of llama.cpp's files: 70 public chat templates to models/templates/, and vocabularies
# (ggml-vocab-*.gguf) with texts (.inp) and the ids that Hugging Face gives them (.out) to models/vocabularies/. They are
# other projects' work and stay out of the tree: they come out of the source package of llama-cpp-python, checked against
# a pinned hash.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.3.36
archive=models/downloads/llama_cpp_python-$version.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
folder=llama_cpp_python-$version/vendor/llama.cpp/models

# bring TARGET LEADING PATTERN: unpacks what matches, without that many leading folders, once.
bring() {
  [ ! -f "$1/.complete" ] || return 0
  mkdir -p models/downloads "$1"
  if [ ! -f "$archive" ]; then
    python3 -m pip --disable-pip-version-check --quiet download --no-deps --no-binary :all: \
      --dest models/downloads "llama-cpp-python==$version"
  fi
  echo "$sha256  $archive" | sha256sum --check --quiet
  tar --extract --gzip --file "$archive" --directory "$1" --strip-components "$2" --wildcards "$3"
  touch "$1/.complete"
}
bring models/templates 5 "$folder/templates/*"
bring models/vocabularies 4 "$folder/ggml-vocab-*"
