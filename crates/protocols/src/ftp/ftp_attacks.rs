//! Known attacks on FTP implementations, run against the FTP user and server engines. Each test
//! names its row of the attack table.

use super::server::*;
use super::session_fixture::*;
use super::*;
use net::meter::Counter;
use net::time::Duration;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

// attack row 76
#[test]
fn row_76_data_is_sent_only_to_the_user_and_not_to_service_ports() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    for line in [
        "PORT 192,168,0,1,100,1",
        "PORT 127,0,0,1,100,1",
        "PORT 10,0,0,2,0,25",
        "EPRT |1|192.168.0.1|30000|",
        "EPRT |1|10.0.0.2|1023|",
        "EPRT |2|::1|30000|",
        "LPRT 4,4,192,168,0,1,2,100,1",
        "EPRT |2|::ffff:192.168.0.1|30000|",
    ] {
        assert_eq!(lone_server.send_lines(line), [504], "{line}");
    }
    assert_eq!(lone_server.send_lines("EPRT |2|::ffff:10.0.0.2|30000|"), [200]);
    assert_eq!(lone_server.0.context.counted(Counter::FtpBouncesRefused), 8);
}

// attack row 78
#[test]
fn row_78_a_data_connection_from_another_host_is_not_used() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    lone_server.send_lines("EPSV");
    let LoneServer(world) = &mut lone_server;
    assert!(!world.server.data_connected(address("10.0.0.3:40000"), &mut world.context.cx()));
    assert!(world.server.data_connected(address("10.0.0.2:1"), &mut world.context.cx()));
    assert_eq!(world.context.counted(Counter::FtpDataPeersRefused), 1);
}

// attack row 82
#[test]
fn row_82_a_command_after_auth_is_not_executed_within_tls() {
    for behind in ["USER ann\r\n", "USER an", "\u{0}"] {
        let mut lone_server = LoneServer::new(server_settings());
        assert_eq!(
            lone_server.send_bytes(format!("AUTH TLS\r\n{behind}").as_bytes()),
            [503],
            "{behind:?}"
        );
        let dropped = lone_server.0.context.counted(Counter::FtpCommandsDropped);
        assert_eq!(dropped, u64::from(behind.ends_with('\n')), "{behind:?}");
        assert_eq!(lone_server.send_lines("PASS secret"), [503]);
        assert_eq!(lone_server.send_lines("PBSZ 0"), [503]);
    }
    // Input between the reply to AUTH and the TLS handshake is not read.
    let mut lone_server = LoneServer::new(server_settings());
    let LoneServer(world) = &mut lone_server;
    world.server.receive(&mut &b"AUTH TLS\r\n"[..], &mut world.context.cx());
    let mut injected_command = &b"USER ann\r\n"[..];
    world.server.receive(&mut injected_command, &mut world.context.cx());
    assert_eq!(injected_command, b"USER ann\r\n");
    assert!(!world.server.wants_input());
    world.server.tls_started(true, &mut world.context.cx());
    assert_eq!(lone_server.send_lines("PASS secret"), [234, 503]);
}

/// Returns a valid argument of `verb`.
fn valid_argument(verb: Verb) -> &'static str {
    match verb {
        Verb::Port => " 10,0,0,2,100,1",
        Verb::Eprt => " |1|10.0.0.2|30000|",
        Verb::Lprt => " 4,4,10,0,0,2,2,100,1",
        Verb::Type => " I",
        Verb::Stru => " F",
        Verb::Mode => " S",
        Verb::Allo | Verb::Rest | Verb::Pbsz => " 1",
        Verb::Site => " CHMOD 600 x",
        Verb::Opts => " UTF8 ON",
        Verb::Mfmt => " 20200101000000 x",
        Verb::Mff => " UNIX.mode=600; x",
        Verb::Comb => " x y",
        Verb::Prot => " P",
        Verb::Auth => " TLS",
        Verb::Cdup | Verb::Rein | Verb::Epsv => "",
        _ => " x",
    }
}

/// Returns the codes of the replies to `verb`, and whether the owner received an event that requires an
/// answer.
fn replies_and_events(lone_server: &mut LoneServer, verb: Verb) -> (Vec<u16>, bool) {
    let line = format!("{}{}\r\n", verb.text(), valid_argument(verb));
    let LoneServer(world) = lone_server;
    world.server.receive(&mut line.as_bytes(), &mut world.context.cx());
    let event = world.server.event();
    let has_event = event.is_some_and(|event| !matches!(event, ServerEvent::Denied { .. }));
    (lone_server.take_output().1, has_event)
}

