//! One connection: the transmission control block of RFC 9293 §3.3.1, with the names used there.

use super::fast_open;
use super::header::{Flags, Header, Options};
use super::path_search::PathSearch;
use super::profile::{Profile, SendLimit, WindowUpdate};
use super::receive_buffer::ReceiveBuffer;
use super::receive_tuning::ReceiveTuning;
use super::recovery::Recovery;
use super::rtt::RttEstimator;
use super::sack::{MAX_BLOCKS, SackList};
use super::send_buffer::SendBuffer;
use super::seq::Seq;
use super::settled::{Known, Settled};
use super::status::{Ending, Event, Statistics};
use super::timeouts::Timers;
use crate::internet::icmp::ErrorKind;
use crate::time::{Duration, Far, Instant, Near, Stamp};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// RFC 9293 §3.7.1 (MUST-15): what the peer takes if it does not say.
pub(super) const DEFAULT_MSS: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// The least segment we are brought to by a peer's option (attack row 25).
const MIN_MSS: u16 = 64;

/// The states of RFC 9293 §3.3.2. LISTEN is not one of a connection's own: see `Tcp::listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for a matching connection request after having sent one.
    SynSent,
    /// Waiting for the acknowledgment after having both received and sent a request.
    SynReceived,
    /// Open: data can be received and sent.
    Established,
    /// The user has closed; the FIN is not yet acknowledged.
    FinWait1,
    /// The user has closed and the peer has acknowledged it.
    FinWait2,
    /// The peer has closed; the user has not.
    CloseWait,
    /// Both have closed at the same time; our FIN is not yet acknowledged.
    Closing,
    /// The peer has closed, then the user; our FIN is not yet acknowledged.
    LastAck,
    /// Waiting until no old segment can be about any more.
    TimeWait,
    /// No connection.
    Closed,
}

impl State {
    /// Returns whether the user may still send.
    #[must_use]
    pub const fn takes_data(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Returns whether queued data and the FIN may be put into segments.
    pub(super) const fn emits_data(self) -> bool {
        matches!(
            self,
            Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck
        )
    }

    /// Returns whether the peer may still send data.
    pub(super) const fn expects_data(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        })
    }
}

/// What is owed to the peer in acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckOwed {
    Nothing,
    /// At the latest then; sooner if it can ride on data.
    By(Instant),
    /// At the next output.
    Now,
}

/// A SYN whose acknowledgment is timed (Karn: dropped if it is sent again).
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) end: Seq,
    pub(super) sent_at: Instant,
}

/// Explicit congestion notification (RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecn {
    /// Both ends have agreed.
    pub(super) is_on: bool,
    /// A mark that the peer has not yet answered is echoed.
    pub(super) echoes: bool,
    /// The next new data says that the window was reduced.
    pub(super) owes_reduced: bool,
}

/// What must not be guessed about a connection from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) iss: Seq,
    pub(super) ts_offset: u32,
    pub(super) now: Instant,
}

/// Where a connection runs from and to, and how large a segment its link takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) link_mss: u16,
    /// Data bytes of the longest segment that the way takes, as far as the layer below knows.
    pub(super) path_mss: u16,
}

