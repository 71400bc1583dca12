//! The kinds of time that a user waits.

/// Kind of time that a user waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum UserWait {
    /// From the name lookup to the first usable prompt; for FTP to the reply 230.
    Login,
    Echo,
    /// An echo while a long output arrives.
    EchoUnderLoad,
    /// A short answer to a command.
    Answer,
    Screenful,
    /// Transfer of the largest file, from EPSV to the final reply; for a login a long output.
    Transfer,
    /// Transfer of the file that `plumb` only predicts.
    Large,
}

impl UserWait {
    pub(super) const ALL: [Self; 7] = [
        Self::Login,
        Self::Echo,
        Self::EchoUnderLoad,
        Self::Answer,
        Self::Screenful,
        Self::Transfer,
        Self::Large,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Echo => "echo",
            Self::EchoUnderLoad => "echo under load",
            Self::Answer => "short answer",
            Self::Screenful => "screenful",
            Self::Transfer => "transfer",
            Self::Large => "large transfer",
        }
    }

    /// Returns the time below which no user notices a difference, ms (TM-233 section 3.1 for an
    /// echo).
    pub(super) const fn unnoticed_ms(self) -> f64 {
        match self {
            Self::Echo | Self::Answer | Self::Screenful => 20.0,
            Self::EchoUnderLoad => 50.0,
            Self::Transfer | Self::Large | Self::Login => 100.0,
        }
    }

    /// Parses the name of a waiting time as printed in a report.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["echo", "key"]) {
            let is_loaded = has(&["beside", "load", "while", "during"]);
            return Some(if is_loaded { Self::EchoUnderLoad } else { Self::Echo });
        }
        match () {
            () if has(&["screen"]) => Some(Self::Screenful),
            () if has(&["answer"]) => Some(Self::Answer),
            () if has(&["transfer", "file", "download", "upload"]) => Some(Self::Transfer),
            () if has(&["prompt", "login", "connect"]) => Some(Self::Login),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_quantity_is_recognized_in_the_text_of_a_report() {
        let user_waits = [
            ("the way to the prompt", UserWait::Login),
            ("an echo", UserWait::Echo),
            ("an echo beside other data", UserWait::EchoUnderLoad),
            ("echo under load", UserWait::EchoUnderLoad),
            ("a short answer", UserWait::Answer),
            ("a screenful", UserWait::Screenful),
            ("the transfer", UserWait::Transfer),
            ("the download", UserWait::Transfer),
        ];
        for (text, user_wait) in user_waits {
            assert_eq!(UserWait::from_name(text), Some(user_wait), "{text}");
        }
        assert_eq!(UserWait::from_name(""), None);
    }
}
