//! Examples of the configuration file and of the user files, for the documentation.

/// A table of [`CONFIGURATION`] with its comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentedTable {
    /// Header, such as `[login]`; empty for the keys before the first table.
    pub header: &'static str,
    /// Comment at the header.
    pub about: String,
    /// Keys of the table.
    pub keys: Vec<DocumentedKey>,
}

/// A key of [`CONFIGURATION`] with its comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentedKey {
    /// Key and value.
    pub line: &'static str,
    /// Comment; may be empty.
    pub about: String,
}

/// Returns the tables of [`CONFIGURATION`] with their comments.
#[must_use]
pub fn configuration_tables() -> Vec<DocumentedTable> {
    let new_table = |header, about| DocumentedTable { header, about, keys: Vec::new() };
    let mut current = new_table("", String::new());
    let mut tables = Vec::new();
    for line in CONFIGURATION.lines() {
        let (code, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let code = code.trim();
        if code.starts_with('[') {
            let next = new_table(code, comment.to_owned());
            tables.push(std::mem::replace(&mut current, next));
        } else if !code.is_empty() {
            current.keys.push(DocumentedKey { line: code, about: comment.to_owned() });
        } else {
            // A line with only a comment continues the comment of the line before.
            let last = current.keys.last_mut().map(|key| &mut key.about);
            let about = last.unwrap_or(&mut current.about);
            *about = format!("{about} {comment}");
        }
    }
    tables.push(current);
    tables
}

/// A configuration file with every key.
pub const CONFIGURATION: &str = "\
record = true                  # record each transfer by FTP and TFTP for 'plumb stats'
state-directory = \"/var/lib/plumb\" # of the records and of the generated certificate; default:
                               # STATE_DIRECTORY of systemd, or the state directory of the user
log-file = \"/var/log/plumb/serve.log\" # opened again on SIGUSR1 and SIGHUP; default: stderr
log-stderr = false             # also log to standard error, or the journal, if there is a log-file
metrics = \"127.0.0.1:9559\"     # address of Prometheus metrics at /metrics; default: none
metrics-hosts = [\"stats.example.net\"] # further host names accepted in requests
meters-socket = true           # for 'plumb meters'
[login]                        # logins by Telnet
listen = [\"127.0.0.1:23\"]      # in cleartext; default: loopback
listen-tls = [\"[::]:992\"]      # with TLS; default: all addresses, unless listen is given
users = \"/etc/plumb/users.toml\" # user file; default: the system's users, which need root
allow = [\"10.0.0.0/8\", \"2001:db8::/32\"] # prefixes of accepted clients; default: all
deny = [\"10.66.0.0/16\"]        # prefixes of rejected clients, also among those of allow
greeting = \"This is mit-multics.\" # sent before the login
motd = \"/etc/motd\"             # file that is sent after the login
login-timeout-s = 60           # seconds until a client must have logged in
idle-timeout-s = 3600          # seconds without input that end a session; default: never
sessions-max = 1024
sessions-per-source-max = 64   # sessions of one IPv4 address or IPv6 /64 prefix
tls = \"offered\"                # START_TLS; or \"required\", or \"off\"
[tftp]                         # files by TFTP
root = \"/srv/tftp\"             # directory that is served
rights = \"read-only\"           # or write-once, writable
listen = [\"127.0.0.1:69\", \"[::1]:69\"] # default: loopback
allow = [\"10.0.0.0/8\"]         # allowed clients; deny excludes clients
transfers-max = 256
transfers-per-source-max = 32
file-max-bytes = 1000000000    # of an upload; default: no limit
timeout-s = 25                 # seconds without a packet that end a transfer
[ftp]                          # files by FTP
root = \"/srv/ftp\"              # of anonymous users
rights = \"read-only\"           # or write-once, writable, no-delete (also no overwriting
                               # or renaming), drop-box, or a list of rights:
                               # [\"list\", \"read\", \"write\", \"overwrite\", \"append\",
                               # \"delete\", \"rename\", \"mkdir\", \"site\"]
users = \"/etc/plumb/ftp.toml\"  # user file
names = [\"ftp.example.net\"]    # names for HOST, besides the machine's own
listen = [\"[::]:21\"]           # in cleartext and with AUTH TLS; default: loopback
listen-tls = [\"[::]:990\"]      # with implicit TLS; default: none
tls = \"required\"               # or \"offered\", or \"off\"
requires-session-reuse = true  # data connections must resume the TLS session of their
                               # control connection; false accepts clients that cannot (Python's
                               # ftplib, commons-net), and any other client at their addresses
anonymous = true               # default: true without users
anonymous-in-cleartext = false # with tls = \"required\", only other users need TLS
anonymous-allow = [\"10.0.0.0/8\"] # networks of anonymous users; default: all
system-users = true            # users of this machine, authenticated with PAM
pam-service = \"plumb\"          # rules in /etc/pam.d for them; without the file, those of other
root-may-log-in = false        # also accept root among the users of this machine
clear-control = false          # allow CCC to end TLS on the control connection
mail-spool = \"/var/spool/plumb\" # MAIL and MLFL, for users with a directory there; not for
                               # users of an [[ftp.host]]
mail-max-bytes = 4194304       # of one message
mailbox-max-bytes = 67108864   # of all messages of a user
mail-from-anonymous = false
passive-ports = [50000, 50999] # first and last port of data connections; default: any
passive-address = \"192.0.2.1\"  # address announced for data connections, behind NAT
allow = [\"10.0.0.0/8\"]         # allowed clients; deny excludes clients
greeting = \"plumbline FTP server ready\"
sessions-max = 10000
sessions-per-source-max = 1000 # sessions of one IPv4 address or IPv6 /64 prefix
bytes-per-second-max = 10000000 # of each transfer; default: no limit
file-max-bytes = 1000000000    # of an upload; default: no limit
quota-bytes = 1000000000       # of anonymous users; also limits the number of files and
                               # directories to one per 4096 bytes, but at least 1000
anonymous-hash-max-bytes = 4294967296 # hashed by one HASH, XCRC or similar command
login-timeout-s = 60           # seconds until a client must have logged in
idle-timeout-s = 300           # seconds without a command that end a session
data-connect-timeout-s = 30    # seconds to open a data connection
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
aliases = [\"example.org\"]      # further names
root = \"/srv/org\"              # and rights, folders, users, anonymous, quota-bytes, greeting
certificate = \"/etc/plumb/org.pem\" # PEM file; default: that of [tls]
key = \"/etc/plumb/org.key\"     # PEM file
[[console]]                    # serial line, by RFC 2217 and plain Telnet
device = \"/dev/ttyUSB0\"
baud = 9600
listen = [\"127.0.0.1:2217\"]    # and listen-tls, and tls
write = [\"10.0.0.0/8\"]         # clients that may write; default: all
rates = [19200, 115200]        # further rates that the writer may select
free-framing = true            # also data bits, parity, stop bits and flow control
log = \"/var/log/console.log\"   # output of the line
[tls]                          # certificate; default: generated at the first start
certificate = \"/etc/plumb/certificate.pem\" # PEM file with the chain
key = \"/etc/plumb/key.pem\"     # PEM file";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration_file::ConfigurationFile;

    const PACKAGED: &str = include_str!("../../../packaging/serve.toml");

    #[test]
    fn tables_have_their_keys_and_comments_of_several_lines_are_joined() {
        let tables = configuration_tables();
        let headers: Vec<_> = tables.iter().map(|table| table.header).collect();
        let expected = [
            "",
            "[login]",
            "[tftp]",
            "[ftp]",
            "[ftp.word-formats]",
            "[ftp.folders]",
            "[[ftp.host]]",
            "[[console]]",
            "[tls]",
        ];
        assert_eq!(headers, expected);
        let key = |name: &str| {
            let keys = tables.iter().flat_map(|table| &table.keys);
            keys.clone().find(|key| key.line.starts_with(name)).unwrap()
        };
        assert_eq!(key("tls").line, "tls = \"offered\"");
        let about = "an unencrypted upload is undone if its client dies within this time after the \
                     reply; 0 disables this";
        assert_eq!(key("upload-grace-ms").about, about);
        assert!(tables[5].about.ends_with("a link from elsewhere bypasses them"));
    }

    #[test]
    fn the_packaged_configuration_is_valid_with_all_its_comments_and_has_only_known_keys() {
        let uncommented: String = PACKAGED
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => key,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let file: ConfigurationFile = toml::from_str(&uncommented).unwrap();
        assert!(file.login.is_some() && file.tftp.is_some() && file.tls.is_some());
        let delivered: ConfigurationFile = toml::from_str(PACKAGED).unwrap();
        assert!(delivered.login.is_none() && delivered.tftp.is_none() && delivered.ftp.is_some());
    }
}
