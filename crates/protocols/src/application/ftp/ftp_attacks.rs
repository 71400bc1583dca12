//! Known attacks on FTP implementations, run against the FTP user and server engines. Each test
//! names its row of the attack table.

use super::server::*;
use super::session_fixture::*;
use super::*;
use crate::meter::Counter;
use crate::time::Duration;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

// attack row 76
#[test]
fn row_76_data_is_sent_only_to_the_user_and_to_no_port_of_a_service() {
    let mut alone = LoneServer::logged_in(server_settings());
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
        assert_eq!(alone.say(line), [504], "{line}");
    }
    assert_eq!(alone.say("EPRT |2|::ffff:10.0.0.2|30000|"), [200]);
    assert_eq!(alone.0.context.counted(Counter::FtpBouncesRefused), 8);
}

// attack row 78
#[test]
fn row_78_a_data_connection_from_another_host_is_not_used() {
    let mut alone = LoneServer::logged_in(server_settings());
    alone.say("EPSV");
    let LoneServer(world) = &mut alone;
    assert!(!world.server.data_connected(address("10.0.0.3:40000"), &mut world.context.cx()));
    assert!(world.server.data_connected(address("10.0.0.2:1"), &mut world.context.cx()));
    assert_eq!(world.context.counted(Counter::FtpDataPeersRefused), 1);
}

// attack row 82
#[test]
fn row_82_a_command_behind_auth_is_not_obeyed_within_tls() {
    for behind in ["USER ann\r\n", "USER an", "\u{0}"] {
        let mut alone = LoneServer::new(server_settings());
        assert_eq!(alone.hear(format!("AUTH TLS\r\n{behind}").as_bytes()), [503], "{behind:?}");
        assert_eq!(alone.say("PASS secret"), [503]);
        assert_eq!(alone.say("PBSZ 0"), [503]);
    }
    // Input between the reply to AUTH and the TLS handshake is not read.
    let mut alone = LoneServer::new(server_settings());
    let LoneServer(world) = &mut alone;
    world.server.receive(&mut &b"AUTH TLS\r\n"[..], &mut world.context.cx());
    let mut injected = &b"USER ann\r\n"[..];
    world.server.receive(&mut injected, &mut world.context.cx());
    assert_eq!(injected, b"USER ann\r\n");
    assert!(!world.server.wants_input());
    world.server.tls_started(true, &mut world.context.cx());
    assert_eq!(alone.say("PASS secret"), [234, 503]);
}

/// Returns an argument that is valid for `verb`.
fn argument(verb: Verb) -> &'static str {
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

/// Returns the codes of the replies to `verb`, and whether the owner received any request.
fn asked(alone: &mut LoneServer, verb: Verb) -> (Vec<u16>, bool) {
    let line = format!("{}{}\r\n", verb.text(), argument(verb));
    let LoneServer(world) = alone;
    world.server.receive(&mut line.as_bytes(), &mut world.context.cx());
    let is_asked = world.server.event().is_some();
    (alone.take_output().1, is_asked)
}

// attack row 84
#[test]
fn row_84_no_verb_does_anything_without_the_login_and_the_right_that_it_needs() {
    for verb in Verb::ALL.iter().copied() {
        let (codes, is_asked) = asked(&mut LoneServer::new(server_settings()), verb);
        if verb.right() != Right::Anyone {
            assert_eq!((codes, is_asked), ([530].to_vec(), false), "{verb:?} without a login");
        }
        let mut guest = LoneServer::new(server_settings());
        assert_eq!(guest.say("USER guest\r\nPASS x"), [331, 230]);
        let (codes, is_asked) = asked(&mut guest, verb);
        let may = Rights::READ_ONLY.contains(verb.right()) && verb != Verb::Site;
        if !may {
            assert_eq!((codes, is_asked), ([550].to_vec(), false), "{verb:?} of a guest");
        }
    }
}

// attack row 85
#[test]
fn row_85_a_name_is_only_a_name_whatever_is_in_it() {
    for user in ["ann:)", ":)", "root\u{7f}", "%s%n", "../ann", "-froot", "`id`"] {
        let mut alone = LoneServer::new(server_settings());
        assert_eq!(alone.say(&format!("USER {user}\r\nPASS x")), [331, 530], "{user}");
    }
}

