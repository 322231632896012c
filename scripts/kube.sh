#!/usr/bin/env bash
# Print where a program for tests of Kubernetes is: helm, kube-apiserver or etcd; or the folder of the custom resource
# definitions (crds) that our manifests use. One on the path, else one in the cache, which is filled by Go's module proxy
# and, for etcd, by Debian's package: no root, nothing is installed. Go takes minutes for kube-apiserver.
# With --cached, nothing is fetched or built.
set -euo pipefail

HELM=v3.21.4
KUBERNETES=v1.35.4
PROMETHEUS_OPERATOR=v0.85.0
SPARK_OPERATOR=v2.4.0 # Kubeflow's; Apache's is in no registry that Go or Maven ask
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/kube"

cached=
[ "${1:-}" = --cached ] && cached=yes && shift
wanted=${1:?"which: helm, kube-apiserver, etcd or crds"}

case $wanted in
helm) made="$CACHE/helm-$HELM" ;;
kube-apiserver) made="$CACHE/kube-apiserver-$KUBERNETES" ;;
etcd) made="$CACHE/etcd/usr/bin/etcd" ;;
crds) made="$CACHE/crds-$PROMETHEUS_OPERATOR-$SPARK_OPERATOR" ;;
*) echo "there is no '$wanted': ask for helm, kube-apiserver, etcd or crds" >&2 && exit 2 ;;
esac

find_it() {
    [ "$wanted" = etcd ] && command -v etcd && return
    [ -e "$made" ] && echo "$made"
}

need_go() {
    command -v go >/dev/null || { echo "Go is needed to build $wanted, and is not on the path" >&2 && return 1; }
}

build_helm() {
    need_go && GOBIN="$work" go install "helm.sh/helm/v3/cmd/helm@$HELM" && mv "$work/helm" "$made"
}

folder_of_module() {
    go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}

# Kubernetes names its own modules by folders that its archive lacks: each has a version of its own.
build_apiserver() {
    need_go || return 1
    local source staging="v0${KUBERNETES#v1}" package=k8s.io/component-base/version
    source=$(cd "$work" && folder_of_module "k8s.io/kubernetes@$KUBERNETES")
    {
        echo "module ducklake-streaming.example/apiserver"
        grep -E '^(go|godebug) ' "$source/go.mod"
        echo "require k8s.io/kubernetes $KUBERNETES"
        sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#replace \1 => \1 $staging#p" "$source/go.mod"
    } >"$work/go.mod"
    cat >"$work/tools.go" <<'TOOLS'
//go:build tools

package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
TOOLS
    (cd "$work" && go mod tidy -e >/dev/null 2>&1 || true
     CGO_ENABLED=0 go build -mod=mod -trimpath -o "$work/kube-apiserver" \
        -ldflags "-s -w -X $package.gitVersion=$KUBERNETES -X $package.gitMajor=1 -X $package.gitMinor=35" \
        k8s.io/kubernetes/cmd/kube-apiserver) && mv "$work/kube-apiserver" "$made"
}

unpack_etcd() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download etcd-server && dpkg-deb -x etcd-server_*.deb unpacked) &&
        mv -T "$work/unpacked" "$CACHE/etcd"
}

copy_definitions() {
    need_go || return 1
    local monitoring spark
    monitoring=$(cd "$work" && folder_of_module "github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR")
    spark=$(cd "$work" && folder_of_module "github.com/kubeflow/spark-operator/v2@$SPARK_OPERATOR")
    mkdir "$work/crds"
    cp "$monitoring"/example/prometheus-operator-crd/monitoring.coreos.com_{podmonitors,prometheusrules,servicemonitors}.yaml \
        "$spark"/config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml "$work/crds"
    chmod -R u+w "$work/crds"
    mv -T "$work/crds" "$made"
}

make_it() {
    echo "making $wanted in $CACHE, once" >&2
    work=$(mktemp -d "$CACHE/making.XXXXXX")
    trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
    case $wanted in
    helm) build_helm ;;
    kube-apiserver) build_apiserver ;;
    etcd) unpack_etcd ;;
    crds) copy_definitions ;;
    esac >&2
}

# One at a time: whoever has waited finds what another has made.
make_once() {
    mkdir -p "$CACHE"
    exec 9>"$CACHE/$wanted.lock"
    flock 9
    find_it || { make_it && find_it; }
}

find_it || { [ -z "$cached" ] && make_once; } ||
    { echo "no $wanted was found or could be made; 'make kube-tools' makes it where Go and its module proxy can be had" >&2; exit 1; }
