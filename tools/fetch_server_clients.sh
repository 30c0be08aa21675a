#!/usr/bin/env bash
# Brings the clients of tests/server/clients_test.py to build/server_clients/.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=tests/server/requirements.txt
target=build/server_clients
cmp -s $wanted $target/.complete && exit 0
python3 -m pip --disable-pip-version-check --quiet install --upgrade --target $target -r $wanted
python3 -m pip --disable-pip-version-check --quiet install --upgrade --no-deps --target $target \
  "$(sed -n 's/^# alone: //p' $wanted)"
cp $wanted $target/.complete