// attack row 84
#[test]
fn row_84_no_verb_has_an_effect_without_the_required_login_and_right() {
    for verb in Verb::ALL.iter().copied() {
        let (codes, is_asked) = replies_and_events(&mut LoneServer::new(server_settings()), verb);
        if verb.right() != Right::Anyone {
            assert_eq!((codes, is_asked), ([530].to_vec(), false), "{verb:?} without a login");
        }
        let mut guest = LoneServer::new(server_settings());
        assert_eq!(guest.send_lines("USER guest\r\nPASS x"), [331, 230]);
        let (codes, is_asked) = replies_and_events(&mut guest, verb);
        let is_allowed = Rights::READ_ONLY.contains(verb.right()) && verb != Verb::Site;
        if !is_allowed {
            assert_eq!((codes, is_asked), ([550].to_vec(), false), "{verb:?} of a guest");
        }
    }
}

// attack row 85
#[test]
fn row_85_a_user_name_with_special_characters_has_no_special_effect() {
    for user in ["ann:)", ":)", "root\u{7f}", "%s%n", "../ann", "-froot", "`id`"] {
        let mut lone_server = LoneServer::new(server_settings());
        assert_eq!(lone_server.send_lines(&format!("USER {user}\r\nPASS x")), [331, 530], "{user}");
    }
}

// attack row 88
#[test]
fn row_88_a_long_line_is_refused_and_the_next_is_processed() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    let line = "A".repeat(1 << 20);
    assert_eq!(lone_server.send_lines(&format!("PWD\r\n{line}\r\nNOOP")), [257, 500, 200]);
}

// attack row 91
#[test]
fn row_91_the_session_answers_after_each_verb_with_an_argument_of_any_length() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    for verb in Verb::ALL.iter().filter(|verb| !matches!(verb, Verb::Quit | Verb::Rein)) {
        for len in [0, 255, 4000, 5000, 65_536] {
            let text = verb.text();
            let LoneServer(world) = &mut lone_server;
            let line = format!("{text} {}\r\n", "A/".repeat(len / 2));
            let mut rest = line.as_bytes();
            world.server.receive(&mut rest, &mut world.context.cx());
            if *verb == Verb::Mail {
                world.server.receive(&mut &b".\r\n"[..], &mut world.context.cx());
            }
            assert!(!lone_server.send_lines("ABOR").is_empty(), "{text} {len}");
            if lone_server.0.server.user().is_none() {
                lone_server = LoneServer::logged_in(server_settings());
            }
        }
    }
}

// attack row 92
#[test]
fn row_92_no_name_sent_by_a_server_ends_its_line() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    for line in ["MKD a\rb", "MKD a\0b", "CWD a\r200 x"] {
        assert_eq!(lone_server.send_lines(line), [501]);
    }
    let text = lone_server.replies_to("MKD a\"b\u{1b}[2Jc");
    assert_eq!(text, "257 \"/a\"\"b?[2Jc\" created\r\n");
}

// attack row 95
#[test]
fn row_95_size_of_a_text_above_the_limit_is_550() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    let LoneServer(world) = &mut lone_server;
    world.server.receive(&mut &b"TYPE A\r\nSIZE file\r\n"[..], &mut world.context.cx());
    let Some(ServerEvent::Perform(Operation::Size { text_max_bytes, representation, .. })) =
        world.server.event()
    else {
        panic!("the owner is asked");
    };
    assert_eq!((representation.data_type.is_text(), text_max_bytes), (true, 8 << 20));
    world.server.on_performed(Err(FileError::TooLarge), &mut world.context.cx());
    assert_eq!(lone_server.take_output().1, [200, 550]);
}

/// Starts an upload after the commands `lines`, and closes its data connection without a reset
/// after ten bytes.
fn server_after_upload_data(lines: &str) -> LoneServer {
    let mut lone_server = LoneServer::logged_in(server_settings());
    lone_server.send_lines(&format!("{lines}\r\nPASV\r\nSTOR file"));
    let LoneServer(world) = &mut lone_server;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    assert_eq!(world.server.event(), Some(ServerEvent::Start(TransferId(1))));
    world.server.data_ended(TransferId(1), 10, Ok(()), &mut world.context.cx());
    lone_server
}

