#!/bin/sh
# `./x package test`: installs, uses, upgrades, removes and purges the Debian package in a new root
# file system of Debian 12, and checks the package with lintian.
#
# It also runs the server of the OCI image in the file system of the image.
#
# The root is made by debootstrap and kept in target/package/root.tar. The commands run in mount,
# process and network namespaces of their own, so that nothing of this machine changes. The first steps
# run without systemd, with the command of the unit as the user of the unit (package-steps.sh). Then a
# systemd in namespaces runs the units (package-systemd.sh).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$root/target/package
new=$out/root
PATH=$PATH:/usr/sbin:/sbin
suite=bookworm

say() { printf '%s\n' "$*"; }

stop() {
    code=$1
    shift
    printf 'x package test: %s\n' "$*" >&2
    exit "$code"
}

[ "$(id -u)" = 0 ] || stop 3 'only root may run debootstrap and mount'
for program in debootstrap unshare pivot_root lintian dpkg-deb; do
    command -v "$program" >/dev/null || stop 3 "$program is missing"
done
package=$(find "$out" -maxdepth 1 -name 'plumbline_*.deb')
[ -n "$package" ] || stop 3 'there is no package; run ./x package first'

# Prints the address of the Debian mirror in this machine's package sources whose label is Debian.
mirror() {
    apt-get indextargets --format '$(CREATED_BY)|$(LABEL)|$(REPO_URI)' 2>/dev/null |
        sed -n 's/^Packages|Debian|//p' | head -n 1
}

make_base() {
    debian=${PLUMB_DEBIAN_MIRROR:-$(mirror)}
    [ -n "$debian" ] || stop 3 'no mirror of Debian in the package sources; set PLUMB_DEBIAN_MIRROR'
    rm -rf "$out/base"
    # The programs with which the package is used, and what the package depends on.
    debootstrap --variant=minbase \
        --include=systemd,man-db,curl,iproute2,bash-completion "$suite" "$out/base" "$debian" \
        >"$out/debootstrap.txt" 2>&1 || stop 1 "debootstrap failed; see $out/debootstrap.txt"
    # A minimal image omits man pages; a machine of an operator has them.
    rm -f "$out/base/etc/dpkg/dpkg.cfg.d/excludes"
    tar -C "$out/base" -cf "$out/root.tar.new" .
    rm -rf "$out/base"
    mv "$out/root.tar.new" "$out/root.tar"
}

clean() {
    rm -rf --one-file-system "$new" "$out/base" "$out/next" "$out/storage" "$out/storage-run"
}

# Repacks the package as version 0.1.0-2 of the same files, with another configuration file if `$1`
# is `changed`.
repack() {
    rm -rf "$out/next"
    dpkg-deb -R "$package" "$out/next"
    sed -i 's/^Version: .*/Version: 99.0-1/' "$out/next/DEBIAN/control"
    if [ "$1" = changed ]; then
        echo '# A line of the new version.' >>"$out/next/etc/plumb/serve.toml"
    fi
    dpkg-deb --root-owner-group -b "$out/next" "$new/next.deb" >/dev/null
}

trap 'clean; exit 130' INT TERM HUP
trap clean EXIT
[ -f "$out/root.tar" ] || make_base
rm -rf --one-file-system "$new"
mkdir -p "$new"
tar -C "$new" -xf "$out/root.tar"
cp "$package" "$new/package.deb"
repack changed
cp "$root/xtask/package-steps.sh" "$new/steps.sh"

say '== lintian'
# Tags that are errors fail the test; warnings are printed.
lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs "$package" ||
    stop 1 'lintian reports an error'

say '== installation'
unshare --mount --propagation private --pid --fork --kill-child --net sh -ec '
new=$1
mount --bind "$new" "$new"
mount --rbind /dev "$new/dev"
mount -t proc proc "$new/proc"
mount -t tmpfs tmpfs "$new/run"
cd "$new"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
ip link set lo up
exec env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -eu /steps.sh
' sh "$new"

