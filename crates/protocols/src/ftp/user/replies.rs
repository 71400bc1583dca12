//! Processing of replies: success of a transfer, replies after ABOR, and values parsed from
//! replies.

use super::*;
use crate::ftp::listing::{self, parse_facts};
use crate::ftp::reply::Severity;
use crate::ftp::timestamp::Timestamp;

impl User {
    /// Processes the last reply of a task without data, which completes the task.
    pub(super) fn task_reply(&mut self, reply: Reply, cx: &mut Cx<'_>) {
        match reply.severity() {
            Severity::Completion => {
                let Some(job) = self.job.as_mut() else { return };
                if job.task == Task::Quit {
                    job.last_reply = Some(reply);
                    return self.close(None, cx);
                }
                self.finish(Ok(Done { reply, preliminary: None, wire_bytes: 0 }), cx);
            }
            Severity::Preliminary => {}
            Severity::Intermediate if self.is_mail_begun() => self.send_mail(cx),
            // A command sent by [`Task::Quote`] may require a further command, which the owner then
            // sends in the same way.
            Severity::Intermediate
                if matches!(&self.job, Some(Job { task: Task::Quote(_), .. })) =>
            {
                self.finish(Ok(Done { reply, preliminary: None, wire_bytes: 0 }), cx);
            }
            _ => self.fail(FailureReason::Refused(reply), cx),
        }
    }

    fn is_mail_begun(&mut self) -> bool {
        let Some(Job { task: Task::Mail(..), has_sent_mail, .. }) = &mut self.job else {
            return false;
        };
        !core::mem::replace(has_sent_mail, true)
    }

    /// Sends the text of a mail after the intermediate reply, followed by a line with only a
    /// period.
    fn send_mail(&mut self, cx: &Cx<'_>) {
        let Some(Job { task: Task::Mail(_, text), .. }) = &self.job else { return };
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let lines: &mut dyn Iterator<Item = &[u8]> = match text {
            b"" => &mut core::iter::empty(),
            text => &mut text.split(|&byte| byte == b'\n'),
        };
        for line in lines {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            for &byte in line {
                let repetitions = if byte == IAC { 2 } else { 1 };
                self.output.extend(core::iter::repeat_n(byte, repetitions));
            }
            // RFC 354 has no escape for a line with only a period, which would end the mail.
            let end: &[u8] = if line == b"." { b" \r\n" } else { b"\r\n" };
            self.output.extend_from_slice(end);
        }
        self.output.extend_from_slice(b".\r\n");
        self.deadline = Some(cx.now + self.settings.reply_timeout);
    }

    pub(super) fn transfer_reply(&mut self, reply: Reply, cx: &mut Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        match reply.severity() {
            Severity::Preliminary if reply.code.number() == 110 => {
                if let Some((ours, theirs)) = reply.marker() {
                    self.events.push_back(UserEvent::MarkerReached { ours, theirs });
                }
            }
            // A repeated preliminary reply is ignored and does not extend the deadline.
            Severity::Preliminary if job.preliminary.is_some() => {}
            Severity::Preliminary => {
                job.preliminary = Some(reply);
                job.step = Step::Data;
                self.deadline = Some(cx.now + self.settings.stall_timeout);
                self.start_data();
            }
            Severity::Completion if job.last_reply.is_none() => {
                job.last_reply = Some(reply);
                // Some servers omit the preliminary reply if there is little to send. An upload
                // cannot have succeeded without it.
                let is_incoming = job.task.is_incoming() == Some(true);
                if job.step == Step::Command && !is_incoming {
                    return self.fail_data(FailureReason::Malformed, cx);
                }
                job.step = Step::Data;
                self.start_data();
                self.finish_if_complete(cx);
            }
            Severity::Completion => cx.meter.count(Counter::FtpRepliesWrong),
            _ => {
                self.discard();
                self.fail(FailureReason::Refused(reply), cx);
            }
        }
    }

    /// Tells the owner to transfer data, once the data connection is established and the server has
    /// started the transfer.
    pub(super) fn start_data(&mut self) {
        let Some(job) = &mut self.job else { return };
        if let (DataState::Connected, Step::Data, Some(id)) = (job.data, job.step, job.id) {
            job.data = DataState::Moving;
            self.events.push_back(UserEvent::StartData(id, self.protection));
        }
    }

