//! Output of the `status` command: the connection, its Telnet options, its TCP state, and the CPU
//! time by layer.

use super::paging::WrappedText;
use super::session::Login;
use super::session_settings::LineEnd;
use super::session_status::StatusRequest;
use carrier::CarrierStatus;
use net::meter::Account;
use net::time::Duration;
use net::transport::tcp::Status;
use os::socket::TcpInfo;
use protocols::telnet::OptionState;
use protocols::terminal::prediction::Mode;
use records::format::{count, counted, duration, share};

/// Returns the status page of a session.
pub(super) fn page(
    login: &Login,
    status_request: StatusRequest,
    carrier: &CarrierStatus,
) -> WrappedText {
    let mut page = WrappedText::new(login.display.window().0);
    put_session(&mut page, login, status_request);
    put_prediction(&mut page, login);
    put_screen(&mut page, login);
    if login.protocol.is_telnet() {
        put_options(&mut page, login);
    }
    match carrier {
        CarrierStatus::Kernel(info, control) => put_kernel(&mut page, info, control),
        CarrierStatus::UserSpace(status) => put_userspace_tcp(&mut page, status),
        CarrierStatus::None => {}
    }
    put_accounts(&mut page, login, status_request);
    page
}

fn put_session(page: &mut WrappedText, login: &Login, status_request: StatusRequest) {
    let traffic = login.status.traffic();
    let open_time =
        traffic.opened_at.map_or(Duration::ZERO, |opened_at| status_request.now - opened_at);
    page.push_sentence(&format!(
        "Connected to {} for {}.",
        login.status.peer(),
        duration_text(open_time)
    ));
    if let Some(tls_parameters) = login.protocol.start_tls.parameters() {
        page.push_sentence(&format!(
            "Encrypted by {}; the SHA-256 of the server's certificate is {}.",
            tls_parameters.protocol, tls_parameters.fingerprint
        ));
    }
    page.push_sentence(&format!(
        "Received {} bytes, sent {}.",
        count(traffic.bytes_in),
        count(traffic.bytes_out)
    ));
    page.push_sentence(&format!(
        "Sends each {}; {} echoes; Enter sends {}; the escape character is {}.",
        if login.is_line_mode() { "line" } else { "character" },
        if login.echoes_locally() { "plumb" } else { "the remote host" },
        LineEnd::name(login.line_end(), login.protocol.sends_nul_after_cr()),
        login.settings.escape,
    ));
}

/// Adds the results of the echo prediction.
fn put_prediction(page: &mut WrappedText, login: &Login) {
    let Some(predictor) = login.display.prediction.predictor() else { return };
    let statistics = predictor.statistics();
    let mode = match predictor.mode() {
        Mode::Auto => "if it exceeds 30 ms",
        Mode::Always => "always",
        Mode::Never => return page.push_sentence("Echo is not predicted."),
    };
    let echo_time = predictor.round_trip().map_or("unknown".to_owned(), duration_text);
    page.push_sentence(&format!(
        "Echo time: {echo_time}; the echo is predicted, and shown {mode}."
    ));
    page.push_sentence(&format!(
        "Of {} keys, {} displayed before their echo ({}). Of {} predictions, {} confirmed, {} wrong \
         ({} of them displayed), and {} dropped untested.",
        count(statistics.keys),
        counted(statistics.shown, "was", "were"),
        share(statistics.shown, statistics.keys),
        count(statistics.predicted),
        counted(statistics.confirmed, "was", "were"),
        counted(statistics.wrong, "was", "were"),
        count(statistics.wrong_seen),
        counted(statistics.discarded, "was", "were"),
    ));
}

/// Adds the state of the screen: whether it is held, and the number of removed sequences.
fn put_screen(page: &mut WrappedText, login: &Login) {
    if login.display.is_held() {
        page.push_sentence("The screen is held: F10 releases a line, F11 a screen.");
    }
    let removed_count = login.display.screen.removed_sequences();
    if removed_count > 0 {
        page.push_sentence(&format!(
            "{} sequences that write the clipboard or make the terminal reply were removed; \
             --unfiltered passes them.",
            count(removed_count)
        ));
    }
}

