//! Conversion of the findings of a login session to the stored record.

use super::circumstances::{Carrier, Circumstances};
use super::nanoseconds::nanos;
use super::prompt::Prompt;
use super::session_results::SessionResults;
use super::timestamps::{LAYERS, Rates, SpentTime};
use super::{forecast_login, observed, observed_session};
use carrier::CarrierStatus;
use net::meter::Account;
use net::time::{Duration, Instant};
use net::transport::tcp::Status;
use os::load::{Machine, load_average};
use os::socket::TcpInfo;
use records::arrivals::{self, LineRate};
use records::calendar::Moment;
use records::keystroke::MedianKeystroke;
use records::measurement::{
    Echo, EchoTimes, HostInfo, Phases, PromptKind, SCHEMA, Screenful, ScreenfulMethod, TcpStats,
};
use records::split_error::{EmptyIntervals, SplitError};
use records::{LayerTime, Measurement, statistics, verdict};
use std::time::SystemTime;

impl SessionResults {
    /// Stores the time from the last answer to `prompt`.
    pub(super) fn store_login_step(
        &mut self,
        prompt: Prompt,
        has_sent_password: bool,
        time: Duration,
    ) {
        match prompt {
            Prompt::Shell => self.login = Some(time),
            Prompt::Password if !has_sent_password => self.password_prompt = Some(time),
            _ => {}
        }
    }
}

/// Returns a record without any measured values.
pub(crate) fn empty_record(target: String, via: String, started_at: SystemTime) -> Measurement {
    Measurement {
        schema: SCHEMA,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        target,
        address: None,
        via,
        started_at: Moment::from(started_at).rfc_3339(),
        host: host(),
        phases: Phases::default(),
        echo: None,
        paced_echo: None,
        echo_during_output: None,
        screenful: None,
        line: None,
        refuted_line_bps: None,
        transfers: None,
        recording: None,
        running: None,
        tcp: None,
        tries: Vec::new(),
        measures: None,
        predictions: Vec::new(),
        causes: Vec::new(),
        verdict: String::new(),
        is_interrupted: false,
        failure: None,
        assessment: None,
    }
}

/// Returns the record of a measurement.
pub fn measurement(findings: &SessionResults, circumstances: &Circumstances) -> Measurement {
    let rates = circumstances.rates();
    let samples: Vec<_> = findings
        .keystrokes
        .iter()
        .map(|key| rates.echo_sample(&key.without_send_wait(rates).total(), key.run_queue_wait))
        .collect();
    let Circumstances { target, address, carrier, started_at, .. } = circumstances;
    let echo = Echo::from_samples(&samples, findings.cpu_per_key.map(nanos));
    let empty: Vec<u64> =
        findings.stamp_overheads.iter().map(|spent| rates.total_ns(spent)).collect();
    let empty = EmptyIntervals::of(&empty);
    let screenful = screenful(findings, rates).map(|screenful| Screenful {
        error: screenful.error.map(|error| error.with_empty(empty)),
        ..screenful
    });
    let mut measured = Measurement {
        address: address.map(|address| address.to_string()),
        phases: phases(findings, circumstances),
        paced_echo: echo_times(&findings.paced_echoes),
        echo_during_output: observed_session::longest_load(findings)
            .and_then(|under_load| echo_times(&under_load.echoes)),
        echo: echo.map(|echo| Echo {
            reduced_from: findings.reduced_from.and_then(|keys| u64::try_from(keys).ok()),
            ..echo.with_error(&samples, rates.resolution_ns(), empty)
        }),
        line: screenful.as_ref().and_then(|screenful| line_rate(screenful, carrier)),
        screenful,
        tcp: findings.status.as_ref().and_then(tcp_figures),
        ..empty_record(target.clone(), carrier.to_string(), *started_at)
    };
    measured.predictions = forecast_login::of_session(findings, circumstances, &measured.phases);
    measured.verdict = verdict::verdict(&measured);
    let samples = measured.echo.as_ref().map(|echo| echo.samples);
    // With too few echoes, the verdict already says so. If the session ended early, the
    // observations are used anyway, because they give the reason.
    let has_min_samples = |count| count >= verdict::MIN_SAMPLES;
    let is_concluded = samples.map_or(measured.screenful.is_some(), has_min_samples);
    if is_concluded || findings.unfinished.is_some() {
        let observation = observed_session::of_session(findings, circumstances, &measured);
        observed::conclude(&mut measured, &observation);
    } else if findings.prompt.is_some() {
        // The steps up to the prompt are complete, regardless of the number of echoes.
        let observation = observed_session::of_session(findings, circumstances, &measured);
        observed::conclude_on_steps(&mut measured, &observation);
    }
    if findings.is_refused {
        measured.verdict = format!("The remote host refused the login. {}", measured.verdict);
    }
    if let Some((rate_bps, sentence)) = circumstances.refuted_rate() {
        measured.refuted_line_bps = Some(rate_bps);
        measured.verdict = format!("{sentence} {}", measured.verdict);
    }
    measured
}

