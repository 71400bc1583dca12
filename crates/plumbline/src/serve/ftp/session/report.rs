//! Log entry and transfer record of a finished transfer.

use super::Session;
use crate::serve::ftp::facts::{self, Ledger, Steps};
use crate::serve::ftp::log::Event;
use crate::serve::ftp::work::why_of;
use crate::transfer_recorder::{Record, nanos};
use protocols::application::ftp::server::Finished;
use records::transfer::Text;

impl Session {
    pub(super) fn finish(&mut self, finished: &Finished) {
        let Some(mut running) = self.running.take() else { return };
        // The session may have waited since then for a sign that the client is alive.
        let now = running.placed_at.unwrap_or_else(|| self.clock.now());
        let why = finished.result.err().map(why_of);
        let steps = Steps {
            command: running.begun,
            opened: running.opened_at,
            data_asked: self.data_asked_at.take(),
            data_connected: self.data_connected_at.take(),
            finished: now,
        };
        facts::conclude(&mut running.record, &running.ledger, &steps, finished, why);
        self.keep(&running.ledger, &mut running.record);
        let user = self.engine.user().map(|user| user.as_bytes().escape_ascii().to_string());
        let (from, user) = (self.peer, user.unwrap_or_default());
        let host = self.host.as_deref().map(str::to_owned);
        let name = running.record.transfer.request.path_real.as_ref();
        let name = name.map_or_else(Vec::new, |name| name.as_bytes().to_vec());
        let name = name.escape_ascii().to_string();
        let is_read = !running.transfer.kind.is_incoming();
        let (bytes, count) = (finished.wire_bytes, running.ledger.untold_names.get());
        if count > 0 {
            let (user, host, name) = (user.clone(), host.clone(), name.clone());
            self.server.log.say(&Event::NamesUntold { from, user, host, name, count });
        }
        let micros = u64::try_from((now - running.begun).as_micros()).unwrap_or(u64::MAX);
        self.server.log.say(&match why {
            None => Event::Moved { from, user, host, name, is_read, bytes, micros },
            Some(why) => {
                let why = why.to_owned();
                Event::Failed { from, user, host, name, is_read, bytes, why }
            }
        });
    }

    /// Adds the session's data to a record and queues it.
    fn keep(&mut self, ledger: &Ledger, record: &mut Record) {
        let identity = &mut record.transfer.identity;
        identity.control_local = Some(self.local);
        identity.control_remote = Some(self.peer);
        identity.user = self.engine.user().map(|user| match &self.host {
            None => Text::from(user.as_bytes()),
            Some(host) => Text::from(&[user.as_bytes(), b"@", host.as_bytes()].concat()),
        });
        let how = if self.opening.is_anonymous { "anonymous" } else { "password" };
        identity.auth_method = Some(Text::from(how));
        if self.record_session.number(record) {
            record.transfer.time.ns_ctl_tls = self.opening.tls.map(nanos);
            record.transfer.time.ns_login = self.opening.login.map(nanos);
            record.transfer.host = self.server.transfer_log.host();
        }
        match ledger.unsettled.take() {
            Some((stream, since)) => {
                self.server.transfer_log.keep_settled(record.clone(), stream, since);
            }
            None => self.server.transfer_log.keep(record),
        }
    }
}