    /// Completes a transfer once both the last reply and the end of the data report success.
    pub(super) fn finish_if_complete(&mut self, cx: &mut Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        if job.data != DataState::Ended {
            return;
        }
        let Some(reply) = job.last_reply.take() else { return };
        let expected = job.expected_bytes();
        let received_bytes = job.wire_bytes;
        if let Some(expected_bytes) = expected.filter(|expected| received_bytes < *expected) {
            self.discard();
            let why = FailureReason::Short { expected_bytes, received_bytes };
            return self.fail(why, cx);
        }
        if let Some(expected_bytes) = job.restarted_bytes().filter(|left| received_bytes > *left) {
            self.discard();
            let why = FailureReason::Long { expected_bytes, received_bytes };
            if let Some(job) = &mut self.job {
                job.step = Step::Restart;
            }
            return self.fail(why, cx);
        }
        let preliminary = job.preliminary.take();
        self.finish(Ok(Done { reply, preliminary, wire_bytes: received_bytes }), cx);
    }

    /// Records the failure of a transfer's data and waits for the outstanding replies, so that they
    /// are not taken for replies to the next task.
    pub(super) fn fail_data(&mut self, why: FailureReason, cx: &mut Cx<'_>) {
        let Some(job) = &self.job else { return };
        let has_last_reply = job.last_reply.is_some();
        // More bytes arrived than the rest of the file has: the server ignored the offset of REST.
        let is_restarted = matches!(job.task, Task::Retrieve { offset_bytes: 1.., .. });
        let has_excess_data = why == FailureReason::Data(DataFailure::Excess);
        let step = if is_restarted && has_excess_data { Step::Restart } else { Step::Data };
        self.quirks.avoids_pipelining |= job.is_pipelined;
        self.discard();
        if has_last_reply {
            if let Some(job) = self.job.as_mut().filter(|_| step == Step::Restart) {
                job.step = step;
            }
            return self.fail(why, cx);
        }
        // The server may itself be waiting for data, so ABOR makes it reply.
        let data_failure = Failure { step, why };
        if let Some(job) = &mut self.job {
            job.is_aborting = true;
            job.step = Step::Abort;
            job.preliminary = None;
        }
        self.output.extend([IAC, IP, IAC, DM]);
        self.urgent_mark = Some(self.output.len());
        self.output.extend_from_slice(b"ABOR\r\n");
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        self.data_failure = Some(data_failure);
    }

    /// Processes a reply after ABOR. The server sends one or two replies: for the transfer and for
    /// ABOR (RFC 959 §4.1.3).
    pub(super) fn on_abort_reply(&mut self, reply: Reply, cx: &mut Cx<'_>) {
        let code = reply.code.number();
        if self.spare_port == SparePort::Requested && matches!(code, 227 | 229) {
            return self.on_spare_port_reply(&reply);
        }
        let Some(job) = &mut self.job else { return };
        if job.step == Step::Resynchronize {
            // This is a late reply to the transfer or to ABOR, not the reply to NOOP.
            let is_late_reply = matches!(code, 225 | 226) || (400..500).contains(&code);
            if !is_late_reply {
                self.end_of_abort(cx);
            }
            return;
        }
        // 225 is only sent in reply to ABOR, and a second reply is always the last.
        if code == 225 || job.last_reply.is_some() {
            return self.end_of_abort(cx);
        }
        // If the server's disk is full, the data connection is closed too, and the reply gives the
        // reason. The same applies to any negative reply to an upload whose data connection the
        // server closed.
        let is_upload_lost = self.data_failure.as_ref().is_some_and(|data_failure| {
            let is_upload = job.task.is_incoming() == Some(false);
            is_upload && data_failure.why == FailureReason::Data(DataFailure::ConnectionLost)
        });
        let is_negative = (400..600).contains(&code);
        let gives_reason =
            is_upload_lost && is_negative || code == 452 || (550..560).contains(&code);
        if let Some(data_failure) = self.data_failure.as_mut().filter(|_| gives_reason) {
            *data_failure =
                Failure { step: Step::Data, why: FailureReason::Refused(reply.clone()) };
        }
        job.last_reply = Some(reply);
        self.deadline = Some(cx.now + ABORT_GRACE);
    }

    pub(super) fn resynchronize(&mut self, cx: &Cx<'_>) {
        if let Some(job) = &mut self.job {
            job.step = Step::Resynchronize;
            self.output.extend_from_slice(b"NOOP\r\n");
            self.deadline = Some(cx.now + self.settings.reply_timeout);
        }
    }

