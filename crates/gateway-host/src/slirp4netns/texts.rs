//! Texts of slirp4netns. podman and rootlesskit search the help for option names, and podman prints
//! the version.

/// Text of `--help`, and of a usage error.
pub(super) const HELP: &str = "\
Usage: slirp4netns [OPTION]... PID|PATH TAPNAME
Connects the network namespace of a process, or at a path, to the network of the host (plumb).

-c, --configure          configure the interface: address, MTU, default route, loopback
-e, --exit-fd=FD         exit at an event of the file descriptor FD
-r, --ready-fd=FD        write '1' to the file descriptor FD when the network is ready
-m, --mtu=MTU            MTU in bytes, 1 to 65521 (default: 1500)
-6, --enable-ipv6        IPv6 with the prefix fd00::/64
-a, --api-socket=PATH    add, list and remove port forwards at a Unix socket
--cidr=CIDR              IPv4 network (default: 10.0.2.0/24)
--disable-host-loopback  do not connect the gateway address to 127.0.0.1 of the host
--netns-type=TYPE        'pid' (default) or 'path'
--userns-path=PATH       user namespace to enter (default: that of the process)
--enable-sandbox         leave only /etc and /run of the file system, read-only
--enable-seccomp         restrict system calls (always done)
--outbound-addr=ADDR     source of IPv4 connections: an address or an interface
--outbound-addr6=ADDR    source of IPv6 connections: an address or an interface
--disable-dns            do not forward DNS at the third address of the network
--macaddress=MAC         Ethernet address of the interface (with -c only)
--target-type=TYPE       'netns' (default)
-h, --help               print this help
-v, --version            print the version
";

/// Text of `--version`: the first line has the version of slirp4netns whose behavior is
/// implemented.
pub(super) const VERSION: &str = concat!(
    "slirp4netns version 1.2.0\n",
    "commit: plumb-",
    env!("CARGO_PKG_VERSION"),
    "\nlibslirp: none\nSLIRP_CONFIG_VERSION_MAX: 0\nlibseccomp: none\n"
);
