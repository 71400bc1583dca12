//! Tests of transfers between a user engine and a server engine: without faults, and with one fault
//! per transfer, injected at each possible step.

use super::listing::parse_facts;
use super::server::*;
use super::session_fixture::*;
use super::user::*;
use super::*;
use std::vec;
use std::vec::Vec;

fn retrieve_task(representation: Representation) -> Task {
    let name = name("file");
    Task::Retrieve { name, representation, offset_bytes: 0, expected_bytes: None }
}

fn store_task(representation: Representation) -> Task {
    Task::Store {
        name: Some(name("file")),
        kind: StoreKind::Replace,
        representation,
        offset_bytes: 0,
        allocation_bytes: None,
    }
}

fn world() -> World {
    World::new(server_settings(), user_settings())
}

// req RFC1123:4.1.2.13-MUST-12, RFC1123:4.1.2.13-MUST-14
#[test]
fn files_are_sent_and_received_in_every_representation() {
    let mut world = world();
    for mode in [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate] {
        for structure in [Structure::File, Structure::Record] {
            for data_type in [Type::default(), Type::Image, Type::Ebcdic(Format::NonPrint)] {
                let representation =
                    Representation { data_type, mode, structure, ..Representation::IMAGE };
                let server_file = world.files[&b"/file"[..]].clone();
                world.result(retrieve_task(representation)).unwrap();
                assert_eq!(world.received_file, server_file);
                world.upload_file.rotate_left(1);
                world.result(store_task(representation)).unwrap();
                assert_eq!(world.files[&b"/file"[..]], world.upload_file);
            }
        }
    }
    assert!(world.finished_transfers.iter().all(|finished| finished.result.is_ok()));
}

#[test]
fn accepted_parameters_are_not_sent_before_the_next_transfer() {
    let mut world = world();
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    world.replies.clear();
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.replies, [229, 150, 226]);
}

#[test]
fn an_interrupted_transfer_is_resumed() {
    let mut world = world();
    let task = Task::Retrieve {
        name: name("file"),
        representation: Representation::IMAGE,
        offset_bytes: 60,
        expected_bytes: Some(100),
    };
    assert_eq!(world.result(task).map(|done| done.wire_bytes), Ok(40));
    assert_eq!(world.received_file, (60..100).collect::<Vec<u8>>());
    let task = Task::Store {
        name: Some(name("file")),
        kind: StoreKind::Replace,
        representation: Representation::IMAGE,
        offset_bytes: 10,
        allocation_bytes: Some(90),
    };
    world.result(task).unwrap();
    assert_eq!(world.files[&b"/file"[..]].len(), 100);
}

// req RFC1123:4.1.2.9-MUST-1
#[test]
fn stou_reports_the_name_in_the_preliminary_reply() {
    let mut world = world();
    let task = Task::Store {
        name: None,
        kind: StoreKind::Unique,
        representation: Representation::IMAGE,
        offset_bytes: 0,
        allocation_bytes: None,
    };
    let result = world.result(task).unwrap();
    assert_eq!(result.preliminary.unwrap().text(), b"FILE: unique1");
    assert_eq!(world.files[&b"/unique1"[..]], world.upload_file);
}

// req RFC1123:4.1.2.13-MUST-13
#[test]
fn appe_appends_to_the_file() {
    let mut world = world();
    let Task::Store { name, representation, .. } = store_task(Representation::IMAGE) else {
        panic!()
    };
    let kind = StoreKind::Append;
    let task = Task::Store { name, kind, representation, offset_bytes: 0, allocation_bytes: None };
    world.result(task).unwrap();
    assert_eq!(world.files[&b"/file"[..]].len(), 190);
}

// req RFC1123:4.1.2.13-MUST-24, RFC1123:4.1.2.13-MUST-25
#[test]
fn listings_are_received_and_mail_is_delivered() {
    let mut world = world();
    for kind in [ListKind::Long, ListKind::LongWithHidden, ListKind::Names, ListKind::Facts] {
        world.result(Task::List(kind, None)).unwrap();
        let text = world.received_file.strip_suffix(b"\r\n").unwrap().to_vec();
        let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        assert_eq!(lines.len(), 2);
        let line = lines[0].strip_suffix(b"\r").unwrap();
        let name = match kind {
            ListKind::Names => line.to_vec(),
            ListKind::Facts => parse_facts(line).unwrap().name,
            _ => listing::ListReader::new(Timestamp::default()).line(line).unwrap().name,
        };
        assert_eq!(name, b"file");
    }
    world.result(Task::List(ListKind::Names, Some(name("t*")))).unwrap();
    assert_eq!(world.received_file, b"text\r\n");
    world.upload_file = b"dear\nann\n".to_vec();
    world.result(Task::MailFile(Some(name("ann")))).unwrap();
    assert_eq!(world.mails, [b"dear\nann\n"]);
}