# Boots systemd in the root, in namespaces of its own. A service runs the steps and ends systemd.
boot='
new=$1
mount --bind "$new" "$new"
mount -t proc proc "$new/proc"
mount --rbind /sys "$new/sys"
mount -t tmpfs tmpfs "$new/dev"
for node in null zero full random urandom tty; do
    touch "$new/dev/$node"
    mount --bind "/dev/$node" "$new/dev/$node"
done
mkdir "$new/dev/pts" "$new/dev/shm"
mount -t devpts -o ptmxmode=0666 devpts "$new/dev/pts"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
mount -t tmpfs tmpfs "$new/run"
mount -t tmpfs tmpfs "$new/tmp"
ip link set lo up
cd "$new"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
exec env -i container=unshare PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
    --unit=multi-user.target --log-target=null
'
test_systemd() {
    rm -rf --one-file-system "$new"
    mkdir -p "$new"
    tar -C "$new" -xf "$out/root.tar"
    cp "$package" "$new/package.deb"
    repack same
    cp "$root/xtask/package-systemd.sh" "$new/steps.sh"
    chroot "$new" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive dpkg -i /package.deb >/dev/null
    cat >"$new/etc/systemd/system/steps.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/sh -eu /steps.sh
StandardOutput=file:/result
StandardError=file:/result
ExecStopPost=/bin/systemctl exit
UNIT
    mkdir -p "$new/etc/systemd/system/multi-user.target.wants"
    ln -s ../steps.service "$new/etc/systemd/system/multi-user.target.wants"
    timeout --kill-after 5 120 unshare --mount --propagation private --pid --fork --kill-child --net \
        --ipc --uts --cgroup sh -ec "$boot" sh "$new" >"$out/boot.txt" 2>&1 || :
    if [ ! -s "$new/result" ]; then
        say "not configured: systemd does not run in a namespace here; see $out/boot.txt"
        return 0
    fi
    cat "$new/result"
    [ "$(tail -n 1 "$new/result")" = PASSED ] || stop 1 'the units do not work under systemd'
}
say '== systemd'
test_systemd

# Runs the server of the image in the file system of the image, as its user, in a new network.
test_image() {
    set -- --root "$out/storage" --runroot "$out/storage-run" --storage-driver vfs
    container=$(buildah "$@" from --quiet "oci-archive:$archive")
    tree=$(buildah "$@" mount "$container")
    [ "$(buildah "$@" inspect --format '{{.OCIv1.Config.User}}' "$container")" = 65532:65532 ] ||
        stop 1 'the image runs as another user'
    echo 'a file of the image' >"$tree/srv/file"
    unshare --net --pid --fork --kill-child sh -euc '
        ip link set lo up
        env -i PATH="$PATH" XDG_STATE_HOME=/var/lib chroot --userspec=65532:65532 --groups= "$1" \
            /usr/bin/plumb serve --config /etc/plumb/serve.toml 2>"$2" &
        for _ in $(seq 100); do
            if grep -q "serving FTP at" "$2"; then break; fi
            sleep 0.1
        done
        [ "$(curl -s ftp://127.0.0.1:2121/file)" = "a file of the image" ]
        [ "$(curl -sk --ssl-reqd ftp://127.0.0.1:2121/file)" = "a file of the image" ]
    ' sh "$tree" "$out/image.log" || stop 1 "the image does not serve files; see $out/image.log"
    # A server in the image has no shell and no other program.
    [ "$(find "$tree" -type f -perm /111 | wc -l)" = 1 ] || stop 1 'the image has other programs'
}

archive=$(find "$out" -maxdepth 1 -name 'plumbline-*-oci.tar')
if [ -n "$archive" ] && command -v buildah >/dev/null; then
    say '== image'
    test_image
else
    say 'not configured: the image; it needs buildah and ./x package with musl'
fi
say '== checksums'
(cd "$out" && sha256sum --quiet --check SHA256SUMS)
say 'the packages passed'
