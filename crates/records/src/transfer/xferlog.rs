//! Conversion of a record to a line of xferlog, for programs that read no other format.
//!
//! The format is that of the FTP servers of the 1990s: space-separated fields, whole seconds, no
//! CPU time. The conversion is lossy: spaces and controls in a name become `_`, and unknown values
//! become 0 or `*`, because the format has no other representation.

use super::enums::{Command, Outcome, Type};
use super::schema::Transfer;
use crate::calendar::Moment;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Returns `transfer` as a line of xferlog, with its newline.
#[must_use]
pub fn line(transfer: &Transfer) -> String {
    let start_unix_ns = transfer.time.start_unix_ns.unwrap_or(0);
    let at = Moment::of(start_unix_ns.saturating_add(transfer.time.total_ns.unwrap_or(0)));
    let month = MONTHS.get(usize::from(at.month) - 1).copied();
    let seconds = transfer.real_ns().unwrap_or(0) / 1_000_000_000;
    let bytes = transfer.size.file_bytes.or(transfer.bits().map(|bits| bits.div_ceil(8)));
    let path = transfer.request.path_real.as_ref().or(transfer.request.path_requested.as_ref());
    let user = transfer.identity.user.as_ref().map(|user| user.as_bytes());
    let is_anonymous = user.is_some_and(|user| user == b"anonymous" || user == b"ftp");
    let is_out = transfer.is_sending() == Some(true);
    let service = match transfer.request.command {
        Some(Command::TftpRrq | Command::TftpWrq) => "tftp",
        Some(Command::ZmodemReceive | Command::ZmodemSend) => "zmodem",
        Some(Command::YmodemReceive | Command::YmodemSend) => "ymodem",
        Some(Command::XmodemReceive | Command::XmodemSend) => "xmodem",
        _ => "ftp",
    };
    format!(
        "{} {} {:2} {} {} {seconds} {} {} {} {} _ {} {} {} {} 0 * {}\n",
        at.weekday(),
        month.unwrap_or("Jan"),
        at.day,
        at.time(),
        at.year,
        field(&transfer.remote_host().unwrap_or_default()),
        bytes.unwrap_or(0),
        field(path.map(|path| path.as_bytes()).unwrap_or_default()),
        if transfer.request.representation == Some(Type::Ascii) { 'a' } else { 'b' },
        if is_out { 'o' } else { 'i' },
        if is_anonymous { 'a' } else { 'r' },
        field(user.unwrap_or_default()),
        service,
        if transfer.result.outcome == Some(Outcome::Complete) { 'c' } else { 'i' },
    )
}

/// Returns `bytes` as one field of the line.
fn field(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    let field: String = text.chars().map(|c| if is_odd(c) { '_' } else { c }).collect();
    if field.is_empty() { "*".to_owned() } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Identifier, Role, Text};

    #[test]
    fn a_download_is_a_line_of_eighteen_fields() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::Server);
        transfer.identity.remote_name = Some(Text::from("ml.example"));
        transfer.identity.user = Some(Text::from("akb"));
        transfer.request.command = Some(Command::Retr);
        transfer.request.representation = Some(Type::Image);
        transfer.request.path_real = Some(Text::from("/pub/a file\n"));
        transfer.result.outcome = Some(Outcome::Complete);
        transfer.size.file_bytes = Some(6_336);
        transfer.time.start_unix_ns = Some(114_274_874_000_000_000);
        transfer.time.total_ns = Some(5_200_000_000);
        let expected =
            "Wed Aug 15 15:01:19 1973 5 ml.example 6336 /pub/a_file_ b _ o r akb ftp 0 * c\n";
        assert_eq!(line(&transfer), expected);
    }

    #[test]
    fn an_empty_record_is_a_line() {
        let line = line(&Transfer::new(Identifier(1)));
        assert_eq!(line, "Thu Jan  1 00:00:00 1970 0 * 0 * b _ i r * ftp 0 * i\n");
    }

    #[test]
    fn each_month_direction_and_program_has_its_field() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::User);
        transfer.identity.user = Some(Text::from("ftp"));
        transfer.request.command = Some(Command::TftpWrq);
        transfer.request.representation = Some(Type::Ascii);
        transfer.request.path_requested = Some(Text::from("a"));
        transfer.size.bits = Some(9);
        transfer.time.transfer_ns = Some(1_999_999_999);
        let months: Vec<String> = (0..12_u64)
            .map(|month| {
                transfer.time.start_unix_ns =
                    Some(month * 2_629_800_000_000_000 + 864_000_000_000_000);
                line(&transfer).split(' ').nth(1).unwrap().to_owned()
            })
            .collect();
        assert_eq!(months, MONTHS);
        transfer.time.start_unix_ns = None;
        assert_eq!(line(&transfer), "Thu Jan  1 00:00:00 1970 1 * 2 a a _ o a ftp tftp 0 * i\n");
        transfer.request.command = Some(Command::TftpRrq);
        transfer.identity.user = Some(Text::from("anonymous"));
        assert_eq!(
            line(&transfer),
            "Thu Jan  1 00:00:00 1970 1 * 2 a a _ i a anonymous tftp 0 * i\n"
        );
    }

    #[test]
    fn a_line_has_the_whole_second_of_its_end() {
        let second = |start, total| {
            let mut transfer = Transfer::new(Identifier(1));
            transfer.time.start_unix_ns = start;
            transfer.time.total_ns = total;
            line(&transfer).split(' ').nth(4).unwrap().to_owned()
        };
        assert_eq!(second(Some(999_999_999), None), "00:00:00");
        assert_eq!(second(None, Some(999_999_999)), "00:00:00");
        assert_eq!(second(Some(1), Some(999_999_999)), "00:00:01");
    }
}
