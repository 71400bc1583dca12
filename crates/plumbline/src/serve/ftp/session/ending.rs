//! The end of a transfer's data, and the commit of an upload.

use super::{Answer, Session};
use crate::serve::ftp::upload::Upload;
use os::clock::thread_cpu_time;
use protocols::application::ftp::server::{FileError, TransferError, TransferId};
use std::rc::Rc;

impl Session {
    pub(super) fn ended(&mut self, id: TransferId, result: Result<Option<Upload>, TransferError>) {
        let Some(running) = self.running_of(id) else { return };
        let moved = running.ledger.moved.get();
        let result = result.map(|upload| running.upload = upload);
        let untold = running.ledger.untold_names.get();
        self.engine.names_untold(id, untold);
        self.engine.data_ended(id, moved, result, &mut self.server.bench().cx());
        if self.engine.is_confirming_upload()
            && let Some(upload) = self.running.as_ref().and_then(|running| running.upload.as_ref())
            && upload.waits_for_disk()
        {
            // The disk works while the session waits for the end of the control connection.
            upload.begin_to_sync();
        }
    }

    pub(super) fn commit(&mut self, id: TransferId) {
        let running = self.running_of(id);
        let ledger = running.as_ref().map(|running| Rc::clone(&running.ledger));
        let mut upload = running.and_then(|running| {
            running.is_committing = true;
            running.upload.take()
        });
        if let Some(upload) = upload.take_if(|upload| !upload.waits_for_disk()) {
            let began = self.clock.now();
            let committed = upload.commit();
            if let Some(ledger) = ledger {
                // It waits for nothing, so what passes is the processor's time.
                let passed = self.clock.now() - began;
                ledger.committing.set(Some(passed));
                ledger.add_cpu(passed);
            }
            return self.engine.committed(id, committed, &mut self.server.bench().cx());
        }
        let clock = self.clock;
        self.spawn(async move {
            let Some(upload) = upload else {
                return Answer::Committed(id, Err(FileError::Local));
            };
            let began = clock.now();
            let committed = tokio::task::spawn_blocking(|| {
                let before = thread_cpu_time();
                let committed = upload.commit();
                (committed, thread_cpu_time().saturating_sub(before))
            });
            let committed = committed.await.map(|(committed, cpu)| {
                if let Some(ledger) = ledger {
                    ledger.committing.set(Some(clock.now() - began));
                    ledger.add_cpu(cpu);
                }
                committed
            });
            Answer::Committed(id, committed.unwrap_or(Err(FileError::Local)))
        });
    }
}
