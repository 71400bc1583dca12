//! Decoder that splits the input into runs of data, commands, negotiations and subnegotiations (RFC
//! 854).
//!
//! Data is returned in runs borrowed from the input. A run ends at the next IAC or, in NVT, at the
//! end of a line, unless [`Decoder::run_over_lines`] was called. The input may be split at any
//! position, since the decoder stores its state between two bytes.

use super::command::{IAC, OptionCode, OptionSet, SB, SE, Verb};
use super::option;
use super::search::{find, find_either};
use alloc::vec::Vec;

const NUL: u8 = 0;
const LF: u8 = b'\n';
const CR: u8 = b'\r';

/// One decoded item of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// Data, never empty.
    Data(&'a [u8]),
    /// IAC and a byte that is neither data nor the start of a longer command.
    Command(u8),
    Negotiation(Verb, OptionCode),
    /// A complete subnegotiation, available from [`Decoder::subnegotiation`].
    Subnegotiation,
    /// A NUL after a CR in NVT, if such NULs are reported.
    NulAfterCr,
    /// The end of a subnegotiation that exceeded its limit and was discarded.
    SubnegotiationTooLong,
    /// The end of a discarded subnegotiation, which had no option code or no IAC SE.
    SubnegotiationWrong,
}

/// Incremental Telnet decoder.
#[derive(Debug)]
pub(super) struct Decoder {
    state: State,
    /// The options whose subnegotiations are stored; those of other options are discarded.
    accepted_options: OptionSet,
    /// The option code and the content of the subnegotiation, with each doubled IAC reduced to one.
    subnegotiation: Vec<u8>,
    is_too_long: bool,
    /// Whether CR LF is decoded as CR, the code that the Return key produces on a terminal.
    decodes_cr_lf_as_cr: bool,
    /// Number of LFs omitted after a CR since [`Decoder::take_omitted_lfs`] was last called.
    omitted_lfs: usize,
    /// Whether a run of data continues after CR LF, for callers that only display text.
    runs_over_lines: bool,
    /// Whether a NUL after a CR is reported instead of dropped.
    reports_nul_after_cr: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Data,
    /// The last byte was a CR in NVT. The next byte is dropped if it is a NUL, or an LF with
    /// `decodes_cr_lf_as_cr`.
    AfterCr,
    AfterIac,
    AfterVerb(Verb),
    InSubnegotiation,
    InSubnegotiationAfterIac,
}

impl Decoder {
    pub(super) fn new(accepted_options: OptionSet, decodes_cr_lf_as_cr: bool) -> Self {
        let state = State::Data;
        let subnegotiation = Vec::new();
        Self {
            state,
            accepted_options,
            subnegotiation,
            is_too_long: false,
            decodes_cr_lf_as_cr,
            omitted_lfs: 0,
            runs_over_lines: false,
            reports_nul_after_cr: false,
        }
    }

    /// Lets runs of data continue after CR LF.
    pub(super) fn run_over_lines(&mut self) {
        self.runs_over_lines = true;
    }

    /// Selects whether a NUL after a CR is reported instead of dropped.
    pub(super) fn report_nul_after_cr(&mut self, is_on: bool) {
        self.reports_nul_after_cr = is_on;
    }

    /// Returns how many LFs after a CR were omitted since the last call.
    pub(super) fn take_omitted_lfs(&mut self) -> usize {
        core::mem::take(&mut self.omitted_lfs)
    }

