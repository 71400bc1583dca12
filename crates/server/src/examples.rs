//! Examples of the configuration file and of the user files, for the documentation.

/// A configuration file with every key.
pub const CONFIGURATION: &str = "\
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
pub const FTP_USER_FILE: &str = "\
[ann]
password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
root = \"/srv/ann\"
rights = \"writable\"           # or other rights, as above
quota-bytes = 1000000000
bytes-per-second-max = 10000000
[ann.folders]                  # rights per directory tree of this user
\"/archive\" = \"no-delete\"";

/// A user file for logins.
pub const LOGIN_USER_FILE: &str = "\
[mike]
password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
runs-as = \"mike\"
exec = [\"/usr/bin/menu\"]";
