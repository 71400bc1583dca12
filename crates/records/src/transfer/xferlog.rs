//! Conversion of a record to a line of xferlog, for programs that read nothing else.
//!
//! The format is that of the FTP servers of the 1990s: space-separated fields, whole seconds, no
//! CPU time. The conversion is lossy: spaces and controls in a name become `_`, and unknown values
//! become 0 or `*`, because the format has nothing else.

use super::schema::Transfer;
use super::words::{Command, Outcome, Type};
use crate::calendar::Moment;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Returns `transfer` as a line of xferlog, with its newline.
#[must_use]
pub fn line(transfer: &Transfer) -> String {
    let began_unix_ns = transfer.time.t_start_unix_ns.unwrap_or(0);
    let at = Moment::of(began_unix_ns.saturating_add(transfer.time.ns_total.unwrap_or(0)));
    let month = MONTHS.get(usize::from(at.month) - 1).copied();
    let seconds = transfer.real_ns().unwrap_or(0) / 1_000_000_000;
    let bytes = transfer.size.file_bytes.or(transfer.bits().map(|bits| bits.div_ceil(8)));
    let path = transfer.request.path_real.as_ref().or(transfer.request.path_requested.as_ref());
    let user = transfer.identity.user.as_ref().map(|user| user.as_bytes());
    let is_anonymous = user.is_some_and(|user| user == b"anonymous" || user == b"ftp");
    let is_out = transfer.is_sending() == Some(true);
    let is_tftp = matches!(transfer.request.command, Some(Command::TftpRrq | Command::TftpWrq));
    format!(
        "{} {} {:2} {} {} {seconds} {} {} {} {} _ {} {} {} {} 0 * {}\n",
        at.weekday(),
        month.unwrap_or("Jan"),
        at.day,
        at.time(),
        at.year,
        word(&transfer.far_host().unwrap_or_default()),
        bytes.unwrap_or(0),
        word(path.map(|path| path.as_bytes()).unwrap_or_default()),
        if transfer.request.representation == Some(Type::Ascii) { 'a' } else { 'b' },
        if is_out { 'o' } else { 'i' },
        if is_anonymous { 'a' } else { 'r' },
        word(user.unwrap_or_default()),
        if is_tftp { "tftp" } else { "ftp" },
        if transfer.result.outcome == Some(Outcome::Complete) { 'c' } else { 'i' },
    )
}

/// Returns `bytes` as one field of the line.
fn word(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    let word: String = text.chars().map(|c| if is_odd(c) { '_' } else { c }).collect();
    if word.is_empty() { "*".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Identifier, Role, Text};

    #[test]
    fn a_download_is_a_line_of_eighteen_words() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::Server);
        transfer.identity.remote_name = Some(Text::from("ml.example"));
        transfer.identity.user = Some(Text::from("akb"));
        transfer.request.command = Some(Command::Retr);
        transfer.request.representation = Some(Type::Image);
        transfer.request.path_real = Some(Text::from("/pub/a file\n"));
        transfer.result.outcome = Some(Outcome::Complete);
        transfer.size.file_bytes = Some(6_336);
        transfer.time.t_start_unix_ns = Some(114_274_874_000_000_000);
        transfer.time.ns_total = Some(5_200_000_000);
        let wanted =
            "Wed Aug 15 15:01:19 1973 5 ml.example 6336 /pub/a_file_ b _ o r akb ftp 0 * c\n";
        assert_eq!(line(&transfer), wanted);
    }

    #[test]
    fn a_record_in_which_nothing_is_known_is_a_line_too() {
        let line = line(&Transfer::new(Identifier(1)));
        assert_eq!(line, "Thu Jan  1 00:00:00 1970 0 * 0 * b _ i r * ftp 0 * i\n");
    }
}
