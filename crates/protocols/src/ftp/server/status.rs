//! Commands that report on the server: STAT, HELP, FEAT.

use super::*;
use alloc::format;
use alloc::string::{String, ToString as _};

impl Server {
    /// Replies to STAT without a name: the parameters of the session and the progress of a transfer
    /// (RFC 959 §4.1.3).
    pub(super) fn status(&mut self) {
        let Representation { data_type, mode, structure, .. } = self.representation;
        let user = self.user().map_or_else(|| "nobody".into(), Name::to_string);
        let control = if self.is_tls { "in TLS" } else { "in plaintext" };
        let data = match self.protection {
            Protection::Private => "in TLS",
            Protection::Clear => "in plaintext",
        };
        let route = match self.data {
            DataRoute::Default => "none prepared".into(),
            DataRoute::Active(to) => format!("to {to}"),
            DataRoute::Passive { .. } => "waiting for the client".into(),
        };
        let seconds = self.settings.idle_timeout.as_nanos() / 1_000_000_000;
        let mut lines = alloc::vec![
            format!("Status of plumbline {}", env!("CARGO_PKG_VERSION")),
            format!("Connected from {}, control {control}, data {data}", self.peer.ip()),
            format!("Logged in as {user}"),
            format!("TYPE {data_type}, STRU {structure}, MODE {mode}"),
            format!("The session ends after {seconds} s without a command"),
            format!("Data connection: {route}"),
        ];
        if let Some(host) = &self.host {
            lines.push(format!("Host {host}"));
        }
        if self.restart_bytes > 0 {
            lines.push(format!("The next transfer begins at byte {}", self.restart_bytes));
        }
        if let Busy::Transferring(running) = &self.busy {
            let path = String::from_utf8_lossy(&running.transfer.path.to_bytes()).into_owned();
            let bytes = running.wire_bytes;
            let direction = if running.transfer.kind.is_incoming() { "received" } else { "sent" };
            let extent = if running.has_ended() { "in all" } else { "so far" };
            lines.push(format!("Transfer of {path}: {bytes} bytes {direction} {extent}"));
        }
        lines.push("End".into());
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        self.reply_lines(211, &lines);
    }

    pub(super) fn help(&mut self, name: Option<&Name>) {
        if let Some(name) = name {
            return match Verb::from_text(name.as_bytes().trim_ascii()) {
                Some(verb) if verb.is_unimplemented() => {
                    self.reply(214, format!("{} is not implemented", verb.text()).as_bytes());
                }
                Some(verb) => {
                    let text = format!("{} {}", verb.text(), verb.usage());
                    self.reply(214, text.trim_end().as_bytes());
                }
                None => self.reply(502, b"Unknown command"),
            };
        }
        let verb = |verb: &Verb| {
            let mark = if verb.is_unimplemented() { "*" } else { "" };
            format!("{}{mark}", verb.text())
        };
        let verbs: Vec<String> = Verb::ALL.iter().map(verb).collect();
        let rows: Vec<String> = verbs.chunks(8).map(|row| row.join(" ")).collect();
        let mut lines: Vec<&[u8]> = alloc::vec![b"Commands (* is not implemented):".as_slice()];
        lines.extend(rows.iter().map(String::as_bytes));
        lines.push(b"HELP command shows its syntax");
        self.reply_lines(214, &lines);
    }

    /// Replies to FEAT with the supported features (RFC 2389 §3).
    pub(super) fn features(&mut self) {
        let mut features: Vec<Vec<u8>> = [
            "AVBL",
            "CLNT",
            "COMB",
            "CSID",
            "EPRT",
            "EPSV",
            "HOST",
            "LANG EN*",
            "LPRT",
            "LPSV",
            "MDTM",
            "MFF Modify;UNIX.mode;",
            "MFMT",
            "MODE Z",
            "REST STREAM",
            "SITE PARTIAL",
            "SIZE",
            "TVFS",
            "UTF8",
            "XCRC",
            "XMD5",
            "XSHA",
            "XSHA256",
            "XSHA512",
        ]
        .map(|feature| feature.as_bytes().to_vec())
        .into();
        features.push([b"MLST ", self.facts.feature().as_slice()].concat());
        let hashes: Vec<String> = HashAlgorithm::ALL
            .iter()
            .map(|(algorithm, name)| {
                let mark = if *algorithm == self.hash { "*" } else { "" };
                format!("{name}{mark}")
            })
            .collect();
        features.push(format!("HASH {}", hashes.join(";")).into_bytes());
        if self.settings.tls != TlsPolicy::None {
            features.extend(["AUTH TLS", "PBSZ", "PROT"].map(|name| name.as_bytes().to_vec()));
            if self.settings.allows_clear_control {
                features.push(b"CCC".to_vec());
            }
        }
        features.sort_unstable();
        let mut lines: Vec<&[u8]> = alloc::vec![b"Features:".as_slice()];
        lines.extend(features.iter().map(Vec::as_slice));
        lines.push(b"End");
        self.reply_lines(211, &lines);
    }
}
