#!/usr/bin/env bash
# A container engine for machines without Docker: podman as root, its API on a unix socket for docker,
# docker compose and testcontainers.
#
#   engine.sh start            starts the API server in the background, prints the exports to use
#   engine.sh env              prints these exports:  eval "$(engine.sh env)"
#   engine.sh podman ARGS...   runs podman in the engine's mount namespace
#   engine.sh with COMMAND...  runs a command with an engine: Docker if it runs, else this one with
#                              stand-ins for the public images (base_images.sh)
#   engine.sh ready            succeeds if `with` and Compose need nothing but the project's own images
#   engine.sh stop             removes the containers of this engine and stops the API server
#   engine.sh status
#
# ENGINE_HOME (default: ~/.local/state/firnline-engine): storage, networks, socket, logs. `start` installs
# the Debian packages that it needs.
set -euo pipefail

ENGINE_HOME=${ENGINE_HOME:-${XDG_STATE_HOME:-$HOME/.local/state}/firnline-engine}
SOCKET=$ENGINE_HOME/podman.sock
PID_FILE=$ENGINE_HOME/engine.pid
SELF=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
export CONTAINERS_STORAGE_CONF=$ENGINE_HOME/storage.conf
export CONTAINERS_CONF=$ENGINE_HOME/containers.conf
export CONTAINERS_REGISTRIES_CONF=$ENGINE_HOME/registries.conf

configure() {
  mkdir -p "$ENGINE_HOME"
  # vfs copies each layer: 4 GB instead of 0.9.
  cat > "$CONTAINERS_STORAGE_CONF" <<EOF
[storage]
driver = "${ENGINE_DRIVER:-overlay}"
runroot = "$ENGINE_HOME/run"
graphroot = "$ENGINE_HOME/graph"
EOF
  # Limits no higher than those of this shell: only CAP_SYS_RESOURCE may raise them.
  local files procs
  files=$(lesser "$(ulimit -Hn)" 16384)
  procs=$(lesser "$(ulimit -Hu)" 32768)
  cat > "$CONTAINERS_CONF" <<EOF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=$procs:$procs"]
[engine]
cgroup_manager = "cgroupfs"
# Names without a host are images of this engine (base_images.sh), also over the API.
compat_api_enforce_docker_hub = false
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$ENGINE_HOME/networks"
# Not podman's default 10.88: another engine's bridge on this machine may have it.
default_subnet = "${ENGINE_SUBNET:-10.86.0.0/16}"
EOF
  # Nothing is pulled.
  cat > "$CONTAINERS_REGISTRIES_CONF" <<'EOF'
unqualified-search-registries = ["localhost"]
short-name-mode = "permissive"
EOF
  mkdir -p "$ENGINE_HOME/networks"
}

lesser() { if [ "$1" = unlimited ] || [ "$1" -gt "$2" ]; then echo "$2"; else echo "$1"; fi; }

pid() { [ -s "$PID_FILE" ] && kill -0 "$(cat "$PID_FILE")" 2>/dev/null && cat "$PID_FILE"; }

inside() { nsenter --target "$(pid)" --mount --wd="$PWD" -- "$@"; }

need() { pid >/dev/null || { echo "engine.sh start first" >&2; exit 1; }; }

start() {
  if pid >/dev/null; then show_env; return; fi
  # aardvark-dns: names of containers as DNS names.
  "${SELF%/*}/../install.sh" podman=podman crun=crun /usr/lib/podman/netavark=netavark \
    /usr/lib/podman/aardvark-dns=aardvark-dns iptables=iptables curl=curl
  configure
  rm -f "$SOCKET"
  # One mount namespace for all calls, without cgroup v2 next to v1: crun writes to both and fails on
  # an empty v2.
  setsid unshare --mount --propagation private sh -c '
    if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
    cd "${1%/*}"  # conmon leaves a file `oom` where it stands
    exec podman system service --time 0 "unix://$1"' sh "$SOCKET" \
    >> "$ENGINE_HOME/engine.log" 2>&1 < /dev/null &
  echo $! > "$PID_FILE"
  local tries=100
  until [ -S "$SOCKET" ] && curl -sf --unix-socket "$SOCKET" http://engine/_ping >/dev/null; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! pid >/dev/null; then
      echo "the engine did not start:" >&2; tail -20 "$ENGINE_HOME/engine.log" >&2; exit 1
    fi
    sleep 0.2
  done
  nsenter --target "$(pid)" --mount --wd=/ -- setsid "$BASH" "$SELF" health \
    >> "$ENGINE_HOME/health.log" 2>&1 < /dev/null &
  echo $! > "$ENGINE_HOME/health.pid"
  show_env
}

show_env() {
  echo "export DOCKER_HOST=unix://$SOCKET"
  echo "export TESTCONTAINERS_DOCKER_SOCKET_OVERRIDE=$SOCKET TESTCONTAINERS_RYUK_DISABLED=true"
}

# podman runs health checks by systemd's timers. Without systemd each container stays `starting`.
health() {
  local -A due=()
  local id every
  while sleep 2; do
    while read -r id every; do
      : "${due[$id]:=$((SECONDS + every))}"  # the first one after an interval, as Docker does
      if [ "$SECONDS" -lt "${due[$id]}" ]; then continue; fi
      due[$id]=$((SECONDS + every))
      podman healthcheck run "$id" > /dev/null 2>&1 &
    done < <(podman ps --quiet --filter status=running | xargs --no-run-if-empty podman inspect --format \
      '{{if .Config.Healthcheck}}{{.Id}} {{.Config.Healthcheck.Interval.Seconds}}{{end}}' 2>/dev/null \
      | awk 'NF == 2 {print $1, int($2)}')
    wait
  done
}

# Gives the command DOCKER_HOST, DOCKER, and BUILD_OPTIONS for `make images`; COMPOSE if Docker has it.
with_engine() {
  if has_docker; then
    COMPOSE="docker compose" exec "$@"
  fi
  local here; here=$(dirname "$SELF")
  eval "$(start)"
  "$here/base_images.sh" $("$here/base_images.sh" missing)
  export DOCKER="$SELF podman"
  export BUILD_OPTIONS="--network host --format docker --ignorefile infra/docker/Dockerfile.dockerignore --build-arg PYTHON=python:3.11-slim-bookworm"
  exec "$@"
}

has_docker() { docker compose version > /dev/null 2>&1 && docker version > /dev/null 2>&1; }

ready() {
  has_docker && return
  [ -d "$ENGINE_HOME/graph" ] && start > /dev/null && "${SELF%/*}/base_images.sh" has_compose \
    && [ -z "$("${SELF%/*}/base_images.sh" missing)" ]
}

stop() {
  local main; main=$(pid) || { echo "not running"; return; }
  inside podman rm --all --force --time 2 >/dev/null || true
  kill "$(cat "$ENGINE_HOME/health.pid")" "$main" 2>/dev/null || true
  # The name server survives a network that was not removed.
  local names=/run/containers/networks/aardvark-dns/aardvark.pid
  if [ -s $names ] && kill "$(cat $names)" 2>/dev/null; then rm -f /run/containers/networks/aardvark-dns/*; fi
  rm -f "$PID_FILE" "$SOCKET"
}

case "${1:-}" in
  start) start ;;
  env) show_env ;;
  stop) stop ;;
  health) health ;;
  ready) ready ;;
  status) if pid >/dev/null; then echo "running, pid $(pid)"; inside podman ps; else echo "not running"; fi ;;
  podman) need; inside "$@" ;;
  with) shift; with_engine "$@" ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