    fn end_of_abort(&mut self, cx: &mut Cx<'_>) {
        let abort_failure = Failure { step: Step::Data, why: FailureReason::Aborted };
        let failure = self.data_failure.take().unwrap_or(abort_failure);
        self.finish(Err(failure), cx);
    }

    pub(super) fn fail(&mut self, why: FailureReason, cx: &mut Cx<'_>) {
        let Some(job) = &self.job else { return };
        let step = job.step;
        let data = job.data;
        if data != DataState::None {
            self.discard();
        }
        self.finish(Err(Failure { step, why }), cx);
    }

    fn finish(&mut self, result: Result<Done, Failure>, cx: &mut Cx<'_>) {
        let Some(job) = self.job.take() else { return };
        let is_passive = matches!(job.route, Route::Epsv | Route::Pasv);
        if result.is_ok() && is_passive && job.task.is_incoming().is_some() {
            self.working_route = Some(job.route);
        }
        if let Some(id) = job.id {
            self.report_finished(id, result, job.task.is_incoming().is_some(), cx);
        }
        self.next_job(cx);
    }
}

impl Job {
    /// Returns the minimum number of bytes expected: the size known to the owner or announced by
    /// the server, less the offset. Returns `None` if the octets of the file differ between the
    /// hosts.
    fn expected_bytes(&self) -> Option<u64> {
        let Task::Retrieve { representation, offset_bytes, expected_bytes, .. } = &self.task else {
            return None;
        };
        if !representation.keeps_octets() {
            return None;
        }
        let announced_bytes = self.preliminary.as_ref().and_then(Reply::size_in_parentheses);
        // Some servers announce the size of the whole file, some the size of the rest.
        let size_bytes = expected_bytes.or(announced_bytes);
        size_bytes.map(|size| size.saturating_sub(*offset_bytes))
    }
}

impl Job {
    /// Returns the expected number of bytes of a download with REST: the bytes after the requested
    /// offset. If more bytes arrive, the server ignored REST.
    fn restarted_bytes(&self) -> Option<u64> {
        let Task::Retrieve { representation, offset_bytes: 1.., expected_bytes, .. } = &self.task
        else {
            return None;
        };
        expected_bytes.filter(|_| representation.keeps_octets())?;
        self.expected_bytes()
    }
}

impl Reply {
    /// Returns the number in a reply to SIZE or AVBL.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        let text = core::str::from_utf8(self.text()).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Returns the time in a reply to MDTM.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        Timestamp::parse(self.text().trim_ascii().split(u8::is_ascii_whitespace).next()?)
    }

    /// Returns the entry in a reply to MLST.
    #[must_use]
    pub fn entry(&self) -> Option<listing::Entry> {
        match self.lines.as_slice() {
            [_, middle @ .., _] => middle.iter().find_map(|line| parse_facts(line)),
            _ => None,
        }
    }

    /// Returns both values of `MARK yyyy = mmmm`.
    #[must_use]
    pub fn marker(&self) -> Option<(u64, u64)> {
        let text = core::str::from_utf8(self.text()).ok()?;
        let (ours, theirs) = text.trim().strip_prefix("MARK")?.split_once('=')?;
        Some((ours.trim().parse().ok()?, theirs.trim().parse().ok()?))
    }
}

/// The features that a server lists in its reply to FEAT (RFC 2389).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(Vec<Vec<u8>>);

impl Features {
    /// Parses a reply to FEAT; a negative reply yields no features.
    #[must_use]
    pub fn from_reply(reply: &Reply) -> Self {
        match reply.lines.as_slice() {
            [_, middle @ .., _] if reply.severity() == Severity::Completion => {
                Self(middle.iter().map(|line| line.trim_ascii().to_vec()).collect())
            }
            _ => Self::default(),
        }
    }

    /// Returns whether there are no features, as for a server that does not know FEAT.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the server has the feature `name`, in upper or lower case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.argument(name).is_some()
    }

    /// Returns the text after the name of a feature, if the feature is present.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find_map(|line| {
            let (head, rest) = line.split_at_checked(name.len())?;
            let has_name = head.eq_ignore_ascii_case(name.as_bytes());
            let is_whole_name = rest.first().is_none_or(|&byte| byte == b' ');
            (has_name && is_whole_name).then(|| rest.trim_ascii())
        })
    }
}
