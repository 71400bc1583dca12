#!/bin/sh
# `./x package`: builds the packages of plumb in target/package.
#
#   package.sh PROFILE PROGRAM            builds the packages
#   package.sh test                       tests the Debian package in a new root of Debian
#
# PROGRAM is the stripped program for this machine; PROFILE builds the static one. A package whose
# tools are missing is not built, and the summary names the reason.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$root/target/package
tools=$root/target/tools/bin
PATH=$PATH:$tools:/usr/sbin:/sbin
export PATH

static_target=$(uname -m)-unknown-linux-musl
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
# Time stamps in the packages: the time of the last commit, so that equal sources give equal packages.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
umask 022

say() { printf '%s\n' "$*"; }

stop() {
    code=$1
    shift
    printf 'x package: %s\n' "$*" >&2
    exit "$code"
}

has() { command -v "$1" >/dev/null 2>&1; }

skipped=
# Records that the package $1 is not built, for the reason $2.
skip() {
    skipped="$skipped
  $1: $2"
}

# Fills the directory $1 with the files of an installation below a prefix, for the program $2.
make_tree() {
    rm -rf "$1"
    mkdir -p "$1/bin" "$1/share/bash-completion/completions" "$1/share/zsh/site-functions" \
        "$1/share/fish/vendor_completions.d" "$1/share/doc/plumbline/systemd"
    cp "$2" "$1/bin/plumb"
    "$program" manual "$1/manual"
    mkdir "$1/share/man"
    mv "$1/manual"/man[0-9] "$1/share/man"
    mv "$1/manual/plumb.bash" "$1/share/bash-completion/completions/plumb"
    mv "$1/manual/_plumb" "$1/share/zsh/site-functions"
    mv "$1/manual/plumb.fish" "$1/share/fish/vendor_completions.d"
    rmdir "$1/manual"
    cp "$root/README.md" "$root/ARCHITECTURE.md" "$root/CONTRIBUTING.md" "$root/CHANGELOG.md" \
        "$root"/LICENSE* "$1/share/doc/plumbline"
    cp -r "$root/docs" "$1/share/doc/plumbline"
    # Lists for the tests of the repository.
    rm -r "$1/share/doc/plumbline/docs/api" "$1/share/doc/plumbline/docs/ledger"
    cp "$root/packaging"/*.service "$root/packaging"/*.socket "$root/packaging"/*.conf \
        "$root/packaging/serve.toml" "$root/packaging/console.toml" "$1/share/doc/plumbline/systemd"
}

build_deb() {
    has cargo-deb || {
        skip 'Debian package' 'cargo-deb is missing: cargo install --locked cargo-deb'
        return 0
    }
    # Debian has the license and the changelog under other names.
    sed 's,(LICENSE),(copyright),; s,(CHANGELOG.md),(NEWS.gz),' "$root/README.md" >"$out/README.md"
    (cd "$root" && cargo deb --quiet --locked --no-build --no-strip -p plumbline --output "$out/")
}

# Succeeds if the static program can be built.
can_build_static() {
    if ! has musl-gcc; then
        skip 'static program' 'musl-gcc is missing: apt-get install musl-tools'
    elif [ ! -d "$(rustc --print sysroot)/lib/rustlib/$static_target" ]; then
        skip 'static program' "Rust has no $static_target: rustup target add $static_target"
    else
        return 0
    fi
    return 1
}

build_static() {
    say "building plumb for $static_target"
    (cd "$root" && cargo build --profile "$profile" --locked -p plumbline --target "$static_target")
    directory=$profile
    [ "$profile" != dev ] || directory=debug
    strip -o "$out/plumb-static" \
        "${CARGO_TARGET_DIR:-$root/target}/$static_target/$directory/plumb"
    make_tree "$out/tree-static" "$out/plumb-static"
    rm "$out/plumb-static"
    name=plumbline-$version-$static_target
    tar -C "$out/tree-static" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --transform="s,^\.,$name," -cf "$out/$name.tar" .
    gzip -9 -n "$out/$name.tar"
}

build_image() {
    has buildah || {
        skip 'OCI image' 'buildah is missing: apt-get install buildah'
        return 0
    }
    context=$out/image
    rm -rf "$context"
    mkdir -p "$context/bin" "$context/etc/plumb" "$context/var/lib/plumb" "$context/srv"
    cp "$out/tree-static/bin/plumb" "$context/bin"
    cp "$root/packaging/container.toml" "$context/etc/plumb/serve.toml"
    image=plumbline:$version
    # Own storage, so that the images of the user are not changed. The image has no RUN, so that
    # neither a container runtime nor a network is needed.
    set -- --root "$out/storage" --runroot "$out/storage-run" --storage-driver vfs
    buildah "$@" build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" \
        --file "$root/packaging/Containerfile" --tag "$image" "$context" >/dev/null
    archive=$out/plumbline-$version-oci.tar
    rm -f "$archive"
    buildah "$@" push --quiet "$image" "oci-archive:$archive:$image"
    rm -rf "$context" "$out/storage" "$out/storage-run"
}

build_sbom() {
    has cargo-cyclonedx || {
        skip SBOM 'cargo-cyclonedx is missing: cargo install --locked cargo-cyclonedx'
        return 0
    }
    # The tool writes a file into the directory of each member of the workspace.
    name=plumbline-sbom-$$
    (cd "$root" && cargo cyclonedx --quiet --format json --override-filename "$name" \
        --target "$(uname -m)-unknown-linux-gnu" --manifest-path crates/plumbline/Cargo.toml)
    mv "$root/crates/plumbline/$name.json" "$out/plumbline-$version.cdx.json"
    find "$root/crates" "$root/examples" "$root/xtask" -name "$name.json" -delete
}

if [ "${1:-}" = test ]; then
    shift
    exec "$root/xtask/package-test.sh" "$@"
fi
[ $# = 2 ] || stop 2 'usage: package.sh PROFILE PROGRAM, or package.sh test'
profile=$1
program=$2
mkdir -p "$out"
rm -rf "$out/tree" "$out/tree-static" "$out"/plumbline* "$out/SHA256SUMS"
make_tree "$out/tree" "$program"
build_deb
if can_build_static; then
    build_static
    build_image
else
    skip 'OCI image' 'it needs the static program'
fi
build_sbom
(cd "$out" && sha256sum plumbline* >SHA256SUMS)
say "packages of plumbline $version in $out:"
(cd "$out" && ls -l plumbline* SHA256SUMS | awk '{ printf "  %11d %s\n", $5, $9 }')
[ -z "$skipped" ] || say "not built:$skipped"
