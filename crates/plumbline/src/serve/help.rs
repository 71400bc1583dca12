//! What `plumb serve --help` says around its arguments, with a whole configuration.

/// What `plumb serve --help` says first.
pub(crate) const ABOUT: &str = "\
Serves logins by Telnet: with the system's own login, with users of a file, or with one program \
for everybody.

Without a word about it, cleartext is served at the loopback addresses alone (port 23; 2323 \
without root), and TLS everywhere (port 992; 3292 without root), with a certificate that is made \
at the first start and whose fingerprint is printed. The system's login needs root.

With --tftp, files of one folder are served by TFTP, and logins only if anything is said about \
them. Nobody proves who he is, so it is at the loopback addresses alone without a word about it \
(port 69; 6969 without root), and nothing is written without --write-once or --writable. A name \
leads nowhere but beneath the folder; run by root, only what everybody on the machine may read is \
given. A file that is written appears when it is whole.

With --ftp, files are served by FTP: to anonymous users those of --root, to be read unless
--write-once or --writable says otherwise; to users of a file (--ftp-users) those of each. Without a
word about it, it is at the loopback addresses alone (port 21; 2121 without root), with AUTH TLS
offered. A hangup signal has the users' files, the prefixes and the table [ftp] read again, and ends
no session and no server; what makes no sense is said, and the old one stays. --check looks whether it makes sense before. With
--ftp-system-users, users of this machine come to their home directories with their own rights,
proved by PAM (service plumb, else other), if their shell is in /etc/shells; run by root, for all
of them but root.

Each transfer leaves a record for 'plumb stats', where the state of programs is kept: for root in
/var/lib/plumb/transfers. --no-record keeps none.

A console offers a serial line by RFC 2217 or plain Telnet, at 127.0.0.1 port 2217 unless it is told \
otherwise: the first who comes writes, others watch. Without RFC 2217 the keys ^E c ? say what else \
there is: to take over, to see who is there, to see again what the line said last.

'plumb meters' shows its meters while it runs, to the same user and to root alone; \
--no-meters-socket keeps that shut.

What happens is said on stderr, one line an event. The first interrupt ends the server and its \
sessions.";

/// What it says last.
pub(super) const EXAMPLES: &str = "\
Examples:
  plumb serve
  plumb serve --config /etc/plumb/serve.toml
  plumb serve --check --config /etc/plumb/serve.toml
  plumb serve --listen 127.0.0.1:2323 --exec bash
  plumb serve --listen-tls '[::]:992' --allow 10.0.0.0/8 --users /etc/plumb/users.toml
  plumb serve --via tun:plumb0 --listen-tls '[::]:992'
  plumb serve --via tun:plumb0 --ftp --root /srv/ftp --ftp-listen '[::]:21'
  plumb serve --listen '[::]:23' --tls required --users /etc/plumb/users.toml
  plumb serve --console '/dev/ttyUSB0?baud=115200' --listen 127.0.0.1:2217
  printf secret | plumb serve --hash-password
  plumb serve --tftp --root /srv/tftp --tftp-listen '[::]:69'
  plumb serve --root /srv/ftp --read-only
  plumb serve --ftp --ftp-users /etc/plumb/ftp.toml --ftp-listen '[::]:21' --ftp-tls required

