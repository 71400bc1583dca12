//! Files through Telnet servers that do not agree to BINARY: that of busybox, which never answers and
//! sends bytes unchanged, and that of inetutils behind a relay that removes the negotiation.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Writes a file of random bytes, which contains CR NUL, CR LF and IAC.
fn write_random_file(directory: &Path) -> Vec<u8> {
    let mut state = 1_u32;
    let mut content: Vec<u8> = (0..300_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    for at in (0..content.len() - 8).step_by(997) {
        content[at..at + 8].copy_from_slice(b"\r\0\r\n\r\r\0\xff");
    }
    fs::write(directory.join("random"), &content).unwrap();
    content
}

/// Transfers files in both directions by ZMODEM.
fn transfer_random_files(directories: &Directories, user: &mut TerminalUser) {
    directories.enter_directory(user);
    let content = write_random_file(&directories.remote);
    user.type_keys("sz random; echo end-''of-8\r");
    user.wait_for_text("Received random: 300,000 bytes");
    user.wait_for_text("end-of-8");
    assert_shell_works(user);
    fs::remove_file(directories.remote.join("random")).unwrap();
    user.type_keys("rz; echo end-''of-9\r");
    user.wait_for_text("The remote host waits for files");
    user.type_keys(&format!("send {}/random\r", directories.local.display()));
    user.wait_for_text("Sent random: 300,000 bytes");
    user.wait_for_text("end-of-9");
    assert_shell_works(user);
    for directory in [&directories.local, &directories.remote] {
        assert!(fs::read(directory.join("random")).unwrap() == content, "{directory:?}");
    }
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn files_are_transferred_through_the_server_of_busybox_without_binary() {
    in_new_network(|| {
        let directories = Directories::new();
        let server = Server::Busybox.start();
        let mut user = directories.log_in(&[SERVER, &server.port().to_string()]);
        user.wait_for_shell();
        user.type_keys("\r");
        transfer_random_files(&directories, &mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and inetutils"]
fn files_are_transferred_through_the_server_of_inetutils_without_binary() {
    in_new_network(|| {
        let directories = Directories::new();
        let server = Server::Inetutils.start();
        let port = relay_without_binary(server.port());
        let mut user = directories.log_in(&[SERVER, &port.to_string()]);
        user.wait_for_shell();
        user.type_keys("\r");
        transfer_random_files(&directories, &mut user);
        user.type_keys("clear\r");
        blocks_over_telnet::transfer_by_blocks(&directories, &mut user);
        close(&mut user);
    });
}

/// Relays one connection, and removes the negotiation of BINARY from both directions.
fn relay_without_binary(server_port: u16) -> u16 {
    let listener = TcpListener::bind((SERVER, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect((SERVER, server_port)).unwrap();
        let [client_reader, server_reader] =
            [&client, &server].map(|stream| stream.try_clone().unwrap());
        thread::spawn(move || relay_direction(client_reader, server));
        relay_direction(server_reader, client);
    });
    port
}

fn relay_direction(mut from: TcpStream, mut to: TcpStream) {
    const IAC: u8 = 255;
    let mut bytes = [0; 4096];
    let mut held = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut relayed = Vec::new();
        for &byte in &bytes[..count] {
            held.push(byte);
            match held.as_slice() {
                [IAC] | [IAC, 251..=254] => continue,
                [IAC, 251..=254, 0] => {}
                other => relayed.extend_from_slice(other),
            }
            held.clear();
        }
        if to.write_all(&relayed).is_err() {
            return;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Write);
}