#[test]
fn everything_runs_in_tls_and_in_active_mode_and_without_epsv() {
    for tls in [TlsUse::IfOffered, TlsUse::Required] {
        let mut world = World::new(server_settings(), UserSettings { tls, ..user_settings() });
        world.result(retrieve_task(Representation::IMAGE)).unwrap();
        assert!(world.user.is_tls());
        assert!(world.replies.starts_with(&[220, 234, 200, 200, 331, 230]));
    }
    let user = UserSettings { data_style: DataStyle::Active, ..user_settings() };
    let mut world = World::new(server_settings(), user);
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    world.result(store_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.files[&b"/file"[..]], world.upload_file);
    let mut world = World::new(server_settings(), user_settings());
    world.refuses_epsv_connections = true;
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.replies.iter().filter(|code| **code == 227).count(), 1);
    world.replies.clear();
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.replies, [227, 150, 226]);
}

#[test]
fn a_server_without_tls_is_refused_or_used_as_configured() {
    let settings_without_tls = || ServerSettings { tls: TlsPolicy::None, ..server_settings() };
    let world_with =
        |tls| World::new(settings_without_tls(), UserSettings { tls, ..user_settings() });
    world_with(TlsUse::IfOffered).result(retrieve_task(Representation::IMAGE)).unwrap();
    let failure =
        world_with(TlsUse::Required).result(retrieve_task(Representation::IMAGE)).unwrap_err();
    assert_eq!(failure.why, FailureReason::ControlLost);
    let mut world_requiring_tls = world_with(TlsUse::Required);
    world_requiring_tls.settle();
    assert!(matches!(
        world_requiring_tls.close_result,
        Some(Some(Failure { step: Step::Auth, .. }))
    ));
}

#[test]
fn a_wrong_password_fails_and_a_requested_account_is_sent() {
    let mut settings = user_settings();
    settings.password = Secret::new("wrong").unwrap();
    let mut world = World::new(server_settings(), settings);
    world.settle();
    assert!(matches!(world.close_result, Some(Some(Failure { step: Step::Password, .. }))));
    let mut settings = UserSettings::new(name("bob"), Secret::new("secret").unwrap());
    settings.account = Some(Secret::new("project").unwrap());
    let mut world = World::new(server_settings(), settings);
    world.result(Task::Noop).unwrap();
}

