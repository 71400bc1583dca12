//! Texts of pasta and passt. Callers search the help for option names.

use super::mode::PastaMode;

/// Returns the text of `--version`.
pub(super) fn version(mode: PastaMode) -> String {
    format!(
        "{} 2023_03_09.7c7625d\nplumb {}: see 'plumb --version'\n",
        mode.name(),
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the text of `--help` and of a usage error.
pub(super) fn help(mode: PastaMode) -> String {
    let usage = match mode {
        PastaMode::Pasta => PASTA_USAGE,
        PastaMode::Passt => PASST_USAGE,
    };
    format!("{usage}{OPTIONS}")
}

const PASTA_USAGE: &str = "\
Usage: pasta [OPTION]... [COMMAND [ARGUMENT]...]
       pasta [OPTION]... PID
       pasta [OPTION]... --netns PATH|NAME
Connects a network namespace to the network of the host (plumb).

  -I, --ns-ifname NAME     name of the interface in the namespace
  --userns PATH            user namespace to enter
  --netns PATH|NAME        network namespace; a NAME is in /run/netns
  --netns-only             do not enter or create a user namespace
  --no-netns-quit          keep running when the path of the namespace is deleted
  --config-net             configure the interface in the namespace
  --ns-mac-addr ADDR       Ethernet address of the interface in the namespace
  -T, --tcp-ns SPEC        TCP ports of the namespace that lead to the host (default: auto)
  -U, --udp-ns SPEC        UDP ports of the namespace that lead to the host (default: auto)
  --host-lo-to-ns-lo       forwards from the host's loopback lead to the namespace's loopback
  --dhcp-dns, --dhcp-search  announce DNS servers and search lists
";

const PASST_USAGE: &str = "\
Usage: passt [OPTION]...
Connects a virtual machine at a Unix socket to the network of the host (plumb).

  -s, --socket PATH        path of the socket (default: the first free /tmp/passt_N.socket)
  -F, --fd FD              connected socket that the starting program passes
  -1, --one-off            exit when the virtual machine disconnects
  --no-dhcp-dns, --no-dhcp-search  do not announce DNS servers and search lists
";

const OPTIONS: &str = "\
  -d, --debug; --trace     print details
  -q, --quiet              print errors only
  -f, --foreground         do not go to the background
  -e, --stderr             log to standard error
  -l, --log-file PATH; --log-size BYTES
  --runas UID[:GID]        user and group to run as
  -p, --pcap FILE          capture the packets of the guest
  -P, --pid FILE           write the process ID to FILE
  -m, --mtu MTU            MTU in bytes to announce; 0 announces none (default: 65520)
  -a, --address ADDR       address of the guest, once per IP version
  -n, --netmask MASK       IPv4 mask of the guest, dotted or in bits
  -M, --mac-addr ADDR      Ethernet address of the gateway
  -g, --gateway ADDR       gateway of the guest, once per IP version
  -i, --interface NAME     interface whose addresses and routes are used
  -o, --outbound ADDR      source of connections, once per IP version
  --outbound-if4 NAME, --outbound-if6 NAME  interface of connections
  -D, --dns ADDR           DNS server to announce, or 'none'
  -S, --search LIST        search list to announce, or 'none'
  --dns-forward ADDR       address at which DNS is forwarded
  --no-tcp, --no-udp, --no-icmp, --no-dhcp, --no-ndp, --no-dhcpv6, --no-ra
  --no-map-gw              the gateway address does not lead to the host
  --map-host-loopback ADDR, --map-guest-addr ADDR  addresses that lead to the host
  -4, --ipv4-only; -6, --ipv6-only
  -t, --tcp-ports SPEC     TCP ports of the host that lead to the guest
  -u, --udp-ports SPEC     UDP ports of the host that lead to the guest
    SPEC is none, auto (pasta), all (passt), or [ADDR[%IFNAME]/]PORTS, for example
    22, 22:23, 22-80:32-90, 127.0.0.1/8080:80, or ~25 for all but 25
  -h, --help; --version
";
