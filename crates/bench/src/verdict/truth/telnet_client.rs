//! A Telnet client that logs in, types and reads: RFC 854 with every option but echo refused.

use super::super::user_wait::UserWait;
use super::run::{LIMIT, MEASUREMENT_TIME_LIMIT, NoAnswer, Run, none_if_silent};
use super::times::{Truth, millis};
use anyhow::{Result, bail};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
const SE: u8 = 240;
/// Option codes of RFC 857 and RFC 858.
const ECHO: u8 = 1;
const SUPPRESS_GO_AHEAD: u8 = 3;

/// Keys whose echoes are measured.
const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyzabcdefghijklmn";
/// A character that does not occur in the long output.
const KEY_UNDER_LOAD: u8 = b'Q';
/// A short command with the output of two programs, which reaches the server in two pieces.
const SHORT_COMMAND: &[u8] = b"echo ok; /bin/echo ok";
/// A command that prints a screen of 24 lines.
const SCREEN_COMMAND: &[u8] =
    b"printf '%079d\\n' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24";
/// Ends of the shell prompts of root, and of other users.
const PROMPTS: [&[u8]; 2] = [b"# ", b"$ "];
/// Intended duration of the long output on a path of known rate, s.
const LOAD_SECONDS: u64 = 4;

pub(super) fn measure(run: &Run<'_>, truth: &mut Truth) -> Result<()> {
    let mut session = Session { stream: run.connect()?, text: Vec::new(), pending: Vec::new() };
    if none_if_silent(log_in(run, &mut session))?.is_none() {
        truth.set_limit(UserWait::Login);
        return Ok(());
    }
    truth.set(UserWait::Login, &[millis(run.started_at.elapsed())], false);
    if !measure_echoes(run, &mut session, truth)? {
        return Ok(());
    }
    let mut measure_command = |user_wait, command: &[u8], times: usize| -> Result<bool> {
        let started_at = Instant::now();
        let mut all = Vec::new();
        for number in 0..times {
            pause(run, number);
            let requested_at = Instant::now();
            session.send(&[command, b"\r\0"].concat())?;
            if session.await_prompt(LIMIT).is_err() {
                truth.set_limit(user_wait);
                return Ok(false);
            }
            all.push(millis(requested_at.elapsed()));
            if started_at.elapsed() > MEASUREMENT_TIME_LIMIT {
                break;
            }
        }
        truth.set(user_wait, &all, run.is_random);
        Ok(true)
    };
    // A black hole drops the first long packet, and no more data arrives.
    let times = if run.is_random { 12 } else { 4 };
    if !measure_command(UserWait::Answer, SHORT_COMMAND, times)?
        || !measure_command(UserWait::Screenful, SCREEN_COMMAND, times)?
    {
        return Ok(());
    }
    let started_at = Instant::now();
    let Ok(echoes) = session.echoes_under_load(load_lines(run)) else {
        truth.set_limit(UserWait::Transfer);
        return Ok(());
    };
    truth.set(UserWait::Transfer, &[millis(started_at.elapsed())], false);
    // During the first echoes the queue is not yet full.
    let echoes_with_full_queue = echoes.get(echoes.len() / 2..).unwrap_or_default();
    truth.set(UserWait::EchoUnderLoad, echoes_with_full_queue, run.is_random);
    Ok(())
}

/// Measures the echoes of keys, and returns whether the session can continue.
fn measure_echoes(run: &Run<'_>, session: &mut Session, truth: &mut Truth) -> Result<bool> {
    let started_at = Instant::now();
    let mut echoes = Vec::new();
    for (number, key) in KEYS.iter().enumerate() {
        pause(run, number);
        let Some(echo) = none_if_silent(session.echo(*key))? else {
            truth.set_limit(UserWait::Echo);
            return Ok(false);
        };
        echoes.push(echo);
        if started_at.elapsed() > MEASUREMENT_TIME_LIMIT && echoes.len() >= 10 {
            break;
        }
    }
    truth.set(UserWait::Echo, &echoes, run.is_random);
    // Erase the line.
    session.send(b"\x15\r\0")?;
    if none_if_silent(session.await_prompt(LIMIT))?.is_none() {
        truth.set_limit(UserWait::Answer);
        return Ok(false);
    }
    Ok(true)
}

