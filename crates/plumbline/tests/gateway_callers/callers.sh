#!/bin/sh
# Runs podman or rootlesskit as an ordinary user with the gateway that PATH has as slirp4netns.
#
# usage: callers.sh prepare | podman | rootlesskit
#
# `prepare CASE` runs as root in new mount, process and network namespaces. It provides what the
# machine may lack (a user with subordinate IDs, a device that the user may open, one hierarchy of
# control groups), and runs CASE as this user. $DIRECTORY is a new directory for all files.
set -eu

# Runs "$@" until it succeeds; the test has a time limit.
until_true() {
    until "$@"; do sleep 0.1; done
}

serve() {
    mkdir -p "$DIRECTORY/www"
    echo 'from the host' > "$DIRECTORY/www/index.html"
    busybox httpd -p 127.0.0.1:8080 -h "$DIRECTORY/www"
}

no_gateway_runs() {
    ! ps -A -o comm= | grep -q '^slirp4netns$'
}

case $1 in
prepare)
    ip link set lo up
    mount -t cgroup2 none /sys/fs/cgroup
    mknod "$DIRECTORY/tun" c 10 200
    chmod 666 "$DIRECTORY/tun"
    mount --bind "$DIRECTORY/tun" /dev/net/tun
    mkdir -m 700 "$DIRECTORY/home" "$DIRECTORY/run"
    mkdir -p "$DIRECTORY/image/bin"
    cp "$(command -v busybox)" "$DIRECTORY/image/bin/busybox"
    for applet in sh cat grep ip nc sleep wget; do
        ln -s busybox "$DIRECTORY/image/bin/$applet"
    done
    user=12345
    (cat /etc/passwd; echo "caller:x:$user:$user::$DIRECTORY/home:/bin/sh") > "$DIRECTORY/passwd"
    echo 'caller:100000:65536' > "$DIRECTORY/subid"
    mount --bind "$DIRECTORY/passwd" /etc/passwd
    mount --bind "$DIRECTORY/subid" /etc/subuid
    mount --bind "$DIRECTORY/subid" /etc/subgid
    chown -R "$user:$user" "$DIRECTORY"
    export HOME="$DIRECTORY/home" XDG_RUNTIME_DIR="$DIRECTORY/run" TMPDIR="$DIRECTORY/home" USER=caller
    cd "$HOME"
    exec setpriv --reuid=$user --regid=$user --clear-groups sh "$0" "$2"
    ;;
podman)
    serve
    podman() {
        command podman --cgroup-manager=cgroupfs --events-backend=file --storage-driver=vfs "$@"
    }
    tar -C "$DIRECTORY/image" -c . | podman import - gateway-test > /dev/null
    podman run --rm --cgroups=disabled --network slirp4netns:allow_host_loopback=true gateway-test \
        sh -c 'ip -4 addr show tap0; ip -6 addr show tap0; ip route; cat /etc/resolv.conf
               wget -q -O - http://10.0.2.2:8080/'
    podman run -d --name inbound --cgroups=disabled --network slirp4netns:port_handler=slirp4netns \
        -p 127.0.0.1:8081:80 gateway-test \
        sh -c 'while true; do echo from the container | nc -l -p 80; done' > /dev/null
    fetch() {
        reply=$(busybox nc -w 2 127.0.0.1 8081 < /dev/null) && [ -n "$reply" ]
    }
    until_true fetch
    echo "$reply"
    # The container ends, and with it the exit pipe.
    podman rm -f -t 0 inbound > /dev/null
    until_true no_gateway_runs
    echo 'the gateway has ended'
    ;;
rootlesskit)
    serve
    # shellcheck disable=SC2016 # expanded by the inner shell
    rootlesskit --net=slirp4netns --mtu=1400 --port-driver=slirp4netns --state-dir "$HOME/state" sh -c '
        set -e
        ip -4 addr show tap0; ip route
        busybox wget -q -O - http://10.0.2.2:8080/
        control="rootlessctl --socket $ROOTLESSKIT_STATE_DIR/api.sock"
        $control add-ports 127.0.0.1:8082:80/tcp > /dev/null
        $control list-ports
        $control remove-ports 1
        if $control list-ports | grep -q 8082; then exit 1; fi'
    until_true no_gateway_runs
    echo 'the gateway has ended'
    ;;
esac