fn echo_times(times: &[Duration]) -> Option<EchoTimes> {
    EchoTimes::of(times.iter().copied().map(nanos).collect())
}

pub(super) fn host() -> HostInfo {
    let machine = Machine::current();
    HostInfo {
        kernel: Some(machine.kernel),
        cpu: machine.processor,
        cpus: machine.processors.and_then(|count| u32::try_from(count).ok()),
        load1: load_average().map(|[one, ..]| one),
        congestion_control: machine.congestion_control,
    }
}

fn phases(findings: &SessionResults, circumstances: &Circumstances) -> Phases {
    let opened_at = findings.opened_at;
    // Without a negotiation, the time until the prompt is counted from the opening of the
    // connection.
    let before_prompt = findings.negotiated_at.or(opened_at);
    let duration_between_ns = |from: Option<Instant>, to: Option<Instant>| Some(nanos(to? - from?));
    let prompt = findings.prompt;
    // If a connection starts with TLS, it is reported as open only after the handshake.
    let connected_at = opened_at.map(|at| match circumstances.tls {
        Some(tls) if at - Instant::ZERO >= tls => Instant::ZERO + (at - Instant::ZERO - tls),
        _ => at,
    });
    Phases {
        resolve_ns: circumstances.resolve.map(nanos),
        connect_ns: circumstances
            .connect_time
            .map(nanos)
            .or_else(|| duration_between_ns(circumstances.connecting_at, connected_at)),
        tls_ns: circumstances.tls.map(nanos),
        negotiation_ns: duration_between_ns(opened_at, findings.negotiated_at),
        login_prompt_ns: duration_between_ns(before_prompt, prompt.map(|(_, at)| at))
            .filter(|_| !findings.is_silent),
        prompt: prompt.map(|(prompt, _)| match prompt {
            Prompt::Login => PromptKind::Login,
            Prompt::Password => PromptKind::Password,
            Prompt::Shell => PromptKind::Shell,
            Prompt::Confirmation | Prompt::Silence => PromptKind::Silence,
        }),
        password_prompt_ns: findings.password_prompt.map(nanos),
        login_ns: findings.login.map(nanos),
    }
}

/// Returns the rate of the slowest line of the path, derived from the arrivals of a screenful.
fn line_rate(screenful: &Screenful, carrier: &Carrier) -> Option<LineRate> {
    let bits_per_byte = match carrier {
        Carrier::Line(_) => carrier.bits_per_byte(),
        Carrier::Network(_) | Carrier::Program => 8,
    };
    let nominal_bps = match carrier {
        Carrier::Line(_) => carrier.line_bps().map(u64::from),
        Carrier::Network(_) | Carrier::Program => None,
    };
    let rate = arrivals::line_rate(&screenful.arrivals, bits_per_byte)?;
    Some(LineRate { nominal_bps, ..rate })
}

fn screenful(findings: &SessionResults, rates: Rates) -> Option<Screenful> {
    let (received, is_command) = findings.screenful.as_ref()?;
    let watch = &received.watch;
    let first_cell_at = watch.first_cell_at?;
    let last_cell_at = watch.last_cell_at?;
    let requested_at = watch.requested_at.unwrap_or(first_cell_at);
    let spent = last_cell_at.time_since(&requested_at);
    let total_ns = rates.total_ns(&spent);
    let parts = rates.parts_with(&spent, watch.run_queue_wait);
    let segments = watch
        .received_at
        .zip(watch.last_cell_at)
        .map(|(from, to)| to.time_since(&from).data_segments);
    Some(Screenful {
        method: Some(if *is_command {
            ScreenfulMethod::Command
        } else {
            ScreenfulMethod::TypedEcho
        }),
        bytes: watch.bytes,
        cells: watch.cells,
        first_to_last_ns: rates.total_ns(&last_cell_at.time_since(&first_cell_at)),
        request_to_last_ns: Some(total_ns),
        first_byte_wait_ns: Some(
            rates.account_ns(&first_cell_at.time_since(&requested_at), Account::Outside),
        ),
        segments_in: segments.filter(|_| has_segment_counts(findings)),
        longest_gap_ns: watch.longest_gap.map(nanos),
        layers: statistics::split(total_ns, &parts),
        error: Some(SplitError::of(total_ns, &parts, rates.resolution_ns())),
        arrivals: watch.arrivals.clone(),
    })
}

