//! Introduction of `plumb serve --help`, and the manual page.

use crate::manual::entries::{METERS, RUNTIME, STATE};
use crate::manual::{ManualNote, ManualPage};
use server::examples;

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

SIGHUP reloads the configuration, the user files and the certificates, and opens the log files again. It \
adds, changes and removes servers, listen addresses, consoles and roots, and ends no session except \
those of removed consoles. After an error, for example a port that is in use, nothing changes, and \
one line of the log has the reason. Use --check to check a configuration first: it also checks that \
the addresses belong to this machine, and reports ports that are in use, devices that do not exist \
and roots that cannot be written. --check-as USER checks with the rights of the user of a service. \
SIGUSR1 only opens the log files again, for a program that rotates them.

Each transfer is recorded for 'plumb stats' in the state directory, which also contains the generated \
certificate: state-directory of the configuration, STATE_DIRECTORY of systemd, $XDG_STATE_HOME/plumb, \
or ~/.local/state/plumb, whichever is set first. --no-record disables the records. 'plumb stats \
--directory /var/lib/plumb/transfers' reads those of the packaged service.

A console serves a serial line by RFC 2217 or plain Telnet, by default on 127.0.0.1 port 2217. The \
first client gets write access, the others watch. Without RFC 2217, ^E c ? lists the escape keys: \
take write access, list the clients, replay the recent output.

'plumb meters' shows the meters of the running server, to the same user and to root only, also those \
of the packaged service; \
--no-meters-socket disables this.

Events are logged on stderr, in --log-file, or in both with --log-stderr, one per line, with the time and the number of the \
session; in the journal of systemd, with the level instead of the time. The first interrupt ends the \
server and its sessions.

With systemd, the server reports its state (Type=notify) and takes sockets from a socket unit: each \
address of such a socket must also be an address of the configuration.";

/// Manual page of `plumb serve`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "serve",
    examples: &[
        "plumb serve --check-as plumb --config /etc/plumb/serve.toml",
        "plumb serve --listen 127.0.0.1:2323 --exec bash",
        "plumb serve --listen-tls '[::]:992' --allow 10.0.0.0/8 --users /etc/plumb/users.toml",
        "plumb serve --ftp --root /srv/ftp --ftp-listen '[::]:21' --ftp-tls required",
        "plumb serve --console '/dev/ttyUSB0?baud=115200' --listen 127.0.0.1:2217",
    ],
    notes: &[
        ManualNote::Code("Configuration file", "toml", examples::CONFIGURATION),
        ManualNote::Code("FTP user file", "toml", examples::FTP_USER_FILE),
        ManualNote::Code("User file for logins", "toml", examples::LOGIN_USER_FILE),
    ],
    exit_status: &[
        (0, "Stopped by a signal"),
        (2, "Invalid arguments or configuration"),
        (4, "Local error, such as permission denied or address in use"),
    ],
    environment: &[
        &[
            STATE,
            (
                "STATE_DIRECTORY",
                "State directory of the service, set by StateDirectory= of systemd",
            ),
            RUNTIME,
            (
                "RUNTIME_DIRECTORY",
                "Directory of the socket of the meters, set by RuntimeDirectory= of systemd",
            ),
        ],
        &[
            ("HOME", "Home directory; also passed to a program that runs without a user"),
            ("LANG, LC_ALL, TZ", "Passed to the programs of the sessions"),
            (
                "PLUMB_NO_RECORD",
                "Unless empty, 0, n, no, f, false or off, do not record the transfers, as \
                 --no-record",
            ),
            ("PLUMB_METER", "off disables the meters, for benchmarks"),
        ],
    ],
    files: &[
        &[
            (
                "~/.local/state/plumb/certificate.pem, key.pem",
                "Certificate that is generated at the first start; of the packaged service: in \
                 /var/lib/plumb",
            ),
            (
                "~/.local/state/plumb/transfers/journal/",
                "Records of the transfers, in JSON; of the packaged service: in /var/lib/plumb",
            ),
            ("/etc/plumb/serve.toml", "Configuration of the packaged service, plumb-serve.toml(5)"),
            (
                "/usr/share/doc/plumbline/docs/tutorials/run-as-a-service.md",
                "Walk-through for operators of the packaged service",
            ),
            ("/etc/motd", "Message of the day, unless the configuration names another file"),
            ("/etc/shells", "Login shells that a user of --ftp-system-users may have"),
            ("/etc/ftpusers", "Users that --ftp-system-users rejects"),
        ],
        METERS,
    ],
    see_also: &["login", "get", "put", "meters", "stats"],
};
