//! Entries of several manual pages: environment variables, files, and a note.

use super::page::{ManualEntry, ManualNote};

/// Exit codes of all commands.
pub(crate) const EXIT_STATUS: &[(u8, &str)] = &[
    (0, "Success; for a login, either side closed the session"),
    (1, "Remote host unknown, unreachable, refused, reset or timed out, or no such file"),
    (2, "Invalid arguments, a directory without -r, or an existing file without -f"),
    (3, "Nothing measured or found, or not confirmed"),
    (4, "Local error: permission denied, no such device, disk full"),
    (5, "A script timed out waiting for a match; a script can set another code"),
    (129, "Ended by SIGHUP"),
    (130, "Ended by SIGINT (Ctrl-C)"),
    (141, "The reader of the standard output has closed the pipe; no message"),
    (143, "Ended by SIGTERM"),
];

/// Directory of persistent state.
pub(crate) const STATE: ManualEntry = (
    "XDG_STATE_HOME",
    "Base directory for persistent state; plumb uses its subdirectory plumb [default: \
        ~/.local/state]",
);
/// Home directory.
pub(crate) const HOME: ManualEntry =
    ("HOME", "Home directory, which contains the other directories by default");
/// Directory of sockets.
pub(crate) const RUNTIME: ManualEntry = (
    "XDG_RUNTIME_DIR",
    "Base directory for the sockets of the meters; plumb uses its subdirectory plumb [default: /run \
     for root, or /run/user/UID]",
);
/// Width of the output.
pub(crate) const COLUMNS: ManualEntry =
    ("COLUMNS", "Width of the output, if the standard output is not a terminal [default: 80]");
/// Width of tables, which have no limit in a pipe or a file.
pub(crate) const TABLE_COLUMNS: ManualEntry = (
    "COLUMNS",
    "Width of the output, if the standard output is not a terminal [default: one line per row]",
);

/// Variables of the client for Telnet.
pub(crate) const LOGIN_VARIABLES: &[ManualEntry] = &[
    STATE,
    RUNTIME,
    HOME,
    ("PLUMB_PPP_PASSWORD", "Password for PPP, with user= in --via"),
    ("PLUMB_METER", "off disables the meters, for benchmarks"),
];
/// Variables that determine what is sent to the terminal.
pub(crate) const TERMINAL_VARIABLES: &[ManualEntry] = &[
    ("TERM", "Terminal type; linux selects the filter for the Linux console"),
    ("LC_ALL, LC_CTYPE, LANG", "Locale; determines the character set of the terminal"),
];
/// Variables that determine the format of a report.
pub(crate) const REPORT_VARIABLES: &[ManualEntry] = &[
    COLUMNS,
    ("NO_COLOR", "Unless empty, print no colors"),
    ("TERM", "dumb disables colors"),
    ("LC_ALL, LC_CTYPE, LANG", "Locale; determines the character set of the output"),
];
/// Variables of the clients for FTP and TFTP.
pub(crate) const FILE_VARIABLES: &[ManualEntry] = &[
    ("PLUMB_FTP_PASSWORD", "Password for the FTP server, if the URL has none"),
    ("NETRC", "File with user names and passwords [default: ~/.netrc]"),
    (
        "PLUMB_NO_RECORD",
        "Same as --no-record, if set to a value other than 0, n, no, f, false, off or the empty string",
    ),
    STATE,
    RUNTIME,
    HOME,
    ("PLUMB_METER", "off disables the meters, for benchmarks"),
];
/// Variable that determines the directory of the configuration.
pub(crate) const CONFIGURATION_VARIABLE: &[ManualEntry] =
    &[("XDG_CONFIG_HOME", "Directory of the configuration [default: ~/.config]")];

/// File of certificates.
pub(crate) const KNOWN_HOSTS: &[ManualEntry] = &[(
    "~/.local/state/plumb/known_hosts",
    "Certificates of servers, saved at the first connection",
)];
/// Journal of the transfers.
pub(crate) const JOURNAL: &[ManualEntry] =
    &[("~/.local/state/plumb/transfers/journal/", "Records of the transfers, in JSON")];
/// Store of the transfers.
pub(crate) const STORE: &[ManualEntry] = &[(
    "~/.local/state/plumb/transfers/transfers.sqlite",
    "Store of the records, updated from the journal",
)];
/// File of passwords for FTP.
pub(crate) const NETRC: &[ManualEntry] = &[(
    "~/.netrc",
    "User names and passwords of FTP servers; a file with passwords must not be readable by others",
)];
/// Configuration file of the clients.
pub(crate) const CONFIGURATION: &[ManualEntry] = &[(
    "~/.config/plumb/config.toml",
    "Login destinations and options, data types and word formats of hosts",
)];
/// Socket of the meters.
pub(crate) const METERS: &[ManualEntry] = &[(
    "/run/user/UID/plumb/PID.sock",
    "Socket of the meters of a process. Of a service and of root: /run/plumb/PID.sock; of \
     plumb-login.service: /run/plumb-login/PID.sock. If that directory cannot be created: /tmp/plumb-UID/PID.sock",
)];

/// Text about URLs with characters that a shell interprets.
pub(crate) const QUOTES: ManualNote = ManualNote::Text(
    "Quotes",
    "In a shell, put a URL with *, ?, &, ; or brackets in quotes. URLs in --json output and in \
     messages are without user and password.",
);