/// Returns whether the user-space TCP was used, which counts the segments.
fn has_segment_counts(findings: &SessionResults) -> bool {
    matches!(findings.status, Some(CarrierStatus::UserSpace(_)))
}

fn tcp_figures(status: &CarrierStatus) -> Option<TcpStats> {
    match status {
        CarrierStatus::Kernel(info, _) => Some(kernel_figures(info)),
        CarrierStatus::UserSpace(status) => Some(own_figures(status)),
        CarrierStatus::None => None,
    }
}

fn kernel_figures(info: &TcpInfo) -> TcpStats {
    let mss = u64::from(info.send_mss_bytes);
    TcpStats {
        rtt_ns: Some(u64::from(info.round_trip_us) * 1_000).filter(|ns| *ns > 0),
        rtt_min_ns: info.min_round_trip_us.map(|us| u64::from(us) * 1_000),
        rtt_deviation_ns: Some(u64::from(info.round_trip_deviation_us) * 1_000),
        retransmissions: Some(info.total_retransmissions.into()),
        segments_in: info.segments_in.map(u64::from),
        segments_out: info.segments_out.map(u64::from),
        bytes_in: info.bytes_received,
        bytes_out: info.bytes_acknowledged,
        mss: Some(mss),
        cwnd: Some(u64::from(info.congestion_window_segments) * mss),
    }
}

fn own_figures(status: &Status) -> TcpStats {
    let tcp_statistics = &status.statistics;
    TcpStats {
        rtt_ns: status.srtt.map(nanos),
        rtt_min_ns: status.recovery.min_rtt.map(nanos),
        rtt_deviation_ns: status.rttvar.map(nanos),
        retransmissions: Some(tcp_statistics.retransmissions),
        segments_in: Some(tcp_statistics.segments_in),
        segments_out: Some(tcp_statistics.segments_out),
        bytes_in: Some(tcp_statistics.bytes_in),
        bytes_out: Some(tcp_statistics.bytes_acknowledged),
        mss: Some(status.send_mss.into()),
        cwnd: Some(status.congestion_window.into()),
    }
}

/// Returns the time of the median keystroke by layer, if any keystroke was measured.
pub fn median_keystroke(
    findings: &SessionResults,
    circumstances: &Circumstances,
) -> Option<MedianKeystroke> {
    let rates = circumstances.rates();
    let mut keys: Vec<_> = findings.keystrokes.iter().collect();
    keys.sort_by_key(|key| rates.total_ns(&key.total()));
    let key = statistics::nearest_rank(&keys, 50)?.without_send_wait(rates);
    let waiting = [&key.sending, &key.remote, &key.receiving];
    let waiting = waiting.map(|spent| rates.account_ns(spent, Account::Outside));
    Some(MedianKeystroke {
        sending: layer_times(&key.sending, rates).into_iter().rev().collect(),
        waiting_ns: waiting.into_iter().sum(),
        receiving: layer_times(&key.remote.plus(&key.receiving), rates),
        samples: keys.len(),
    })
}

fn layer_times(spent: &SpentTime, rates: Rates) -> Vec<LayerTime> {
    let times = LAYERS
        .into_iter()
        .map(|(account, layer)| LayerTime { layer, ns: rates.account_ns(spent, account) });
    times.filter(|time| time.ns > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrier::Route;
    use os::clock::TickRate;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_run_without_results_has_a_record_of_unknown_values() {
        let circumstances = Circumstances {
            target: "host".to_owned(),
            address: Some("192.0.2.1:23".parse().unwrap()),
            carrier: Carrier::Network(Route::Kernel),
            started_at: UNIX_EPOCH,
            resolve: None,
            connecting_at: Some(Instant::ZERO),
            connect_time: None,
            tls: None,
            tick: TickRate::calibrate(),
            refutation: None,
        };
        let measured = measurement(&SessionResults::default(), &circumstances);
        assert_eq!((measured.phases, measured.echo), (Phases::default(), None));
        assert_eq!((measured.screenful, measured.tcp), (None, None));
    }
}