// attack row 88
#[test]
fn row_88_a_long_line_is_refused_and_the_next_is_processed() {
    let mut alone = LoneServer::logged_in(server_settings());
    let line = "A".repeat(1 << 20);
    assert_eq!(alone.say(&format!("PWD\r\n{line}\r\nNOOP")), [257, 500, 200]);
}

// attack row 91
#[test]
fn row_91_each_verb_with_any_length_leaves_a_session_that_answers() {
    let mut alone = LoneServer::logged_in(server_settings());
    for verb in Verb::ALL.iter().filter(|verb| !matches!(verb, Verb::Quit | Verb::Rein)) {
        for len in [0, 255, 4000, 5000, 65_536] {
            let text = verb.text();
            let LoneServer(world) = &mut alone;
            let line = format!("{text} {}\r\n", "A/".repeat(len / 2));
            let mut rest = line.as_bytes();
            world.server.receive(&mut rest, &mut world.context.cx());
            if *verb == Verb::Mail {
                world.server.receive(&mut &b".\r\n"[..], &mut world.context.cx());
            }
            assert!(!alone.say("ABOR").is_empty(), "{text} {len}");
            if alone.0.server.user().is_none() {
                alone = LoneServer::logged_in(server_settings());
            }
        }
    }
}

// attack row 92
#[test]
fn row_92_no_name_that_a_server_tells_ends_its_line() {
    let mut alone = LoneServer::logged_in(server_settings());
    for line in ["MKD a\rb", "MKD a\0b", "CWD a\r200 x"] {
        assert_eq!(alone.say(line), [501]);
    }
    let text = alone.replies_to("MKD a\"b\u{1b}[2Jc");
    assert_eq!(text, "257 \"/a\"\"b?[2Jc\" created\r\n");
}

// attack row 95
#[test]
fn row_95_the_size_of_a_text_has_a_bound_and_beyond_it_is_550() {
    let mut alone = LoneServer::logged_in(server_settings());
    let LoneServer(world) = &mut alone;
    world.server.receive(&mut &b"TYPE A\r\nSIZE file\r\n"[..], &mut world.context.cx());
    let Some(ServerEvent::Perform(Operation::Size { text_max_bytes, representation, .. })) =
        world.server.event()
    else {
        panic!("the owner is asked");
    };
    assert!(representation.data_type.is_text() && text_max_bytes <= 8 << 20);
    world.server.performed(Err(FileError::TooLarge), &mut world.context.cx());
    assert_eq!(alone.take_output().1, [200, 550]);
}

/// Begins an upload after `lines`, and closes its data connection without a reset after ten bytes.
fn ended_upload(lines: &str) -> LoneServer {
    let mut alone = LoneServer::logged_in(server_settings());
    alone.say(&format!("{lines}\r\nPASV\r\nSTOR file"));
    let LoneServer(world) = &mut alone;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    assert_eq!(world.server.event(), Some(ServerEvent::Start(TransferId(1))));
    world.server.data_ended(TransferId(1), 10, Ok(()), &mut world.context.cx());
    alone
}

#[test]
fn mlsd_of_a_file_is_a_wrong_argument_and_other_listings_are_refused() {
    for (command, code) in [("MLSD file", 501), ("LIST file/x*", 550)] {
        let mut alone = LoneServer::logged_in(server_settings());
        let LoneServer(world) = &mut alone;
        world.server.receive(&mut format!("{command}\r\n").as_bytes(), &mut world.context.cx());
        let error = Err(FileError::NotADirectory);
        world.server.opened(TransferId(1), error, &mut world.context.cx());
        assert_eq!(alone.take_output().1, [code], "{command}");
    }
}

const COMMITS: Option<ServerEvent> = Some(ServerEvent::Commit(TransferId(1)));
const PLACES: Option<ServerEvent> = Some(ServerEvent::Place(TransferId(1)));
const KEEPS: Option<ServerEvent> = Some(ServerEvent::Keep(TransferId(1)));
const DISCARDS: Option<ServerEvent> = Some(ServerEvent::Discard(TransferId(1)));