#[test]
fn mlsd_of_a_file_is_an_argument_error_and_other_listings_fail() {
    for (command, code) in [("MLSD file", 501), ("LIST file/x*", 550)] {
        let mut lone_server = LoneServer::logged_in(server_settings());
        let LoneServer(world) = &mut lone_server;
        world.server.receive(&mut format!("{command}\r\n").as_bytes(), &mut world.context.cx());
        let error = Err(FileError::NotADirectory);
        world.server.on_opened(TransferId(1), error, &mut world.context.cx());
        assert_eq!(lone_server.take_output().1, [code], "{command}");
    }
}

const COMMIT_EVENT: Option<ServerEvent> = Some(ServerEvent::Commit(TransferId(1)));
const PLACE_EVENT: Option<ServerEvent> = Some(ServerEvent::Place(TransferId(1)));
const KEEP_EVENT: Option<ServerEvent> = Some(ServerEvent::Keep(TransferId(1)));
const DISCARD_EVENT: Option<ServerEvent> = Some(ServerEvent::Discard(TransferId(1)));

/// Returns a server with an upload whose data has ended. The owner has answered
/// [`ServerEvent::Place`] with `placement`.
fn server_after_placement(placement: Placement) -> LoneServer {
    let mut lone_server = server_after_upload_data("TYPE I");
    let LoneServer(world) = &mut lone_server;
    assert_eq!(world.server.event(), PLACE_EVENT);
    world.server.on_placed(TransferId(1), Ok(placement), &mut world.context.cx());
    let codes = if placement == Placement::Revocable { &[226][..] } else { &[] };
    assert_eq!(lone_server.take_output().1, codes);
    assert!(lone_server.0.server.is_confirming_upload());
    lone_server
}

fn transfer_result(lone_server: &mut LoneServer) -> (Result<(), TransferError>, Option<u16>) {
    let last_event = core::iter::from_fn(|| lone_server.0.server.event()).last();
    let Some(ServerEvent::Finished(finished)) = last_event else { panic!("{last_event:?}") };
    (finished.result, finished.reply)
}

// attack row 126
#[test]
fn row_126_an_upload_whose_client_dies_after_its_data_is_discarded() {
    for placement in [Placement::Revocable, Placement::Unsupported] {
        let mut lone_server = server_after_placement(placement);
        let LoneServer(world) = &mut lone_server;
        assert_eq!(world.server.event(), None);
        world.server.peer_closed(&mut world.context.cx());
        assert_eq!(world.server.event(), DISCARD_EVENT, "{placement:?}");
        assert_eq!(transfer_result(&mut lone_server), (Err(TransferError::ControlLost), None));
    }
}

// attack row 126
#[test]
fn row_126_an_upload_whose_client_dies_while_it_is_placed_is_discarded() {
    for placement in [Placement::Revocable, Placement::Unsupported] {
        let mut lone_server = server_after_upload_data("TYPE I");
        let LoneServer(world) = &mut lone_server;
        assert_eq!(world.server.event(), PLACE_EVENT);
        world.server.peer_closed(&mut world.context.cx());
        assert_eq!(world.server.event(), None, "the owner is at work");
        world.server.on_placed(TransferId(1), Ok(placement), &mut world.context.cx());
        assert_eq!(world.server.event(), DISCARD_EVENT, "{placement:?}");
        assert_eq!(transfer_result(&mut lone_server), (Err(TransferError::ControlLost), None));
    }
}

#[test]
fn an_upload_is_confirmed_if_its_control_connection_outlives_it() {
    let settings = server_settings();
    let unplaced_grace = Duration::from_millis(50);
    for (placement, event, grace) in [
        (Placement::Revocable, KEEP_EVENT, settings.upload_grace),
        (Placement::Unsupported, COMMIT_EVENT, unplaced_grace),
    ] {
        let LoneServer(mut world) = server_after_placement(placement);
        let deadline = world.server.deadline().unwrap();
        assert_eq!(deadline - world.context.now, grace);
        world.context.now = deadline;
        world.server.timeout(&mut world.context.cx());
        assert_eq!(world.server.event(), event);
        // The file is stored from now on, even if the client fails.
        world.server.peer_closed(&mut world.context.cx());
        let events: Vec<_> = core::iter::from_fn(|| world.server.event()).collect();
        assert!(events.iter().all(|event| Some(event) != DISCARD_EVENT.as_ref()), "{events:?}");
    }
}

