//! Reference of each command besides its options: examples, exit status, environment variables,
//! files and related pages.
//!
//! The help, the manual pages and the pages in docs/commands are generated from this table and from
//! the definition of the arguments.

use crate::serve;

/// Name of the program, and of the page about all commands.
pub(super) const PROGRAM: &str = "plumb";

/// Environment variable or file, and its meaning.
pub(super) type ManualEntry = (&'static str, &'static str);

/// Further section of a page: a text, or lines of a file or of an input.
#[derive(Debug)]
pub(super) enum Note {
    /// Title and paragraphs.
    Text(&'static str, &'static str),
    /// Title, language and lines.
    Code(&'static str, &'static str, &'static str),
}

/// Reference of one command.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name of the command, `plumb` for the program itself.
    pub(super) command: &'static str,
    /// Two to five commands for a shell.
    pub(super) examples: &'static [&'static str],
    /// Further sections.
    pub(super) notes: &'static [Note],
    /// Exit codes and their meaning.
    pub(super) exit_status: &'static [(u8, &'static str)],
    /// Groups of environment variables.
    pub(super) environment: &'static [&'static [ManualEntry]],
    /// Groups of files.
    pub(super) files: &'static [&'static [ManualEntry]],
    /// Related commands.
    pub(super) see_also: &'static [&'static str],
}

impl Page {
    /// Returns the text after the options in the help of `-h`.
    pub(crate) fn short_help(&self) -> String {
        let examples: String =
            self.examples.iter().map(|example| format!("\n  {example}")).collect();
        format!("Examples:{examples}")
    }

    /// Returns the text after the options in the help of `--help`.
    pub(crate) fn long_help(&self) -> String {
        let mut text = self.short_help();
        for note in self.notes {
            text += &match note {
                Note::Text(title, paragraphs) => format!("\n\n{title}:\n{paragraphs}"),
                Note::Code(title, _, lines) => {
                    let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
                    format!("\n\n{title}:{lines}")
                }
            };
        }
        text += "\n\nExit status:";
        for (code, meaning) in self.exit_status {
            text += &format!("\n  {code}  {meaning}");
        }
        text
    }
}

/// Returns the page of the command `name`.
pub(crate) fn page(name: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.command == name)
}

const STATE: ManualEntry = (
    "XDG_STATE_HOME",
    "Base directory for persistent state; plumb uses its subdirectory plumb [default: \
        ~/.local/state, or /var/lib for root]",
);
const HOME: ManualEntry =
    ("HOME", "Home directory, which contains the other directories by default");
const RUNTIME: ManualEntry = (
    "XDG_RUNTIME_DIR",
    "Base directory for the sockets of the meters; plumb uses its subdirectory plumb [default: /run \
     for root, or /run/user/UID]",
);
const COLUMNS: ManualEntry =
    ("COLUMNS", "Width of the output, if the standard output is not a terminal [default: 80]");