/// Returns an upload whose data has ended and for which the owner has answered `placement`.
fn placed_upload(placement: Placement) -> LoneServer {
    let mut alone = ended_upload("TYPE I");
    let LoneServer(world) = &mut alone;
    assert_eq!(world.server.event(), PLACES);
    world.server.placed(TransferId(1), Ok(placement), &mut world.context.cx());
    let codes = if placement == Placement::Revocable { &[226][..] } else { &[] };
    assert_eq!(alone.take_output().1, codes);
    assert!(alone.0.server.is_confirming_upload());
    alone
}

fn finished(alone: &mut LoneServer) -> (Result<(), TransferError>, Option<u16>) {
    let last = core::iter::from_fn(|| alone.0.server.event()).last();
    let Some(ServerEvent::Finished(finished)) = last else { panic!("{last:?}") };
    (finished.result, finished.reply)
}

// attack row 126
#[test]
fn row_126_an_upload_whose_client_dies_behind_its_data_is_discarded() {
    for placement in [Placement::Revocable, Placement::Unsupported] {
        let mut alone = placed_upload(placement);
        let LoneServer(world) = &mut alone;
        assert_eq!(world.server.event(), None);
        world.server.peer_closed(&mut world.context.cx());
        assert_eq!(world.server.event(), DISCARDS, "{placement:?}");
        assert_eq!(finished(&mut alone), (Err(TransferError::ControlLost), None));
    }
}

// attack row 126
#[test]
fn row_126_an_upload_whose_client_dies_while_it_is_placed_is_discarded() {
    for placement in [Placement::Revocable, Placement::Unsupported] {
        let mut alone = ended_upload("TYPE I");
        let LoneServer(world) = &mut alone;
        assert_eq!(world.server.event(), PLACES);
        world.server.peer_closed(&mut world.context.cx());
        assert_eq!(world.server.event(), None, "the owner is at work");
        world.server.placed(TransferId(1), Ok(placement), &mut world.context.cx());
        assert_eq!(world.server.event(), DISCARDS, "{placement:?}");
        assert_eq!(finished(&mut alone), (Err(TransferError::ControlLost), None));
    }
}

#[test]
fn an_upload_stays_when_its_control_connection_has_outlived_it() {
    let settings = server_settings();
    let short = Duration::from_millis(50);
    for (placement, event, grace) in [
        (Placement::Revocable, KEEPS, settings.upload_grace),
        (Placement::Unsupported, COMMITS, short),
    ] {
        let LoneServer(mut world) = placed_upload(placement);
        let deadline = world.server.deadline().unwrap();
        assert_eq!(deadline - world.context.now, grace);
        world.context.now = deadline;
        world.server.timeout(&mut world.context.cx());
        assert_eq!(world.server.event(), event);
        // From here on the file stays, whatever happens to the client.
        world.server.peer_closed(&mut world.context.cx());
        let events: Vec<_> = core::iter::from_fn(|| world.server.event()).collect();
        assert!(events.iter().all(|event| Some(event) != DISCARDS.as_ref()), "{events:?}");
    }
}

#[test]
fn the_next_command_shows_that_the_client_lives_and_is_answered_behind_it() {
    for (line, codes) in
        [("NOOP", &[200][..]), ("ABOR", &[225]), ("STAT", &[211]), ("QUIT", &[221])]
    {
        let mut alone = placed_upload(Placement::Revocable);
        let LoneServer(world) = &mut alone;
        let text = format!("{line}\r\n");
        world.server.receive(&mut text.as_bytes(), &mut world.context.cx());
        assert_eq!(world.server.event(), KEEPS, "{line}");
        assert_eq!(finished(&mut alone), (Ok(()), Some(226)), "{line}");
        assert_eq!(alone.take_output().1, codes, "{line}");
    }
}

#[test]
fn a_client_that_has_read_the_reply_may_end_its_control_connection() {
    let mut alone = placed_upload(Placement::Revocable);
    let LoneServer(world) = &mut alone;
    world.server.confirm_upload(&mut world.context.cx());
    world.server.peer_closed(&mut world.context.cx());
    assert_eq!(world.server.event(), KEEPS);
    assert_eq!(finished(&mut alone), (Ok(()), Some(226)));
}