A configuration:
  record = true                  # of each transfer by FTP and TFTP
  metrics = \"127.0.0.1:9559\"    # at /metrics, for Prometheus
  metrics-hosts = [\"stats.example.net\"] # names by which they are asked for, besides this machine's
  meters-socket = true           # for plumb meters
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
  tls = \"offered\"               # to those in cleartext; or \"required\", or \"off\"
  [tftp]
  root = \"/srv/tftp\"
  rights = \"read-only\"            # or write-once, writable
  listen = [\"127.0.0.1:69\", \"[::1]:69\"]
  transfers-max = 256
  transfers-per-source-max = 32
  file-max-bytes = 1000000000
  [ftp]
  root = \"/srv/ftp\"             # of anonymous users
  rights = \"read-only\"         # or write-once, writable, no-delete (nor overwritten, nor
                                 # renamed), drop-box, or each right:
                                 # [\"list\", \"read\", \"write\", \"overwrite\", \"append\",
                                 # \"delete\", \"rename\", \"mkdir\", \"site\"]
  users = \"/etc/plumb/ftp.toml\"
  names = [\"ftp.example.net\"]   # by which HOST may name this server, beside the machine's own
  listen = [\"[::]:21\"]
  listen-tls = [\"[::]:990\"]
  tls = \"required\"              # or \"offered\", or \"off\"
  requires-session-reuse = true  # TLS of a data connection resumes that of its control
                                 # connection; false accepts clients that cannot (Python's ftplib,
                                 # commons-net), and any other client at their addresses
  anonymous = true               # besides users; without users it is so
  system-users = true            # of this machine, by PAM
  pam-service = \"plumb\"
  root-may-log-in = false
  clear-control = false          # whether CCC may end the TLS of the control connection
  mail-spool = \"/var/spool/plumb\" # MAIL and MLFL, for those who have a folder there; users of
                                 # an [[ftp.host]] send none
  mail-max-bytes = 4194304
  mailbox-max-bytes = 67108864
  mail-from-anonymous = false
  passive-ports = [50000, 50999]
  passive-address = \"192.0.2.1\"
  allow = [\"10.0.0.0/8\"]         # who may come; and deny, who may not
  greeting = \"plumbline FTP server ready\"
  sessions-max = 10000
  sessions-per-source-max = 1000
  bytes-per-second-max = 10000000
  file-max-bytes = 1000000000
  quota-bytes = 1000000000       # of anonymous users; also limits the number of files and
                                 # directories: one for each 4096 bytes, and at least 1000
  anonymous-hash-max-bytes = 4294967296 # of a file, by one HASH or XCRC and its kind
  login-timeout-s = 60
  idle-timeout-s = 300
  data-connect-timeout-s = 30
  stall-timeout-s = 120          # of a transfer in which nothing moves
  upload-grace-ms = 1000         # an upload in cleartext is taken back if its client dies within
                                 # this time of the reply; 0 takes none back
  partial-uploads-max = 64       # of each root: uploads that broke off are kept, and are resumed
                                 # by REST and STOR; 0 keeps none
  partial-uploads-max-bytes = 17179869184
  partial-uploads-max-age-s = 86400
  recount-s = 600                # how often quotas and partial uploads are looked at
  stop-grace-s = 1               # for transfers, when the server is told to end
  [ftp.word-formats]             # how words of 36 bits (TYPE L 36) lie in the files of a folder
  \"/its\" = \"u36\"
  [ftp.folders]                  # rights of anonymous users in a folder and those beneath, by the
                                 # name that they use: a link from elsewhere is a way around them
  \"/incoming\" = \"drop-box\"
  [[ftp.host]]                   # other files for those who name this host by HOST or in TLS
  name = \"ftp.example.org\"
  aliases = [\"example.org\"]
  root = \"/srv/org\"            # and rights, folders, users, anonymous, quota-bytes, greeting
  certificate = \"/etc/plumb/org.pem\"
  key = \"/etc/plumb/org.key\"
  [[console]]
  device = \"/dev/ttyUSB0\"
  baud = 9600
  listen = [\"127.0.0.1:2217\"]   # and listen-tls, and tls
  write = [\"10.0.0.0/8\"]         # who may write; everybody, if it is not said
  rates = [19200, 115200]        # what else who writes may choose
  free-framing = true            # and data bits, parity, stop bits and flow control
  log = \"/var/log/console.log\"   # what the line says
  [tls]
  certificate = \"/etc/plumb/certificate.pem\"
  key = \"/etc/plumb/key.pem\"

A file of users of FTP:
  [ann]
  password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
  root = \"/srv/ann\"
  rights = \"writable\"           # or others, as above
  quota-bytes = 1000000000
  bytes-per-second-max = 10000000
  [ann.folders]                  # rights in a folder and those beneath, of hers
  \"/archive\" = \"no-delete\"

A file of users:
  [mike]
  password = \"$argon2id$v=19$m=19456,t=2,p=1$...\"
  runs-as = \"mike\"
  exec = [\"/usr/bin/menu\"]

Exit codes: 0 it was told to end; 2 the arguments or the configuration are wrong; 4 this machine
refuses what is needed.";
