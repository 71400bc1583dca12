//! Measurements: where the time of a login, a file transfer, a serial line or a recorded session
//! goes, and what limits it.
//!
//! A [`Series`] makes consecutive tries at a [`MeasureTarget`]; its result is a record with the tries,
//! the six measures of RFC 573, the causes and the predictions. A [`MeasureSession`] is one measured
//! login over any carrier; [`measurement`] converts its results to a record. The crate parses no
//! arguments and prints nothing: the caller passes [`MeasureOptions`], and a function that displays
//! the progress.
//!
//! ```text
//! series         consecutive tries at a target, and their record
//!   login_runs   login_session: a complete login; probe_login: availability and accuracy
//!   transfers    files of increasing sizes, by the FTP and TFTP clients
//!   recorded     the content of a recording
//!   running      the activity of a running plumb, by its meters
//! ```
#![forbid(unsafe_code)]

mod circumstances;
mod command_response;
mod command_text;
mod comparison;
mod concurrent_echo;
mod console;
mod echo;
mod forecast;
mod forecast_login;
mod interrupt;
mod login_runs;
mod login_session;
#[cfg(test)]
mod login_session_cause_tests;
#[cfg(test)]
mod login_session_tests;
mod long_output;
mod measure_options;
mod nanoseconds;
mod observed;
mod observed_session;
mod outcome;
mod probe_login;
mod progress;
mod prompt;
mod record;
mod recorded;
mod refused_login;
mod running;
mod schedule;
mod screen_output;
mod series;
mod session_parameters;
mod session_results;
mod short_output;
mod target;
mod timestamps;
mod transfers;

pub use circumstances::{Carrier, Circumstances};
pub use command_text::command_text;
pub use comparison::compare;
pub use interrupt::{Interrupter, Interrupts};
pub use login_session::MeasureSession;
pub use measure_options::{FileOptions, LoginOptions, MeasureOptions};
pub use outcome::{FailureKind, TryFailure, TryResults};
pub use progress::ProgressLine;
pub use prompt::Prompts;
pub use record::{measurement, median_keystroke};
pub use schedule::{FOLLOW_INTERVAL, TRIES_MAX, duration, large_size, schedule, size};
pub use series::{Schedule, Series, SeriesResult};
pub use session_parameters::{Login, SessionParameters};
pub use session_results::SessionResults;
pub use target::{LoginTarget, MeasureTarget, ProgramTarget, SerialTarget};
