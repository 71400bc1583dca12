//! Tests of requirements of RFC 1123 §4.1 that no other test covers. Each other requirement is
//! named next to a test that covers it.

use super::server::*;
use super::session_fixture::*;
use super::user::*;
use super::*;
use std::vec::Vec;

fn events(lone_server: &mut LoneServer, lines: &str) -> Vec<ServerEvent> {
    let mut rest = &[lines.as_bytes(), b"\r\n"].concat()[..];
    lone_server.0.server.receive(&mut rest, &mut lone_server.0.context.cx());
    core::iter::from_fn(|| lone_server.0.server.event()).collect()
}

// req RFC1123:4.1.2.6-MUST-1, RFC1123:4.1.2.6-MUST-2
#[test]
fn pasv_is_for_one_transfer() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    assert!(lone_server.replies_to("PASV").contains("(10,0,0,1,19,136)"));
    let LoneServer(world) = &mut lone_server;
    assert!(world.server.data_connected(address(PEER), &mut world.context.cx()));
    assert!(!world.server.data_connected(address(PEER), &mut world.context.cx()));
    let is_start = |event: &ServerEvent| matches!(event, ServerEvent::Start(_));
    let open_transfer = |lone_server: &mut LoneServer, id| {
        let LoneServer(world) = lone_server;
        world.server.on_opened(TransferId(id), Ok(Opened::default()), &mut world.context.cx());
        core::iter::from_fn(|| lone_server.0.server.event()).collect::<Vec<_>>()
    };
    events(&mut lone_server, "RETR file");
    assert!(open_transfer(&mut lone_server, 1).iter().any(is_start));
    let LoneServer(world) = &mut lone_server;
    world.server.data_ended(TransferId(1), 0, Ok(()), &mut world.context.cx());
    events(&mut lone_server, "RETR file");
    let expected = ServerEvent::Connect(address(PEER));
    assert_eq!(open_transfer(&mut lone_server, 2), [expected]);
}

// req RFC1123:4.1.2.12-MUST-1
#[test]
fn without_port_and_pasv_data_goes_to_the_port_of_the_control_connection() {
    let mut lone_server = LoneServer::logged_in(server_settings());
    events(&mut lone_server, "RETR file");
    let LoneServer(world) = &mut lone_server;
    world.server.on_opened(TransferId(1), Ok(Opened::default()), &mut world.context.cx());
    assert_eq!(world.server.event(), Some(ServerEvent::Connect(address(PEER))));
}

// req RFC1123:4.1.2.10-MUST-1
#[test]
fn commands_may_be_split_between_reads_at_any_position() {
    let lines = b"USER ann\r\nPASS secret\r\nNOOP\r\nPWD\r\nTYPE I\r\n";
    for cut in 1..lines.len() {
        let mut lone_server = LoneServer::new(server_settings());
        let codes: Vec<u16> =
            lines.chunks(cut).flat_map(|piece| lone_server.send_bytes(piece)).collect();
        assert_eq!(codes, [331, 230, 200, 257, 200], "{cut}");
    }
}

// req RFC1123:4.1.3.4-MUST-1
#[test]
fn reply_110_is_processed_at_any_time() {
    let mut world = World::new(server_settings(), user_settings());
    world.settle();
    let representation = Representation { mode: Mode::Block, ..Representation::IMAGE };
    let task = Task::Store {
        name: Some(name("file")),
        kind: StoreKind::Replace,
        representation,
        offset_bytes: 0,
        allocation_bytes: None,
    };
    let id = world.user.run(task, &mut world.context.cx()).unwrap();
    let mut markers = Vec::new();
    for reply in [
        &b"200 I\r\n"[..],
        b"200 B\r\n",
        b"229 (|||5000|)\r\n",
        b"connected",
        b"150 x\r\n",
        b"moved",
        b"110 MARK 50 = 7\r\n",
        b"110 MARK 90 = 9\r\n",
        b"226 x\r\n",
    ] {
        let cx = &mut world.context.cx();
        match reply {
            b"connected" => _ = world.user.data_connected(address("10.0.0.1:5000"), cx),
            b"moved" => world.user.data_ended(id, 90, Ok(()), cx),
            _ => world.user.receive(reply, cx),
        }
        while let Some(event) = world.user.event() {
            match event {
                UserEvent::MarkerReached { ours, theirs } => markers.push((ours, theirs)),
                UserEvent::Finished(_, result) => assert!(result.is_ok()),
                _ => {}
            }
        }
    }
    assert_eq!(markers, [(50, 7), (90, 9)]);
    assert!(world.user.is_idle());
}
