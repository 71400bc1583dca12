//! Workload of a session: a user who types at a terminal, and a program that answers.

use super::session_scenario::Session;
use crate::sample::exponential_time;
use net::Cx;
use net::application::Stream;
use net::time::{Duration, Instant};
use std::collections::VecDeque;

/// One end of a session.
#[derive(Debug)]
pub(super) struct SessionEndpoint {
    session: Session,
    role: Role,
    output: Vec<u8>,
    is_open: bool,
}

#[derive(Debug)]
enum Role {
    /// A user who types the next line a think time after the answer to the previous line.
    Typist { next_at: Option<Instant>, remaining_chars: usize, answered: usize },
    /// A program that answers each typed line with several lines, each in a separate write.
    Program { lines: VecDeque<Vec<u8>>, has_just_read: bool },
}

impl SessionEndpoint {
    pub(super) fn typist(session: &Session) -> Self {
        let role = Role::Typist { next_at: None, remaining_chars: 0, answered: 0 };
        Self { session: session.clone(), role, output: Vec::new(), is_open: false }
    }

    pub(super) fn program(session: &Session) -> Self {
        let role = Role::Program { lines: VecDeque::new(), has_just_read: false };
        Self { session: session.clone(), role, output: Vec::new(), is_open: false }
    }

    /// Schedules the next line after the think time.
    fn think(&mut self, cx: &mut Cx<'_>) {
        let think_time = exponential_time(Duration::from_secs(self.session.think_s), cx.rng);
        if let Role::Typist { next_at, remaining_chars, answered } = &mut self.role {
            *next_at = Some(cx.now + think_time);
            *remaining_chars = self.session.typed_chars.max(1);
            *answered = 0;
        }
    }

    /// Types the characters that are due.
    fn type_due_characters(&mut self, now: Instant) {
        let Role::Typist { next_at, remaining_chars, .. } = &mut self.role else { return };
        if next_at.is_none_or(|at| at > now) {
            return;
        }
        let count = if self.session.is_a_character_at_a_time { 1 } else { *remaining_chars };
        *remaining_chars = remaining_chars.saturating_sub(count);
        let is_end = *remaining_chars == 0;
        self.output.extend((1..=count).map(|at| if is_end && at == count { b'\r' } else { b'x' }));
        let key = Duration::from_millis(self.session.key_ms.max(1));
        *next_at = (!is_end).then(|| now + key);
    }
}

impl Stream for SessionEndpoint {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.is_open = true;
        self.think(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let wanted = self.session.answer_lines;
        let width = self.session.answer_chars.max(1);
        match &mut self.role {
            Role::Program { lines, has_just_read } => {
                *has_just_read = true;
                let ended = data.iter().filter(|byte| **byte == b'\r').count();
                let line = || {
                    let mut line = vec![b'.'; width];
                    line.splice(width - 1.., *b"\n");
                    line
                };
                lines.extend((0..ended * wanted).map(|_| line()));
            }
            Role::Typist { answered, .. } => {
                *answered += data.iter().filter(|byte| **byte == b'\n').count();
                if *answered >= wanted {
                    self.think(cx);
                }
            }
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn wants_to_run(&self) -> bool {
        // Each line is a separate write: it is sent before the next line is passed to TCP.
        matches!(&self.role, Role::Program { lines, .. } if !lines.is_empty() && self.output.is_empty())
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if !self.is_open {
            return;
        }
        self.type_due_characters(cx.now);
        if let Role::Program { lines, has_just_read } = &mut self.role
            // The first line waits for a separate step. Otherwise it would be sent together with
            // the second line.
            && !std::mem::take(has_just_read)
            && self.output.is_empty()
            && let Some(line) = lines.pop_front()
        {
            self.output = line;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Typist { next_at, .. } => *next_at,
            Role::Program { .. } => None,
        }
    }
}
