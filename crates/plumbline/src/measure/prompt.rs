//! What the far side waits for, as far as its screen says: a name, a password, a command.

use super::console::Console;
use protocols::time::{Duration, Instant};

/// What the far side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    /// A user's name.
    Login,
    /// A password.
    Password,
    /// A command.
    Shell,
    /// Nothing that we know: it has only fallen silent.
    Silence,
}

/// The ends of shell prompts, unless the user says otherwise.
const SHELL_ENDINGS: [&str; 4] = ["$ ", "# ", "% ", "> "];

/// Knows the prompts by their ends.
#[derive(Clone, Debug)]
pub(crate) struct Prompts {
    shell_endings: Vec<String>,
}

impl Default for Prompts {
    fn default() -> Self {
        Self { shell_endings: SHELL_ENDINGS.map(str::to_owned).to_vec() }
    }
}

impl Prompts {
    /// Makes one that knows a shell's prompt by the texts that stand between bars in `endings`.
    pub(crate) fn ending_in(endings: &str) -> Self {
        let endings = endings.split('|').filter(|ending| !ending.is_empty());
        Self { shell_endings: endings.map(str::to_owned).collect() }
    }

    /// Returns which prompt `line` is: the text from the left margin to the cursor.
    pub(crate) fn recognize(&self, line: &str) -> Option<Prompt> {
        if self.shell_endings.iter().any(|ending| line.ends_with(ending)) {
            return Some(Prompt::Shell);
        }
        let text = line.trim_end().to_lowercase();
        let question = text.strip_suffix(':')?;
        let asks_name =
            ["login", "username", "user name"].iter().any(|ask| question.ends_with(ask));
        // The greeting after a login says when the last one was.
        if asks_name && !question.ends_with("last login") {
            return Some(Prompt::Login);
        }
        let last_words = question.rsplit(". ").next().unwrap_or(question);
        let asks_password = ["password", "passcode"].iter().any(|ask| last_words.contains(ask));
        asks_password.then_some(Prompt::Password)
    }
}

/// A wait for the next prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// When it began.
    since: Instant,
    /// How long nothing at all may come.
    patience: Duration,
    /// How long nothing more may come when something has.
    silence: Duration,
}

/// A text that looks like a prompt is believed to be one when nothing follows it for so long.
const SETTLING: Duration = Duration::from_millis(150);
/// How long the far side must say nothing more until it is taken to wait for us.
const SILENCE: Duration = Duration::from_secs(2);

impl Wait {
    /// Begins to wait.
    pub(crate) fn new(since: Instant, patience: Duration) -> Self {
        Self { since, patience, silence: SILENCE }
    }

    /// Begins to wait for one that must come: a login may take its time after its first words.
    pub(crate) fn for_known(since: Instant, patience: Duration) -> Self {
        Self { since, patience, silence: patience }
    }

    /// Returns the prompt and when its last character came, or when to look again.
    ///
    /// # Errors
    ///
    /// While it is not known yet: when to look again.
    pub(crate) fn look(
        &self,
        console: &Console,
        prompts: &Prompts,
        now: Instant,
    ) -> Result<(Prompt, Instant), Instant> {
        let came_at = console.data_at().filter(|at| *at >= self.since);
        let (prompt, settled_at) = match came_at {
            None => (Prompt::Silence, self.since + self.patience),
            Some(at) => match prompts.recognize(&console.line()) {
                Some(prompt) => (prompt, at + SETTLING),
                // Text that ends with its line is a greeting, and the question is still to come.
                None if console.line().trim().is_empty() => {
                    (Prompt::Silence, at + self.silence.max(self.patience))
                }
                None => (Prompt::Silence, at + self.silence),
            },
        };
        let settled_at = self.soonest(settled_at);
        if now < settled_at { Err(settled_at) } else { Ok((prompt, came_at.unwrap_or(now))) }
    }

    /// Returns when something came last, or when the wait began.
    pub(crate) fn latest(&self, console: &Console) -> Instant {
        console.data_at().map_or(self.since, |at| at.max(self.since))
    }

    /// Returns the silence after something has come, or when to look again.
    ///
    /// # Errors
    ///
    /// While it is not silent yet: when to look again.
    pub(crate) fn settle(&self, console: &Console, now: Instant) -> Result<(), Instant> {
        let came_at = console.data_at().filter(|at| *at >= self.since);
        let settled_at = came_at.map_or(self.since + self.patience, |at| at + SETTLING);
        let settled_at = self.soonest(settled_at);
        if now < settled_at { Err(settled_at) } else { Ok(()) }
    }

    /// Returns `settled_at`, or the end of all patience: some hosts never stop talking.
    fn soonest(&self, settled_at: Instant) -> Instant {
        settled_at.min(self.since + self.patience.max(SILENCE))
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
    fn the_usual_ends_of_shell_prompts_are_known() {
        for line in ["$ ", "sh-5.2# ", "guest@host:~$ ", "host% ", "router> "] {
            assert_eq!(recognized(line), Some(Prompt::Shell), "{line}");
        }
    }

    #[test]
    fn what_only_resembles_a_prompt_is_none() {
        for line in ["", "Last login: ", "$", "it costs 5$", "Passwords expire. See:", "login"] {
            assert_eq!(recognized(line), None, "{line}");
        }
    }

    #[test]
    fn a_prompt_of_ones_own_takes_the_place_of_the_usual_ones() {
        let prompts = Prompts::ending_in("ready: |=>");
        assert_eq!(prompts.recognize("ready: "), Some(Prompt::Shell));
        assert_eq!(prompts.recognize("MVS=>"), Some(Prompt::Shell));
        assert_eq!(prompts.recognize("$ "), None);
    }
}
