//! Clients attached to one serial line: the holder of write access and each client's output queue.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::Notify;

/// Maximum number of output bytes queued per client; the oldest are dropped.
const QUEUE_LEN: usize = 64 * 1024;
/// Number of recent output bytes kept for replay.
const HISTORY_LEN: usize = 64 * 1024;
/// Maximum number of bytes queued for the line.
const TO_LINE_LEN: usize = 4096;
/// Maximum number of queued notices per client; further notices are dropped.
const NOTES_MAX: usize = 16;

/// Identifier of a client.
pub(super) type Id = u64;

/// All clients of a line, and the queue of the line.
#[derive(Debug, Default)]
pub(super) struct Desk {
    visitors: BTreeMap<Id, Visitor>,
    next: Id,
    writer: Option<Id>,
    history: VecDeque<u8>,
    to_line: VecDeque<u8>,
    wires: Option<u8>,
}

#[derive(Debug)]
struct Visitor {
    name: SocketAddr,
    may_write: bool,
    bell: Rc<Notify>,
    queue: VecDeque<u8>,
    /// Number of output bytes dropped since the last report to the client.
    skipped: u64,
    notes: VecDeque<String>,
    /// RFC 2217 masks; `None` if the client has not negotiated RFC 2217.
    masks: Option<Masks>,
    line_state: u8,
    wires: Option<u8>,
}

/// RFC 2217 §3 masks: the state bits of which a client is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) line: u8,
    pub(super) modem: u8,
}

/// Result of typed input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Number of bytes accepted.
    Taken(usize),
    /// Another client has write access.
    Watching,
    /// Clients at this address may not write.
    Forbidden,
}

/// Output and notices for one client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) output: Vec<u8>,
    /// Number of bytes dropped before this output.
    pub(super) skipped: u64,
    pub(super) notes: Vec<String>,
    pub(super) line_state: Option<u8>,
    pub(super) wires: Option<u8>,
}

impl Desk {
    /// Attaches a client. It gets write access if it may write and no other client has it.
    pub(super) fn enter(&mut self, name: SocketAddr, may_write: bool) -> (Id, Rc<Notify>) {
        let (id, bell) = (self.next, Rc::new(Notify::new()));
        self.next += 1;
        let visitor = Visitor {
            name,
            may_write,
            bell: Rc::clone(&bell),
            queue: VecDeque::new(),
            skipped: 0,
            notes: VecDeque::new(),
            masks: None,
            line_state: 0,
            wires: None,
        };
        self.visitors.insert(id, visitor);
        if may_write && self.writer.is_none() {
            self.give(id);
        } else {
            let sentence = self.who_writes(id);
            self.tell(id, &sentence);
        }
        (id, bell)
    }

    /// Detaches a client. Returns whether it had write access.
    pub(super) fn leave(&mut self, id: Id) -> bool {
        let gone = self.visitors.remove(&id);
        let wrote = self.writer == Some(id);
        if wrote {
            self.writer = None;
            if let Some(gone) = gone {
                self.tell_all(&format!("{} left: type to get write access", gone.name));
            }
        }
        wrote
    }

    /// Queues input for the line as far as there is room. If no client has write access, this one
    /// gets it.
    pub(super) fn take(&mut self, id: Id, bytes: &[u8]) -> Typed {
        let may_write = self.visitors.get(&id).is_some_and(|visitor| visitor.may_write);
        if !may_write {
            return Typed::Forbidden;
        }
        if self.writer.is_none() {
            self.give(id);
        }
        if self.writer != Some(id) {
            return Typed::Watching;
        }
        let count = bytes.len().min(TO_LINE_LEN.saturating_sub(self.to_line.len()));
        self.to_line.extend(bytes.iter().take(count));
        Typed::Taken(count)
    }

    /// Transfers write access to a client. Returns whether the client may write.
    pub(super) fn take_over(&mut self, id: Id) -> bool {
        let may_write = self.visitors.get(&id).is_some_and(|visitor| visitor.may_write);
        if may_write && self.writer != Some(id) {
            self.give(id);
        }
        may_write
    }

    /// Makes a client watch only.
    pub(super) fn watch(&mut self, id: Id) {
        if self.writer == Some(id) {
            self.writer = None;
            self.tell_all("no client has write access: type to get it");
        }
    }

    pub(super) fn writes(&self, id: Id) -> bool {
        self.writer == Some(id)
    }

    fn give(&mut self, id: Id) {
        self.writer = Some(id);
        let ids: Vec<_> = self.visitors.keys().copied().collect();
        for other in ids {
            let sentence = self.who_writes(other);
            self.tell(other, &sentence);
        }
    }

    /// Returns a notice for one client about who has write access.
    fn who_writes(&self, id: Id) -> String {
        let may_write = self.visitors.get(&id).is_some_and(|visitor| visitor.may_write);
        match self.writer.map(|writer| (writer, self.visitors.get(&writer))) {
            Some((writer, _)) if writer == id => {
                "you have write access; ^E c ? lists the keys".into()
            }
            Some((_, Some(writer))) if may_write => {
                format!("{} has write access, you watch; ^E c f takes over", writer.name)
            }
            Some((_, Some(writer))) => format!("{} has write access, you watch", writer.name),
            _ => "no client has write access, you watch".into(),
        }
    }

