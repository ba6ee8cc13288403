#!/usr/bin/env bash
# install.sh PROGRAM=PACKAGE...: installs the Debian packages of the programs that are missing
set -euo pipefail

want=()
for pair in "$@"; do command -v "${pair%%=*}" > /dev/null || want+=("${pair#*=}"); done
if [ "${#want[@]}" = 0 ]; then exit; fi
echo "==> Debian packages: ${want[*]}" >&2
{
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends "${want[@]}"
} > /dev/null