#[test]
fn the_next_command_confirms_the_upload_and_is_answered_after_it() {
    for (line, codes) in
        [("NOOP", &[200][..]), ("ABOR", &[225]), ("STAT", &[211]), ("QUIT", &[221])]
    {
        let mut lone_server = server_after_placement(Placement::Revocable);
        let LoneServer(world) = &mut lone_server;
        let text = format!("{line}\r\n");
        world.server.receive(&mut text.as_bytes(), &mut world.context.cx());
        assert_eq!(world.server.event(), KEEP_EVENT, "{line}");
        assert_eq!(transfer_result(&mut lone_server), (Ok(()), Some(226)), "{line}");
        assert_eq!(lone_server.take_output().1, codes, "{line}");
    }
}

#[test]
fn a_client_that_has_read_the_reply_may_end_its_control_connection() {
    let mut lone_server = server_after_placement(Placement::Revocable);
    let LoneServer(world) = &mut lone_server;
    world.server.confirm_upload(&mut world.context.cx());
    world.server.peer_closed(&mut world.context.cx());
    assert_eq!(world.server.event(), KEEP_EVENT);
    assert_eq!(transfer_result(&mut lone_server), (Ok(()), Some(226)));
}

#[test]
fn an_upload_that_is_known_to_be_complete_is_committed_at_once() {
    let complete_uploads = ["TYPE I\r\nALLO 10", "MODE B", "TYPE I\r\nMODE Z", "STRU R"];
    for lines in complete_uploads {
        assert_eq!(server_after_upload_data(lines).0.server.event(), COMMIT_EVENT, "{lines}");
    }
    for lines in ["TYPE I", "TYPE I\r\nALLO 11", "TYPE A\r\nALLO 10", "ALLO 10\r\nREST 0"] {
        assert_eq!(server_after_upload_data(lines).0.server.event(), PLACE_EVENT, "{lines}");
    }
}

#[test]
fn quit_confirms_an_upload_only_after_its_data_has_ended() {
    let LoneServer(mut world) = server_after_placement(Placement::Unsupported);
    world.server.receive(&mut &b"QUIT\r\n"[..], &mut world.context.cx());
    assert_eq!(world.server.event(), COMMIT_EVENT);
    for (placement, event) in
        [(Placement::Revocable, KEEP_EVENT), (Placement::Unsupported, COMMIT_EVENT)]
    {
        let LoneServer(mut world) = server_after_upload_data("TYPE I");
        assert_eq!(world.server.event(), PLACE_EVENT);
        world.server.receive(&mut &b"QUIT\r\n"[..], &mut world.context.cx());
        world.server.peer_closed(&mut world.context.cx());
        world.server.on_placed(TransferId(1), Ok(placement), &mut world.context.cx());
        assert_eq!(world.server.event(), event);
    }
    let mut lone_server = LoneServer::logged_in(server_settings());
    assert_eq!(lone_server.send_lines("TYPE I\r\nPASV\r\nSTOR file\r\nQUIT"), [200, 227, 150]);
    let LoneServer(mut world) = lone_server;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    assert!(world.server.event().is_some());
    world.server.data_ended(TransferId(1), 10, Ok(()), &mut world.context.cx());
    assert_eq!(world.server.event(), PLACE_EVENT);
    world.server.on_placed(TransferId(1), Ok(Placement::Revocable), &mut world.context.cx());
    assert_eq!(world.server.event(), None);
    let deadline = world.server.deadline().unwrap();
    assert_eq!(deadline - world.context.now, Duration::from_millis(50), "a command waits");
}

#[test]
fn size_counts_the_bytes_of_stream_mode_in_every_mode() {
    for mode in ["MODE B", "MODE C", "MODE Z"] {
        let mut lone_server = LoneServer::logged_in(server_settings());
        let LoneServer(world) = &mut lone_server;
        let lines = format!("TYPE I\r\n{mode}\r\nSIZE file\r\n");
        world.server.receive(&mut lines.as_bytes(), &mut world.context.cx());
        let event = world.server.event();
        let Some(ServerEvent::Perform(Operation::Size { representation, .. })) = event else {
            panic!("{mode}: {event:?}");
        };
        assert_eq!(representation, Representation::IMAGE, "{mode}");
    }
}