/// Variables of the client for Telnet.
const LOGIN_VARIABLES: &[ManualEntry] = &[
    STATE,
    RUNTIME,
    HOME,
    ("PLUMB_PPP_PASSWORD", "Password for PPP, with user= in --via"),
    ("PLUMB_METER", "off disables the meters, for benchmarks"),
];
/// Variables that determine what is sent to the terminal.
const TERMINAL_VARIABLES: &[ManualEntry] = &[
    ("TERM", "Terminal type; linux selects the filter for the Linux console"),
    ("LC_ALL, LC_CTYPE, LANG", "Locale; determines the character set of the terminal"),
];
/// Variables that determine the format of a report.
const REPORT_VARIABLES: &[ManualEntry] = &[
    COLUMNS,
    ("NO_COLOR", "Unless empty, print no colors"),
    ("TERM", "dumb disables colors"),
    ("LC_ALL, LC_CTYPE, LANG", "Locale; determines the character set of the output"),
];
/// Variables of the clients for FTP and TFTP.
const FILE_VARIABLES: &[ManualEntry] = &[
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
const CONFIGURATION_VARIABLE: &[ManualEntry] =
    &[("XDG_CONFIG_HOME", "Directory of the configuration [default: ~/.config]")];

const KNOWN_HOSTS: &[ManualEntry] = &[(
    "~/.local/state/plumb/known_hosts",
    "Certificates of servers, saved at the first connection",
)];
const JOURNAL: &[ManualEntry] =
    &[("~/.local/state/plumb/transfers/journal/", "Records of the transfers, in JSON")];
const STORE: &[ManualEntry] = &[(
    "~/.local/state/plumb/transfers/transfers.sqlite",
    "Store of the records, updated from the journal",
)];
const NETRC: &[ManualEntry] = &[(
    "~/.netrc",
    "User names and passwords of FTP servers; a file with passwords must not be readable by others",
)];
const CONFIGURATION: &[ManualEntry] =
    &[("~/.config/plumb/config.toml", "Data types and word formats of hosts")];
const METERS: &[ManualEntry] = &[(
    "/run/user/UID/plumb/PID.sock",
    "Socket of the meters of a process. For root: /run/plumb/PID.sock. If that directory cannot be \
     created: /tmp/plumb-UID/PID.sock",
)];

/// Exit codes of the commands that change or print remote files.
const REMOTE_FILE_STATUS: &[(u8, &str)] = &[
    (0, "Success"),
    (1, "The server is unreachable, has no such file, or refused the command"),
    (2, "Invalid arguments"),
    (3, "Interrupted"),
    (4, "Local error, such as permission denied"),
];

/// Text about URLs with characters that a shell interprets.
const QUOTES: Note = Note::Text(
    "Quotes",
    "In a shell, put a URL with *, ?, &, ; or brackets in quotes. URLs in --json output and in \
     messages are without user and password.",
);

/// All pages, in the order of the help.
pub(super) const PAGES: &[Page] = &[
    Page {
        command: "plumb",
        examples: &[
            "plumb login mit-multics",
            "plumb measure host",
            "plumb get ftp://ftp.example.net/pub/README",
            "plumb serve --ftp --root /srv/ftp",
            "plumb demo",
        ],
        notes: &[],
        exit_status: &[
            (0, "Success; for a login, either side closed the session"),
            (1, "Remote host unknown, unreachable, refused or reset the connection, or timed out"),
            (2, "Invalid arguments"),
            (3, "Nothing measured, or interrupted"),
            (4, "Local error: permission denied, no such device, disk full"),
            (5, "A script timed out waiting for a match; a script can set another code"),
        ],
        environment: &[&[STATE, RUNTIME, HOME]],
        files: &[KNOWN_HOSTS, JOURNAL, STORE, CONFIGURATION],
        see_also: &["login", "get", "put", "ftp", "measure", "meters", "stats", "serve"],
    },
    Page {
        command: "login",
        examples: &[
            "plumb login mit-multics",
            "plumb login telnets://bbs.example.org",
            "plumb login 'serial:/dev/ttyUSB0?baud=115200'",
            "plumb login --via 'tun:plumb0?address=10.0.0.2' 10.0.0.1",
            "PASSWORD=secret plumb login --env PASSWORD --script nightly.txt host",
        ],
        notes: &[Note::Code(
            "Script",
            "text",
            "timeout 20\n\
             expect /login: $/\n\
             send \"mike\\r\"\n\
             expect /[Pp]assword:/\n\
             send \"${PASSWORD}\\r\"\n\
             if /Last login: (.*)/ timeout 3\n\
             say \"was here: ${1}\"\n\
             end\n\
             on failure exit 9\n\
             expect /\\$ $/\n\
             send \"exit\\r\"\n\
             expect end",
        )],
        exit_status: &[
            (0, "The session was closed"),
            (1, "Remote host unknown, unreachable, refused or reset the connection, or timed out"),
            (2, "Invalid arguments"),
            (4, "Local error, such as permission denied"),
            (5, "A script timed out waiting for a match; a script can set another code"),
        ],
        environment: &[LOGIN_VARIABLES, TERMINAL_VARIABLES],
        files: &[
            KNOWN_HOSTS,
            METERS,
            &[("/etc/machine-id", "Machine ID from which tap and packet derive their addresses")],
        ],
        see_also: &["replay", "measure", "meters", "serve"],
    },
    Page {
        command: "replay",
        examples: &[
            "plumb replay session.cast",
            "plumb replay --speed 4 --idle-limit 2 session.cast",
            "plumb replay --negotiation session.cast | less -R",
        ],
        notes: &[],
        exit_status: &[
            (0, "The recording was played to its end, or the user quit"),
            (1, "The recording is damaged"),
            (2, "Invalid arguments"),
            (4, "The file cannot be read"),
        ],
        environment: &[TERMINAL_VARIABLES],
        files: &[],
        see_also: &["login"],
    },
    Page {
        command: "get",
        examples: &[
            "plumb get ftp://ftp.example.net/pub/README",
            "plumb get 'ftpes://me@example.net/logs/*.gz' -o logs",
            "plumb get -r -j 4 ftp://example.net/pub/tree .",
            "plumb get --store c36 ftp://example.net/system.exe",
            "plumb get 'tftp://10.0.0.1/motd;mode=netascii' -",
        ],
        notes: &[QUOTES],
        exit_status: &[
            (0, "Downloaded"),
            (1, "The remote host is unreachable, has no such file, refused or timed out"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error: the file cannot be written, or permission denied"),
        ],
        environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
        files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
        see_also: &["put", "mirror", "ftp", "stats"],
    },
    Page {
        command: "put",
        examples: &[
            "plumb put -c image.iso ftpes://me@example.net/images/",
            "plumb put backup.cfg tftp://10.0.0.1/",
            "date | plumb put - 'tftp://10.0.0.1/date;mode=netascii'",
        ],
        notes: &[QUOTES],
        exit_status: &[
            (0, "Uploaded"),
            (1, "The remote host is unreachable, refused or timed out"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error: the file cannot be read, or permission denied"),
        ],
        environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
        files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
        see_also: &["get", "mirror", "ftp", "stats"],
    },
    Page {
        command: "ls",
        examples: &[
            "plumb ls ftp://ftp.example.net/pub/",
            "plumb ls -l 'ftpes://me@example.net/logs/*.gz'",
            "plumb ls --json ftp://example.net/pub/ | jq .size",
        ],
        notes: &[QUOTES],
        exit_status: &[
            (0, "Listed"),
            (1, "The server is unreachable, has no such directory, or nothing matches the pattern"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error, such as permission denied"),
        ],
        environment: &[FILE_VARIABLES],
        files: &[NETRC, KNOWN_HOSTS, JOURNAL],
        see_also: &["get", "cat", "ftp"],
    },
    Page {
        command: "cat",
        examples: &[
            "plumb cat ftp://ftp.example.net/README",
            "plumb cat 'ftp://example.net/motd;type=a' ftp://example.net/news",
            "plumb cat 'ftpes://me@example.net/logs/*.log' | grep error",
        ],
        notes: &[QUOTES],
        exit_status: REMOTE_FILE_STATUS,
        environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
        files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL],
        see_also: &["get", "ls", "ftp"],
    },
    Page {
        command: "rm",
        examples: &[
            "plumb rm ftpes://me@example.net/old.log",
            "plumb rm 'ftpes://me@example.net/logs/*.gz'",
            "plumb rm -r -n ftpes://me@example.net/tree",
            "plumb rm -r ftpes://me@example.net/tree",
        ],
        notes: &[Note::Text(
            "Confirmation",
            "An empty path, the root, and paths that end with '.' or '..' are refused. Before rm \
             removes several files or a directory, it prints their number and, on a terminal, asks \
             for confirmation. With -v, each name is printed. With --json, each name is a JSON line \
             with \"what\", \"name\" and \"kind\".",
        )],
        exit_status: REMOTE_FILE_STATUS,
        environment: &[FILE_VARIABLES],
        files: &[NETRC, KNOWN_HOSTS, JOURNAL],
        see_also: &["ls", "mirror", "ftp"],
    },
    Page {
        command: "mkdir",
        examples: &[
            "plumb mkdir ftpes://me@example.net/new",
            "plumb mkdir -p ftpes://me@example.net/a/b/c",
        ],
        notes: &[],
        exit_status: REMOTE_FILE_STATUS,
        environment: &[FILE_VARIABLES],
        files: &[NETRC, KNOWN_HOSTS, JOURNAL],
        see_also: &["put", "rm", "ftp"],
    },
    Page {
        command: "mv",
        examples: &[
            "plumb mv ftpes://me@example.net/draft.txt final.txt",
            "plumb mv ftpes://me@example.net/in/a out/a",
            "plumb mv ftpes://me@example.net/in/a ftpes://me@example.net/out/a",
        ],
        notes: &[],
        exit_status: REMOTE_FILE_STATUS,
        environment: &[FILE_VARIABLES],
        files: &[NETRC, KNOWN_HOSTS, JOURNAL],
        see_also: &["ls", "rm", "ftp"],
    },
    Page {
        command: "mirror",
        examples: &[
            "plumb mirror ftp://ftp.example.net/pub/tree tree",
            "plumb mirror --delete -n site ftpes://me@example.net/www",
            "plumb mirror -j 4 --exclude .git/ --exclude '*.o' src ftpes://me@example.net/src",
            "plumb mirror --include '*.gz' ftp://example.net/logs logs",
        ],
        notes: &[Note::Text(
            "JSON",
            "With --json, the record of each transferred file is a line. Each deleted name is a \
             line with \"what\", \"name\" and \"kind\"; with -n, so is each planned action.",
        )],
        exit_status: &[
            (0, "Mirrored"),
            (1, "The server is unreachable, refused or timed out"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error: a file cannot be read or written"),
        ],
        environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
        files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
        see_also: &["get", "put", "stats"],
    },
    Page {
        command: "mail",
        examples: &[
            "plumb mail letter.txt ftp://host.example.net/ann",
            "date | plumb mail - ftpes://me@host.example.net/operator",
        ],
        notes: &[],
        exit_status: &[
            (0, "Delivered"),
            (1, "The server is unreachable, has no such mailbox, or accepts no mail"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error: the text cannot be read"),
        ],
        environment: &[FILE_VARIABLES],
        files: &[NETRC, KNOWN_HOSTS, JOURNAL],
        see_also: &["put", "serve"],
    },
    Page {
        command: "ftp",
        examples: &[
            "plumb ftp ftp.example.net",
            "plumb ftp ftpes://me@example.net/logs",
            "printf 'cd pub\\nmget *.gz\\n' | plumb ftp ftp.example.net",
        ],
        notes: &[Note::Code(
            "Commands at the prompt",
            "text",
            "ls -l *.gz                   mget *.gz\n\
             cd '/a directory'             put -c image.iso images/\n\
             type L36                     store c36\n\
             chmod 644 notes              quote SITE HELP\n\
             lls -l                       !make",
        )],
        exit_status: &[
            (0, "The session ended"),
            (1, "The server is unreachable or refused the login"),
            (2, "Invalid arguments"),
            (3, "Ended by a signal"),
            (4, "Local error, such as permission denied"),
        ],
        environment: &[
            FILE_VARIABLES,
            CONFIGURATION_VARIABLE,
            &[("SHELL", "Shell for ! and lls [default: /bin/sh]")],
        ],
        files: &[
            NETRC,
            CONFIGURATION,
            &[("~/.local/state/plumb/ftp_history", "Commands of earlier sessions")],
            KNOWN_HOSTS,
            JOURNAL,
            METERS,
        ],
        see_also: &["get", "put", "ls", "mirror"],
    },
    Page {
        command: "measure",
        examples: &[
            "plumb measure host",
            "plumb measure --user me --html report.html telnets://host",
            "plumb measure --bytes 4M --estimate 10G ftp://ftp.example.net/pub/image.iso",
            "plumb measure --pattern 'serial:/dev/ttyUSB0?baud=115200'",
            "plumb measure --every 60s --for 1h --json host",
        ],
        notes: &[],
        exit_status: &[
            (0, "Measured"),
            (1, "Remote host unknown, unreachable, refused or reset the connection, or timed out"),
            (2, "Invalid arguments"),
            (3, "Nothing measured, or interrupted"),
            (4, "Local error, such as permission denied"),
        ],
        environment: &[
            &[
                ("PLUMB_PASSWORD", "Password of --user at a login prompt"),
                ("PLUMB_FTP_PASSWORD", "Password for the FTP server, if the URL has none"),
                ("NETRC", "File with user names and passwords [default: ~/.netrc]"),
            ],
            LOGIN_VARIABLES,
            REPORT_VARIABLES,
        ],
        files: &[NETRC, KNOWN_HOSTS, METERS],
        see_also: &["login", "get", "meters", "demo"],
    },
    Page {
        command: "meters",
        examples: &[
            "plumb meters",
            "plumb meters --list",
            "plumb meters 4711 --every 500ms",
            "plumb meters --json | jq .all.primitives",
        ],
        notes: &[],
        exit_status: &[
            (0, "Success"),
            (2, "Invalid arguments, or several plumb processes match"),
            (3, "No plumb process publishes meters"),
            (4, "Local error, such as permission denied"),
        ],
        environment: &[&[RUNTIME, COLUMNS]],
        files: &[METERS],
        see_also: &["serve", "login", "measure"],
    },
    Page {
        command: "stats",
        examples: &[
            "plumb stats",
            "plumb stats list --since 7d --host 'mit-*'",
            "plumb stats percentiles limits --by host,day",
            "plumb stats cost --cpu-hour 0.05 --gigabyte 0.09",
            "plumb stats --export transfers.parquet",
        ],
        notes: &[],
        exit_status: &[
            (0, "Success"),
            (2, "Invalid arguments"),
            (3, "No matching transfers"),
            (4, "The store cannot be read"),
        ],
        environment: &[&[STATE, HOME, COLUMNS]],
        files: &[JOURNAL, STORE],
        see_also: &["get", "put", "serve"],
    },
    Page {
        command: "serve",
        examples: &[
            "plumb serve --check --config /etc/plumb/serve.toml",
            "plumb serve --listen 127.0.0.1:2323 --exec bash",
            "plumb serve --listen-tls '[::]:992' --allow 10.0.0.0/8 --users /etc/plumb/users.toml",
            "plumb serve --ftp --root /srv/ftp --ftp-listen '[::]:21' --ftp-tls required",
            "plumb serve --console '/dev/ttyUSB0?baud=115200' --listen 127.0.0.1:2217",
        ],
        notes: &[
            Note::Code("Configuration file", "toml", serve::examples::CONFIGURATION),
            Note::Code("FTP user file", "toml", serve::examples::FTP_USER_FILE),
            Note::Code("User file for logins", "toml", serve::examples::LOGIN_USER_FILE),
        ],
        exit_status: &[
            (0, "Stopped by a signal"),
            (2, "Invalid arguments or configuration"),
            (4, "Local error, such as permission denied or address in use"),
        ],
        environment: &[
            &[STATE, RUNTIME],
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
                    "/var/lib/plumb/certificate.pem, key.pem",
                    "Certificate that is generated at the first start; in ~/.local/state/plumb \
                     without root",
                ),
                (
                    "/var/lib/plumb/transfers/journal/",
                    "Records of the transfers, in JSON; in ~/.local/state/plumb without root",
                ),
                ("/etc/motd", "Message of the day, unless the configuration names another file"),
                ("/etc/shells", "Login shells that a user of --ftp-system-users may have"),
                ("/etc/ftpusers", "Users that --ftp-system-users rejects"),
            ],
            METERS,
        ],
        see_also: &["login", "get", "put", "meters", "stats"],
    },
    Page {
        command: "lab",
        examples: &[
            "plumb lab tm233",
            "plumb lab tm233 --print-scenario > mine.toml",
            "plumb lab tm233 --scenario mine.toml --json",
            "plumb lab rfc573 --print-scenario | grep -A 3 strata",
        ],
        notes: &[],
        exit_status: &[
            (0, "Success"),
            (2, "Invalid arguments or scenario"),
            (3, "An experiment stalled"),
            (4, "The scenario cannot be read"),
        ],
        environment: &[&[COLUMNS, STATE, HOME]],
        files: &[JOURNAL, STORE],
        see_also: &["demo", "stats"],
    },
    Page {
        command: "demo",
        examples: &["plumb demo", "plumb demo --html report.html"],
        notes: &[],
        exit_status: &[
            (0, "Success"),
            (2, "Invalid arguments"),
            (3, "Interrupted"),
            (4, "Local error, such as no Telnet server on this machine"),
        ],
        environment: &[
            &[(
                "PATH",
                "Directories of Telnet servers, besides /usr/sbin, /sbin, /usr/bin and /bin",
            )],
            REPORT_VARIABLES,
        ],
        files: &[&[("plumbline-report.html", "Report, in the current directory")]],
        see_also: &["login", "measure", "lab"],
    },
    Page {
        command: "manual",
        examples: &["plumb manual ~/.local/share/plumb", "man -M ~/.local/share/plumb plumb-login"],
        notes: &[],
        exit_status: &[
            (0, "Success"),
            (2, "Invalid arguments"),
            (4, "The files cannot be written"),
        ],
        environment: &[],
        files: &[&[
            ("man1/plumb.1, man1/plumb-login.1, ...", "Manual pages, in the directory"),
            (
                "plumb.bash, _plumb, plumb.fish",
                "Completions for bash, zsh and fish, in the directory",
            ),
        ]],
        see_also: &[],
    },
];
