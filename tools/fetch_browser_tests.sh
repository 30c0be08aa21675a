#!/usr/bin/env bash
# Brings what drives the browser in tests/page to build/browser_tests/: Playwright (with Debian's Chromium, not its own) and
# the axe rules of accessibility.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=tests/page/requirements.txt
target=build/browser_tests
cmp -s $wanted $target/.complete && exit 0
python3 -m pip --disable-pip-version-check --quiet install --no-deps --upgrade --target $target -r $wanted
cp $wanted $target/.complete
