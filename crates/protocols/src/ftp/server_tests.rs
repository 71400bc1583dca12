//! Tests of single rules of the FTP server engine.

use super::server::*;
use super::session_fixture::*;
use net::meter::Counter;
use std::format;
use std::vec::Vec;

fn logged_in() -> LoneServer {
    LoneServer::logged_in(server_settings())
}

fn events(lone_server: &mut LoneServer) -> Vec<ServerEvent> {
    core::iter::from_fn(|| lone_server.0.server.event()).collect()
}

/// Returns a server whose transfer of `/file` has an established passive data connection.
fn server_with_data_connection() -> LoneServer {
    let mut lone_server = logged_in();
    assert_eq!(lone_server.send_lines("PASV\r\nRETR file"), [227, 150]);
    let LoneServer(world) = &mut lone_server;
    assert!(world.server.data_connected(address(PEER), &mut world.context.cx()));
    assert_eq!(world.server.event(), Some(ServerEvent::Start(TransferId(1))));
    lone_server
}

/// Advances the time to the deadline, and returns the replies.
fn replies_after_timeout(lone_server: &mut LoneServer) -> Vec<u16> {
    let LoneServer(world) = lone_server;
    world.context.now = world.server.deadline().unwrap();
    world.server.timeout(&mut world.context.cx());
    lone_server.take_output().1
}

#[test]
fn an_offset_in_a_text_is_refused_unless_it_is_zero() {
    let lines = "TYPE A\r\nREST 5\r\nREST 0\r\nTYPE I\r\nREST 5";
    assert_eq!(logged_in().send_lines(lines), [200, 504, 350, 200, 350]);
}

#[test]
fn the_root_is_neither_created_nor_removed() {
    let mut lone_server = logged_in();
    assert_eq!(lone_server.send_lines("RMD /\r\nMKD /\r\nDELE /"), [550; 3]);
}

#[test]
fn the_status_of_a_pattern_is_requested_for_its_directory() {
    let mut lone_server = logged_in();
    let LoneServer(world) = &mut lone_server;
    world.server.receive(&mut &b"STAT directory/x*\r\n"[..], &mut world.context.cx());
    let Some(ServerEvent::Perform(Operation::Status { path, pattern, .. })) = world.server.event()
    else {
        panic!("the owner is asked")
    };
    assert_eq!((path.to_bytes(), pattern.is_some()), (b"/directory".to_vec(), true));
}

#[test]
fn a_mail_with_a_line_that_is_too_long_is_refused() {
    let mut lone_server = logged_in();
    let mail = format!("MAIL ann\r\n{}\r\n.", "x".repeat(100_000));
    assert_eq!(lone_server.send_lines(&mail), [350, 552]);
    assert!(lone_server.0.mails.is_empty());
}

#[test]
fn the_reply_to_mfmt_has_the_new_time_and_the_name() {
    let reply = logged_in().replies_to("MFMT 20200102030405 file");
    assert_eq!(reply, "213 Modify=20200102030405; file\r\n");
}

#[test]
fn commands_wait_in_the_transport_if_64_commands_are_queued() {
    let mut lone_server = logged_in();
    let LoneServer(world) = &mut lone_server;
    world.server.receive(&mut &b"SIZE file\r\n"[..], &mut world.context.cx());
    let lines = b"NOOP\r\n".repeat(70);
    let mut rest = &lines[..];
    world.server.receive(&mut rest, &mut world.context.cx());
    assert_eq!((rest.len(), world.server.wants_input()), (6 * 6, false));
}

#[test]
fn a_session_that_ends_accepts_no_more_input() {
    let mut lone_server = logged_in();
    assert!(lone_server.0.server.wants_input());
    assert_eq!(lone_server.send_lines("QUIT"), [221]);
    assert!(!lone_server.0.server.wants_input());
}

#[test]
fn a_command_without_the_required_right_is_counted() {
    let mut guest = LoneServer::new(server_settings());
    assert_eq!(guest.send_lines("USER guest\r\nPASS x\r\nDELE file"), [331, 230, 550]);
    assert_eq!(guest.0.context.counted(Counter::FtpRightsRefused), 1);
}

#[test]
fn a_transfer_without_a_data_connection_or_without_data_fails_after_a_timeout() {
    let mut lone_server = logged_in();
    assert_eq!(lone_server.send_lines("PASV\r\nRETR file"), [227, 150]);
    assert_eq!(replies_after_timeout(&mut lone_server), [425]);
    assert_eq!(replies_after_timeout(&mut server_with_data_connection()), [426]);
}

#[test]
fn reports_about_another_transfer_are_ignored() {
    let mut lone_server = server_with_data_connection();
    let LoneServer(world) = &mut lone_server;
    world.server.data_ended(TransferId(2), 100, Ok(()), &mut world.context.cx());
    assert!(lone_server.take_output().1.is_empty());
    let LoneServer(world) = &mut lone_server;
    world.server.data_ended(TransferId(1), 100, Ok(()), &mut world.context.cx());
    assert_eq!(lone_server.take_output().1, [226]);
}

#[test]
fn the_listener_of_a_transfer_that_fails_is_closed() {
    let mut lone_server = logged_in();
    assert_eq!(lone_server.send_lines("PASV\r\nRETR file"), [227, 150]);
    assert_eq!(replies_after_timeout(&mut lone_server), [425]);
    assert!(events(&mut lone_server).contains(&ServerEvent::CloseData));
    let LoneServer(world) = &mut lone_server;
    world.server.receive(&mut &b"RETR file\r\n"[..], &mut world.context.cx());
    world.server.on_opened(TransferId(2), Ok(Opened::default()), &mut world.context.cx());
    assert!(events(&mut lone_server).contains(&ServerEvent::Connect(address(PEER))));
}

#[test]
fn the_last_reply_to_a_listing_counts_the_omitted_names() {
    for (command, count, expected) in [
        ("NLST", 1, "226 Transfer complete; 1 name omitted: it contains line ends\r\n"),
        ("NLST", 2, "226 Transfer complete; 2 names omitted: they contain line ends\r\n"),
        ("LIST", 1, "226 Transfer complete; 1 name shown with ? for control characters\r\n"),
    ] {
        let mut lone_server = logged_in();
        lone_server.send_lines(&format!("PASV\r\n{command}"));
        let LoneServer(world) = &mut lone_server;
        world.server.data_connected(address(PEER), &mut world.context.cx());
        world.server.names_omitted(TransferId(1), count);
        world.server.data_ended(TransferId(1), 0, Ok(()), &mut world.context.cx());
        assert_eq!(lone_server.take_output().0, expected);
    }
}
