#!/usr/bin/env bash
# Kubernetes on this machine, in a network namespace and mount namespaces of its own.
#   node.sh api | nodes          start etcd and the API server, or a cluster of two nodes
#   node.sh run PROGRAM ARGS...  run a program in there with KUBECONFIG set
#   node.sh load NUMBER          import images from stdin (docker-archive) into a node
#   node.sh stop                 stop everything
# Reads STATE (a directory). Needs root and what build.sh makes and installs.
set -euo pipefail

SELF=$(cd "$(dirname "$0")" && pwd)
STATE=${STATE:?a directory}
export PATH=${XDG_CACHE_HOME:-$HOME/.cache}/firnline/kubernetes/bin:$PATH
NS=firnline-$(echo "$STATE" | sha256sum | cut -c-8)
API=10.84.0.1 PORT=6443 SERVICES=10.96.0.0/16 PODS=10.87.0.0/16 DNS=10.96.0.10
NODES="1 2"
export KUBECONFIG=$STATE/admin.conf
mkdir -p "$STATE"/{logs,certs,cni}

# Not `ip netns exec`, which mounts a new /sys without the cgroups.
inside() { nsenter --net="/run/netns/$NS" -- "$@"; }
launch() { # launch NAME COMMAND...
  local name=$1; shift
  setsid nsenter --net="/run/netns/$NS" -- "$@" >> "logs/$name.log" 2>&1 < /dev/null &
  echo $! > "$name.pid"
}
end() { if [ -f "$1.pid" ]; then kill "$(cat "$1.pid")" 2> /dev/null || true; rm -f "$1.pid"; fi; }
wait_for() {
  for _ in $(seq 600); do if "$@" > /dev/null 2>&1; then return; fi; sleep 0.2; done
  echo "not ready after 120 s: $*" >&2; tail -n 5 logs/*.log >&2; exit 1
}

signed() { # signed FILE SUBJECT [EXTENSIONS]
  if [ -f "certs/$1.crt" ]; then return; fi
  openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "certs/$1.key" -out "certs/$1.csr" 2> /dev/null
  openssl x509 -req -in "certs/$1.csr" -CA certs/ca.crt -CAkey certs/ca.key -CAcreateserial -days 30 \
    -extfile <(echo "${3:-}") -out "certs/$1.crt" 2> /dev/null
}

user() { # user FILE NAME: a kubeconfig with the user's token
  local token; token=$(sed -n "s/^\([0-9a-f]*\),$2,.*/\1/p" tokens.csv)
  (umask 077; cat > "$1") <<EOF
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://$API:$PORT", certificate-authority: "$STATE/certs/ca.crt"}}]
users: [{name: me, user: {token: "$token"}}]
contexts: [{name: local, context: {cluster: local, user: me}}]
current-context: local
EOF
}

api() {
  ip netns add "$NS"
  inside ip link set lo up
  inside ip link add node type bridge
  inside ip addr add $API/24 dev node
  inside ip link set node up
  inside ip route add default via $API
  inside sysctl -qw net.ipv4.ip_forward=1
  [ -f certs/ca.crt ] || openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=local-ca -keyout certs/ca.key -out certs/ca.crt 2> /dev/null
  [ -f certs/sa.key ] || openssl genrsa -out certs/sa.key 2048 2> /dev/null
  signed server /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,IP:$API,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  signed kubelet-client /O=system:masters/CN=kube-apiserver
  signed proxy-client /CN=front-proxy
  if [ ! -f tokens.csv ]; then
    (umask 077; for who in 'admin,admin,"system:masters"' 'system:kube-controller-manager,kcm,"system:masters"' \
      'system:kube-scheduler,scheduler,"system:kube-scheduler"' system:node:node-{1,2},,system:nodes; do
      echo "$(openssl rand -hex 16),$who"; done > tokens.csv)
  fi
  user admin.conf admin; user kcm.conf system:kube-controller-manager
  user scheduler.conf system:kube-scheduler
  launch etcd etcd --data-dir "$STATE/etcd" --log-level warn --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
  launch api kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address $API --advertise-address $API --secure-port $PORT \
    --cert-dir certs --tls-cert-file certs/server.crt --tls-private-key-file certs/server.key --token-auth-file tokens.csv \
    --service-account-key-file certs/sa.key --service-account-signing-key-file certs/sa.key --service-account-issuer https://kubernetes.default.svc \
    --service-cluster-ip-range $SERVICES --authorization-mode Node,RBAC --allow-privileged --endpoint-reconciler-type lease \
    --kubelet-client-certificate certs/kubelet-client.crt --kubelet-client-key certs/kubelet-client.key --kubelet-preferred-address-types InternalIP \
    --requestheader-client-ca-file certs/ca.crt --proxy-client-cert-file certs/proxy-client.crt --proxy-client-key-file certs/proxy-client.key \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- --requestheader-allowed-names front-proxy
  wait_for inside kubectl get --raw /readyz
}

