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
const LINE_INPUT_LEN: usize = 4096;
/// Maximum number of queued notices per client; further notices are dropped.
const NOTICES_MAX: usize = 16;

/// Identifier of a client.
pub(super) type ClientId = u64;

/// All clients of a serial line, and the queue of input for the line.
#[derive(Debug, Default)]
pub(super) struct LineMultiplexer {
    clients: BTreeMap<ClientId, Client>,
    next: ClientId,
    writer: Option<ClientId>,
    history: VecDeque<u8>,
    line_input: VecDeque<u8>,
    modem_state: Option<u8>,
}

#[derive(Debug)]
struct Client {
    address: SocketAddr,
    may_write: bool,
    wakeup: Rc<Notify>,
    queue: VecDeque<u8>,
    /// Number of output bytes dropped since the last report to the client.
    dropped_bytes: u64,
    notices: VecDeque<String>,
    /// RFC 2217 masks; `None` if the client has not negotiated RFC 2217.
    masks: Option<Masks>,
    line_state: u8,
    modem_state: Option<u8>,
}

/// RFC 2217 §3 masks: the state bits whose changes are reported to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) line: u8,
    pub(super) modem: u8,
}

/// Result of typed input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputResult {
    /// Number of bytes accepted.
    Accepted(usize),
    /// Another client has write access.
    NoWriteAccess,
    /// Clients at this address may not write.
    Forbidden,
}

/// Output and notices for one client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) output: Vec<u8>,
    /// Number of bytes dropped before this output.
    pub(super) dropped_bytes: u64,
    pub(super) notices: Vec<String>,
    pub(super) line_state: Option<u8>,
    pub(super) modem_state: Option<u8>,
}

impl LineMultiplexer {
    /// Attaches a client. The client gets write access if it may write and no other client has
    /// write access.
    pub(super) fn attach(
        &mut self,
        address: SocketAddr,
        may_write: bool,
    ) -> (ClientId, Rc<Notify>) {
        let id = self.next;
        let wakeup = Rc::new(Notify::new());
        self.next += 1;
        let client = Client {
            address,
            may_write,
            wakeup: Rc::clone(&wakeup),
            queue: VecDeque::new(),
            dropped_bytes: 0,
            notices: VecDeque::new(),
            masks: None,
            line_state: 0,
            modem_state: None,
        };
        self.clients.insert(id, client);
        if may_write && self.writer.is_none() {
            self.grant_write_access(id);
        } else {
            let notice = self.write_access_notice(id);
            self.notify(id, &notice);
        }
        (id, wakeup)
    }

    /// Detaches a client. Returns whether it had write access.
    pub(super) fn detach(&mut self, id: ClientId) -> bool {
        let detached_client = self.clients.remove(&id);
        let had_write_access = self.writer == Some(id);
        if had_write_access {
            self.writer = None;
            if let Some(detached_client) = detached_client {
                self.notify_all(&format!(
                    "{} left: type to get write access",
                    detached_client.address
                ));
            }
        }
        had_write_access
    }

    /// Queues input for the line as far as the queue has space. If no client has write access,
    /// grants write access to this client.
    pub(super) fn enqueue_input(&mut self, id: ClientId, bytes: &[u8]) -> InputResult {
        let may_write = self.clients.get(&id).is_some_and(|client| client.may_write);
        if !may_write {
            return InputResult::Forbidden;
        }
        if self.writer.is_none() {
            self.grant_write_access(id);
        }
        if self.writer != Some(id) {
            return InputResult::NoWriteAccess;
        }
        let count = bytes.len().min(LINE_INPUT_LEN.saturating_sub(self.line_input.len()));
        self.line_input.extend(bytes.iter().take(count));
        InputResult::Accepted(count)
    }

    /// Transfers write access to a client. Returns whether the client may write.
    pub(super) fn take_write_access(&mut self, id: ClientId) -> bool {
        let may_write = self.clients.get(&id).is_some_and(|client| client.may_write);
        if may_write && self.writer != Some(id) {
            self.grant_write_access(id);
        }
        may_write
    }

