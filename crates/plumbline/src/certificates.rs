//! `plumb certificates`: lists and removes the certificates that were saved at first use.

use crate::exit::{self, Failure};
use crate::manual::ManualPage;
use crate::manual::entries::{HOME, KNOWN_HOSTS, STATE};
use anyhow::Result;
use std::io::Write;

/// Introduction of `plumb certificates --help`.
pub(crate) const ABOUT: &str = "\
List or remove the certificates of TLS servers that were saved at the first connection.

A login or transfer is refused if a server presents another certificate than the saved one. If the \
server's certificate was replaced, remove the saved one; the next connection saves the new one. \
Compare its SHA-256 with the one that the server prints when it starts.";

/// Manual page of `plumb certificates`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "certificates",
    examples: &[
        "plumb certificates",
        "plumb certificates list host.example.net",
        "plumb certificates remove host.example.net:992",
    ],
    notes: &[],
    exit_status: &[
        (0, "Listed or removed"),
        (1, "No certificate of this host is saved"),
        (2, "Invalid arguments"),
        (4, "The file cannot be read or written"),
    ],
    environment: &[&[STATE, HOME]],
    files: &[KNOWN_HOSTS],
    see_also: &["login", "get"],
};

/// Arguments of `plumb certificates`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the saved certificates of all hosts, or of one host
    List {
        /// Host name or address, with or without :port
        #[arg(value_name = "host")]
        host: Option<String>,
    },
    /// Remove the saved certificates of a host
    Remove {
        /// Host name or address, with or without :port
        #[arg(value_name = "host")]
        host: String,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let (host, is_removal) = match &arguments.action {
        None => (None, false),
        Some(Action::List { host }) => (host.as_deref(), false),
        Some(Action::Remove { host }) => (Some(host.as_str()), true),
    };
    let certificates = if is_removal {
        carrier::remove_certificates(host.unwrap_or_default())
    } else {
        carrier::saved_certificates(host)
    };
    let certificates = certificates.map_err(|error| {
        exit::print_error(&error);
        Failure::ThisMachine
    })?;
    if let Some(host) = host.filter(|_| certificates.is_empty()) {
        return Err(exit::remote_failure(format!("no certificate of '{host}' is saved")));
    }
    let prefix = if is_removal { "removed " } else { "" };
    let print = || -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        for (server, fingerprint) in &certificates {
            writeln!(stdout, "{prefix}{server}  SHA-256 {fingerprint}")?;
        }
        Ok(())
    };
    // Ignored: stdout may be closed.
    _ = print();
    Ok(())
}