#[test]
fn an_upload_that_is_known_to_be_whole_is_committed_at_once() {
    let whole = ["TYPE I\r\nALLO 10", "MODE B", "TYPE I\r\nMODE Z", "STRU R"];
    for lines in whole {
        assert_eq!(ended_upload(lines).0.server.event(), COMMITS, "{lines}");
    }
    for lines in ["TYPE I", "TYPE I\r\nALLO 11", "TYPE A\r\nALLO 10", "ALLO 10\r\nREST 0"] {
        assert_eq!(ended_upload(lines).0.server.event(), PLACES, "{lines}");
    }
}

#[test]
fn quit_behind_the_data_keeps_an_upload_and_quit_before_its_end_does_not() {
    let LoneServer(mut world) = placed_upload(Placement::Unsupported);
    world.server.receive(&mut &b"QUIT\r\n"[..], &mut world.context.cx());
    assert_eq!(world.server.event(), COMMITS);
    for (placement, event) in [(Placement::Revocable, KEEPS), (Placement::Unsupported, COMMITS)] {
        let LoneServer(mut world) = ended_upload("TYPE I");
        assert_eq!(world.server.event(), PLACES);
        world.server.receive(&mut &b"QUIT\r\n"[..], &mut world.context.cx());
        world.server.peer_closed(&mut world.context.cx());
        world.server.placed(TransferId(1), Ok(placement), &mut world.context.cx());
        assert_eq!(world.server.event(), event);
    }
    let mut alone = LoneServer::logged_in(server_settings());
    assert_eq!(alone.say("TYPE I\r\nPASV\r\nSTOR file\r\nQUIT"), [200, 227, 150]);
    let LoneServer(mut world) = alone;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    assert!(world.server.event().is_some());
    world.server.data_ended(TransferId(1), 10, Ok(()), &mut world.context.cx());
    assert_eq!(world.server.event(), PLACES);
    world.server.placed(TransferId(1), Ok(Placement::Revocable), &mut world.context.cx());
    assert_eq!(world.server.event(), None);
    let deadline = world.server.deadline().unwrap();
    assert_eq!(deadline - world.context.now, Duration::from_millis(50), "a command waits");
}

