//! System of the server as reported by SYST (RFC 959 §5.4), and the meaning of TYPE I on that
//! system.
//!
//! The first word of the reply is an official system name. Some servers append the number of bits
//! of their bytes, as in `UNIX Type: L8`. On a host with 36-bit words, TYPE I means 36-bit words.
//! TYPE L 36 means 36-bit words on every host.

use super::client::FtpClient;
use super::error::FtpError;
use super::file_options::FtpOptions;
use super::file_options::check;
use crate::escaped;
use protocols::ftp::user::Task;
use protocols::ftp::{ByteSize, Representation, Type};
use records::severity::Severity;

/// Systems with 36-bit words.
const SYSTEMS_OF_36_BITS: [&str; 9] =
    ["GCOS", "ITS", "MULTICS", "TENEX", "TOPS-10", "TOPS-20", "TOPS10", "TOPS20", "WAITS"];

/// Returns the word size of the server by its reply to SYST, if the system is known.
fn word_size(reply: &str) -> Option<ByteSize> {
    let mut words = reply.split_whitespace();
    let name = words.next()?;
    let bits = reply.split_once("Type: L").map(|(_, rest)| rest.split_whitespace().next());
    if let Some(bits) = bits.flatten().and_then(|bits| bits.parse().ok()) {
        return ByteSize::new(bits);
    }
    let is_of_36 = SYSTEMS_OF_36_BITS.iter().any(|known| known.eq_ignore_ascii_case(name));
    is_of_36.then_some(ByteSize::WORD36)
}

impl FtpClient {
    /// Chooses the data type by the system of the server and prints the type, if the options
    /// request `auto`.
    pub async fn choose_type(&mut self, options: &mut FtpOptions) -> Result<(), FtpError> {
        if std::mem::take(&mut options.asks_system) {
            self.ask_system(options).await?;
        }
        self.connector.report_whole_transfers(options);
        Ok(())
    }

    async fn ask_system(&mut self, options: &mut FtpOptions) -> Result<(), FtpError> {
        let reply = match self.run("cannot query the system type of the server", Task::System).await
        {
            Ok(done) => String::from_utf8_lossy(done.reply.text()).into_owned(),
            // A server that does not know SYST has none of the systems with 36-bit words.
            Err(error) if error.is_refusal() => String::new(),
            Err(error) => return Err(error),
        };
        let size = word_size(&reply).filter(|size| *size != ByteSize::OCTET);
        let data_type = size.map_or(Type::Image, Type::Local);
        let representation = Representation { data_type, ..options.representation };
        let name = reply.split_whitespace().next().map(|name| escaped(name.as_bytes()));
        let server = name.map_or_else(
            || "the server does not report its system type".to_owned(),
            |name| format!("the server is {name}"),
        );
        check(&representation)
            .map_err(|error| FtpError::InvalidRequest(format!("{server}: {error}")))?;
        options.representation = representation;
        if !self.connector.is_quiet {
            (self.connector.shared.message)(
                Severity::Note,
                &match size.map(ByteSize::bits) {
                    Some(bits) => {
                        format!(
                            "{server} with words of {bits} bits: files are transferred as TYPE L \
                             {bits}"
                        )
                    }
                    None => format!("{server}: files are transferred as TYPE I"),
                },
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_word_size_follows_from_the_system_reply() {
        assert_eq!(word_size("TOPS20 Monitor 7.1"), Some(ByteSize::WORD36));
        assert_eq!(word_size("its"), Some(ByteSize::WORD36));
        assert_eq!(word_size("UNIX Type: L8"), Some(ByteSize::OCTET));
        assert_eq!(word_size("Other Type: L36 Version 2"), Some(ByteSize::WORD36));
        assert_eq!(word_size("Windows_NT"), None);
    }

    proptest! {
        #[test]
        fn the_word_size_in_any_reply_precedes_the_name_of_the_system(
            name in "[A-Za-z0-9-]{1,12}", bits: u8, rest in "( .{0,20})?"
        ) {
            let reply = format!("{name} Type: L{bits}{rest}");
            prop_assert_eq!(word_size(&reply), ByteSize::new(bits));
        }
    }
}