    /// Returns the next item and advances `input` past it; `None` once all input is consumed.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8], is_binary: bool) -> Option<Item<'a>> {
        loop {
            let (&first, rest) = input.split_first()?;
            match core::mem::take(&mut self.state) {
                State::Data if first == IAC => {
                    self.state = State::AfterIac;
                    *input = rest;
                }
                State::Data => return Some(Item::Data(self.split_run(input, 0, is_binary))),
                State::AfterCr if first == NUL => {
                    *input = rest;
                    if self.reports_nul_after_cr {
                        return Some(Item::NulAfterCr);
                    }
                }
                State::AfterCr if first == LF && self.decodes_cr_lf_as_cr => {
                    *input = rest;
                    self.omitted_lfs += 1;
                }
                State::AfterCr => {}
                // The second IAC of a doubled IAC is the first data byte of a run.
                State::AfterIac if first == IAC => {
                    return Some(Item::Data(self.split_run(input, 1, is_binary)));
                }
                State::AfterIac => {
                    *input = rest;
                    if let Some(item) = self.command(first) {
                        return Some(item);
                    }
                }
                State::AfterVerb(verb) => {
                    *input = rest;
                    return Some(Item::Negotiation(verb, OptionCode(first)));
                }
                State::InSubnegotiation => self.collect_subnegotiation(input),
                State::InSubnegotiationAfterIac => {
                    if first == IAC || first == SE {
                        *input = rest;
                    }
                    if let Some(item) = self.end_subnegotiation(first) {
                        return Some(item);
                    }
                }
            }
        }
    }

    /// Returns the option and the content of the subnegotiation that was returned last.
    pub(super) fn subnegotiation(&self) -> Option<(OptionCode, &[u8])> {
        let (&option, content) = self.subnegotiation.split_first()?;
        Some((OptionCode(option), content))
    }

    /// Splits a run of data off the input. The first `known_data_len` bytes of the input are data,
    /// even if their values are IAC or CR.
    fn split_run<'a>(
        &mut self,
        input: &mut &'a [u8],
        known_data_len: usize,
        is_binary: bool,
    ) -> &'a [u8] {
        let end = if is_binary {
            let unknown_part = input.get(known_data_len..).unwrap_or_default();
            find(IAC, unknown_part).map_or(input.len(), |at| known_data_len + at)
        } else {
            self.end_of_line(input, known_data_len)
        };
        let (run, rest) = input.split_at_checked(end).unwrap_or((input, &[]));
        *input = rest;
        run
    }

    /// Returns the length of the run of data in NVT. A run ends after CR LF, after the CR of CR
    /// NUL, and before an IAC.
    fn end_of_line(&mut self, input: &[u8], known_data_len: usize) -> usize {
        let mut end = known_data_len;
        loop {
            let unknown_part = input.get(end..).unwrap_or_default();
            let Some(at) = find_either(IAC, CR, unknown_part) else { return input.len() };
            end += at;
            if input.get(end) == Some(&IAC) {
                return end;
            }
            end += 1;
            match input.get(end) {
                Some(&LF) if self.runs_over_lines => end += 1,
                Some(&LF) if !self.decodes_cr_lf_as_cr => return end + 1,
                Some(&NUL | &LF) | None => {
                    self.state = State::AfterCr;
                    return end;
                }
                // RFC 854 does not define a bare CR. Some implementations send it intentionally, so
                // it remains in the data.
                Some(_) => {}
            }
        }
    }

    /// Processes the byte after IAC.
    fn command(&mut self, code: u8) -> Option<Item<'static>> {
        if let Some(verb) = Verb::from_code(code) {
            self.state = State::AfterVerb(verb);
            return None;
        }
        if code == SB {
            self.subnegotiation.clear();
            self.is_too_long = false;
            self.state = State::InSubnegotiation;
            return None;
        }
        Some(Item::Command(code))
    }

    /// Stores the bytes of a subnegotiation up to the next IAC, within the limit.
    fn collect_subnegotiation(&mut self, input: &mut &[u8]) {
        let end = find(IAC, input).unwrap_or(input.len());
        let (content, rest) = input.split_at_checked(end).unwrap_or((input, &[]));
        self.store(content);
        *input = rest.split_first().map_or(rest, |(_iac, rest)| rest);
        self.state = match rest {
            [] => State::InSubnegotiation,
            _ => State::InSubnegotiationAfterIac,
        };
    }

    fn store(&mut self, content: &[u8]) {
        let limit = match self.subnegotiation.first().or(content.first()) {
            Some(&option) if self.accepted_options.contains(OptionCode(option)) => {
                1 + option::content_max_bytes(OptionCode(option))
            }
            _ => 1,
        };
        let room = limit - self.subnegotiation.len();
        self.is_too_long |= content.len() > room;
        self.subnegotiation.extend_from_slice(content.get(..room).unwrap_or(content));
    }

    /// Processes the byte after an IAC within a subnegotiation.
    fn end_subnegotiation(&mut self, second: u8) -> Option<Item<'static>> {
        match second {
            IAC => {
                self.store(&[IAC]);
                self.state = State::InSubnegotiation;
                None
            }
            SE if self.is_too_long => Some(Item::SubnegotiationTooLong),
            SE if self.subnegotiation.is_empty() => Some(Item::SubnegotiationWrong),
            SE => Some(Item::Subnegotiation),
            // A command inside a subnegotiation: the peer omitted SE, so the subnegotiation ends
            // and the command is processed.
            _ => {
                self.state = State::AfterIac;
                Some(Item::SubnegotiationWrong)
            }
        }
    }
}
