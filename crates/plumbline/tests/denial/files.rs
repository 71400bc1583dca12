//! Attacks by file operations that take long: hashes, listings and conversions.

use super::*;

// attack row 117
#[test]
fn hashes_end_with_their_sessions_and_with_the_server() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    let sparse = fs::File::create(directories.remote_path("sparse")).unwrap();
    sparse.set_len(3 << 30).unwrap();
    fs::write(directories.remote_path("small"), b"abc").unwrap();
    for number in 0..40 {
        let mut attacker = Control::new(ATTACKER, &server);
        assert_eq!(attacker.log_in("ftp", "a@b"), WELCOME);
        attacker.send_without_waiting("HASH sparse\n");
        // Half of the attackers stay connected.
        if number % 2 == 0 {
            attacker.reset();
        } else {
            std::mem::forget(attacker);
        }
    }
    // The server computes the small hash and checks this login before it continues the attackers'
    // hashes.
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.log_in("ann", "secret"), WELCOME);
    assert_eq!(honest.send_and_read("HASH small"), 213);
    assert!(thread_count(&server.program) < 16, "{}", thread_count(&server.program));
    assert_exits(&mut server.program);
}

/// Logs in, hashes the file `small` 20 times, and returns the processor time of the login and the
/// hashes.
fn measure_hash_ticks(server: &Server) -> u64 {
    let before = processor_ticks(&server.program);
    let mut honest = Control::new(OTHER, server);
    assert_eq!(honest.log_in("ftp", "a@b"), WELCOME);
    for _ in 0..20 {
        assert_eq!(honest.send_and_read("HASH small"), 213);
    }
    (processor_ticks(&server.program) - before).max(1)
}

// attack row 117
#[test]
fn hashing_stops_with_its_session() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    fs::File::create(directories.remote_path("sparse")).unwrap().set_len(3 << 30).unwrap();
    fs::File::create(directories.remote_path("small")).unwrap().set_len(4 << 20).unwrap();
    let ticks_before = measure_hash_ticks(&server);
    let attackers = many_sources().map(|source| {
        let mut attacker = Control::new(source, &server);
        assert_eq!(attacker.log_in("ftp", "a@b"), WELCOME);
        attacker.send_without_waiting("HASH sparse\n");
        attacker
    });
    attackers.collect::<Vec<_>>().into_iter().for_each(Control::reset);
    // The queue alternates between source addresses, so a hash that still ran for an attacker would
    // use as much processor time as the hashes measured here.
    let ticks_after = measure_hash_ticks(&server);
    assert!(ticks_after < ticks_before * 10, "{ticks_before} {ticks_after}");
    assert_exits(&mut server.program);
}

#[test]
fn a_hash_in_steps_is_the_hash_of_the_file_and_an_anonymous_user_has_a_limit() {
    let directories = TestDirectories::new();
    let server = ftp_server(&directories, "anonymous-hash-max-bytes = 9000000\n");
    let bytes = ftp_harness::pattern(10_000_000);
    fs::write(directories.remote_path("file"), &bytes).unwrap();
    let sum = directories.run_client_ok(
        "sha256sum",
        &[directories.remote_path("file").to_str().unwrap()],
        "",
    );
    let sum = sum.split_whitespace().next().unwrap();
    let mut line = ftp_harness::ControlConnection::logged_in(&server);
    assert_eq!(line.send("XSHA256 file"), 550);
    assert_eq!(line.send("XSHA256 file 0 9000000"), 250);
    let mut line = ftp_harness::ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    let reply = line.send_and_read("XSHA256 file");
    assert!(reply.to_lowercase().contains(sum), "{reply} {sum}");
}

/// Returns the number of replies that `other` received while the command of `lister` was in
/// progress.
fn count_replies_during_command(lister: &mut Control, other: &mut Control) -> usize {
    let mut count = 0;
    lister.0.get_mut().set_nonblocking(true).unwrap();
    let mut byte = [0];
    while lister.0.get_ref().peek(&mut byte).is_err() {
        assert_eq!(other.send_and_read("NOOP"), 200);
        count += 1;
    }
    lister.0.get_mut().set_nonblocking(false).unwrap();
    count
}

