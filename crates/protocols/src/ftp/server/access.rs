//! Commands for login and TLS: USER, PASS, ACCT, REIN, HOST, AUTH, PBSZ, PROT, CCC.

use super::*;

impl Server {
    pub(super) fn access_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::User(user) => self.user_command(user),
            Command::Pass(password) => match self.access.clone() {
                Access::NeedsPassword(user) => self.authenticate(user, password, None),
                Access::LoggedIn(..) => self.reply(202, b"Already logged in"),
                _ => self.reply(503, b"Send USER first"),
            },
            Command::Acct(account) => match self.access.clone() {
                Access::NeedsAccount(user, password) => {
                    self.authenticate(user, password, Some(account));
                }
                Access::LoggedIn(..) => self.reply(202, b"No account needed"),
                _ => self.reply(503, b"Send USER and PASS first"),
            },
            Command::Rein => {
                self.reinitialize();
                self.reply(220, b"Ready for a new user");
            }
            // RFC 7151 §3.2: HOST is only valid before USER.
            Command::Host(host) if self.access == Access::NotLoggedIn => {
                self.perform(Operation::Host(host.clone()), Pending::Host(host));
            }
            Command::Host(_) => self.reply(503, b"HOST must precede USER or follow REIN"),
            Command::Auth(mechanism) => self.auth(mechanism, cx),
            Command::Pbsz if self.is_tls => {
                self.has_protection_size = true;
                self.reply(200, b"PBSZ=0");
            }
            Command::Prot(protection) if self.is_tls => self.prot(protection),
            Command::Ccc => self.clear_control_channel(),
            _ => self.reply(503, b"Send AUTH TLS first"),
        }
    }

    fn user_command(&mut self, user: Name) {
        let requires_tls =
            matches!(self.settings.tls, TlsPolicy::RequiredForLogin | TlsPolicy::RequiredForData);
        if requires_tls && !self.is_tls && !self.may_use_cleartext(&user) {
            self.report_missing_tls(MissingTls::Login);
            return self.reply(530, b"This server needs TLS, send AUTH TLS first");
        }
        if let Access::LoggedIn(..) = self.access {
            // RFC 959 §4.1.1: a new USER discards the previous login. TLS and the transfer
            // parameters do not change.
            self.directory = VirtualPath::root();
        }
        // The reply is the same for known and unknown names.
        self.access = Access::NeedsPassword(user);
        self.reply(331, b"Password required");
    }

    fn authenticate(&mut self, user: Name, password: Secret, account: Option<Secret>) {
        self.access = Access::NotLoggedIn;
        self.busy = Busy::Authenticating { user: user.clone(), password: password.clone() };
        let login = Login { user, password, account, host: self.host.clone() };
        self.events.push_back(ServerEvent::Authenticate(login));
    }

    /// Continues the session with the owner's answer to [`ServerEvent::Authenticate`].
    pub fn login(&mut self, answer: LoginAnswer, cx: &mut Cx<'_>) {
        let Busy::Authenticating { user, password } = core::mem::replace(&mut self.busy, Busy::No)
        else {
            return;
        };
        if self.is_closing {
            return;
        }
        match answer {
            LoginAnswer::Accepted(account) => {
                self.directory = account.home.clone();
                self.access = Access::LoggedIn(user, account);
                self.failed_logins = 0;
                self.last_received_at = cx.now;
                self.reply(230, b"Logged in");
            }
            LoginAnswer::NeedsAccount => {
                self.access = Access::NeedsAccount(user, password);
                self.reply(332, b"Account required");
            }
            LoginAnswer::Refused => {
                cx.meter.count(Counter::FtpLoginsRefused);
                self.failed_logins += 1;
                self.reply(530, b"Login incorrect");
                if self.failed_logins >= self.settings.logins_max {
                    self.close_because(CloseReason::TooManyFailedLogins);
                }
            }
            LoginAnswer::Busy => {
                cx.meter.count(Counter::FtpLoginsRefused);
                self.close_because(CloseReason::TooManyLogins);
            }
        }
        self.run_queue(cx);
    }

    /// Resets the session to its initial state (RFC 959 §4.1.1), but does not end TLS or close the
    /// control connection.
    fn reinitialize(&mut self) {
        self.close_data();
        self.access = Access::NotLoggedIn;
        self.host = None;
        self.is_epsv_all = false;
        self.directory = VirtualPath::root();
        self.representation = Representation::default();
        self.deflate_level = None;
        self.facts = FactSet::default();
        self.restart_bytes = 0;
        self.allocation_bytes = None;
    }

    fn auth(&mut self, mechanism: Mechanism, cx: &mut Cx<'_>) {
        if self.settings.tls == TlsPolicy::None {
            return self.reply(502, b"TLS is not available on this server");
        }
        if self.is_tls {
            return self.reply(503, b"TLS is already active");
        }
        // Plaintext after AUTH may have been injected by an attacker, to be processed as if it had
        // arrived over TLS.
        let queued_bytes: usize = self.queue.iter().map(Line::len).sum();
        if !self.queue.is_empty() || self.lines.unfinished_len() > 0 {
            let dropped_bytes = queued_bytes + self.lines.discard_incomplete();
            cx.meter.add(Counter::FtpBytesBeforeTls, dropped_bytes as u64);
            cx.meter.add(Counter::FtpCommandsDropped, self.queue.len() as u64);
            self.queue.clear();
            return self.reply(503, b"No command may follow AUTH before its reply");
        }
        self.reply(234, b"Begin TLS");
        if mechanism == Mechanism::Ssl {
            self.protection = Protection::Private;
        }
        self.busy = Busy::StartingTls;
        self.events.push_back(ServerEvent::StartTls);
    }

    /// Continues the session with the owner's answer to [`ServerEvent::StartTls`]. `is_on` is
    /// whether TLS is established; if it is not, the session ends.
    pub fn tls_started(&mut self, is_on: bool, cx: &mut Cx<'_>) {
        if !matches!(self.busy, Busy::StartingTls) {
            return;
        }
        self.busy = Busy::No;
        self.lines.discard_incomplete();
        self.last_received_at = cx.now;
        if !is_on {
            return self.close();
        }
        self.is_tls = true;
        // RFC 4217 §11: a login before TLS is void.
        self.access = Access::NotLoggedIn;
        self.run_queue(cx);
    }

    fn prot(&mut self, protection: Protection) {
        if !self.has_protection_size && !self.settings.is_implicit_tls {
            return self.reply(503, b"Send PBSZ first");
        }
        if self.requires_protection() && protection == Protection::Clear {
            return self.reply(534, b"Data must be protected");
        }
        self.protection = protection;
        self.reply(200, b"Protection level set");
    }

    /// Returns whether the data connections of the user must be protected.
    pub(super) fn requires_protection(&self) -> bool {
        let is_exempt =
            matches!(&self.access, Access::LoggedIn(user, _) if self.may_use_cleartext(user));
        self.settings.tls == TlsPolicy::RequiredForData && !is_exempt
    }

    /// Returns whether `user` needs no TLS.
    fn may_use_cleartext(&self, user: &Name) -> bool {
        let names = self.settings.cleartext_users;
        names.iter().any(|name| name.eq_ignore_ascii_case(user.as_bytes()))
    }

    /// Reports to the owner that a client was refused because it does not use TLS.
    pub(super) fn report_missing_tls(&mut self, missing: MissingTls) {
        let is_reported = match missing {
            MissingTls::Login => &mut self.has_reported_login,
            MissingTls::Data => &mut self.has_reported_data,
        };
        if !core::mem::replace(is_reported, true) {
            self.events.push_back(ServerEvent::TlsRequired(missing));
        }
    }

    fn clear_control_channel(&mut self) {
        if !self.is_tls {
            return self.reply(533, b"Control connection is in plaintext");
        }
        let has_pending_commands = !self.queue.is_empty() || self.lines.unfinished_len() > 0;
        if !self.settings.allows_clear_control || has_pending_commands {
            return self.reply(534, b"CCC is not permitted by this server");
        }
        self.reply(200, b"Control connection is in plaintext from now on");
        self.is_tls = false;
        self.events.push_back(ServerEvent::StopTls);
    }
}

/// The owner's answer to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginAnswer {
    /// The login is accepted.
    Accepted(Account),
    /// The user must send ACCT first.
    NeedsAccount,
    /// The login is rejected. The reply does not reveal which part was wrong.
    Refused,
    /// The password was not checked because too many checks were in progress; the session ends
    /// (421).
    Busy,
}