/// For a random cause, pauses for 20 to 70 ms before the next key. Without the pause, the server's
/// processor would often be idle when a key arrives, because the server has just handled the
/// previous key. For other causes the next key follows at once, as from a script or a paste: the
/// kernel then considers the session interactive, and delays its acknowledgments.
fn pause(run: &Run<'_>, number: usize) {
    if !run.is_random {
        return;
    }
    let ms = 20 + number as u64 * 37 % 50;
    std::thread::sleep(Duration::from_millis(ms));
}

fn log_in(run: &Run<'_>, session: &mut Session) -> Result<()> {
    if run.case.asks_password {
        session.await_text(|text| text.ends_with(b"login: "), LIMIT)?;
        session.send(b"me\r\0")?;
        session.await_text(|text| text.ends_with(b"Password: "), LIMIT)?;
        session.send(b"secret\r\0")?;
    }
    session.await_text(ends_with_prompt, LIMIT)
}

/// Returns the number of 80-byte lines in the long output.
fn load_lines(run: &Run<'_>) -> u64 {
    let Some(rate) = run.setup.bytes_per_second else { return 6_000 };
    // The queue of a link stays empty if the link is faster than the output, so such a link does
    // not count.
    let link = run.setup.to_client.link.filter(|link| link.bits_per_second / 8 <= rate);
    let queue_bytes = link.map_or(0, |link| link.queue_bytes);
    // The bucket's content passes at once, and the queue must fill before its length has an effect.
    let bucket_bytes = run.setup.to_client.policer_or_shaper.map_or(0, |bucket| bucket.bytes);
    ((rate * LOAD_SECONDS + 3 * queue_bytes + bucket_bytes) / 80).clamp(100, 20_000)
}

struct Session {
    stream: TcpStream,
    /// Received text that has not been consumed.
    text: Vec<u8>,
    /// Incomplete Telnet command.
    pending: Vec<u8>,
}