#[test]
fn size_counts_the_bytes_of_stream_mode_in_every_mode() {
    for mode in ["MODE B", "MODE C", "MODE Z"] {
        let mut alone = LoneServer::logged_in(server_settings());
        let LoneServer(world) = &mut alone;
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
fn row_96_a_hundred_thousand_pasv_have_one_listener_at_a_time() {
    let mut alone = LoneServer::logged_in(server_settings());
    for _ in 0..100_000 / 50 {
        let LoneServer(world) = &mut alone;
        let lines = b"PASV\r\n".repeat(50);
        world.server.receive(&mut &lines[..], &mut world.context.cx());
        let mut listens = 0;
        while let Some(event) = world.server.event() {
            // Each PASV replaces the previous listener and waits for the owner's answer.
            assert_eq!(event, ServerEvent::Listen(Family::Ipv4));
            assert!(world.server.event().is_none());
            world.server.listening(Some(address("10.0.0.1:5000")), &mut world.context.cx());
            listens += 1;
        }
        assert_eq!(listens, 50);
        world.server.sent(usize::MAX);
    }
}

// attack row 97
#[test]
fn row_97_data_outside_of_the_session_of_tls_is_refused() {
    let tls = TlsPolicy::RequiredForData;
    let mut alone = LoneServer::new(ServerSettings { tls, ..server_settings() });
    assert_eq!(alone.say("USER ann"), [530]);
    assert_eq!(alone.say("AUTH TLS"), [234]);
    let codes = alone.say("USER ann\r\nPASS secret\r\nPBSZ 0\r\nPROT C\r\nPASV\r\nRETR file");
    assert_eq!(codes, [331, 230, 200, 534, 227, 521]);
    assert_eq!(alone.say("PROT P\r\nPASV\r\nRETR file"), [200, 227, 150]);
    let LoneServer(world) = &mut alone;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    let result = Err(TransferError::Tls);
    world.server.data_ended(TransferId(1), 0, result, &mut world.context.cx());
    assert_eq!(alone.take_output().1, [522]);
}

// attack row 98
#[test]
fn row_98_a_wrong_password_and_an_unknown_user_get_the_same_reply() {
    let output = |user: &str| {
        let mut alone = LoneServer::new(server_settings());
        alone.replies_to(&format!("USER {user}\r\nPASS wrong"))
    };
    assert_eq!(output("ann"), output("nobody"));
    let mut alone = LoneServer::new(server_settings());
    let lines: String = "USER ann\r\nPASS wrong\r\n".repeat(3);
    assert_eq!(alone.hear(lines.as_bytes()), [331, 530, 331, 530, 331, 530, 421]);
    assert!(alone.0.server.is_closing());
    assert_eq!(alone.0.context.counted(Counter::FtpLoginsRefused), 3);
}

// attack row 99
#[test]
fn row_99_an_upload_is_good_only_once_its_owner_has_made_it_so() {
    for error in [FileError::NoSpace, FileError::Quota, FileError::Local] {
        let mut alone = LoneServer::logged_in(server_settings());
        let lines = "TYPE I\r\nALLO 10\r\nPASV\r\nSTOR new";
        assert_eq!(alone.say(lines), [200, 200, 227, 150]);
        let LoneServer(world) = &mut alone;
        let id = TransferId(1);
        world.server.data_connected(address(PEER), &mut world.context.cx());
        world.server.data_ended(id, 10, Ok(()), &mut world.context.cx());
        assert!(world.server.output().is_empty(), "no reply before the file is safe");
        world.server.committed(id, Err(error), &mut world.context.cx());
        let finished = core::iter::from_fn(|| world.server.event()).last();
        let Some(ServerEvent::Finished(finished)) = finished else { panic!("it is over") };
        assert_eq!(finished.result, Err(TransferError::File(error)));
        let [code] = alone.take_output().1[..] else { panic!("one reply") };
        assert!((451..=552).contains(&code));
    }
}

#[test]
fn an_idle_client_is_disconnected_before_and_after_the_login() {
    let mut alone = LoneServer::new(server_settings());
    for expected in [60, 300] {
        let LoneServer(world) = &mut alone;
        let deadline = world.server.deadline().unwrap();
        assert_eq!(deadline - world.context.now, Duration::from_secs(expected));
        world.context.now = deadline;
        world.server.timeout(&mut world.context.cx());
        assert_eq!(alone.take_output().1, [421]);
        assert!(alone.0.server.is_closing());
        alone = LoneServer::logged_in(server_settings());
    }
}

#[test]
fn stat_during_a_transfer_reports_the_bytes_so_far_and_other_commands_wait() {
    let mut alone = LoneServer::logged_in(server_settings());
    assert_eq!(alone.say("PASV\r\nRETR file"), [227, 150]);
    let LoneServer(world) = &mut alone;
    world.server.data_connected(address(PEER), &mut world.context.cx());
    world.server.data_moved(TransferId(1), 77, &world.context.cx());
    let text = alone.replies_to("NOOP\r\nSTAT");
    assert!(text.contains("Transfer of /file: 77 bytes sent so far"), "{text}");
    assert!(!text.contains("200 Ok"));
    assert_eq!(alone.hear(b"\xff\xf4\xff\xf2ABOR\r\n"), [426, 226, 200]);
}

proptest! {
    // attack row 86
    #[test]
    fn row_86_a_session_survives_any_bytes(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (0..Verb::ALL.len()).prop_map(|verb| {
                let verb = Verb::ALL[verb];
                format!("{}{}\r\n", verb.text(), argument(verb)).into_bytes()
            }),
        ], 0..40)
    ) {
        let mut alone = LoneServer::logged_in(server_settings());
        for piece in pieces {
            let LoneServer(world) = &mut alone;
            world.server.receive(&mut &piece[..], &mut world.context.cx());
            // The owner answers some events and leaves others open.
            let count = piece.len() % 4;
            for _ in 0..count {
                match world.server.event() {
                    Some(ServerEvent::Listen(_)) => world.server.listening(None, &mut world.context.cx()),
                    Some(ServerEvent::Open(transfer)) => {
                        world.server.opened(transfer.id, Err(FileError::Busy), &mut world.context.cx());
                    }
                    Some(ServerEvent::Perform(_)) => {
                        world.server.performed(Ok(Outcome::Done), &mut world.context.cx());
                    }
                    _ => {}
                }
            }
            prop_assert!(world.server.output().len() < 1 << 20);
        }
    }
}