/// The transmission control block.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: Endpoints,
    pub(super) state: State,
    /// MUST-11: SYN-RECEIVED remembers how it was entered.
    pub(super) is_passive: bool,
    /// The same for all connections of a listener, until the user changes it for one.
    pub(super) profile: Arc<Profile>,

    pub(super) iss: Seq,
    pub(super) snd_una: Seq,
    pub(super) snd_nxt: Seq,
    /// The highest number ever sent; the byte that probes a shut window is behind `snd_nxt`.
    pub(super) snd_max: Seq,
    pub(super) snd_wnd: u32,
    pub(super) snd_wnd_max: u32,
    pub(super) snd_wl1: Seq,
    pub(super) snd_wl2: Seq,
    pub(super) snd_up: Option<Seq>,
    pub(super) snd_mss: u32,
    pub(super) snd_shift: u8,
    pub(super) send: SendBuffer,
    /// The number of the first byte in the send buffer.
    pub(super) send_start: Seq,
    /// The user has closed: a FIN follows the last byte.
    pub(super) is_closing: bool,

    pub(super) irs: Seq,
    pub(super) rcv_nxt: Seq,
    /// The right edge of the window that the peer was told.
    pub(super) rcv_adv: Seq,
    pub(super) rcv_up: Option<Seq>,
    pub(super) rcv_shift: u8,
    pub(super) receive: ReceiveBuffer,
    /// Made when so much has come that the size of the window matters.
    pub(super) tuning: Option<Box<ReceiveTuning>>,
    /// Where the peer's FIN stands, if it came before all the data.
    pub(super) rcv_fin: Option<Seq>,
    /// The peer's FIN is counted in `rcv_nxt`.
    pub(super) peer_closed: bool,
    /// Data bytes since the last acknowledgment that we sent.
    pub(super) unacknowledged: u32,

    /// The timestamp to echo (RFC 7323 §4.3), if both sides use timestamps.
    pub(super) ts_recent: Option<Stamp<Far>>,
    pub(super) ts_recent_at: Instant,
    /// Hides from the peer how long this host has been up.
    pub(super) ts_offset: u32,
    pub(super) last_ack_sent: Seq,
    pub(super) rtt: RttEstimator,
    pub(super) timed: Option<Timed>,
    /// Made when the first data leaves: a connection that sends nothing does without.
    pub(super) recovery: Option<Box<Recovery>>,
    /// What is left of it where others need the memory more.
    pub(super) settled: Option<Box<Settled>>,
    /// RFC 6928 §2: the SYN was lost more than once, so the first flight is one segment.
    pub(super) begins_small: bool,
    pub(super) ecn: Ecn,
    /// Both ends have permitted selective acknowledgments (RFC 2018 §2).
    pub(super) has_sack: bool,
    /// Made when the first segment comes out of order.
    pub(super) sack: Option<Box<SackList>>,
    pub(super) timers: Timers,
    pub(super) ack_owed: AckOwed,
    /// Further acknowledgments owed for segments out of order: the peer counts them.
    pub(super) duplicate_acks_owed: u32,
    /// Nothing was heard of the last segments for too long (RFC 8985 §7.3).
    pub(super) must_probe_tail: bool,
    /// The segment that is being made is that probe.
    pub(super) is_tail_probe: bool,
    /// The window is shut or too small and the persist timer has run out.
    pub(super) must_probe: bool,
    /// The peer is to be asked whether it is still there.
    pub(super) must_keep_alive: bool,
    /// R1 timeouts have passed: the layer below should look for another way (MUST-20).
    pub(super) suspects_route: bool,
    /// The user timeout that the peer has told (RFC 5482).
    pub(super) peer_timeout: Option<Duration>,
    /// Our user timeout is to be told with the next segment.
    pub(super) must_tell_timeout: bool,
    /// What is said about Fast Open, until it is open.
    pub(super) fast_open: Option<Box<fast_open::Part>>,
    /// The data of the peer's SYN was taken before the handshake has ended.
    pub(super) is_early: bool,
    /// Made when segments vanish that may be too long (RFC 8899).
    pub(super) path: Option<Box<PathSearch>>,
    pub(super) last_sent_at: Instant,
    /// When the last segment came that was acceptable.
    pub(super) heard_at: Instant,
    pub(super) challenges: (Instant, u32),

    /// Nobody reads what comes, or waits for what goes.
    pub(super) is_released: bool,
    /// It was released with data unread.
    pub(super) must_abort: bool,
    /// What the network last said about a segment since anything was acknowledged.
    pub(super) soft_error: Option<ErrorKind>,
    pub(super) ending: Option<Ending>,
    pub(super) news: u8,
    pub(super) statistics: Statistics,
}

