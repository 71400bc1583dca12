//! The usage text of the benchmarks.

/// Usage of `./x bench`.
pub(crate) const USAGE: &str = "\
usage: ./x bench NAME [--rounds N] [--keys N] [--two-cores] [--json]

  echo     a key and its echo, and a screenful: inetutils telnet, plumb login, plumb login on a TUN
  predict  a key and a screenful 100 ms away: inetutils telnet, plumb login, and with prediction
  meter    cost of the meter: plumb login with and without it, and both ends in one process
  stack    plumb's TCP/IP, the kernel's and other user-space stacks; has options of its own
  gateway  gateways of network namespaces: slirp4netns, pasta, plumb; has options of its own
  goodput  goodput of plumb's TCP over lossy paths, in virtual time, with smoltcp's figures
  steps    processor time of a station between read and write, in one process
  terminal plumb's terminal and alacritty's on the same stream of bytes
  login    whole logins, client and server: plumb, other Telnet programs, ssh, mosh, socat
  flood    ^C while a program floods a slow display: inetutils telnet and plumb login
  sessions many concurrent sessions at plumb's login server, on one processor
  files    file transfers by FTP and TFTP: clients and servers of plumb and of other projects
  records  cost of a transfer's record, and cost of queries to the store
  split    delays of known length, and the accounts in which plumb measure reports them
  verdict  how often the first sentence of plumb measure names the cause; has its own options

  --rounds N     number of rounds, over which medians are taken (default 7, files 5; at least 1)
  --keys N       keys in each round (default 200, from 10 to 3000)
  --megabytes N  login: length of the long text (default 100, from 1 to 1000)
  --path WORD    login, flood: only the paths with WORD in their name; may be repeated
  --slowest KB   flood: only displays of at least this many KB/s (default 50); at 50 KB/s each
                 interrupt takes 15 to 80 s
  --sessions N   sessions: number of concurrent sessions (default 1000, at most 4000)
  --seconds N    sessions: duration of typing, one key per second and session (default 10)
  --records N    records: number of transfers in the store (default 10000000, at least 1000)
  --rows NAMES   files: only these rows, separated by commas: retr, stor, retr-tls, stor-tls,
                 many-retr, many-stor, one-retr, one-stor, one-retr-tls, one-stor-tls, words, tun,
                 records, idle, tftp
  --size MIB     files: size of the large file (default 1024; a quarter in TLS, words and tun)
  --files N      files: number of small files over 8 connections (default 4000; a fifth over one
                 connection, an eightieth over one in TLS)
  --logins N     files: number of idle logins (default 10000)
  --two-cores    run the servers on a processor other than that of driver and clients
  --json         print all data as JSON instead of tables";
