//! Many idle sessions: the rate of logins, and the memory of each session.
//!
//! The bench logs in sequentially on kernel sockets. Servers with one process per session are not
//! measured: they are not designed for this many sessions.

use super::directories::Directories;
use super::ftp_servers::{Server, ServerProgram};
use crate::benchmark_report::{Report, Section, Verdict};
use crate::conditions::Conditions;
use crate::files::amount::Amount;
use crate::rounds::millis;
use crate::sessions::resident_kilobytes;
use crate::telnetd::on_server_processor;
use anyhow::{Context, Result, ensure};
use os::clock::Monotonic;
use records::format::UNKNOWN;
use records::statistics::median;
use report::table::Table;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// First port of the servers started here.
const PORT: u16 = 7120;
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest accepted server memory per session, KiB.
const MEMORY_GOAL_KIB: f64 = 8.0;
/// Lowest accepted rate of logins per second.
const RATE_GOAL: f64 = 4800.0;

/// Result of one round.
#[derive(Clone, Copy, Debug)]
struct RoundResult {
    ns_per_login: u64,
    bytes_per_session: u64,
}

/// Runs the measurement, and adds its table and verdicts to `report`.
pub(super) fn run(
    directories: &Directories,
    conditions: &Conditions,
    amount: &Amount,
    report: &mut Report,
) -> Result<()> {
    os::process::allow_descriptors(u64::try_from(amount.logins)? + 100)?;
    let mut table = Table::new()
        .text("server")
        .number("logins/s")
        .number("time per login (ms)")
        .number("memory per session (KiB)")
        .number("rounds");
    let server_programs = [ServerProgram::Plumb, ServerProgram::Pyftpdlib];
    let mut results: [Vec<RoundResult>; 2] = Default::default();
    for round in 0..amount.rounds {
        for (at, (server_program, results)) in
            server_programs.into_iter().zip(&mut results).enumerate()
        {
            // Each round uses new ports, because connections of the previous one are in TIME-WAIT.
            let port = PORT + u16::try_from(round * server_programs.len() + at)?;
            match measure(server_program, directories, conditions, amount.logins, port) {
                Ok(result) => results.push(result),
                Err(error) => {
                    let name = server_program.name();
                    report.notes.push(format!("idle: omitted: {name}: {error:#}."));
                }
            }
        }
    }
    let mut data = Vec::new();
    for (server_program, results) in server_programs.into_iter().zip(&results) {
        let median_of = |figure: fn(&RoundResult) -> u64| {
            median(&results.iter().map(figure).collect::<Vec<_>>())
        };
        let login = median_of(|one| one.ns_per_login);
        let bytes = median_of(|one| one.bytes_per_session);
        let rate = login.map(|ns| (1_000_000_000 / ns.max(1)).to_string());
        let kibibytes = bytes.map(|bytes| bytes as f64 / 1024.0);
        let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        table.row([
            server_program.name().to_owned(),
            known(rate),
            millis(login),
            known(kibibytes.map(|kibibytes| format!("{kibibytes:.1}"))),
            results.len().to_string(),
        ]);
        let all = results.iter().map(|one| json!([one.ns_per_login, one.bytes_per_session]));
        data.push(
            json!({ "server": server_program.name(), "ns_and_bytes": all.collect::<Vec<_>>() }),
        );
        if server_program == ServerProgram::Plumb {
            report.verdicts.push(Verdict {
                what: "idle: server memory per session".to_owned(),
                goal: MEMORY_GOAL_KIB,
                actual: kibibytes,
                unit: " KiB",
            });
            report.verdicts.push(Verdict {
                what: format!("idle: time per login ({RATE_GOAL} logins/s)"),
                goal: 1000.0 / RATE_GOAL,
                actual: login.map(|ns| ns as f64 / 1e6),
                unit: " ms",
            });
        }
    }
    let heading = format!("idle: {} logins, one after the other", amount.logins);
    report.sections.push(Section { heading, table, data: json!({ "servers": data }) });
    Ok(())
}

fn measure(
    server_program: ServerProgram,
    directories: &Directories,
    conditions: &Conditions,
    logins: usize,
    port: u16,
) -> Result<RoundResult> {
    let server = on_server_processor(conditions.pinning(), || {
        Server::start(
            server_program,
            server_program.command(directories, port, logins + 100)?,
            port,
        )
    })?;
    let mut sessions = Vec::with_capacity(logins);
    // The first login includes one-time allocations, so it is not counted.
    sessions.push(log_in(server_program, port)?);
    let before =
        resident_kilobytes(server.program.id()).context("the server's memory is unknown")?;
    let clock = Monotonic::start();
    let started_at = clock.now();
    while sessions.len() < logins {
        let session = log_in(server_program, port);
        sessions.push(session.with_context(|| format!("after {} logins", sessions.len()))?);
    }
    let elapsed = clock.now() - started_at;
    let after =
        resident_kilobytes(server.program.id()).context("the server's memory is unknown")?;
    let count = u64::try_from(logins.saturating_sub(1))?.max(1);
    Ok(RoundResult {
        ns_per_login: u64::try_from(elapsed.as_nanos())? / count,
        bytes_per_session: after.saturating_sub(before) * 1024 / count,
    })
}

fn log_in(server_program: ServerProgram, port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let (user, password) = server_program.user();
    expect_reply(&mut stream, b"220")?;
    stream.write_all(format!("USER {user}\r\n").as_bytes())?;
    expect_reply(&mut stream, b"331")?;
    stream.write_all(format!("PASS {password}\r\n").as_bytes())?;
    expect_reply(&mut stream, b"230")?;
    Ok(stream)
}

/// Reads a one-line reply.
fn expect_reply(stream: &mut TcpStream, code: &[u8]) -> Result<()> {
    let mut reply = [0; 512];
    let mut count = 0;
    loop {
        let free_buffer = reply.get_mut(count..).filter(|free_buffer| !free_buffer.is_empty());
        let read = stream.read(free_buffer.context("a reply is too long")?)?;
        ensure!(read > 0, "the server has closed the connection");
        count += read;
        let received = reply.get(..count).unwrap_or_default();
        if received.ends_with(b"\n") {
            let text = String::from_utf8_lossy(received);
            ensure!(received.starts_with(code), "the server's reply is '{}'", text.trim());
            return Ok(());
        }
    }
}