nodes() {
  launch controllers kube-controller-manager --kubeconfig kcm.conf --service-account-private-key-file certs/sa.key --root-ca-file certs/ca.crt \
    --leader-elect=false --bind-address 127.0.0.1 --controllers='*,-nodeipam,-service-lb-controller'
  launch scheduler kube-scheduler --kubeconfig scheduler.conf --leader-elect=false --bind-address 127.0.0.1
  configure_network
  for i in $NODES; do node "$i"; done
  launch proxy kube-proxy --config proxy.yaml --hostname-override node-1
  launch dns coredns -conf Corefile
  inside kubectl apply -f "$SELF/dns.yaml" > /dev/null
  for i in $NODES; do wait_for inside kubectl wait --for=condition=Ready "node/node-$i" --timeout=1s; done
}

node() { # node NUMBER
  NODE=$STATE/node-$1 ADDRESS=${API%1}$1
  mkdir -p "$NODE/manifests"
  if [ "$ADDRESS" != "$API" ]; then inside ip addr add "$ADDRESS/24" dev node; fi
  user "$NODE/user.conf" "system:node:node-$1"
  configure_node
  # Mounts that pods see exist in here only. Where cgroups v1 and an empty v2 are both mounted, runc fails.
  launch "containerd-$1" unshare --mount --propagation private sh -c '
    if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
    mount -t tmpfs tmpfs /run/netns && mount --make-rshared / && exec containerd --config "$1"' sh "$NODE/containerd.toml"
  wait_for ctr --address "$NODE/containerd.sock" version
  load "$1" < "${XDG_CACHE_HOME:-$HOME/.cache}/firnline/kubernetes/bin/pause"
  launch "kubelet-$1" nsenter --target "$(cat "containerd-$1.pid")" --mount -- kubelet --config "$NODE/kubelet.yaml" \
    --kubeconfig "$NODE/user.conf" --root-dir "$NODE/kubelet" --cert-dir "$NODE/pki" --hostname-override "node-$1" --node-ip "$ADDRESS"
}

configure_node() {
  cat > "$NODE/containerd.toml" <<EOF
version = 2
root = "$NODE/containerd"
state = "$NODE/containerd-run"
[grpc]
address = "$NODE/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no process may lower it
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$STATE/cni"
EOF
  cat > "$NODE/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $ADDRESS
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$STATE/certs/ca.crt"}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
cgroupsPerQOS: false  # otherwise each node removes the cgroups of the other's pods
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
featureGates: {KubeletInUserNamespace: true}
containerRuntimeEndpoint: unix://$NODE/containerd.sock
resolvConf: $STATE/resolv.conf
clusterDNS: [$DNS]
clusterDomain: cluster.local
staticPodPath: $NODE/manifests
podLogsDir: $NODE/logs
localStorageCapacityIsolation: false
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
EOF
}

configure_network() { # all nodes are in one network namespace, so they share a bridge and a proxy
  cat > cni/10-pods.conflist <<EOF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$STATE/ipam"}}]}
EOF
  echo "nameserver $API" > resolv.conf
  cat > proxy.yaml <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
bindAddress: 127.0.0.1
clusterCIDR: $PODS
clientConnection: {kubeconfig: $STATE/admin.conf}
conntrack: {maxPerCore: 0, min: 0}
EOF
  cat > Corefile <<EOF
cluster.local:53 {
  bind $API
  kubernetes cluster.local {
    kubeconfig $STATE/admin.conf
    ttl 5
  }
  errors
}
EOF
}

load() { ctr --address "$STATE/node-$1/containerd.sock" --namespace k8s.io images import - > /dev/null; }

stop() {
  local name socket
  for name in kubelet-1 kubelet-2 proxy dns scheduler controllers api etcd; do end "$name"; done
  for socket in node-*/containerd.sock; do  # a container's shim ends with its task
    if [ ! -S "$socket" ]; then continue; fi
    ctr --address "$socket" --namespace k8s.io tasks list --quiet 2> /dev/null \
      | xargs --no-run-if-empty ctr --address "$socket" --namespace k8s.io tasks rm --force > /dev/null 2>&1 || true
  done
  end containerd-1; end containerd-2
  sleep 1
  ip netns del "$NS" 2> /dev/null || true
}

case "${1:-}" in
  run) shift; inside "$@" ;;
  load) load "$2" ;;
  api) cd "$STATE"; api ;;
  nodes) cd "$STATE"; api; nodes ;;
  stop) cd "$STATE"; stop ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