    /// Returns one line per client: its address and whether it writes or watches.
    pub(super) fn who(&self) -> Vec<String> {
        let line = |(id, visitor): (&Id, &Visitor)| {
            let does = if self.writer == Some(*id) { "writes" } else { "watches" };
            format!("{} {does}", visitor.name)
        };
        self.visitors.iter().map(line).collect()
    }

    /// Queues output of the line for all clients. Returns the number of bytes dropped for slow
    /// clients.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> u64 {
        append(&mut self.history, bytes, HISTORY_LEN);
        let mut skipped = 0;
        for visitor in self.visitors.values_mut() {
            let lost = append(&mut visitor.queue, bytes, QUEUE_LEN);
            visitor.skipped += lost;
            skipped += lost;
            visitor.bell.notify_one();
        }
        skipped
    }

    /// Returns the most recent output of the line.
    pub(super) fn history(&self) -> Vec<u8> {
        self.history.iter().copied().collect()
    }

    /// Records set bits of the RFC 2217 line state.
    pub(super) fn mark_line(&mut self, bits: u8) {
        for visitor in self.visitors.values_mut() {
            if visitor.masks.is_some_and(|masks| masks.line & bits != 0) {
                visitor.line_state |= bits;
                visitor.bell.notify_one();
            }
        }
    }

    /// Records the modem lines: the upper four bits of the RFC 2217 modem state.
    pub(super) fn set_wires(&mut self, now: u8) {
        let before = self.wires.replace(now);
        let news = before.map_or(0xF0, |before| before ^ now);
        let changed = before.map_or(0, |before| (before ^ now) >> 4);
        for visitor in self.visitors.values_mut() {
            let mask = visitor.masks.map_or(0, |masks| masks.modem);
            if (news | changed) & mask != 0 {
                let earlier = visitor.wires.map_or(0, |state| state & 0x0F);
                visitor.wires = Some((now | changed | earlier) & mask);
                visitor.bell.notify_one();
            }
        }
    }

    /// Sets the masks of a client. The first call also reports the current modem lines.
    pub(super) fn set_masks(&mut self, id: Id, masks: Masks) {
        let wires = self.wires;
        if let Some(visitor) = self.visitors.get_mut(&id) {
            if visitor.masks.is_none() {
                visitor.wires = wires.map(|wires| wires & masks.modem);
                visitor.bell.notify_one();
            }
            visitor.masks = Some(masks);
        }
    }

    pub(super) fn wants_wires(&self) -> bool {
        self.visitors.values().any(|visitor| visitor.masks.is_some_and(|masks| masks.modem != 0))
    }

    /// Returns pending output and notices of a client, with at most `room` bytes of output.
    pub(super) fn news(&mut self, id: Id, room: usize) -> News {
        let Some(visitor) = self.visitors.get_mut(&id) else { return News::default() };
        let count = visitor.queue.len().min(room);
        News {
            output: visitor.queue.drain(..count).collect(),
            skipped: std::mem::take(&mut visitor.skipped),
            notes: visitor.notes.drain(..).collect(),
            line_state: Some(std::mem::take(&mut visitor.line_state)).filter(|state| *state != 0),
            wires: visitor.wires.take(),
        }
    }

    pub(super) fn has_output(&self, id: Id) -> bool {
        self.visitors.get(&id).is_some_and(|visitor| !visitor.queue.is_empty())
    }

    /// Discards the queued output of a client.
    pub(super) fn forget(&mut self, id: Id) {
        if let Some(visitor) = self.visitors.get_mut(&id) {
            visitor.queue.clear();
        }
    }

    /// Returns the bytes queued for the line.
    pub(super) fn waiting_for_line(&mut self) -> &[u8] {
        self.to_line.make_contiguous()
    }

    /// Removes `count` bytes that the line has accepted, and wakes the writer if there is room
    /// again.
    pub(super) fn line_took(&mut self, count: usize) {
        let count = count.min(self.to_line.len());
        self.to_line.drain(..count);
        let writer = self.writer.and_then(|writer| self.visitors.get(&writer));
        if let Some(writer) = writer.filter(|_| count > 0) {
            writer.bell.notify_one();
        }
    }

    /// Discards the bytes queued for a lost line, because another device may take its place.
    pub(super) fn lose_line(&mut self) {
        let waiting = self.to_line.len();
        self.line_took(waiting);
        self.wires = None;
    }

    /// Queues a notice for all clients.
    pub(super) fn tell_all(&mut self, sentence: &str) {
        let ids: Vec<_> = self.visitors.keys().copied().collect();
        ids.into_iter().for_each(|id| self.tell(id, sentence));
    }

    /// Queues a notice for one client.
    pub(super) fn tell(&mut self, id: Id, sentence: &str) {
        if let Some(visitor) = self.visitors.get_mut(&id)
            && visitor.notes.len() < NOTES_MAX
        {
            visitor.notes.push_back(sentence.to_owned());
            visitor.bell.notify_one();
        }
    }
}

