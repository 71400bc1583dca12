//! Text of `plumb serve --help`: its introduction and a complete configuration.

/// Introduction, printed before the options.
pub(crate) const ABOUT: &str = "\
Serve logins by Telnet: with the system's login, with the users of a file, or with one program \
for every client.

By default, unencrypted logins are accepted on loopback only (port 23; 2323 without root), and TLS \
logins on all addresses (port 992; 3292 without root). The certificate is generated at the first \
start, and its fingerprint is printed. The system's login program needs root.

With --tftp, the files of one directory are served by TFTP; logins are then served only if an \
option for them is given. TFTP has no authentication, so it listens on loopback by default (port \
69; 6969 without root) and accepts no uploads without --write-once or --writable. Names cannot \
lead out of the directory. A server that runs as root serves only files that are readable by \
everyone. An uploaded file appears when it is complete.

With --ftp, files are served by FTP. Anonymous users get the files of --root, read-only unless \
--write-once or --writable is given. Each user of a user file (--ftp-users) gets the files of that \
user's root. By default, FTP listens on loopback (port 21; 2121 without root) and offers AUTH TLS. \
With --ftp-system-users, users of this machine get their home directories with their own rights. \
They are authenticated with PAM (service plumb, or else other), and their shell must be in \
/etc/shells. A server that runs as root serves all of them except root.

SIGHUP reloads the user files, the prefixes and the table [ftp] without ending a session. If \
there is an error, it is logged and the old configuration stays in force. Use --check to check a \
configuration first.

Each transfer is recorded for 'plumb stats' in the state directory (for root, \
/var/lib/plumb/transfers). --no-record disables this.

A console serves a serial line by RFC 2217 or plain Telnet, by default on 127.0.0.1 port 2217. The \
first client gets write access, the others watch. Without RFC 2217, ^E c ? lists the escape keys: \
take write access, list the clients, replay the recent output.

'plumb meters' shows the meters of the running server, to the same user and to root only; \
--no-meters-socket disables this.

Events are logged on stderr, one per line. The first interrupt ends the server and its sessions.";

/// A configuration file with every key.
pub(crate) const CONFIGURATION: &str = "\
record = true                  # record each transfer by FTP and TFTP
metrics = \"127.0.0.1:9559\"    # Prometheus metrics at /metrics
metrics-hosts = [\"stats.example.net\"] # further host names accepted in requests
meters-socket = true           # for 'plumb meters'
[login]
listen = [\"127.0.0.1:23\"]
listen-tls = [\"[::]:992\"]
users = \"/etc/plumb/users.toml\"
allow = [\"10.0.0.0/8\", \"2001:db8::/32\"]
deny = [\"10.66.0.0/16\"]
greeting = \"This is mit-multics.\"
motd = \"/etc/motd\"
login-timeout-s = 60
idle-timeout-s = 3600
sessions-max = 1024
sessions-per-source-max = 64
tls = \"offered\"               # START_TLS; or \"required\", or \"off\"
[tftp]
root = \"/srv/tftp\"
rights = \"read-only\"            # or write-once, writable
listen = [\"127.0.0.1:69\", \"[::1]:69\"]
transfers-max = 256
transfers-per-source-max = 32
file-max-bytes = 1000000000
[ftp]
root = \"/srv/ftp\"             # of anonymous users
rights = \"read-only\"         # or write-once, writable, no-delete (also no overwriting
                               # or renaming), drop-box, or a list of rights:
                               # [\"list\", \"read\", \"write\", \"overwrite\", \"append\",
                               # \"delete\", \"rename\", \"mkdir\", \"site\"]
users = \"/etc/plumb/ftp.toml\"
names = [\"ftp.example.net\"]   # names for HOST, besides the machine's own
listen = [\"[::]:21\"]
listen-tls = [\"[::]:990\"]
tls = \"required\"              # or \"offered\", or \"off\"
requires-session-reuse = true  # data connections must resume the TLS session of their
                               # control connection; false accepts clients that cannot (Python's
                               # ftplib, commons-net), and any other client at their addresses
anonymous = true               # default: true without users
system-users = true            # users of this machine, authenticated with PAM
pam-service = \"plumb\"
root-may-log-in = false
clear-control = false          # allow CCC to end TLS on the control connection
mail-spool = \"/var/spool/plumb\" # MAIL and MLFL, for users with a directory there; not for
                               # users of an [[ftp.host]]
mail-max-bytes = 4194304
mailbox-max-bytes = 67108864
mail-from-anonymous = false
passive-ports = [50000, 50999]
passive-address = \"192.0.2.1\"
allow = [\"10.0.0.0/8\"]         # allowed clients; deny excludes clients
greeting = \"plumbline FTP server ready\"
sessions-max = 10000
sessions-per-source-max = 1000
bytes-per-second-max = 10000000
file-max-bytes = 1000000000
quota-bytes = 1000000000       # of anonymous users; also limits the number of files and
                               # directories to one per 4096 bytes, but at least 1000
anonymous-hash-max-bytes = 4294967296 # hashed by one HASH, XCRC or similar command
login-timeout-s = 60
idle-timeout-s = 300
data-connect-timeout-s = 30
stall-timeout-s = 120          # of a transfer without progress
upload-grace-ms = 1000         # an unencrypted upload is undone if its client dies within
                               # this time after the reply; 0 disables this
partial-uploads-max = 64       # per root: interrupted uploads are kept and can be resumed with
                               # REST and STOR; 0 disables this
partial-uploads-max-bytes = 17179869184
partial-uploads-max-age-s = 86400
recount-s = 600                # interval for checking quotas and partial uploads
stop-grace-s = 1               # time for running transfers when the server is stopped
[ftp.word-formats]             # storage of 36-bit words (TYPE L 36) per directory
\"/its\" = \"u36\"
[ftp.folders]                  # rights of anonymous users per directory tree, by the name that
                               # the client uses: a link from elsewhere bypasses them
\"/incoming\" = \"drop-box\"
[[ftp.host]]                   # virtual host, selected by HOST or by TLS server name
name = \"ftp.example.org\"
aliases = [\"example.org\"]
root = \"/srv/org\"            # and rights, folders, users, anonymous, quota-bytes, greeting
certificate = \"/etc/plumb/org.pem\"
key = \"/etc/plumb/org.key\"
[[console]]
device = \"/dev/ttyUSB0\"
baud = 9600
listen = [\"127.0.0.1:2217\"]   # and listen-tls, and tls
write = [\"10.0.0.0/8\"]         # clients that may write; default: all
rates = [19200, 115200]        # further rates that the writer may select
free-framing = true            # also data bits, parity, stop bits and flow control
log = \"/var/log/console.log\"   # output of the line
[tls]
certificate = \"/etc/plumb/certificate.pem\"
key = \"/etc/plumb/key.pem\"";

/// A user file of the FTP server.
pub(crate) const FTP_USER_FILE: &str = "\
[ann]
password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
root = \"/srv/ann\"
rights = \"writable\"           # or other rights, as above
quota-bytes = 1000000000
bytes-per-second-max = 10000000
[ann.folders]                  # rights per directory tree of this user
\"/archive\" = \"no-delete\"";

/// A user file for logins.
pub(crate) const LOGIN_USER_FILE: &str = "\
[mike]
password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
runs-as = \"mike\"
exec = [\"/usr/bin/menu\"]";