fn put_options(page: &mut WrappedText, login: &Login) {
    page.push_line("");
    page.push_line(&format!("{:<20}{:<10}{}", "option", "local", "remote"));
    let is_off = |state| state == OptionState::No;
    for row in login.protocol.options().filter(|row| !is_off(row.us) || !is_off(row.him)) {
        page.push_line(&format!("{:<20}{:<10}{}", row.option, state(row.us), state(row.him)));
    }
    page.push_line("all others          off       off");
    page.push_line("");
}

fn state(state: OptionState) -> &'static str {
    match state {
        OptionState::No => "off",
        OptionState::Yes => "on",
        OptionState::WantYes { .. } => "requested",
        OptionState::WantNo { .. } => "ending",
    }
}

fn put_kernel(page: &mut WrappedText, info: &TcpInfo, control: &str) {
    let us = |time: u32| duration(u64::from(time) * 1000);
    page.push_sentence(&format!(
        "TCP: kernel, {control}; round-trip time {} ± {}; retransmission timeout {}.",
        us(info.round_trip_us),
        us(info.round_trip_deviation_us),
        us(info.retransmission_timeout_us)
    ));
    let segments = |segments: Option<u32>| match segments {
        Some(segments) => count(segments.into()),
        None => "an unknown number".to_owned(),
    };
    page.push_sentence(&format!(
        "Segments: {} in, {} out, {} retransmitted; maximum segment size {} bytes; congestion \
         window {} segments; {} unacknowledged.",
        segments(info.segments_in),
        segments(info.segments_out),
        count(info.total_retransmissions.into()),
        count(info.send_mss_bytes.into()),
        count(info.congestion_window_segments.into()),
        count(info.unacknowledged_segments.into()),
    ));
}

fn put_userspace_tcp(page: &mut WrappedText, status: &Status) {
    let time = |time: Option<Duration>| time.map_or("unknown".to_owned(), duration_text);
    page.push_sentence(&format!(
        "TCP: plumb's own, {:?}, {} to {}; round-trip time {} ± {}; retransmission timeout {}.",
        status.state,
        status.local,
        status.remote,
        time(status.srtt),
        time(status.rttvar),
        duration_text(status.rto),
    ));
    let statistics = status.statistics;
    page.push_sentence(&format!(
        "Segments: {} in, {} out, {} retransmitted, {} out of order; acknowledgments: {} \
         piggybacked, {} pure.",
        count(statistics.segments_in),
        count(statistics.segments_out),
        count(statistics.retransmissions),
        count(statistics.out_of_order),
        count(statistics.piggybacked_acks),
        count(statistics.pure_acks_out),
    ));
    page.push_sentence(&format!(
        "Windows: send {} bytes, receive {}, congestion {}; maximum segment size {} bytes; send \
         queue {} bytes.",
        count(status.send_window.into()),
        count(status.receive_window.into()),
        count(status.congestion_window.into()),
        count(status.send_mss.into()),
        count(status.send_queue.into()),
    ));
}

fn put_accounts(page: &mut WrappedText, login: &Login, status_request: StatusRequest) {
    let rate = login.status.tick_rate();
    let times = Account::ALL.iter().zip(status_request.accounts);
    let times: Vec<_> = times.map(|(account, ticks)| (*account, rate.to_nanos(ticks))).collect();
    let busy_accounts = times.iter().filter(|(account, _)| *account != Account::Outside);
    let total: u64 = busy_accounts.clone().map(|(_, nanos)| nanos).sum();
    page.push_line("");
    page.push_line(&format!("{:<24}{:>8}{:>7}", "CPU time of plumb in", "µs", "share"));
    for (account, nanos) in busy_accounts.filter(|(_, nanos)| *nanos > 0) {
        let us = count((nanos + 500) / 1000);
        page.push_line(&format!("{:<24}{us:>8}{:>7}", account.text(), share(*nanos, total)));
    }
    page.push_line(&format!("{:<24}{:>8}{:>7}", "total", count((total + 500) / 1000), "100 %"));
    if let Some(active_at) = login.status.active_at() {
        let idle = duration_text(status_request.now - active_at);
        page.push_sentence(&format!("Idle: {idle} since the last key or data."));
    }
}

/// Formats a duration with three significant digits.
pub(super) fn duration_text(time: Duration) -> String {
    duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
