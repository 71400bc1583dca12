#!/bin/sh
# `./x bare`: runs README's two commands in a new root file system of Debian 12, so that a
# development machine that already has the tools does not hide what is missing.
#
# The root is made by debootstrap (variant minbase) and kept as a tar file, so that a second run
# downloads little. The commands run in mount and process namespaces of their own: when this script
# ends, for any reason, all its processes end and all its mounts disappear. Of this machine's
# settings, the root gets only the Debian mirror, proxies, certificate authorities, name servers,
# the hosts file and Cargo's configuration.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
suite=bookworm
kept=$root/target/bare
new=$kept/root

stop() {
    code=$1
    shift
    printf 'x bare: %s\n' "$*" >&2
    exit "$code"
}

usage='usage: ./x bare [demo|test [--long]]'
commands='demo test'
options=
case ${1:-} in
'') ;;
demo | test)
    commands=$1
    shift
    options=$*
    ;;
*) stop 2 "$usage" ;;
esac
case $commands,$options in
*,'' | test,--long) ;;
*) stop 2 "$usage" ;;
esac

[ "$(id -u)" = 0 ] || stop 3 'only root may run debootstrap and mount; run ./x bare as root'
for program in debootstrap unshare pivot_root tar; do
    command -v "$program" >/dev/null || stop 3 "$program is missing; apt-get install" \
        "$(case $program in debootstrap | tar) echo "$program" ;; *) echo util-linux ;; esac)"
done

# Prints the address of the Debian mirror in this machine's package sources whose label is $1.
mirror() {
    apt-get indextargets --format '$(CREATED_BY)|$(LABEL)|$(REPO_URI)' 2>/dev/null |
        sed -n "s/^Packages|$1|//p" | head -n 1
}

# Creates the tar file of the Debian root file system.
make_base() {
    debian=${PLUMB_DEBIAN_MIRROR:-$(mirror Debian)}
    security=${PLUMB_DEBIAN_SECURITY_MIRROR:-$(mirror Debian-Security)}
    [ -n "$debian" ] && [ -n "$security" ] || stop 3 "this machine has no mirror of Debian in" \
        'its package sources; PLUMB_DEBIAN_MIRROR and PLUMB_DEBIAN_SECURITY_MIRROR may name them'
    rm -rf "$kept/base"
    debootstrap --variant=minbase "$suite" "$kept/base" "$debian" >"$kept/debootstrap.txt" 2>&1 ||
        stop 1 "debootstrap failed; see $kept/debootstrap.txt"
    cat >"$kept/base/etc/apt/sources.list" <<LIST
deb $debian $suite main
deb $debian $suite-updates main
deb $security $suite-security main
LIST
    tar -C "$kept/base" -cf "$kept/base.tar.new" .
    rm -rf "$kept/base"
    mv "$kept/base.tar.new" "$kept/base.tar"
}

# Copies this machine's network settings, certificate authorities and Cargo configuration to the new
# root.
carry_network() {
    cat /etc/resolv.conf >"$new/etc/resolv.conf"
    cat /etc/hosts >"$new/etc/hosts"
    apt-config dump 2>/dev/null | grep -E '^Acquire::[a-z]+::(Proxy|Verify|CaInfo)' \
        >"$new/etc/apt/apt.conf.d/99network" || :
    mkdir -p "$new/usr/local/share/ca-certificates" "$new/root/.cargo"
    for file in /usr/local/share/ca-certificates/*.crt; do
        if [ -f "$file" ]; then cp "$file" "$new/usr/local/share/ca-certificates"; fi
    done
    for file in config.toml config; do
        file=${CARGO_HOME:-${HOME:-/}/.cargo}/$file
        if [ -f "$file" ]; then cp "$file" "$new/root/.cargo"; fi
    done
}

# Ends the processes that still run in the root, and removes it.
clean() {
    if [ -n "$inside" ]; then
        # When the parent (unshare) ends, the kernel kills the first process of the process
        # namespace, and with that process all others in the namespace.
        kill -KILL "$inside" 2>/dev/null || :
        wait "$inside" 2>/dev/null || :
    fi
    rm -rf --one-file-system "$new" "$kept/base"
}

# Prints the environment variables that set proxies and package registries.
network_settings() {
    env | grep -E '^([a-zA-Z]+_proxy|[A-Z]+_PROXY|CARGO_(REGISTR|SOURCE|HTTP|NET)[A-Z_]*|PIP_[A-Z_]+|npm_config_[a-z_]+|GOPROXY)=' || :
}

# Script for the new namespaces. Its first argument is the new root, which it enters; it runs the
# other arguments as a command.
enter='
set -e
trap "exit 130" INT TERM
new=$1
shift
mount --bind "$new" "$new"
for kind in dev sys; do
    mount --rbind "/$kind" "$new/$kind"
done
mount -t proc proc "$new/proc"
mount -t tmpfs tmpfs "$new/run"
for place in apt:var/cache/apt/archives cargo:root/.cargo/registry pip:root/.cache/pip; do
    mkdir -p "$new/${place#*:}"
    mount --bind "${new%/root}/cache/${place%%:*}" "$new/${place#*:}"
done
cd "$new"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
cd /plumbline
"$@"
'

# Runs `./x` with these arguments in the root, with its output in a file, and sets `took` and
# `status`.
run() {
    output=$kept/$1.txt
    began=$(date +%s)
    # A background job of a script ignores SIGINT (POSIX 2.11), and its child processes inherit
    # that. env resets the signal, because the tests send SIGINT to programs.
    # shellcheck disable=SC2086 # options and the settings are lists of words
    unshare --mount --propagation private --pid --fork --kill-child \
        sh -c "$enter" sh "$new" \
        env -i --default-signal=INT,QUIT,HUP HOME=/root TERM=dumb PLUMB_YES=1 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        $(network_settings) sh -c 'exec ./x "$@"' sh "$@" >"$output" 2>&1 &
    inside=$!
    status=0
    wait "$inside" || status=$?
    inside=
    took=$(($(date +%s) - began))
}

inside=
mkdir -p "$kept/cache/apt/partial" "$kept/cache/cargo" "$kept/cache/pip"
trap 'clean; exit 130' INT TERM HUP
trap clean EXIT
[ -f "$kept/base.tar" ] || make_base
rm -rf --one-file-system "$new"
mkdir -p "$new/plumbline"
tar -C "$new" -xf "$kept/base.tar"
tar -C "$root" --exclude=./target --exclude=./fuzz/target --exclude=./fuzz/corpus \
    --exclude=./.git -cf - . | tar -C "$new/plumbline" -xf -
carry_network
result=0
report=
for command in $commands; do
    # shellcheck disable=SC2086 # options is a list of words
    run "$command" $options
    if [ "$status" = 0 ]; then outcome=passed; else outcome="FAILED (exit code $status)"; result=1; fi
    report="$report
./x $command $options: $outcome after $took s, its output is in $kept/$command.txt"
    tail -n 40 "$kept/$command.txt"
done
printf '\nDebian %s (%s, minbase) on Linux %s, %s processors%s\n' \
    "$(cat "$new/etc/debian_version")" "$suite" "$(uname -r)" "$(nproc)" "$report"
exit "$result"
