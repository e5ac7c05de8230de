#!/bin/bash
# SPDX-License-Identifier: MIT
# roots.sh SOURCE [SUITE]: Debian's packages of the last commit, from a fresh root to a fresh root. In the first one, made by
# debootstrap, scripts/package builds and checks them; in the second, which has nothing but the packages and what they depend
# on, autopkgtest runs scripts/debian/tests: the README's first program by pkg-config, consumers by CMake, stint-batch,
# stint-run and the others, and a preloaded library. Needs root, the network, debootstrap and autopkgtest; some ten minutes
# and 3 GB. STINT_ROOTS: a folder for the base system, to be used again. Exit status 77: this machine cannot.
set -eu
source=$1
suite=${2:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}

cannot() {
    echo "cannot: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || cannot 'only root can make a root and enter it'
for tool in debootstrap autopkgtest git unshare; do
    command -v $tool >/dev/null || cannot "there is no $tool here"
done
git -C "$source" rev-parse -q --verify HEAD >/dev/null || cannot 'this is no clone of the repository'

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
base=${STINT_ROOTS:-$scratch}/base-$suite
if [ ! -e "$base/complete" ]; then
    rm -rf --one-file-system "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase "$suite" "$base" http://deb.debian.org/debian >"$scratch/log" 2>&1 || {
        tail -n 5 "$scratch/log"
        cannot "debootstrap failed for $suite"
    }
    touch "$base/complete"
fi

fresh() {
    cp -a "$base" "$scratch/$1"
    cp -L /etc/resolv.conf "$scratch/$1/etc/resolv.conf"
    # Packages come the way that this machine's come.
    apt-config dump | grep '^Acquire::\(http\|https\|Check-Valid-Until\|Retries\)' \
        >"$scratch/$1/etc/apt/apt.conf.d/90machine" || true
}

# Mounts are in a namespace of their own, and go with it; so do processes.
with_mounts() {
    local root=$scratch/$1
    shift
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child sh -c '
        root=$1
        shift
        mount --make-rprivate / && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" &&
            mount --rbind /dev "$root/dev" || exit 125
        exec "$@"' sh "$root" "$@"
}

echo "building in a fresh $suite"
fresh builder
git clone --quiet --no-hardlinks "$source" "$scratch/builder/root/stint"
passed_on=()
for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || passed_on+=("$name=${!name}")
done
with_mounts builder chroot "$scratch/builder" /usr/bin/env -i HOME=/root LANG=C.UTF-8 "${passed_on[@]}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /root/stint/scripts/package --install-needs --check --folder /root/packages

echo "testing in another fresh $suite"
fresh user
packages=()
for package in "$scratch"/builder/root/packages/*.deb; do
    case $package in *-dbgsym_*) ;; *) packages+=("$package") ;; esac
done
status=0
with_mounts user env --unset=TMPDIR autopkgtest --no-built-binaries --apt-upgrade "${packages[@]}" \
    "$scratch"/builder/root/packages/build/stint-*/ -- chroot "$scratch/user" || status=$?
[ $status = 0 ]