// attack row 96
#[test]
fn row_96_100_000_pasv_commands_open_one_listener_at_a_time() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    for _ in 0..100_000 / 50 {
        let LoneServer(world) = &mut lone_server;
        let lines = b"PASV\r\n".repeat(50);
        world.server.receive(&mut &lines[..], &mut world.context.cx());
        let mut listen_count = 0;
        while let Some(event) = world.server.event() {
            // Each PASV replaces the previous listener and waits for the owner's answer.
            assert_eq!(event, ServerEvent::Listen(Family::Ipv4));
            assert!(world.server.event().is_none());
            world.server.on_listening(Some(address("10.0.0.1:5000")), &mut world.context.cx());
            listen_count += 1;
        }
        assert_eq!(listen_count, 50);
        world.server.sent(usize::MAX);
    }
}

// attack row 97
#[test]
fn row_97_data_connections_without_the_required_tls_session_are_refused() {
    let tls = TlsPolicy::RequiredForData;
    let mut lone_server = LoneServer::new(ServerSettings { tls, ..server_settings() });
    assert_eq!(lone_server.send_lines("USER ann"), [530]);
    assert_eq!(lone_server.send_lines("AUTH TLS"), [234]);
    let codes =
        lone_server.send_lines("USER ann\r\nPASS secret\r\nPBSZ 0\r\nPROT C\r\nPASV\r\nRETR file");
    assert_eq!(codes, [331, 230, 200, 534, 227, 521]);
    assert_eq!(lone_server.send_lines("PROT P\r\nPASV\r\nRETR file"), [200, 227, 150]);
    let LoneServer(world) = &mut lone_server;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    let result = Err(TransferError::Tls);
    world.server.data_ended(TransferId(1), 0, result, &mut world.context.cx());
    assert_eq!(lone_server.take_output().1, [522]);
}

#[test]
fn only_users_of_cleartext_need_no_tls_that_is_required() {
    let settings = || ServerSettings {
        tls: TlsPolicy::RequiredForData,
        cleartext_users: &[b"guest"],
        ..server_settings()
    };
    let mut lone_server = LoneServer::new(settings());
    let codes = lone_server.send_lines("USER Guest\r\nPASS x\r\nUSER guest\r\nPASS x");
    assert_eq!(codes, [331, 530, 331, 230], "the accounts of this test distinguish letters");
    assert_eq!(lone_server.send_lines("PASV\r\nRETR file"), [227, 150]);
    // Another user needs TLS, also after a login in cleartext.
    let mut lone_server = LoneServer::new(settings());
    assert_eq!(lone_server.send_lines("USER guest\r\nPASS x\r\nUSER ann"), [331, 230, 530]);
    let mut lone_server = LoneServer::new(settings());
    assert_eq!(lone_server.send_lines("AUTH TLS"), [234]);
    let codes = lone_server.send_lines("USER ann\r\nPASS secret\r\nPBSZ 0\r\nPROT C");
    assert_eq!(codes, [331, 230, 200, 534]);
}

#[test]
fn each_use_of_tls_that_is_missing_is_reported_once() {
    let tls = TlsPolicy::RequiredForData;
    let mut lone_server = LoneServer::new(ServerSettings { tls, ..server_settings() });
    let LoneServer(world) = &mut lone_server;
    for is_first in [true, false] {
        world.server.receive(&mut b"USER ann\r\n".as_slice(), &mut world.context.cx());
        let expected = is_first.then_some(ServerEvent::TlsRequired(MissingTls::Login));
        assert_eq!(world.server.event(), expected);
    }
}

