//! Recognition of the remote host's prompts on the screen: for a user name, a password or a
//! command.

use super::console::MeasureConsole;
use net::time::{Duration, Instant};

/// Kind of prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    /// Prompt for a user name.
    Login,
    /// Prompt for a password.
    Password,
    /// Prompt of a shell for a command.
    Shell,
    /// Question that must be answered with yes or no, such as the one for a host key.
    Confirmation,
    /// No known prompt; the remote host has only stopped sending.
    Silence,
}

/// Default endings of shell prompts.
const SHELL_ENDINGS: [&str; 4] = ["$ ", "# ", "% ", "> "];

/// Recognizes prompts by their endings.
#[derive(Clone, Debug)]
pub struct Prompts {
    shell_endings: Vec<String>,
}

impl Default for Prompts {
    fn default() -> Self {
        Self { shell_endings: SHELL_ENDINGS.map(str::to_owned).to_vec() }
    }
}

impl Prompts {
    /// Creates a recognizer for shell prompts with the given `endings`, separated by `|`.
    pub fn ending_in(endings: &str) -> Self {
        let endings = endings.split('|').filter(|ending| !ending.is_empty());
        Self { shell_endings: endings.map(str::to_owned).collect() }
    }

    /// Returns the kind of prompt in `line`, which is the text from the left margin to the cursor.
    pub(crate) fn recognize(&self, line: &str) -> Option<Prompt> {
        if self.shell_endings.iter().any(|ending| line.ends_with(ending)) {
            return Some(Prompt::Shell);
        }
        let text = line.trim_end().to_lowercase();
        if text.contains("(yes/no") || text.ends_with("(y/n)") {
            return Some(Prompt::Confirmation);
        }
        let question = text.strip_suffix(':')?;
        let asks_name =
            ["login", "username", "user name"].iter().any(|ask| question.ends_with(ask));
        // The greeting after a login contains the time of the last login.
        if asks_name && !question.ends_with("last login") {
            return Some(Prompt::Login);
        }
        let last_sentence = question.rsplit(". ").next().unwrap_or(question);
        let asks_password = ["password", "passcode"].iter().any(|ask| last_sentence.contains(ask));
        asks_password.then_some(Prompt::Password)
    }
}

/// A wait for the next prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Start of the wait.
    started_at: Instant,
    /// Timeout if no data arrives at all.
    timeout: Duration,
    /// Timeout for further data after the first data.
    silence: Duration,
}

/// Time without further data after which a text that looks like a prompt is accepted.
const SILENCE_AFTER_KNOWN_PROMPT: Duration = Duration::from_millis(150);
/// Time without further data after which the remote host is assumed to wait for input.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

impl Wait {
    /// Starts a wait.
    pub(crate) fn new(started_at: Instant, timeout: Duration) -> Self {
        Self { started_at, timeout, silence: SILENCE_TIMEOUT }
    }

    /// Limits the silence after which unknown text is accepted as a prompt to `timeout`.
    pub(crate) fn with_silence_at_most(self, timeout: Duration) -> Self {
        Self { silence: self.silence.min(timeout), ..self }
    }

    /// Starts a wait for an expected prompt, during which output may pause for the whole timeout.
    pub(crate) fn for_known(started_at: Instant, timeout: Duration) -> Self {
        Self { started_at, timeout, silence: timeout }
    }

    /// Returns the prompt and the time of its last character.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while the prompt is undetermined.
    pub(crate) fn poll(
        &self,
        console: &MeasureConsole,
        prompts: &Prompts,
        now: Instant,
    ) -> Result<(Prompt, Instant), Instant> {
        let data_at = console.data_at().filter(|at| *at >= self.started_at);
        let (prompt, quiet_at) = match data_at {
            None => (Prompt::Silence, self.started_at + self.timeout),
            Some(at) => match prompts.recognize(&console.line()) {
                Some(prompt) => (prompt, at + SILENCE_AFTER_KNOWN_PROMPT),
                // Text that ends with a line end is a greeting; the prompt is still to come.
                None if console.line().trim().is_empty() => {
                    (Prompt::Silence, at + self.silence.max(self.timeout))
                }
                None => (Prompt::Silence, at + self.silence),
            },
        };
        let quiet_at = self.bounded_by_timeout(quiet_at);
        if now < quiet_at { Err(quiet_at) } else { Ok((prompt, data_at.unwrap_or(now))) }
    }

    /// Returns the start of the wait, and its timeout without any data.
    pub(crate) const fn limits(&self) -> (Instant, Duration) {
        (self.started_at, self.timeout)
    }

    /// Returns the time of the latest data, or the start of the wait.
    pub(crate) fn latest(&self, console: &MeasureConsole) -> Instant {
        console.data_at().map_or(self.started_at, |at| at.max(self.started_at))
    }

    /// Succeeds once no more output arrives, or once the wait has timed out.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while output still arrives.
    pub(crate) fn poll_silence(
        &self,
        console: &MeasureConsole,
        now: Instant,
    ) -> Result<(), Instant> {
        let data_at = console.data_at().filter(|at| *at >= self.started_at);
        let quiet_at =
            data_at.map_or(self.started_at + self.timeout, |at| at + SILENCE_AFTER_KNOWN_PROMPT);
        let quiet_at = self.bounded_by_timeout(quiet_at);
        if now < quiet_at { Err(quiet_at) } else { Ok(()) }
    }

    /// Returns `quiet_at` or the end of the whole wait, whichever is earlier. Some hosts never stop
    /// sending.
    fn bounded_by_timeout(&self, quiet_at: Instant) -> Instant {
        quiet_at.min(self.started_at + self.timeout.max(self.silence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognized(line: &str) -> Option<Prompt> {
        Prompts::default().recognize(line)
    }

    #[test]
    fn a_question_for_the_name_is_a_login_prompt() {
        for line in ["host login: ", "login:", "Username: ", "USER NAME:  "] {
            assert_eq!(recognized(line), Some(Prompt::Login), "{line}");
        }
    }

    #[test]
    fn a_question_for_the_password_is_a_password_prompt() {
        for line in ["Password: ", "password for guest:", "One-time passcode: "] {
            assert_eq!(recognized(line), Some(Prompt::Password), "{line}");
        }
    }

    #[test]
    fn the_question_for_a_host_key_is_recognized() {
        for line in [
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "Do you want to continue connecting? (y/n) ",
        ] {
            assert_eq!(recognized(line), Some(Prompt::Confirmation), "{line}");
        }
    }

    #[test]
    fn the_default_endings_of_shell_prompts_are_recognized() {
        for line in ["$ ", "sh-5.2# ", "guest@host:~$ ", "host% ", "router> "] {
            assert_eq!(recognized(line), Some(Prompt::Shell), "{line}");
        }
    }

    #[test]
    fn text_that_only_resembles_a_prompt_is_not_recognized() {
        for line in ["", "Last login: ", "$", "it costs 5$", "Passwords expire. See:", "login"] {
            assert_eq!(recognized(line), None, "{line}");
        }
    }

    #[test]
    fn user_defined_prompts_replace_the_default_ones() {
        let prompts = Prompts::ending_in("ready: |=>");
        assert_eq!(prompts.recognize("ready: "), Some(Prompt::Shell));
        assert_eq!(prompts.recognize("MVS=>"), Some(Prompt::Shell));
        assert_eq!(prompts.recognize("$ "), None);
    }
}
