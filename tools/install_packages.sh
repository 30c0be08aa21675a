#!/usr/bin/env bash
# Installs the Debian packages of the named groups that are missing; silent when none is.
set -euo pipefail

# Boost 1.81 stands beside Debian 12's own 1.74; from 13 on the usual one is newer.
boost=libboost-dev
if grep -q '^VERSION_ID="12"' /etc/os-release 2>/dev/null; then boost=libboost1.81-dev; fi

build="g++ cmake ninja-build pkg-config git python3 python3-pip ca-certificates
  libfmt-dev libcli11-dev nlohmann-json3-dev rapidjson-dev libpcre2-dev libutf8proc-dev libssl-dev libzstd-dev zlib1g-dev
  $boost libtomlplusplus-dev
  libgtest-dev libgmock-dev"
browser="chromium nodejs fonts-dejavu-core"
bench="wrk nginx-light"
develop="clang clang-format clang-tidy libclang-rt-14-dev"

wanted=""
for group in "$@"; do wanted+=" ${!group}"; done
missing=""
for package in $wanted; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=" $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "pagoda: these Debian packages are missing; install them as root:$missing" >&2
  exit 1
fi
echo "installing:$missing"
log=$(mktemp)
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -5 "$log" >&2
  echo "pagoda: the packages above could not be installed; connect this machine to a Debian mirror, or install them by hand:$missing" >&2
  exit 1
fi
rm -f "$log"