// attack row 98
#[test]
fn row_98_a_wrong_password_and_an_unknown_user_get_the_same_reply() {
    let failed_login_replies = |user: &str| {
        let mut lone_server = LoneServer::new(server_settings());
        lone_server.replies_to(&format!("USER {user}\r\nPASS wrong"))
    };
    assert_eq!(failed_login_replies("ann"), failed_login_replies("nobody"));
    let mut lone_server = LoneServer::new(server_settings());
    let lines: String = "USER ann\r\nPASS wrong\r\n".repeat(3);
    assert_eq!(lone_server.send_bytes(lines.as_bytes()), [331, 530, 331, 530, 331, 530, 421]);
    assert!(lone_server.0.server.is_closing());
    assert_eq!(lone_server.0.server.close_reason(), Some(CloseReason::TooManyFailedLogins));
    assert_eq!(lone_server.0.context.counted(Counter::FtpLoginsRefused), 3);
}

// attack row 99
#[test]
fn row_99_an_upload_succeeds_only_after_its_owner_has_committed_it() {
    for error in [FileError::NoSpace, FileError::Quota, FileError::Local] {
        let mut lone_server = LoneServer::logged_in(server_settings());
        let lines = "TYPE I\r\nALLO 10\r\nPASV\r\nSTOR new";
        assert_eq!(lone_server.send_lines(lines), [200, 200, 227, 150]);
        let LoneServer(world) = &mut lone_server;
        let id = TransferId(1);
        world.server.data_connected(address(PEER), &mut world.context.cx());
        world.server.data_ended(id, 10, Ok(()), &mut world.context.cx());
        assert!(world.server.output().is_empty(), "no reply before the file is safe");
        world.server.on_committed(id, Err(error), &mut world.context.cx());
        let last_event = core::iter::from_fn(|| world.server.event()).last();
        let Some(ServerEvent::Finished(finished)) = last_event else { panic!("it is over") };
        assert_eq!(finished.result, Err(TransferError::File(error)));
        let [code] = lone_server.take_output().1[..] else { panic!("one reply") };
        assert!((451..=552).contains(&code));
    }
}

#[test]
fn an_idle_client_is_disconnected_before_and_after_the_login() {
    let mut lone_server = LoneServer::new(server_settings());
    for expected in [60, 300] {
        let LoneServer(world) = &mut lone_server;
        let deadline = world.server.deadline().unwrap();
        assert_eq!(deadline - world.context.now, Duration::from_secs(expected));
        world.context.now = deadline;
        world.server.timeout(&mut world.context.cx());
        assert_eq!(lone_server.take_output().1, [421]);
        assert!(lone_server.0.server.is_closing());
        assert_eq!(lone_server.0.server.close_reason(), Some(CloseReason::Timeout));
        lone_server = LoneServer::logged_in(server_settings());
    }
}

#[test]
fn stat_during_a_transfer_reports_the_bytes_so_far_and_other_commands_wait() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    assert_eq!(lone_server.send_lines("PASV\r\nRETR file"), [227, 150]);
    let LoneServer(world) = &mut lone_server;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    world.server.data_moved(TransferId(1), 77, &world.context.cx());
    let text = lone_server.replies_to("NOOP\r\nSTAT");
    assert!(text.contains("Transfer of /file: 77 bytes sent so far"), "{text}");
    assert!(!text.contains("200 Ok"));
    assert_eq!(lone_server.send_bytes(b"\xff\xf4\xff\xf2ABOR\r\n"), [426, 226, 200]);
}

proptest! {
    // attack row 86
    #[test]
    fn row_86_a_session_survives_any_bytes(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (0..Verb::ALL.len()).prop_map(|verb| {
                let verb = Verb::ALL[verb];
                format!("{}{}\r\n", verb.text(), valid_argument(verb)).into_bytes()
            }),
        ], 0..40)
    ) {
        let mut lone_server = LoneServer::logged_in(server_settings());
        for piece in pieces {
            let LoneServer(world) = &mut lone_server;
            world.server.receive(&mut &piece[..], &mut world.context.cx());
            // The owner answers some events and leaves others unanswered.
            let count = piece.len() % 4;
            for _ in 0..count {
                match world.server.event() {
                    Some(ServerEvent::Listen(_)) => world.server.on_listening(None, &mut world.context.cx()),
                    Some(ServerEvent::Open(transfer)) => {
                        world.server.on_opened(transfer.id, Err(FileError::Busy), &mut world.context.cx());
                    }
                    Some(ServerEvent::Perform(_)) => {
                        world.server.on_performed(Ok(Outcome::Done), &mut world.context.cx());
                    }
                    _ => {}
                }
            }
            prop_assert!(world.server.output().len() < 1 << 20);
        }
    }
}
