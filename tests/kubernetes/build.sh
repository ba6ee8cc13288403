#!/usr/bin/env bash
# Builds Kubernetes' programs from Go modules, once, into the cache: build.sh [PROGRAM...]
# Programs: api (what `make test-chart` needs), node (also what `make test-kubernetes` needs), keda.
# Installs the Debian packages that these run with. Needs Go 1.25 or later. The API server takes 5 minutes of CPU, everything 20.
set -euo pipefail
HOME_OF_BUILDS=${XDG_CACHE_HOME:-$HOME/.cache}/firnline/kubernetes
BIN=$HOME_OF_BUILDS/bin MODULES=$HOME_OF_BUILDS/modules
KUBERNETES=1.34.4 ETCD=3.6.14 COREDNS=1.12.4 HELM=3.19.5 KEDA=2.17.2 PROMETHEUS_OPERATOR=0.85.0
API="helm etcd kube-apiserver kubectl crds"
NODE="kube-controller-manager kube-scheduler kubelet kube-proxy coredns pause"
# Modules that k8s.io/kubernetes replaces by folders of its own.
STAGING="api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap
  code-generator component-base component-helpers controller-manager cri-api cri-client csi-translation-lib
  dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy
  kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver sample-cli-plugin
  sample-controller"
export GOFLAGS="-p=${JOBS:-1} -buildvcs=false -mod=mod" CGO_ENABLED=0

compile() { nice go build -trimpath -ldflags "-s -w ${3:-}" -o "$BIN/$1" "$2"; }

module() { # module NAME MODULE@VERSION PACKAGE [LINKER FLAGS]
  mkdir -p "$MODULES/$1"; cd "$MODULES/$1"
  [ -f go.mod ] || go mod init "tools/$1"
  go get "$2"
  compile "$1" "$3" "${4:-}"
}

kubernetes() {
  mkdir -p "$MODULES/kubernetes"; cd "$MODULES/kubernetes"
  {
    printf 'module tools/kubernetes\n\ngo 1.25\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' $KUBERNETES
    for name in $STAGING; do printf '\tk8s.io/%s => k8s.io/%s v0.%s\n' "$name" "$name" "${KUBERNETES#1.}"; done
    echo ')'
  } > go.mod
  local v=k8s.io/component-base/version
  compile "$1" "k8s.io/kubernetes/cmd/$1" "-X $v.gitVersion=v$KUBERNETES -X $v.gitMajor=1 -X $v.gitMinor=34 \
    -X $v.gitTreeState=clean -X $v.gitCommit=$(printf '0%.0s' $(seq 40)) -X $v.buildDate=1970-01-01T00:00:00Z"
}

coredns() { # with three plugins of fifty: most of the others bring the library of a cloud
  mkdir -p "$MODULES/coredns"
  cat > "$MODULES/coredns/main.go" <<'GO'
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
GO
  module coredns github.com/coredns/coredns@v$COREDNS .
}

pause() { # the image of a pod's sandbox: one program that reaps processes
  local work; work=$(mktemp -d)
  cat > "$work/main.go" <<'GO'
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop, child := make(chan os.Signal, 1), make(chan os.Signal, 8)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(child, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-child:
			for {
				if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
					break
				}
			}
		}
	}
}
GO
  go build -trimpath -ldflags "-s -w" -o "$work/pause" "$work/main.go"
  archive "$work/pause" localhost/pause:1
  rm -r "$work"
}

archive() { # archive PROGRAM IMAGE: an image of this program only, as docker-archive in the folder of the programs
  local name work layer; name=$(basename "$1"); work=$(mktemp -d)
  tar --directory "$(dirname "$1")" --create --file "$work/layer.tar" --mtime @0 --owner 0 --group 0 "$name"
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  printf '{"architecture": "%s", "os": "linux", "config": {"Entrypoint": ["/%s"], "User": "65535"}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
    "$(go env GOARCH)" "$name" "$layer" > "$work/config.json"
  printf '[{"Config": "config.json", "RepoTags": ["%s"], "Layers": ["layer.tar"]}]' "$2" > "$work/manifest.json"
  tar --directory "$work" --create --file "$BIN/$name" manifest.json config.json layer.tar
  rm -r "$work"
}

crds() { # custom resources of KEDA and Prometheus operator, from the files of their modules
  rm -rf "$BIN/crds"; mkdir -p "$BIN/crds"
  local folder
  folder=$(module_folder github.com/kedacore/keda/v2@v$KEDA)
  cp "$folder"/config/crd/bases/keda.sh_*.yaml "$BIN/crds"
  folder=$(module_folder github.com/prometheus-operator/prometheus-operator@v$PROMETHEUS_OPERATOR)
  cp "$folder"/example/prometheus-operator-crd/monitoring.coreos.com_{podmonitors,prometheusrules}.yaml "$BIN/crds"
  chmod -R u+w "$BIN/crds"
}

module_folder() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }

build() {
  case $1 in
    kube*) kubernetes "$1" ;;
    etcd) module etcd go.etcd.io/etcd/server/v3@v$ETCD go.etcd.io/etcd/server/v3 ;;
    coredns) coredns ;;
    # Otherwise a chart's kubeVersion is compared with 1.20.
    helm) module helm helm.sh/helm/v3@v$HELM helm.sh/helm/v3/cmd/helm \
      "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34" ;;
    keda | keda-adapter) build_keda "$1" ;;
    *) "$1" ;;
  esac
}

build_keda() { # build_keda PROGRAM: its image; for the operator also KEDA's manifests, without the admission webhooks
  local folder; folder=$(module_folder github.com/kedacore/keda/v2@v$KEDA)
  rm -rf "$MODULES/keda"; cp -r "$folder" "$MODULES/keda"; chmod -R u+w "$MODULES/keda"  # its own replacements count
  cd "$MODULES/keda"
  local -A packages=([keda]=operator [keda-adapter]=adapter) images=([keda]=keda [keda-adapter]=keda-metrics-apiserver)
  go build -trimpath -ldflags "-s -w" -o "bin/$1" "./cmd/${packages[$1]}"
  archive "bin/$1" "ghcr.io/kedacore/${images[$1]}:main"
  sed -i /webhooks/d config/default/kustomization.yaml
  "$BIN/kubectl" kustomize config/default | sed 's/imagePullPolicy: Always/imagePullPolicy: Never/' > "$BIN/keda.yaml"
}

install="$(dirname "$0")/../kit/install.sh"
"$install" ip=iproute2 openssl=openssl
case " $* " in
  *" node "*) "$install" containerd=containerd runc=runc /usr/lib/cni/bridge=containernetworking-plugins iptables=iptables ;;
esac
mkdir -p "$BIN"
for name in "${@:-api}"; do
  case $name in
    api) programs=$API ;;
    node) programs="$API $NODE" ;;
    keda) programs="keda keda-adapter" ;;
    *) programs=$name ;;
  esac
  for program in $programs; do
    stamp=$BIN/.$program-$(sed -n '/^KUBERNETES=/p' "$0" | sha256sum | cut -c-12)
    if [ -e "$stamp" ]; then continue; fi
    echo "==> $program"
    (build "$program") > "$HOME_OF_BUILDS/$program.log" 2>&1 || { tail -n 30 "$HOME_OF_BUILDS/$program.log" >&2; exit 1; }
    touch "$stamp"
  done
done
