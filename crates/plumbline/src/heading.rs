//! Headings of the groups of options in the help, the same for every command.

/// Route, addresses, timeouts and credentials of a connection.
pub(crate) const CONNECTION: &str = "Connection";
/// Encryption and certificates.
pub(crate) const TLS: &str = "TLS";
/// Telnet protocol.
pub(crate) const TELNET: &str = "Telnet";
/// Keys and the encoding of typed text.
pub(crate) const INPUT: &str = "Input";
/// Terminal of the user.
pub(crate) const TERMINAL: &str = "Terminal";
/// Scripts of a login.
pub(crate) const SCRIPT: &str = "Script";
/// Login prompts, and the sessions after a login.
pub(crate) const LOGIN: &str = "Login";
/// Transfer of files.
pub(crate) const TRANSFER: &str = "Transfer";
/// Representation of files in a transfer by FTP.
pub(crate) const REPRESENTATION: &str = "Representation (FTP)";
/// Options of FTP only.
pub(crate) const FTP: &str = "FTP";
/// Options of TFTP only.
pub(crate) const TFTP: &str = "TFTP";
/// Directory of a file server.
pub(crate) const FILES: &str = "Files";
/// Repeated measurements.
pub(crate) const SERIES: &str = "Series";
/// Selection of records.
pub(crate) const SELECTION: &str = "Selection";
/// Limits of a server.
pub(crate) const LIMITS: &str = "Limits";
/// Routing without translation.
pub(crate) const ROUTING: &str = "Routing";
/// Records, recordings and logs.
pub(crate) const RECORDS: &str = "Records";
/// Meters and metrics of a running program.
pub(crate) const METERS: &str = "Meters";
/// Amount and format of the output.
pub(crate) const OUTPUT: &str = "Output";