// attack row 89
#[test]
fn a_listing_of_a_large_directory_delays_no_other_session() {
    let directories = TestDirectories::new();
    for number in 0..20_000 {
        fs::File::create(directories.remote_path(&format!("name{number}"))).unwrap();
    }
    let mut server = ftp_server(&directories, "");
    let mut other = Control::new(OTHER, &server);
    assert_eq!(other.log_in("ftp", "a@b"), WELCOME);
    for command in ["NLST zzz*", "STAT zzz*", "NLST -a"] {
        // Other processes may occupy the processor during some of the rounds.
        let reply_counts = (0..10).map(|_| {
            let mut line = ftp_harness::ControlConnection::logged_in(&server);
            let data = command.starts_with("NLST").then(|| line.passive());
            let mut lister = Control(line.0);
            lister.send_without_waiting(&format!("{command}\n"));
            let replies = match &data {
                Some(data) => {
                    assert_eq!(lister.read_reply_code(), 150);
                    let mut data = data.try_clone().unwrap();
                    let reading = thread::spawn(move || read_to_end_of_stream(&mut data).len());
                    let replies = count_replies_during_command(&mut lister, &mut other);
                    assert!(reading.join().unwrap() == 0 || command == "NLST -a");
                    replies
                }
                None => count_replies_during_command(&mut lister, &mut other),
            };
            assert!([226, 212, 213, 211].contains(&lister.read_reply_code()));
            replies
        });
        let max_replies = reply_counts.max().unwrap();
        assert!(max_replies >= 10, "{command}: {max_replies}");
    }
    assert_exits(&mut server.program);
}

// attack row 117
#[test]
fn a_hash_that_waits_for_its_turn_takes_little_memory() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    fs::File::create(directories.remote_path("sparse")).unwrap().set_len(3 << 30).unwrap();
    fs::write(directories.remote_path("small"), b"abc").unwrap();
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.log_in("ftp", "a@b"), WELCOME);
    let mut attackers: Vec<_> = (0..200).map(|_| Control::new(ATTACKER, &server)).collect();
    assert!(attackers.iter_mut().all(|attacker| attacker.log_in("ftp", "a@b") == WELCOME));
    let before = resident_kib(&server.program);
    attackers.iter_mut().for_each(|attacker| attacker.send_without_waiting("HASH sparse\n"));
    // The server alternates between source addresses, so during each of these hashes it also
    // computes one step of one attacker's hash.
    for _ in 0..250 {
        assert_eq!(honest.send_and_read("HASH small"), 213);
    }
    let added_kib = resident_kib(&server.program).saturating_sub(before);
    assert!(added_kib < 200 * 100, "{added_kib} KiB");
    assert_exits(&mut server.program);
}

// attack row 149
#[test]
fn conversion_of_files_delays_no_other_session() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "");
    // Zeros compress to few bytes, so the server never waits for the client to read.
    fs::File::create(directories.remote_path("sparse")).unwrap().set_len(64 << 30).unwrap();
    fs::write(directories.remote_path("small"), b"abc").unwrap();
    let mut attackers = Vec::new();
    for command in ["TYPE A", "MODE C"].into_iter().chain(std::iter::repeat_n("MODE Z", 20)) {
        let mut attacker = Control::new(ATTACKER, &server);
        assert_eq!(attacker.log_in("ftp", "a@b"), WELCOME);
        assert_eq!(attacker.send_and_read(command), 200);
        let data = attacker.passive();
        attacker.send_without_waiting("RETR sparse\n");
        assert_eq!(attacker.read_reply_code(), 150);
        thread::spawn(move || std::io::copy(&mut { data }, &mut std::io::sink()));
        attackers.push(attacker);
    }
    let mut honest = Control::new(OTHER, &server);
    assert_eq!(honest.log_in("ann", "secret"), WELCOME);
    for _ in 0..200 {
        assert_eq!(honest.send_and_read("NOOP"), 200);
    }
    // All transfers of the attackers share one permit, and do not start a thread each.
    assert!(thread_count(&server.program) < 16, "{}", thread_count(&server.program));
    for attacker in &mut attackers {
        attacker.0.get_mut().set_nonblocking(true).unwrap();
        let error = attacker.0.get_ref().peek(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "a file of 64 GiB has ended");
    }
    drop(attackers);
    assert_exits(&mut server.program);
}
