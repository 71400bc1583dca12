//! Parameters of a measuring session: the number of keys, the credentials, the prompts and the time
//! limits.

use super::prompt::Prompts;
use net::time::Duration;

/// Parameters of the session.
#[derive(Clone)]
pub struct SessionParameters {
    /// Number of echoes to measure.
    pub keys: usize,
    /// Time after which no further echo is measured, if there are enough for a verdict.
    pub echo_time: Option<Duration>,
    /// Credentials for a login prompt.
    pub login: Option<Login>,
    /// Endings of a shell's prompt.
    pub prompts: Prompts,
    /// User-defined command for the screenful, instead of the default one.
    pub command: Option<String>,
    /// Commands whose output is requested before the measurement.
    pub initial_commands: Vec<String>,
    /// Timeout for expected data.
    pub timeout: Duration,
    /// Reads the CPU time of this process.
    pub cpu_time: fn() -> Duration,
    /// Reads the time that the threads of this process have waited for a CPU.
    pub run_queue_wait: fn() -> Option<Duration>,
}

/// User name and password.
#[derive(Clone)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password, if there is one.
    pub password: Option<String>,
}
