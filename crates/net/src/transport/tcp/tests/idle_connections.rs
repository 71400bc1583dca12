//! Tests of connections with nothing outstanding, and of the state that they keep.

use super::*;

fn enter_idle(pair: &mut Pair, side: Side, id: ConnectionId) -> bool {
    pair.tcp(side).table.get_mut(id).unwrap().enter_idle()
}

fn send(pair: &mut Pair, id: ConnectionId, data: &[u8]) {
    assert_eq!(pair.client.send(id, data), Ok(data.len()));
}

#[test]
fn an_idle_connection_reports_the_same_status_as_before() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(Profile::BULK);
    send(&mut pair, client, &pattern(100_000));
    pair.drive();
    assert_eq!(pair.read_all(Side::Server, server), pattern(100_000));
    let before = pair.client.status(client).unwrap();
    assert!(enter_idle(&mut pair, Side::Client, client));
    let mut after = pair.client.status(client).unwrap();
    // A connection that sends nothing has no pacing rate.
    after.recovery.pacing_rate = before.recovery.pacing_rate;
    assert_eq!(after, before);
}

#[test]
fn a_settled_connection_goes_on_with_its_window() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(Profile::BULK);
    send(&mut pair, client, &pattern(100_000));
    pair.drive();
    pair.read_all(Side::Server, server);
    let before = pair.client.status(client).unwrap();
    enter_idle(&mut pair, Side::Client, client);
    send(&mut pair, client, &pattern(1_000));
    pair.output();
    let now = pair.client.status(client).unwrap();
    assert_eq!(now.congestion_window, before.congestion_window);
    assert_eq!(now.recovery.delivered, before.recovery.delivered);
    assert_eq!(now.recovery.outstanding, 1_000);
    pair.drive();
    assert_eq!(pair.read_all(Side::Server, server), pattern(1_000));
}

#[test]
fn a_connection_with_outstanding_data_does_not_settle() {
    let mut pair = Pair::new(1);
    let (client, _) = pair.connect(Profile::BULK);
    send(&mut pair, client, &pattern(1_000));
    pair.output();
    assert!(!enter_idle(&mut pair, Side::Client, client));
}

#[test]
fn only_some_connections_keep_the_full_recovery_state() {
    let mut pair = Pair::new(1);
    pair.server.listen(PORT, Profile::BULK).unwrap();
    let remote = SocketAddr::new(SERVER, PORT);
    let ids: Vec<ConnectionId> = (0..100)
        .map(|_| {
            let cx = &mut pair.context.cx();
            let id = pair.client.open(CLIENT, remote, Profile::BULK, cx).unwrap();
            pair.drive();
            send(&mut pair, id, b"x");
            pair.drive();
            id
        })
        .collect();
    let with_full_state =
        |id: &&ConnectionId| pair.client.table.get(**id).unwrap().recovery.full().is_some();
    assert_eq!(ids.iter().filter(with_full_state).count(), 64);
    let delivered = |id| pair.client.status(id).unwrap().recovery.delivered;
    assert!(ids.into_iter().all(|id| delivered(id) == 1));
}