    /// Ends the write access of a client, which then only watches.
    pub(super) fn release_write_access(&mut self, id: ClientId) {
        if self.writer == Some(id) {
            self.writer = None;
            self.notify_all("no client has write access: type to get it");
        }
    }

    pub(super) fn has_write_access(&self, id: ClientId) -> bool {
        self.writer == Some(id)
    }

    fn grant_write_access(&mut self, id: ClientId) {
        self.writer = Some(id);
        let ids: Vec<_> = self.clients.keys().copied().collect();
        for other in ids {
            let notice = self.write_access_notice(other);
            self.notify(other, &notice);
        }
    }

    /// Returns the notice that tells one client which client has write access.
    fn write_access_notice(&self, id: ClientId) -> String {
        let may_write = self.clients.get(&id).is_some_and(|client| client.may_write);
        match self.writer.map(|writer| (writer, self.clients.get(&writer))) {
            Some((writer, _)) if writer == id => {
                "you have write access; ^E c ? lists the keys".into()
            }
            Some((_, Some(writer))) if may_write => {
                format!("{} has write access, you watch; ^E c f takes over", writer.address)
            }
            Some((_, Some(writer))) => format!("{} has write access, you watch", writer.address),
            _ => "no client has write access, you watch".into(),
        }
    }

    /// Returns one line per client: its address and whether it writes or watches.
    pub(super) fn list_clients(&self) -> Vec<String> {
        let line = |(id, client): (&ClientId, &Client)| {
            let mode = if self.writer == Some(*id) { "writes" } else { "watches" };
            format!("{} {mode}", client.address)
        };
        self.clients.iter().map(line).collect()
    }

    /// Queues output of the line for all clients. Returns the number of bytes dropped for slow
    /// clients.
    pub(super) fn broadcast(&mut self, bytes: &[u8]) -> u64 {
        append_bounded(&mut self.history, bytes, HISTORY_LEN);
        let mut dropped_bytes = 0;
        for client in self.clients.values_mut() {
            let client_dropped_bytes = append_bounded(&mut client.queue, bytes, QUEUE_LEN);
            client.dropped_bytes += client_dropped_bytes;
            dropped_bytes += client_dropped_bytes;
            client.wakeup.notify_one();
        }
        dropped_bytes
    }

    /// Returns the most recent output of the line.
    pub(super) fn history(&self) -> Vec<u8> {
        self.history.iter().copied().collect()
    }

    /// Records set bits of the RFC 2217 line state.
    pub(super) fn add_line_state(&mut self, bits: u8) {
        for client in self.clients.values_mut() {
            if client.masks.is_some_and(|masks| masks.line & bits != 0) {
                client.line_state |= bits;
                client.wakeup.notify_one();
            }
        }
    }

    /// Records the modem lines: the upper four bits of the RFC 2217 modem state.
    pub(super) fn set_modem_state(&mut self, state: u8) {
        let previous = self.modem_state.replace(state);
        let unreported_bits = previous.map_or(0xF0, |previous| previous ^ state);
        let changed_bits = previous.map_or(0, |previous| (previous ^ state) >> 4);
        for client in self.clients.values_mut() {
            let mask = client.masks.map_or(0, |masks| masks.modem);
            if (unreported_bits | changed_bits) & mask != 0 {
                let earlier = client.modem_state.map_or(0, |earlier| earlier & 0x0F);
                client.modem_state = Some((state | changed_bits | earlier) & mask);
                client.wakeup.notify_one();
            }
        }
    }

    /// Sets the masks of a client. The first call also reports the current modem lines.
    pub(super) fn set_masks(&mut self, id: ClientId, masks: Masks) {
        let modem_state = self.modem_state;
        if let Some(client) = self.clients.get_mut(&id) {
            if client.masks.is_none() {
                client.modem_state = modem_state.map(|modem_state| modem_state & masks.modem);
                client.wakeup.notify_one();
            }
            client.masks = Some(masks);
        }
    }

    pub(super) fn wants_modem_state(&self) -> bool {
        self.clients.values().any(|client| client.masks.is_some_and(|masks| masks.modem != 0))
    }