impl Session {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.clear();
        Ok(self.stream.write_all(bytes)?)
    }

    /// Reads until `is_complete` returns true for the data received since the previous send.
    fn await_text(&mut self, is_complete: impl Fn(&[u8]) -> bool, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        while !is_complete(&self.text) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoAnswer.into());
            }
            self.read(left)?;
        }
        Ok(())
    }

    fn await_prompt(&mut self, limit: Duration) -> Result<()> {
        self.await_text(ends_with_new_prompt, limit)
    }

    fn echo(&mut self, key: u8) -> Result<f64> {
        let sent = Instant::now();
        self.send(&[key])?;
        self.await_text(|text| text.contains(&key), LIMIT)?;
        Ok(millis(sent.elapsed()))
    }

    /// Types keys one after the other while `lines` arrive, and returns the times of their echoes.
    fn echoes_under_load(&mut self, lines: u64) -> Result<Vec<f64>> {
        let line = "x".repeat(78);
        self.send(format!("yes {line} | head -n {lines}\r\0").as_bytes())?;
        // The echo of the command ends before the output begins.
        self.await_text(|text| text.contains(&b'\n'), LIMIT)?;
        let started_at = Instant::now();
        let mut echoes = Vec::new();
        loop {
            let sent = Instant::now();
            self.send(&[KEY_UNDER_LOAD])?;
            // A shell with its own line editor prints all keys again after its prompt.
            let is_over = |text: &[u8]| {
                PROMPTS.iter().any(|prompt| text.windows(2).any(|two| two == *prompt))
            };
            self.await_text(|text| text.contains(&KEY_UNDER_LOAD) || is_over(text), LIMIT)?;
            if is_over(&self.text) {
                // If an echo arrives only after the whole output, its time is that of the output.
                if echoes.len() < 2 {
                    echoes.push(millis(sent.elapsed()));
                }
                break;
            }
            echoes.push(millis(sent.elapsed()));
            anyhow::ensure!(started_at.elapsed() < LIMIT, "the output does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(echoes)
    }

    /// Reads once, and answers Telnet options.
    fn read(&mut self, limit: Duration) -> Result<()> {
        self.stream.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let mut bytes = [0; 65_536];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the server has closed the connection"),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes.get(..count).unwrap_or_default());
        let (text, answer, rest) = split_telnet(&input);
        self.text.extend(text);
        self.pending = rest;
        if !answer.is_empty() {
            self.stream.write_all(&answer)?;
        }
        Ok(())
    }
}

/// Returns whether `text` ends with a prompt on a new line. A prompt on the same line does not
/// count: a shell with its own line editor prints its prompt again when a line is erased.
fn ends_with_new_prompt(text: &[u8]) -> bool {
    text.contains(&b'\n') && ends_with_prompt(text)
}

fn ends_with_prompt(text: &[u8]) -> bool {
    PROMPTS.iter().any(|prompt| text.ends_with(prompt))
}

/// Splits `input` into text, the answers to its commands, and an incomplete command at the end.
fn split_telnet(input: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut text = Vec::new();
    let mut answer = Vec::new();
    let mut rest = input;
    loop {
        match rest {
            [] => return (text, answer, Vec::new()),
            [IAC] | [IAC, WILL..=DONT] => return (text, answer, rest.to_vec()),
            [IAC, IAC, after @ ..] => {
                text.push(IAC);
                rest = after;
            }
            [IAC, verb @ WILL..=DONT, option, after @ ..] => {
                match (*verb, *option) {
                    (WILL, ECHO | SUPPRESS_GO_AHEAD) => answer.extend([IAC, DO, *option]),
                    (WILL, _) => answer.extend([IAC, DONT, *option]),
                    (DO, SUPPRESS_GO_AHEAD) => answer.extend([IAC, WILL, *option]),
                    (DO, _) => answer.extend([IAC, WONT, *option]),
                    _ => {}
                }
                rest = after;
            }
            [IAC, SB, after @ ..] => {
                let Some(end) = after.windows(2).position(|two| two == [IAC, SE]) else {
                    return (text, answer, rest.to_vec());
                };
                rest = after.get(end + 2..).unwrap_or_default();
            }
            [IAC, _, after @ ..] => rest = after,
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_answered_and_removed_from_the_text() {
        let input = [&[IAC, WILL, ECHO, IAC, DO, 24][..], b"lo", &[IAC, 241], b"gin: "].concat();
        let (text, answer, rest) = split_telnet(&input);
        assert_eq!(text, b"login: ");
        assert_eq!(answer, [IAC, DO, ECHO, IAC, WONT, 24]);
        assert!(rest.is_empty());
    }

    #[test]
    fn a_reprinted_prompt_of_the_same_line_is_not_a_new_prompt() {
        assert!(ends_with_prompt(b"\rbash-5.2# ") && !ends_with_new_prompt(b"\rbash-5.2# "));
        assert!(ends_with_new_prompt(b"\rbash-5.2# \r\nbash-5.2# "));
        assert!(!ends_with_new_prompt(b"echo ok\r\nok\r\n"));
    }

    #[test]
    fn an_incomplete_command_waits_for_the_rest_of_it() {
        for cut in [&[b'a', IAC][..], &[b'a', IAC, DO], &[b'a', IAC, SB, 24, 1]] {
            let (text, answer, rest) = split_telnet(cut);
            assert_eq!((text.as_slice(), answer.len()), (&b"a"[..], 0));
            assert_eq!(rest, cut[1..]);
        }
    }
}