/// FTP commands in a valid order, with the code of the reply to each.
const EVERY_COMMAND: &[(&str, u16)] = &[
    ("NOOP", 200),
    ("SYST", 215),
    ("HELP", 214),
    ("HELP RETR", 214),
    ("STAT", 211),
    ("STAT x", 213),
    ("PWD", 257),
    ("XPWD", 257),
    ("CWD a", 250),
    ("CDUP", 250),
    ("XCUP", 250),
    ("CWD /file", 550),
    ("MKD d", 257),
    ("RMD d", 250),
    ("RNTO x", 503),
    ("RNFR nothing", 550),
    ("RNFR text", 350),
    ("RNTO t2", 250),
    ("DELE t2", 250),
    ("DELE t2", 550),
    ("SIZE file", 213),
    ("MDTM file", 213),
    ("MLST file", 250),
    ("MFMT 20200101000000 file", 213),
    ("MFF UNIX.mode=600; file", 213),
    ("SITE CHMOD 600 file", 200),
    ("SITE HELP", 214),
    ("SITE PARTIAL file", 213),
    ("SITE UTIME 20200101000000 file", 200),
    ("SITE EXEC ls", 504),
    ("HASH file", 213),
    ("XCRC file", 250),
    ("XMD5 file", 250),
    ("XSHA256 file", 250),
    ("OPTS HASH MD5", 200),
    ("OPTS UTF8 ON", 200),
    ("OPTS MLST size;", 200),
    ("OPTS MODE Z LEVEL 9", 200),
    ("COMB file a b", 250),
    ("AVBL", 213),
    ("CSID Name=x;", 200),
    ("CLNT x", 200),
    ("LANG", 200),
    ("LANG fr", 504),
    ("FEAT", 211),
    ("ALLO 100", 200),
    ("ALLO 100 R 9", 200),
    ("TYPE A N", 200),
    ("TYPE L 36", 200),
    ("TYPE X", 504),
    ("STRU R", 200),
    ("MODE C", 200),
    ("STRU F", 200),
    ("MODE S", 200),
    ("TYPE I", 200),
    ("REST 5", 350),
    ("REST 0", 350),
    ("PORT 10,0,0,2,100,1", 200),
    ("EPRT |1|10.0.0.2|30000|", 200),
    ("EPRT |3|x|1|", 522),
    ("LPRT 4,4,10,0,0,2,2,100,1", 200),
    ("PASV", 227),
    ("LPSV", 228),
    ("EPSV", 229),
    ("EPSV 2", 522),
    ("ABOR", 225),
    ("SMNT x", 502),
    ("ACCT x", 202),
    ("ADAT x", 502),
    ("MIC x", 502),
    ("PBSZ 0", 503),
    ("PROT P", 503),
    ("CCC", 533),
    ("HOST x", 503),
    ("AUTH KERBEROS", 504),
    ("XYZZY", 500),
    ("RETR", 501),
    ("EPSV ALL", 200),
    ("PASV", 503),
    ("PORT 10,0,0,2,100,1", 503),
    ("EPSV", 229),
    ("PASS x", 202),
    ("MAIL ann", 350),
    (".", 256),
    ("REIN", 220),
    ("PWD", 530),
    ("QUIT", 221),
];

// req RFC1123:4.1.2.6-MUST-3, RFC1123:4.1.2.13-MUST-8, RFC1123:4.1.2.13-MUST-9
// req RFC1123:4.1.2.13-MUST-10, RFC1123:4.1.2.13-MUST-11, RFC1123:4.1.2.13-MUST-15
// req RFC1123:4.1.2.13-MUST-16, RFC1123:4.1.2.13-MUST-17, RFC1123:4.1.2.13-MUST-18
// req RFC1123:4.1.2.13-MUST-19, RFC1123:4.1.2.13-MUST-20, RFC1123:4.1.2.13-MUST-21
// req RFC1123:4.1.2.13-MUST-22, RFC1123:4.1.2.13-MUST-23, RFC1123:4.1.2.13-MUST-26
// req RFC1123:4.1.2.13-MUST-27, RFC1123:4.1.2.13-MUST-28, RFC1123:4.1.2.13-MUST-29
#[test]
fn every_command_gets_its_reply_code() {
    let mut world = world();
    for (line, code) in EVERY_COMMAND {
        assert_eq!(world.quote(line), *code, "{line}");
    }
    assert_eq!(world.mails, [b""]);
}

#[test]
fn tasks_return_the_results_of_their_replies() {
    let mut world = world();
    let reply = |world: &mut World, task| world.result(task).unwrap().reply;
    assert_eq!(reply(&mut world, Task::Size(name("file"))).number(), Some(100));
    assert_eq!(reply(&mut world, Task::WorkingDirectory).quoted_name(), Some(b"/".to_vec()));
    let facts = reply(&mut world, Task::Facts(name("file"))).entry().unwrap();
    assert_eq!(facts.name, b"/file");
    let modified = reply(&mut world, Task::Modified(name("file"))).timestamp();
    assert_eq!(modified, Some(Timestamp::default()));
    let features = Features::from_reply(&reply(&mut world, Task::Features));
    assert!(features.has("mlst") && features.has("REST") && !features.has("RES"));
    world.result(Task::Rename { from: name("file"), to: name("other") }).unwrap();
    assert!(world.files.contains_key(&b"/other"[..]));
    world.result(Task::Quit).unwrap();
    assert_eq!(world.close_result, Some(None));
    assert!(world.user.run(Task::Noop, &mut world.context.cx()).is_none());
}

const FAULTS: [Fault; 7] = [
    Fault::ControlReset,
    Fault::DataReset,
    Fault::DataStall,
    Fault::DataShort,
    Fault::UserKilled,
    Fault::Abort,
    Fault::DiskFull,
];

