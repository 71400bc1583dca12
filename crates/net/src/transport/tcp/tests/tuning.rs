//! Tests of buffers that grow while a connection is open.

use super::*;

const START: usize = 20_000;
const LIMIT: usize = 1 << 20;
const GROWING: Profile = Profile {
    receive_window: ReceiveWindow::Tuned { start: START, limit: LIMIT },
    send_limit: SendLimit::Tuned { start: START, limit: LIMIT },
    ..Profile::BULK
};

/// Returns the sizes of the sender's and of the receiver's buffer, in bytes.
fn buffers(pair: &Pair, ids: (ConnectionId, ConnectionId)) -> (usize, usize) {
    let client = pair.client.status(ids.0);
    let server = pair.server.status(ids.1);
    (client.unwrap().send_buffer, server.unwrap().receive_buffer)
}

fn transfer(profile: Profile, len: usize) -> (Pair, (ConnectionId, ConnectionId)) {
    let mut pair = Pair::new(1);
    let ids = pair.connect(profile);
    let data = pattern(len);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    (pair, ids)
}

#[test]
fn both_buffers_grow_with_the_data_read_up_to_their_limits() {
    let (pair, ids) = transfer(GROWING, 8_000_000);
    assert_eq!(buffers(&pair, ids), (LIMIT, LIMIT));
    assert!(pair.context.counted(Counter::TcpReceiveWindowsGrown) > 0);
    assert!(pair.context.counted(Counter::TcpSendBuffersGrown) > 0);
    let scale = pair.trace[1].2.options.window_scale.unwrap();
    let edge_max = pair.trace.iter().filter(|sent| sent.1 == Side::Server).skip(1);
    let edge_max = edge_max.map(|sent| u32::from(sent.2.window) << scale).max().unwrap();
    assert!(edge_max as usize > LIMIT / 2, "{edge_max}");
}

#[test]
fn without_timestamps_they_grow_as_well() {
    let (pair, ids) = transfer(Profile { timestamps: false, ..GROWING }, 8_000_000);
    assert_eq!(buffers(&pair, ids), (LIMIT, LIMIT));
}

#[test]
fn without_a_round_trip_from_the_handshake_they_grow_as_well() {
    let mut pair = Pair::new(1);
    // The first answer to the SYN is lost, so that neither end measures the handshake.
    pair.fate = Box::new(|number, _, _| number != 2);
    let ids = pair.connect(Profile { timestamps: false, ..GROWING });
    let data = pattern(8_000_000);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    assert_eq!(buffers(&pair, ids).1, LIMIT);
}

#[test]
fn without_window_scale_the_window_grows_to_the_maximum_of_its_field() {
    let (pair, ids) = transfer(Profile { extensions: false, ..GROWING }, 4_000_000);
    assert_eq!(buffers(&pair, ids).1, 0xFFFF);
}

#[test]
fn a_slow_reader_keeps_its_window_small_however_fast_the_sender_is() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(GROWING);
    let data = pattern(500_000);
    let mut sent = 0;
    let mut read = 0;
    while read < data.len() {
        sent += pair.client.send(ids.0, &data[sent..]).unwrap();
        pair.run(Duration::from_millis(5));
        let chunk = pair.server.received(ids.1).unwrap();
        let count = chunk.len().min(3000);
        assert!(chunk[..count] == data[read..read + count]);
        read += count;
        pair.server.consume(ids.1, count).unwrap();
        pair.output();
    }
    assert_eq!(buffers(&pair, ids).1, START);
}

#[test]
fn an_occasional_reader_of_all_data_is_slow_too() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(GROWING);
    let data = pattern(1_000_000);
    let mut sent = 0;
    let mut read = 0;
    while read < data.len() {
        sent += pair.client.send(ids.0, &data[sent..]).unwrap();
        pair.run(Duration::from_millis(100));
        read += pair.read_all(Side::Server, ids.1).len();
        pair.output();
    }
    assert!(buffers(&pair, ids).1 <= 2 * START, "{:?}", buffers(&pair, ids));
}

#[test]
fn typed_input_never_grows_a_buffer() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(GROWING);
    for _ in 0..2000 {
        let data = pattern(50);
        assert!(pair.transfer(Side::Client, ids, &data) == data);
        pair.run(Duration::from_millis(20));
    }
    assert_eq!(buffers(&pair, ids), (START, START));
    assert!(!pair.server.table.get(ids.1).unwrap().tuning.is_running());
}

#[test]
fn at_the_growth_limit_of_the_host_no_buffer_grows() {
    let mut pair = Pair::new(1);
    pair.client.set_growth_max(10_000);
    pair.server.set_growth_max(10_000);
    let ids = pair.connect(GROWING);
    let data = pattern(4_000_000);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    assert_eq!(buffers(&pair, ids), (START + 10_000, START + 10_000));
    let refusals = [&pair.client, &pair.server].map(Tcp::growth_refusals);
    assert!(refusals.iter().all(|count| *count > 0), "{refusals:?}");
    assert_eq!(refusals.iter().sum::<u64>(), pair.context.counted(Counter::TcpGrowthRefused));
}

#[test]
fn the_growth_of_a_connection_is_returned_when_it_ends() {
    let (mut pair, ids) = transfer(GROWING, 8_000_000);
    assert_eq!(pair.server.table.growth(), LIMIT - START);
    pair.client.abort(ids.0, &mut pair.context.cx()).unwrap();
    pair.client.release(ids.0);
    pair.drive();
    pair.server.release(ids.1);
    assert_eq!((pair.client.table.growth(), pair.server.table.growth()), (0, 0));
}

#[test]
fn the_growth_of_a_connection_is_returned_in_time_wait() {
    let (mut pair, ids) = transfer(GROWING, 8_000_000);
    pair.server.close(ids.1).unwrap();
    pair.drive();
    pair.client.close(ids.0).unwrap();
    pair.drive();
    assert_eq!(pair.state(Side::Server, ids.1), State::TimeWait);
    assert_eq!((pair.server.table.growth(), buffers(&pair, ids).1), (0, START));
    assert_eq!(pair.server.released_in_time_wait(), 0);
    pair.server.release(ids.1);
    assert_eq!(pair.server.released_in_time_wait(), 1);
    pair.run(Duration::from_secs(61));
    assert_eq!((pair.server.released_in_time_wait(), pair.server.connections()), (0, 0));
}

#[test]
fn unread_data_counts_as_growth_in_time_wait() {
    const UNREAD: usize = LIMIT / 2;
    const LAST_MAX: usize = 1 << 16;
    let (mut pair, ids) = transfer(GROWING, 8_000_000);
    let data = pattern(UNREAD);
    assert_eq!(pair.client.send(ids.0, &data), Ok(UNREAD));
    pair.client.close(ids.0).unwrap();
    pair.server.close(ids.1).unwrap();
    pair.drive();
    assert_eq!(pair.state(Side::Server, ids.1), State::TimeWait);
    // The data of the segment with the FIN is read after the change of the state.
    let growth = pair.server.table.growth();
    assert!((UNREAD - START - LAST_MAX..=UNREAD - START).contains(&growth), "{growth}");
    assert!(pair.read_all(Side::Server, ids.1) == data);
}

#[test]
fn a_fixed_size_never_changes() {
    let profile = Profile {
        receive_window: ReceiveWindow::Bytes(START),
        send_limit: SendLimit::Bytes(START),
        ..Profile::BULK
    };
    let (pair, ids) = transfer(profile, 1_000_000);
    assert_eq!(buffers(&pair, ids), (START, START));
}
