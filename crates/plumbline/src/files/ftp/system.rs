//! System of the server by SYST (RFC 959 §5.4), and the meaning of TYPE I there.
//!
//! The first word of the reply is an official system name. Some servers append the number of bits
//! of their bytes, as in `UNIX Type: L8`. On a host whose words have 36 bits, TYPE I means these
//! words; TYPE L 36 has this meaning on every host.

use super::dialogue::Dialogue;
use super::get::Terms;
use super::options::check;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use protocols::application::ftp::user::Task;
use protocols::application::ftp::{ByteSize, Representation, Type};

/// Systems with 36-bit words.
const OF_36_BITS: [&str; 9] =
    ["GCOS", "ITS", "MULTICS", "TENEX", "TOPS-10", "TOPS-20", "TOPS10", "TOPS20", "WAITS"];

/// Returns the word size of a server with this reply to SYST, if it is known.
fn word_size(told: &str) -> Option<ByteSize> {
    let mut words = told.split_whitespace();
    let name = words.next()?;
    let said = told.split_once("Type: L").map(|(_, rest)| rest.split_whitespace().next());
    if let Some(bits) = said.flatten().and_then(|bits| bits.parse().ok()) {
        return ByteSize::new(bits);
    }
    let is_of_36 = OF_36_BITS.iter().any(|known| known.eq_ignore_ascii_case(name));
    is_of_36.then_some(ByteSize::WORD36)
}

impl Dialogue {
    /// Chooses the data type by the system of the server, if the options request that, and prints
    /// it.
    pub(super) async fn choose_type(&mut self, terms: &mut Terms) -> Result<(), Trouble> {
        if std::mem::take(&mut terms.asks_system) {
            self.ask_system(terms).await?;
        }
        self.caller.tell_of_no_comparison(terms);
        Ok(())
    }

    async fn ask_system(&mut self, terms: &mut Terms) -> Result<(), Trouble> {
        let told = match self.run("cannot query the system of the server", Task::System).await {
            Ok(done) => String::from_utf8_lossy(done.reply.text()).into_owned(),
            // A server that does not know SYST is none of these systems.
            Err(trouble) if trouble.is_refusal() => String::new(),
            Err(trouble) => return Err(trouble),
        };
        let size = word_size(&told).filter(|size| *size != ByteSize::OCTET);
        let data_type = size.map_or(Type::Image, Type::Local);
        let representation = Representation { data_type, ..terms.representation };
        let name = told.split_whitespace().next().map(|name| shown(name.as_bytes()));
        let who = name.map_or_else(
            || "the server does not report its system".to_owned(),
            |name| format!("the server is {name}"),
        );
        check(&representation).map_err(|error| Trouble::Wrong(format!("{who}: {error}")))?;
        terms.representation = representation;
        if !self.caller.is_quiet {
            say(&match size.map(ByteSize::bits) {
                Some(bits) => {
                    format!("{who}: its words have {bits} bits, transferred as TYPE L {bits}")
                }
                None => format!("{who}: files are transferred as TYPE I"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_system_says_of_how_many_bits_its_words_are() {
        assert_eq!(word_size("TOPS20 Monitor 7.1"), Some(ByteSize::WORD36));
        assert_eq!(word_size("its"), Some(ByteSize::WORD36));
        assert_eq!(word_size("UNIX Type: L8"), Some(ByteSize::OCTET));
        assert_eq!(word_size("Other Type: L36 Version 2"), Some(ByteSize::WORD36));
        assert_eq!(word_size("Windows_NT"), None);
    }

    proptest! {
        #[test]
        fn no_reply_breaks_the_reader(told in ".{0,60}") {
            _ = word_size(&told);
        }
    }
}
