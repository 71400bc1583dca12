//! Results of a login session.

use super::command_response::ResponseTimes;
use super::concurrent_echo::EchoUnderLoad;
use super::console::Watch;
use super::echo::Keystroke;
use super::long_output::SustainedEcho;
use super::prompt::Prompt;
use super::screen_output::ReceivedOutput;
use super::timestamps::SpentTime;
use carrier::CarrierStatus;
use net::time::{Duration, Instant};
use records::verdict::Unfinished;

/// Results of the session.
#[derive(Debug, Default)]
pub struct SessionResults {
    /// Time at which the connection opened.
    pub opened_at: Option<Instant>,
    /// Time of the first data from the remote host.
    pub(crate) first_data_at: Option<Instant>,
    /// Time at which the negotiation was complete.
    pub(crate) negotiated_at: Option<Instant>,
    /// First prompt, and the time of its last character.
    pub(crate) prompt: Option<(Prompt, Instant)>,
    /// Whether no data had arrived at the time in `prompt`. That time is then only the expiration
    /// of the session's own timeout.
    pub(crate) is_silent: bool,
    /// Commands with their output.
    pub initial_commands: Vec<(String, Vec<u8>)>,
    /// Timed keystrokes with their echoes.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// Number of keys that were to be typed, if it was reduced because the path is slow.
    pub(crate) reduced_from: Option<usize>,
    /// Echo times of the keys that erased the timed characters.
    pub(crate) erasures: Vec<Duration>,
    /// Intervals between two consecutive stamps: the overhead of the measurement.
    pub(crate) stamp_overheads: Vec<SpentTime>,
    /// CPU time of this process per typed key.
    pub(crate) cpu_per_key: Option<Duration>,
    /// Short outputs before the screenful.
    pub(crate) short_outputs: Vec<Watch>,
    /// Screenful, and whether a command produced it.
    pub(crate) screenful: Option<(ReceivedOutput, bool)>,
    /// Echo times of keys typed at a steady pace.
    pub(crate) paced_echoes: Vec<Duration>,
    /// A screenful whose segments are acknowledged with the usual delay of other programs.
    pub(crate) screenful_delayed_ack: Option<ReceivedOutput>,
    /// Short answers with immediate and with delayed acknowledgments.
    pub(crate) response_times: ResponseTimes,
    /// A long output, and the echo times of keys typed during it.
    pub(crate) under_load: Option<EchoUnderLoad>,
    /// Further, longer outputs after `under_load`, and the echo times of keys typed during them.
    pub(crate) sustained: Option<SustainedEcho>,
    /// Whether the remote host refused the login.
    pub(crate) is_refused: bool,
    /// Whether the remote host ended the session or stopped answering before all was measured.
    pub(crate) is_cut_off: bool,
    /// The output or echo that ended the session because it was incomplete.
    pub(crate) unfinished: Option<Unfinished>,
    /// Time from the user name until the prompt for a password.
    pub(crate) password_prompt: Option<Duration>,
    /// Time from the last answer to a login prompt until the shell's prompt.
    pub(crate) login: Option<Duration>,
    /// Time that this process waited for a CPU from the connection to the first key.
    pub(crate) login_wait: Option<Duration>,
    /// Status of the carrier before and after the echoes.
    pub(crate) status_of_echoes: [Option<CarrierStatus>; 2],
    /// Status of the carrier before and after the screenful.
    pub(crate) status_of_screenful: [Option<CarrierStatus>; 2],
    /// Status of the carrier before the long output.
    pub(crate) status_before: Option<CarrierStatus>,
    /// Status of the carrier after the longest output.
    pub(crate) status_sustained: Option<CarrierStatus>,
    /// Latest status of the carrier, not counting the status after the longest output.
    pub(crate) status: Option<CarrierStatus>,
    /// Incomplete parts of the measurement, each a sentence without a full stop.
    pub notes: Vec<String>,
}