/// Appends `bytes` to a queue of at most `limit` bytes. Returns the number of bytes dropped from
/// its start.
fn append(queue: &mut VecDeque<u8>, bytes: &[u8], limit: usize) -> u64 {
    queue.extend(bytes);
    let lost = queue.len().saturating_sub(limit);
    queue.drain(..lost);
    lost as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn notes(desk: &mut Desk, id: Id) -> String {
        desk.news(id, 0).notes.join("; ")
    }

    #[test]
    fn the_first_who_may_writes_and_the_others_watch_and_are_told() {
        let mut desk = Desk::default();
        let (guest, _) = desk.enter(name(1), false);
        let (first, _) = desk.enter(name(2), true);
        let (second, _) = desk.enter(name(3), true);
        assert_eq!(desk.take(guest, b"a"), Typed::Forbidden);
        assert_eq!(desk.take(second, b"b"), Typed::Watching);
        assert_eq!(desk.take(first, b"c"), Typed::Taken(1));
        assert_eq!(desk.waiting_for_line(), b"c");
        assert!(notes(&mut desk, first).contains("you have write access"));
        let second = notes(&mut desk, second);
        assert!(second.contains("192.0.2.1:2 has write access, you watch; ^E c f"));
        assert!(notes(&mut desk, guest).ends_with("192.0.2.1:2 has write access, you watch"));
    }

    #[test]
    fn one_takes_over_and_both_are_told() {
        let mut desk = Desk::default();
        let (first, _) = desk.enter(name(1), true);
        let (second, _) = desk.enter(name(2), true);
        let (guest, _) = desk.enter(name(3), false);
        assert!(!desk.take_over(guest) && desk.writes(first));
        assert!(desk.take_over(second) && desk.writes(second));
        let told = "192.0.2.1:2 has write access, you watch; ^E c f takes over";
        assert!(notes(&mut desk, first).ends_with(told));
        assert!(notes(&mut desk, second).ends_with("^E c ? lists the keys"));
        assert_eq!(desk.take(first, b"x"), Typed::Watching);
    }

    #[test]
    fn when_the_writer_leaves_or_watches_the_next_who_types_writes() {
        let mut desk = Desk::default();
        let (first, _) = desk.enter(name(1), true);
        let (second, _) = desk.enter(name(2), true);
        assert!(desk.leave(first));
        assert!(!desk.writes(second));
        assert_eq!(desk.take(second, b"x"), Typed::Taken(1));
        assert!(desk.writes(second));
        desk.watch(second);
        assert!(!desk.writes(second) && !desk.leave(second));
    }

    #[test]
    fn one_who_does_not_read_loses_the_oldest_and_holds_nobody() {
        let mut desk = Desk::default();
        let (slow, _) = desk.enter(name(1), true);
        let (fast, _) = desk.enter(name(2), true);
        let mut heard = 0;
        for number in 0..100_u8 {
            desk.hear(&[number; 1024]);
            heard += desk.news(fast, usize::MAX).output.len();
        }
        assert_eq!(heard, 100 * 1024);
        let news = desk.news(slow, usize::MAX);
        assert_eq!((news.skipped, news.output.len()), (36 * 1024, QUEUE_LEN));
        assert_eq!((news.output[0], news.output[QUEUE_LEN - 1]), (36, 99));
        assert_eq!(desk.history().len(), HISTORY_LEN);
    }

    #[test]
    fn a_line_that_takes_nothing_holds_its_writer_at_a_limit() {
        let mut desk = Desk::default();
        let (id, _) = desk.enter(name(1), true);
        assert_eq!(desk.take(id, &[0; 10_000]), Typed::Taken(TO_LINE_LEN));
        assert_eq!(desk.take(id, b"x"), Typed::Taken(0));
        desk.line_took(10);
        assert_eq!(desk.take(id, &[0; 100]), Typed::Taken(10));
    }

    #[test]
    fn sentences_for_one_who_does_not_read_have_a_limit() {
        let mut desk = Desk::default();
        let (id, _) = desk.enter(name(1), true);
        (0..1000).for_each(|_| desk.tell_all("again"));
        assert_eq!(desk.news(id, 0).notes.len(), NOTES_MAX);
    }

    #[test]
    fn changes_of_the_wires_are_told_to_who_asked_as_far_as_his_mask() {
        let mut desk = Desk::default();
        let (id, _) = desk.enter(name(1), true);
        let (other, _) = desk.enter(name(2), true);
        desk.set_wires(0xB0);
        desk.set_masks(id, Masks { line: 0x10, modem: 0xFF });
        assert_eq!(desk.news(id, 0).wires, Some(0xB0));
        desk.set_wires(0x30);
        desk.set_wires(0x30);
        assert_eq!(desk.news(id, 0).wires, Some(0x38));
        desk.mark_line(0x10);
        desk.mark_line(0x08);
        assert_eq!(desk.news(id, 0).line_state, Some(0x10));
        let others = desk.news(other, 0);
        assert_eq!((others.wires, others.line_state), (None, None));
    }
}