/// Runs one task with one fault at one step, and checks the results of both ends. Returns whether
/// the fault occurred before the task ended.
fn run_with_fault(
    representation: Representation,
    task: &Task,
    (fault, step): (Fault, usize),
    has_previous_task: bool,
) -> bool {
    let mut world = world();
    if has_previous_task {
        // The user expects a second transfer, so its commands for that transfer are sent before the
        // last replies to the first task.
        world.user.expect_transfer(true);
        world.result(retrieve_task(representation)).unwrap();
        world.finished_transfers.clear();
        world.steps = 0;
    }
    world.fault = (fault, step);
    let old_file = world.files[&b"/file"[..]].clone();
    let sent_file = world.upload_file.clone();
    let id = world.run(task.clone());
    let task_result = world.results.iter().find(|(done, _)| *done == id);
    let (_, result) = task_result.expect("every task has a result");
    let has_server_success =
        world.finished_transfers.iter().any(|finished| finished.result.is_ok());
    let server_file = &world.files[&b"/file"[..]];
    let context = std::format!("{representation:?} {fault:?} at {step}: {result:?}");
    // In stream mode, a server cannot distinguish data that was truncated without a reset from a
    // shorter file.
    let is_undetectable = fault == Fault::DataShort && representation.mode == Mode::Stream;
    if matches!(task, Task::Retrieve { .. }) {
        assert!(result.is_err() || world.received_file == old_file, "{context}");
        assert!(result.is_err() || has_server_success, "{context}");
    } else {
        assert!(
            *server_file == old_file || *server_file == sent_file || is_undetectable,
            "{context}"
        );
        assert!(result.is_err() || *server_file == sent_file || is_undetectable, "{context}");
        assert!(!has_server_success || *server_file == sent_file || is_undetectable, "{context}");
        assert!(has_server_success || *server_file == old_file, "{context}");
    }
    // If the session is still open, another task must succeed.
    if world.close_result.is_none() {
        world.fault = (Fault::None, 0);
        assert!(world.result(Task::Noop).is_ok(), "{context}");
    }
    world.steps >= step
}

// attack row 87
#[test]
fn row_87_a_fault_at_any_step_never_reports_a_partial_file_as_complete() {
    for mode in [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate] {
        let representation = Representation { mode, ..Representation::IMAGE };
        for task in [retrieve_task(representation), store_task(representation)] {
            for fault in FAULTS {
                for (is_second, least) in [(false, 20), (true, 5)] {
                    let mut step = 0;
                    while run_with_fault(representation, &task, (fault, step), is_second) {
                        step += 1;
                    }
                    assert!(step > least, "{step}");
                }
            }
        }
    }
}

#[test]
fn unchanged_parameters_are_not_sent_again_for_the_next_file() {
    let mut world = world();
    world.user.expect_transfer(true);
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    world.replies.clear();
    world.result(retrieve_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.replies, [229, 150, 226]);
    world.user.expect_transfer(false);
    world.result(store_task(Representation::IMAGE)).unwrap();
    assert_eq!(world.files[&b"/file"[..]], world.upload_file);
    world.result(Task::Mail(Some(name("ann")), b"dear\r\n.\nann".into())).unwrap();
    assert_eq!(world.mails, [b"dear\n. \nann\n"]);
    world.result(Task::Quit).unwrap();
}

// attack row 77
#[test]
fn row_77_the_address_of_a_passive_reply_is_never_connected_to() {
    let mut context = net::cx::OwnedCx::default();
    let settings = UserSettings { asks_features: false, ..user_settings() };
    let mut user = User::new(settings, address(PEER), address(LOCAL), &context.cx());
    user.run(Task::List(ListKind::Names, None), &mut context.cx());
    let replies: [&[u8]; 5] = [
        b"220 x\r\n",
        b"331 x\r\n",
        b"230 x\r\n",
        b"500 no EPSV\r\n",
        b"227 (192,168,0,9,4,1)\r\n",
    ];
    let mut connected_addresses = vec![];
    for reply in replies {
        user.receive(reply, &mut context.cx());
        while let Some(event) = user.event() {
            if let UserEvent::ConnectData(to) = event {
                connected_addresses.push(to);
            }
        }
    }
    assert_eq!(connected_addresses, [address("10.0.0.1:1025")]);
    assert!(!user.data_connected(address("192.168.0.9:1025"), &mut context.cx()));
}

