//! Text about a transfer in a format that the user gives, with the variables of curl's
//! `--write-out` that apply to FTP.
//!
//! All times are counted from the start of the transfer, in seconds with six decimals. If a transfer
//! uses a session that is already open, the times of opening a session are 0, as in curl.

use anyhow::{Result, bail};
use records::transfer::{Time, Transfer, derived};
use std::str::FromStr;

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOut(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    FilenameEffective,
    ResponseCode,
    SizeDownload,
    SizeUpload,
    SpeedDownload,
    SpeedUpload,
    TimeAppconnect,
    TimeConnect,
    TimeNamelookup,
    TimeStarttransfer,
    TimeTotal,
    UrlEffective,
}

/// Names of the variables.
const VARIABLES: [(&str, Variable); 12] = [
    ("filename_effective", Variable::FilenameEffective),
    ("response_code", Variable::ResponseCode),
    ("size_download", Variable::SizeDownload),
    ("size_upload", Variable::SizeUpload),
    ("speed_download", Variable::SpeedDownload),
    ("speed_upload", Variable::SpeedUpload),
    ("time_appconnect", Variable::TimeAppconnect),
    ("time_connect", Variable::TimeConnect),
    ("time_namelookup", Variable::TimeNamelookup),
    ("time_starttransfer", Variable::TimeStarttransfer),
    ("time_total", Variable::TimeTotal),
    ("url_effective", Variable::UrlEffective),
];

impl FromStr for WriteOut {
    type Err = anyhow::Error;

    /// Parses `%{variable}`, `%%` and the escapes `\n`, `\r`, `\t` and `\\`.
    fn from_str(format: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(letter) = rest.next() {
            let following = rest.as_str();
            match letter {
                '\\' => text.push(match rest.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => '\\',
                }),
                '%' if following.starts_with('{') => {
                    let Some((name, after)) = following[1..].split_once('}') else {
                        bail!("'%{}' has no closing brace", following.escape_debug());
                    };
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Variable(variable(name)?));
                    rest = after.chars();
                }
                '%' if following.starts_with('%') => text.extend(rest.next()),
                other => text.push(other),
            }
        }
        parts.push(Part::Text(text));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self(parts))
    }
}

fn variable(name: &str) -> Result<Variable> {
    match VARIABLES.iter().find(|(known, _)| *known == name) {
        Some((_, variable)) => Ok(*variable),
        None => {
            let names: Vec<_> = VARIABLES.iter().map(|(name, _)| *name).collect();
            bail!("unknown variable '{}': use {}", name.escape_debug(), names.join(", "))
        }
    }
}

impl WriteOut {
    /// Returns the text about the transfer of `url` from or to the local `file`.
    pub fn text(&self, transfer: &Transfer, is_download: bool, url: &str, file: &str) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(Variable::FilenameEffective) => file.to_owned(),
            Part::Variable(Variable::UrlEffective) => url.to_owned(),
            Part::Variable(variable) => value(*variable, transfer, is_download),
        });
        parts.collect()
    }
}

fn value(variable: Variable, transfer: &Transfer, is_download: bool) -> String {
    let offsets = Offsets::of(&transfer.time);
    let bytes = transfer.size.file_bytes.unwrap_or(0);
    let rate = derived::rate_bps(bytes.saturating_mul(8), offsets.total_ns).unwrap_or(0) / 8;
    let if_direction = |is_meant: bool, number: u64| if is_meant { number } else { 0 }.to_string();
    let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000);
    match variable {
        Variable::SizeDownload => if_direction(is_download, bytes),
        Variable::SizeUpload => if_direction(!is_download, bytes),
        Variable::SpeedDownload => if_direction(is_download, rate),
        Variable::SpeedUpload => if_direction(!is_download, rate),
        Variable::ResponseCode => format!("{:03}", transfer.result.final_reply.unwrap_or(0)),
        Variable::TimeNamelookup => seconds(offsets.resolved_ns),
        Variable::TimeConnect => seconds(offsets.connected_ns),
        Variable::TimeAppconnect => seconds(offsets.tls_ns),
        Variable::TimeStarttransfer => seconds(offsets.first_byte_ns),
        Variable::TimeTotal => seconds(offsets.total_ns),
        Variable::FilenameEffective | Variable::UrlEffective => String::new(),
    }
}

/// Times since the start of a transfer, in nanoseconds; 0 for a step that the transfer did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offsets {
    resolved_ns: u64,
    connected_ns: u64,
    tls_ns: u64,
    first_byte_ns: u64,
    total_ns: u64,
}

impl Offsets {
    fn of(time: &Time) -> Self {
        let resolved_ns = time.resolve_ns.unwrap_or(0);
        let connected_ns = time.control_connect_ns.map_or(0, |ns| resolved_ns.saturating_add(ns));
        let tls_ns = time.control_tls_ns.map_or(0, |ns| connected_ns.saturating_add(ns));
        // The record of a transfer begins after the name was resolved.
        let total_ns = resolved_ns.saturating_add(time.total_ns.unwrap_or(0)).max(connected_ns);
        let after_first_byte = |ns: u64| ns.saturating_add(time.last_byte_to_226_ns.unwrap_or(0));
        let first_byte_ns =
            time.transfer_ns.map_or(0, |ns| total_ns.saturating_sub(after_first_byte(ns)));
        Self { resolved_ns, connected_ns, tls_ns, first_byte_ns, total_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use records::transfer::Identifier;

    fn transfer() -> Transfer {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.size.file_bytes = Some(1_000);
        transfer.result.final_reply = Some(226);
        let time = &mut transfer.time;
        time.resolve_ns = Some(1_000_000);
        time.control_connect_ns = Some(2_000_000);
        time.total_ns = Some(499_000_000);
        time.transfer_ns = Some(90_000_000);
        time.last_byte_to_226_ns = Some(10_000_000);
        transfer
    }

    fn text(format: &str, is_download: bool) -> String {
        let format: WriteOut = format.parse().unwrap();
        format.text(&transfer(), is_download, "ftp://a/b", "b")
    }

    #[test]
    fn sizes_and_rates_belong_to_their_direction() {
        let format = "%{size_download} %{speed_download} %{size_upload} %{speed_upload}";
        assert_eq!(text(format, true), "1000 2000 0 0");
        assert_eq!(text(format, false), "0 0 1000 2000");
    }

    #[test]
    fn times_are_counted_from_the_start_of_the_transfer() {
        let format = "%{time_namelookup} %{time_connect} %{time_appconnect} %{time_starttransfer} \
                      %{time_total}";
        assert_eq!(text(format, true), "0.001000 0.003000 0.000000 0.400000 0.500000");
    }

    #[test]
    fn escapes_and_names_are_replaced() {
        let format = r"%%{x}\t%{url_effective}\n%{filename_effective}\\%{response_code}%";
        assert_eq!(text(format, true), "%{x}\tftp://a/b\nb\\226%");
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_known_ones() {
        let error = "%{http_code}".parse::<WriteOut>().unwrap_err().to_string();
        assert!(error.starts_with("unknown variable 'http_code': use filename_"), "{error}");
        assert!("%{time_total".parse::<WriteOut>().is_err());
    }

    proptest! {
        #[test]
        fn a_text_without_escapes_is_printed_unchanged(format in "[^%\\\\]{0,40}") {
            prop_assert_eq!(text(&format, true), format);
        }
    }
}