    /// Returns pending output and notices of a client, with at most
    /// `output_max_bytes` bytes of output.
    pub(super) fn take_pending(&mut self, id: ClientId, output_max_bytes: usize) -> Pending {
        let Some(client) = self.clients.get_mut(&id) else { return Pending::default() };
        let count = client.queue.len().min(output_max_bytes);
        Pending {
            output: client.queue.drain(..count).collect(),
            dropped_bytes: std::mem::take(&mut client.dropped_bytes),
            notices: client.notices.drain(..).collect(),
            line_state: Some(std::mem::take(&mut client.line_state)).filter(|state| *state != 0),
            modem_state: client.modem_state.take(),
        }
    }

    pub(super) fn has_output(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| !client.queue.is_empty())
    }

    /// Discards the queued output of a client.
    pub(super) fn discard_output(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.queue.clear();
        }
    }

    /// Returns the bytes queued for the line.
    pub(super) fn queued_input(&mut self) -> &[u8] {
        self.line_input.make_contiguous()
    }

    /// Removes `count` bytes that the line has accepted, and wakes the client with write access
    /// when the queue has space again.
    pub(super) fn consume_input(&mut self, count: usize) {
        let count = count.min(self.line_input.len());
        self.line_input.drain(..count);
        let writer = self.writer.and_then(|writer| self.clients.get(&writer));
        if let Some(writer) = writer.filter(|_| count > 0) {
            writer.wakeup.notify_one();
        }
    }

    /// Discards the bytes queued for a lost line, because another device may take its place.
    pub(super) fn discard_input(&mut self) {
        let waiting = self.line_input.len();
        self.consume_input(waiting);
        self.modem_state = None;
    }

    /// Queues a notice for all clients.
    pub(super) fn notify_all(&mut self, notice: &str) {
        let ids: Vec<_> = self.clients.keys().copied().collect();
        ids.into_iter().for_each(|id| self.notify(id, notice));
    }

    /// Queues a notice for one client.
    pub(super) fn notify(&mut self, id: ClientId, notice: &str) {
        if let Some(client) = self.clients.get_mut(&id)
            && client.notices.len() < NOTICES_MAX
        {
            client.notices.push_back(notice.to_owned());
            client.wakeup.notify_one();
        }
    }
}