// attack row 83
#[test]
fn row_83_replies_received_before_tls_are_ignored_after_it() {
    let mut context = net::cx::OwnedCx::default();
    let settings = UserSettings { tls: TlsUse::Required, ..user_settings() };
    let mut user = User::new(settings, address(PEER), address(LOCAL), &context.cx());
    user.receive(b"220 x\r\n234 TLS\r\n200 PBSZ\r\n200 PROT\r\n230 in", &mut context.cx());
    user.receive(b"\r\n331 x\r\n", &mut context.cx());
    user.tls_started(true, &mut context.cx());
    let sent = user.output().to_vec();
    assert_eq!(sent, b"AUTH TLS\r\nPBSZ 0\r\n");
    assert!(context.counted(net::meter::Counter::FtpBytesBeforeTls) > 30);
}

// req RFC1123:4.1.2.12-MUST-3, RFC1123:4.1.2.12-MUST-4
#[test]
fn a_user_sends_no_telnet_commands_except_ip_and_synch() {
    let mut world = world();
    let task = Task::ChangeDirectory(Name::new([b'a', 255, b'b']).unwrap());
    world.user.run(task, &mut world.context.cx());
    let mut output = Vec::new();
    for reply in [&b"220 x\r\n"[..], b"331 x\r\n", b"230 x\r\n", b"500 x\r\n", b"250 x\r\n"] {
        world.user.receive(reply, &mut world.context.cx());
        output.extend_from_slice(world.user.output());
        world.user.sent(world.user.output().len());
    }
    assert!(output.ends_with(b"CWD a\xff\xffb\r\n"));
    assert_eq!(output.iter().filter(|&&byte| byte >= 240).count(), 2);
}

#[test]
fn a_server_lists_the_commands_of_tls_only_if_it_offers_tls() {
    for (tls, is_listed) in [(TlsPolicy::None, false), (TlsPolicy::Offered, true)] {
        let mut server = LoneServer::logged_in(ServerSettings { tls, ..server_settings() });
        let features = server.replies_to("FEAT");
        assert_eq!(features.contains("\r\n AUTH TLS\r\n"), is_listed, "{features}");
    }
}

#[test]
fn a_rename_needs_rnto_immediately_after_rnfr() {
    let mut server = LoneServer::logged_in(server_settings());
    assert_eq!(server.send_lines("RNFR file\r\nNOOP\r\nRNTO other"), [350, 200, 503]);
    assert_eq!(server.send_lines("RNFR file\r\nRNTO other"), [350, 250]);
}

#[test]
fn a_path_that_is_too_long_is_refused_and_counted() {
    let mut server = LoneServer::logged_in(server_settings());
    let path = "a/".repeat(2000);
    assert_eq!(server.send_lines(&std::format!("CWD {path}")), [553]);
    assert_eq!(server.0.context.counted(net::meter::Counter::FtpNamesRefused), 1);
}

#[test]
fn an_abort_during_a_transfer_is_a_synch_whose_first_bytes_are_urgent() {
    let mut context = net::cx::OwnedCx::default();
    let settings = UserSettings { asks_features: false, ..user_settings() };
    let mut user = User::new(settings, address(PEER), address(LOCAL), &context.cx());
    user.run(Task::List(ListKind::Names, None), &mut context.cx());
    user.abort(&mut context.cx());
    for reply in [&b"220 x\r\n"[..], b"331 x\r\n", b"230 x\r\n", b"229 (|||1025|)\r\n"] {
        user.receive(reply, &mut context.cx());
    }
    assert_eq!(user.urgent_mark(), None);
    assert!(user.data_connected(address("10.0.0.1:1025"), &mut context.cx()));
    user.receive(b"150 x\r\n", &mut context.cx());
    user.sent(user.output().len());
    user.abort(&mut context.cx());
    assert_eq!(user.output(), b"\xff\xf4\xff\xf2ABOR\r\n");
    assert_eq!(user.urgent_mark(), Some(4));
    user.abort(&mut context.cx());
    assert_eq!(user.output().len(), 10);
}

#[test]
fn a_session_whose_tls_fails_sends_nothing_more() {
    let mut context = net::cx::OwnedCx::default();
    let settings = UserSettings { tls: TlsUse::Required, ..user_settings() };
    let mut user = User::new(settings, address(PEER), address(LOCAL), &context.cx());
    user.receive(b"220 x\r\n234 TLS\r\n", &mut context.cx());
    user.sent(user.output().len());
    user.tls_started(false, &mut context.cx());
    assert_eq!(user.output(), b"");
}