impl Connection {
    pub(super) fn new(ends: Endpoints, profile: Arc<Profile>, start: Start, state: State) -> Self {
        let Start { iss, now, .. } = start;
        let shift = if profile.extensions { shift_for(profile.receive_window.limit()) } else { 0 };
        let send_limit = send_limit(&profile, u32::from(DEFAULT_MSS));
        let receive = ReceiveBuffer::new(profile.receive_window.start(), shift);
        Self {
            ends,
            state,
            is_passive: false,
            iss,
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_wnd: 0,
            snd_wnd_max: 0,
            snd_wl1: Seq(0),
            snd_wl2: Seq(0),
            snd_up: None,
            snd_mss: u32::from(DEFAULT_MSS),
            snd_shift: 0,
            send: SendBuffer::new(send_limit),
            send_start: iss + 1,
            is_closing: false,
            irs: Seq(0),
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            rcv_up: None,
            rcv_shift: shift,
            receive,
            tuning: None,
            rcv_fin: None,
            peer_closed: false,
            unacknowledged: 0,
            ts_recent: None,
            ts_recent_at: now,
            ts_offset: start.ts_offset,
            last_ack_sent: Seq(0),
            rtt: RttEstimator::new(profile.rto_min).with(profile.retransmission),
            timed: None,
            recovery: None,
            settled: None,
            begins_small: false,
            ecn: Ecn::default(),
            has_sack: false,
            sack: None,
            timers: Timers::default(),
            ack_owed: AckOwed::Nothing,
            duplicate_acks_owed: 0,
            must_probe_tail: false,
            is_tail_probe: false,
            must_probe: false,
            must_keep_alive: false,
            suspects_route: false,
            peer_timeout: None,
            must_tell_timeout: false,
            fast_open: None,
            is_early: false,
            path: None,
            last_sent_at: now,
            heard_at: now,
            challenges: (now, 0),
            is_released: false,
            must_abort: false,
            soft_error: None,
            ending: None,
            news: 0,
            statistics: Statistics::default(),
            profile,
        }
    }

    /// Returns the largest segment that `remote` takes if it does not say (MUST-15).
    pub(super) fn default_mss(remote: IpAddr) -> u16 {
        if remote.is_ipv4() { DEFAULT_MSS } else { DEFAULT_MSS_V6 }
    }

    /// Returns the largest segment we can take, as our SYN says it.
    pub(super) fn receive_mss(&self) -> u16 {
        self.profile.mss_max.unwrap_or(u16::MAX).min(self.ends.link_mss)
    }

    /// Takes what the peer's SYN says: its number, its options and its window.
    pub(super) fn synchronize(&mut self, syn: &Header) {
        self.irs = syn.seq;
        self.rcv_nxt = syn.seq + 1;
        let window = u32::try_from(self.receive.window()).unwrap_or(u32::MAX);
        self.rcv_adv = self.rcv_nxt + window.min(0xFFFF);
        match (self.profile.extensions, syn.options.window_scale) {
            (true, Some(shift)) => self.snd_shift = shift,
            _ => (self.snd_shift, self.rcv_shift) = (0, 0),
        }
        let may_stamp = self.profile.extensions && self.profile.timestamps;
        let offered = syn.options.heard_stamps().filter(|_| may_stamp);
        self.ts_recent = offered.map(|(value, _)| value);
        self.note_user_timeout(syn);
        self.last_ack_sent = self.rcv_nxt;
        let default_mss = Self::default_mss(self.ends.remote.ip());
        let peer_mss = syn.options.mss.unwrap_or(default_mss).max(MIN_MSS);
        let options = if self.ts_recent.is_some() { 12 } else { 0 };
        let mss = peer_mss.min(self.receive_mss()).min(self.ends.path_mss);
        self.snd_mss = u32::from(mss).saturating_sub(options).max(1);
        self.has_sack = self.profile.extensions && syn.options.sack_permitted;
        self.ecn.is_on = self.profile.ecn && is_ecn_setup(syn.flags);
        self.send.set_limit(send_limit(&self.profile, self.snd_mss));
        self.snd_wnd = u32::from(syn.window);
        self.snd_wnd_max = self.snd_wnd;
        self.snd_wl1 = syn.seq;
        self.snd_wl2 = syn.ack;
    }

    /// Returns what knows about losses and congestion.
    pub(super) fn recovery(&mut self) -> &mut Recovery {
        // In an early answer the SYN is not acknowledged yet, and is no data.
        let (mss, una) = (self.snd_mss, self.snd_una.max(self.send_start));
        let (congestion, has_sack) = (self.profile.congestion, self.has_sack);
        let (begins_small, settled) = (self.begins_small, &mut self.settled);
        self.recovery.get_or_insert_with(|| {
            let mut recovery = Box::new(Recovery::new(congestion, mss, una, has_sack));
            if begins_small {
                recovery.window.syn_was_lost();
            }
            if let Some(settled) = settled.take() {
                recovery.resume(&settled);
            }
            recovery
        })
    }

