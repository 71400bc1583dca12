//! Log entry and transfer record of a finished transfer.

use super::FtpSession;
use crate::ftp::ftp_log::FtpEvent;
use crate::ftp::source::reason_of;
use crate::ftp::transfer_stats::{self, ControlTiming, ServerTransferStats};
use protocols::ftp::server::Finished;
use records::transfer::Text;
use std::time::Instant;
use transfer::recorder::{Record, nanos};

impl FtpSession {
    pub(super) fn finish(&mut self, finished: &Finished) {
        let Some(mut running) = self.running.take() else { return };
        // After an upload was placed, the session may have waited for a sign that the client is
        // alive.
        let now = running.placed_at.unwrap_or_else(Instant::now);
        let reason = finished.result.err().map(reason_of);
        let timing = ControlTiming {
            command_at: running.received_at,
            opened_at: running.opened_at,
            data_requested_at: self.data_requested_at.take(),
            data_connected_at: self.data_connected_at.take(),
            finished_at: now,
        };
        transfer_stats::note_result(&mut running.record, &running.stats, &timing, finished, reason);
        self.store_record(&running.stats, &mut running.record);
        let user = self.engine.user().map(|user| user.as_bytes().escape_ascii().to_string());
        let from = self.peer;
        let user = user.unwrap_or_default();
        let host = self.host.as_deref().map(str::to_owned);
        let name = running.record.transfer.request.path_real.as_ref();
        let name = name.map_or_else(Vec::new, |name| name.as_bytes().to_vec());
        let name = name.escape_ascii().to_string();
        let is_read = !running.transfer.kind.is_incoming();
        let bytes = finished.wire_bytes;
        let count = running.stats.unsendable_names.get();
        if count > 0 {
            let user = user.clone();
            let host = host.clone();
            let name = name.clone();
            self.server.log.write(&FtpEvent::UnsendableNames { from, user, host, name, count });
        }
        let micros = u64::try_from((now - running.received_at).as_micros()).unwrap_or(u64::MAX);
        self.server.log.write(&match reason {
            None => FtpEvent::Moved { from, user, host, name, is_read, bytes, micros },
            Some(reason) => {
                let why = reason.to_owned();
                FtpEvent::Failed { from, user, host, name, is_read, bytes, why }
            }
        });
    }

    /// Adds the session's data to a record and queues the record.
    fn store_record(&mut self, stats: &ServerTransferStats, record: &mut Record) {
        let identity = &mut record.transfer.identity;
        identity.control_local = Some(self.local);
        identity.control_remote = Some(self.peer);
        identity.user = self.engine.user().map(|user| match &self.host {
            None => Text::from(user.as_bytes()),
            Some(host) => Text::from(&[user.as_bytes(), b"@", host.as_bytes()].concat()),
        });
        let method = if self.login_timing.is_anonymous { "anonymous" } else { "password" };
        identity.auth_method = Some(Text::from(method));
        if self.record_session.number(record) {
            record.transfer.time.control_tls_ns = self.login_timing.tls.map(nanos);
            record.transfer.time.login_ns = self.login_timing.login.map(nanos);
            record.transfer.host = self.server.transfer_log.host();
        }
        match stats.unacknowledged.take() {
            Some((stream, since)) => {
                self.server.transfer_log.keep_until_acknowledged(record.clone(), stream, since);
            }
            None => self.server.transfer_log.keep(record),
        }
    }
}
