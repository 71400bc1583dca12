//! Manual page of the configuration file, plumb-serve.toml(5), from the same text as the help of
//! `plumb serve`.

use super::man_page::{SOURCE, add_code, add_item};
use anyhow::Result;
use clap_mangen::roff::{Roff, bold, roman};
use server::examples;

const DESCRIPTION: &str = "\
The configuration file of plumb serve is a TOML file, which --config names. The service of the \
package reads /etc/plumb/serve.toml. A server runs if its table is present: [login] for logins, \
[[console]] for each serial line, [tftp] and [ftp] for files. A key that is absent has its default \
value, which plumb serve --print-config prints. An option of the command line overrides its key.

The values below are examples.";

/// Renders the page.
pub(super) fn render() -> Result<String> {
    let mut roff = Roff::new();
    roff.control("TH", ["plumb-serve.toml", "5", "", SOURCE, "File Formats"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("plumb-serve.toml - configuration of plumb serve")]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION.split("\n\n") {
        roff.control("PP", []);
        roff.text([roman(paragraph)]);
    }
    for table in examples::configuration_tables() {
        roff.control("SH", [if table.header.is_empty() { "GENERAL KEYS" } else { table.header }]);
        roff.text([roman(table.about)]);
        for key in table.keys {
            add_item(&mut roff, key.line, &key.about);
        }
    }
    let user_files = [
        ("USER FILE FOR LOGINS", examples::LOGIN_USER_FILE),
        ("USER FILE OF THE FTP SERVER", examples::FTP_USER_FILE),
        ("EXAMPLE", examples::CONFIGURATION),
    ];
    for (title, text) in user_files {
        roff.control("SH", [title]);
        add_code(&mut roff, text.lines());
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("plumb-serve"), roman("(1)")]);
    let mut text = Vec::new();
    roff.to_writer(&mut text)?;
    Ok(String::from_utf8(text)?)
}