    /// Returns what is known about losses and congestion, once anything was sent.
    pub(super) fn known(&self) -> Option<Known<'_>> {
        let busy = self.recovery.as_deref().map(Known::Busy);
        busy.or_else(|| self.settled.as_deref().map(Known::Settled))
    }

    /// Keeps of the recovery only what the next flight has to know, if nothing is out; returns
    /// whether that is done.
    pub(super) fn settle(&mut self) -> bool {
        let settled = self.recovery.as_ref().and_then(|recovery| recovery.settled());
        if let Some(settled) = settled {
            self.settled = Some(Box::new(settled));
            self.recovery = None;
            self.tuning = None;
            self.send.shrink();
            self.receive.shrink();
        }
        self.recovery.is_none()
    }

    /// Returns the number behind everything that the user has given, its FIN included.
    pub(super) fn snd_end(&self) -> Seq {
        self.send_start + self.send.len() + u32::from(self.is_closing)
    }

    /// Returns how many numbers were sent and are not acknowledged, as `snd_nxt` counts them.
    pub(super) fn outstanding(&self) -> u32 {
        self.snd_nxt.since(self.snd_una)
    }

    /// Returns whether the peer has acknowledged our FIN.
    pub(super) fn fin_is_acknowledged(&self) -> bool {
        self.is_closing && self.snd_una == self.snd_end()
    }

    /// Returns the window that the peer may still use, as it was last told.
    pub(super) fn rcv_wnd(&self) -> u32 {
        if self.rcv_adv.is_after(self.rcv_nxt) { self.rcv_adv.since(self.rcv_nxt) } else { 0 }
    }

    /// Returns the window to tell the peer now: never less than it was told before, and more only
    /// when that is worth a segment (RFC 9293 §3.8.6.2.2, MUST-39).
    pub(super) fn window_to_offer(&self) -> u32 {
        let (capacity, growth) = self.window_growth();
        let told = self.rcv_wnd();
        // With a segment that leaves anyway it may move by one; the peer may make its segments a
        // little shorter, so that they fill a small window.
        let is_one = self.has_small_window()
            && self.profile.window_update == WindowUpdate::TwoSegments
            && growth >= (self.snd_mss / 4 * 3).min(capacity / 4);
        let is_worth_it = growth > 0 && (is_one || self.is_worth_telling(growth, capacity));
        if is_worth_it { told + growth } else { told }
    }

    /// Returns the largest window, and how much more of it is free than the peer was told.
    fn window_growth(&self) -> (u32, u32) {
        let capacity = u32::try_from(self.receive.window()).unwrap_or(u32::MAX);
        // More than the window field can say would always look like news.
        let capacity = capacity.min(0xFFFF << self.rcv_shift);
        let unread = u32::try_from(self.receive.readable()).unwrap_or(u32::MAX);
        (capacity, capacity.saturating_sub(unread).saturating_sub(self.rcv_wnd()))
    }

    /// Decides about a window that has grown by `growth` since it was told, of `capacity`.
    fn is_worth_telling(&self, growth: u32, capacity: u32) -> bool {
        match self.profile.window_update {
            // A reader of single bytes would else open a shut window by single bytes.
            WindowUpdate::HalfUsed => {
                self.rcv_wnd() <= capacity / 2 && growth >= self.snd_mss.min(capacity / 2)
            }
            WindowUpdate::UsedUp => self.rcv_wnd() < self.snd_mss.min(capacity / 4),
            WindowUpdate::AsRead => true,
            WindowUpdate::TwoSegments => growth >= (2 * self.snd_mss).min(capacity / 2),
        }
    }

    /// Returns whether our window is one of few segments: to wait with an acknowledgment for a
    /// second one would keep a good part of it from being used.
    pub(super) fn has_small_window(&self) -> bool {
        self.receive.window() < FEW_SEGMENTS * self.snd_mss as usize
    }

    /// Owes a segment if the window has opened enough since the peer was last told.
    pub(super) fn owe_window_update(&mut self) {
        let (capacity, growth) = self.window_growth();
        if self.state.expects_data() && growth > 0 && self.is_worth_telling(growth, capacity) {
            self.ack_owed = AckOwed::Now;
        }
    }

    /// Returns the options of a segment other than a SYN, but for its blocks.
    pub(super) fn options(&self, now: Instant) -> Options {
        let stamped = |recent| Options::stamped(self.timestamp(now), recent);
        self.ts_recent.map(stamped).unwrap_or_default()
    }

    /// Returns how many blocks there is room for in a header, and beside a byte of data in a
    /// segment: on the narrowest links one with all blocks would be too long.
    pub(super) fn blocks_max(&self) -> usize {
        let most = if self.ts_recent.is_some() { MAX_BLOCKS - 1 } else { MAX_BLOCKS };
        let fits = |count: &usize| (Options::sack_len(*count) as u64) < u64::from(self.snd_mss);
        (1..=most).rev().find(fits).unwrap_or(0)
    }

    /// Returns the data bytes of the longest segment that also says what blocks there are.
    pub(super) fn data_mss(&self) -> u32 {
        let count = self.sack.as_ref().map_or(0, |sack| sack.len(self.blocks_max()));
        let blocks = Options::sack_len(count);
        let mss = self.snd_mss.saturating_sub(u32::try_from(blocks).unwrap_or(0)).max(1);
        self.recovery.as_ref().map_or(mss, |recovery| recovery.even_len(self.most_out(), mss))
    }

    /// Returns how many bytes may be outstanding, as far as both buffers go.
    pub(super) fn most_out(&self) -> u32 {
        self.snd_wnd_max.min(u32::try_from(self.send.limit()).unwrap_or(u32::MAX))
    }

    /// Returns the timestamp clock: milliseconds from a random start.
    pub(super) fn timestamp(&self, now: Instant) -> Stamp<Near> {
        let millis = now.as_nanos() / 1_000_000;
        let ticks = u32::try_from(millis & 0xFFFF_FFFF).unwrap_or(0);
        Stamp::new(ticks.wrapping_add(self.ts_offset))
    }

    /// Notes news for the user.
    pub(super) fn tell(&mut self, event: Event) {
        self.news |= event.bit();
    }

    /// Returns the next news for the user.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = *Event::ORDER.iter().find(|event| self.news & event.bit() != 0)?;
        self.news &= !event.bit();
        Some(event)
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, ending: Ending) {
        self.state = State::Closed;
        self.timers = Timers::default();
        (self.sack, self.tuning) = (None, None);
        self.ack_owed = AckOwed::Nothing;
        self.ending.get_or_insert(ending);
        self.tell(Event::Closed);
    }

    /// Enters TIME-WAIT, or starts its time again.
    pub(super) fn wait_out(&mut self, now: Instant) {
        self.state = State::TimeWait;
        (self.sack, self.tuning) = (None, None);
        self.timers.retransmit = None;
        self.timers.persist = None;
        self.timers.released = None;
        self.timers.time_wait = Some(now + TIME_WAIT);
    }
}

/// In a window of fewer segments each of them counts.
const FEW_SEGMENTS: usize = 32;
/// Two maximum segment lifetimes of half a minute: what Linux and the BSDs wait.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// RFC 3168 §6.1.1: a SYN that offers ECN has both bits, and one that accepts it has the first.
fn is_ecn_setup(flags: Flags) -> bool {
    flags.has(Flags::ECE) && flags.has(Flags::CWR) != flags.has(Flags::ACK)
}

pub(super) fn send_limit(profile: &Profile, mss: u32) -> usize {
    match profile.send_limit {
        SendLimit::OneSegment => mss as usize,
        SendLimit::Bytes(bytes) | SendLimit::Tuned { start: bytes, .. } => bytes,
    }
}

/// The least shift with which the window field can say `window`.
pub(super) fn shift_for(window: usize) -> u8 {
    (0..14).find(|shift| window >> shift <= 0xFFFF).unwrap_or(14)
}
