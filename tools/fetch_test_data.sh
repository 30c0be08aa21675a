#!/usr/bin/env bash
# Brings what only the slow tests read (other projects' vocabularies and chat templates) to models/, once.
set -euo pipefail
cd "$(dirname "$0")"
for script in fetch_llama_cpp_files.sh fetch_tokenizers.sh; do "./$script"; done