/// Appends `bytes` to a queue of at most `limit` bytes. Returns the number of bytes dropped from
/// its start.
fn append_bounded(queue: &mut VecDeque<u8>, bytes: &[u8], limit: usize) -> u64 {
    queue.extend(bytes);
    let dropped = queue.len().saturating_sub(limit);
    queue.drain(..dropped);
    dropped as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    fn notices(multiplexer: &mut LineMultiplexer, id: ClientId) -> String {
        multiplexer.take_pending(id, 0).notices.join("; ")
    }

    #[test]
    fn the_first_client_that_may_write_gets_write_access_and_the_others_are_notified() {
        let mut multiplexer = LineMultiplexer::default();
        let (watcher, _) = multiplexer.attach(address(1), false);
        let (first, _) = multiplexer.attach(address(2), true);
        let (second, _) = multiplexer.attach(address(3), true);
        assert_eq!(multiplexer.enqueue_input(watcher, b"a"), InputResult::Forbidden);
        assert_eq!(multiplexer.enqueue_input(second, b"b"), InputResult::NoWriteAccess);
        assert_eq!(multiplexer.enqueue_input(first, b"c"), InputResult::Accepted(1));
        assert_eq!(multiplexer.queued_input(), b"c");
        assert!(notices(&mut multiplexer, first).contains("you have write access"));
        let second = notices(&mut multiplexer, second);
        assert!(second.contains("192.0.2.1:2 has write access, you watch; ^E c f"));
        assert!(
            notices(&mut multiplexer, watcher).ends_with("192.0.2.1:2 has write access, you watch")
        );
    }

    #[test]
    fn taking_write_access_notifies_both_clients() {
        let mut multiplexer = LineMultiplexer::default();
        let (first, _) = multiplexer.attach(address(1), true);
        let (second, _) = multiplexer.attach(address(2), true);
        let (watcher, _) = multiplexer.attach(address(3), false);
        assert!(!multiplexer.take_write_access(watcher) && multiplexer.has_write_access(first));
        assert!(multiplexer.take_write_access(second) && multiplexer.has_write_access(second));
        let expected = "192.0.2.1:2 has write access, you watch; ^E c f takes over";
        assert!(notices(&mut multiplexer, first).ends_with(expected));
        assert!(notices(&mut multiplexer, second).ends_with("^E c ? lists the keys"));
        assert_eq!(multiplexer.enqueue_input(first, b"x"), InputResult::NoWriteAccess);
    }

    #[test]
    fn the_next_client_that_types_gets_free_write_access() {
        let mut multiplexer = LineMultiplexer::default();
        let (first, _) = multiplexer.attach(address(1), true);
        let (second, _) = multiplexer.attach(address(2), true);
        assert!(multiplexer.detach(first));
        assert!(!multiplexer.has_write_access(second));
        assert_eq!(multiplexer.enqueue_input(second, b"x"), InputResult::Accepted(1));
        assert!(multiplexer.has_write_access(second));
        multiplexer.release_write_access(second);
        assert!(!multiplexer.has_write_access(second) && !multiplexer.detach(second));
    }

    #[test]
    fn a_slow_reader_loses_its_oldest_output_and_blocks_no_other_client() {
        let mut multiplexer = LineMultiplexer::default();
        let (slow, _) = multiplexer.attach(address(1), true);
        let (fast, _) = multiplexer.attach(address(2), true);
        let mut received_bytes = 0;
        for number in 0..100_u8 {
            multiplexer.broadcast(&[number; 1024]);
            received_bytes += multiplexer.take_pending(fast, usize::MAX).output.len();
        }
        assert_eq!(received_bytes, 100 * 1024);
        let pending = multiplexer.take_pending(slow, usize::MAX);
        assert_eq!((pending.dropped_bytes, pending.output.len()), (36 * 1024, QUEUE_LEN));
        assert_eq!((pending.output[0], pending.output[QUEUE_LEN - 1]), (36, 99));
        assert_eq!(multiplexer.history().len(), HISTORY_LEN);
    }

    #[test]
    fn a_blocked_line_accepts_input_up_to_a_limit() {
        let mut multiplexer = LineMultiplexer::default();
        let (id, _) = multiplexer.attach(address(1), true);
        assert_eq!(
            multiplexer.enqueue_input(id, &[0; 10_000]),
            InputResult::Accepted(LINE_INPUT_LEN)
        );
        assert_eq!(multiplexer.enqueue_input(id, b"x"), InputResult::Accepted(0));
        multiplexer.consume_input(10);
        assert_eq!(multiplexer.enqueue_input(id, &[0; 100]), InputResult::Accepted(10));
    }

    #[test]
    fn queued_notices_of_a_client_that_does_not_read_are_limited() {
        let mut multiplexer = LineMultiplexer::default();
        let (id, _) = multiplexer.attach(address(1), true);
        (0..1000).for_each(|_| multiplexer.notify_all("again"));
        assert_eq!(multiplexer.take_pending(id, 0).notices.len(), NOTICES_MAX);
    }

    #[test]
    fn modem_state_changes_are_reported_within_the_mask_of_each_client() {
        let mut multiplexer = LineMultiplexer::default();
        let (id, _) = multiplexer.attach(address(1), true);
        let (other, _) = multiplexer.attach(address(2), true);
        multiplexer.set_modem_state(0xB0);
        multiplexer.set_masks(id, Masks { line: 0x10, modem: 0xFF });
        assert_eq!(multiplexer.take_pending(id, 0).modem_state, Some(0xB0));
        multiplexer.set_modem_state(0x30);
        multiplexer.set_modem_state(0x30);
        assert_eq!(multiplexer.take_pending(id, 0).modem_state, Some(0x38));
        multiplexer.add_line_state(0x10);
        multiplexer.add_line_state(0x08);
        assert_eq!(multiplexer.take_pending(id, 0).line_state, Some(0x10));
        let others = multiplexer.take_pending(other, 0);
        assert_eq!((others.modem_state, others.line_state), (None, None));
    }
}
