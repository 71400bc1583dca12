//! YMODEM and XMODEM over Telnet: BINARY in both directions, doubled IAC, and CR without NUL; and
//! uploads through the server of busybox, which drops a NUL at the end of a read.

use super::*;
use net::time::Duration;

/// Transfers files with the sequences that Telnet converts without BINARY, in both directions.
pub(super) fn transfer_by_blocks(directories: &Directories, user: &mut TerminalUser) {
    directories.enter_directory(user);
    let special = [0xff, 0xff, 0xff, b'\r', 0, b'\r', b'\n', 0xff, 0xf0, b'\r', 0x11, 0x13];
    let mut content = content()[..20_000].to_vec();
    for _ in 0..40 {
        content.extend_from_slice(&special);
    }
    // A multiple of the block length, so that XMODEM adds no padding.
    content.resize(20_480, 0xff);
    fs::write(directories.remote.join("a"), &content).unwrap();
    user.type_keys("echo in-''batch; sb a; echo end-''of-1\r");
    user.wait_for_text("in-batch");
    user.type_keys("\x1dreceive --protocol ymodem\r");
    user.wait_for_text("Received a: 20,480 bytes");
    user.wait_for_text("end-of-1");
    user.type_keys("sx a; echo end-''of-2\r");
    user.wait_for_text("XMODEM receive command now");
    user.type_keys("\x1dreceive --protocol xmodem b\r");
    user.wait_for_text("Received b: 20,480 bytes");
    user.wait_for_text("end-of-2");
    let local = directories.local.display();
    user.type_keys("rx c; echo end-''of-3\r");
    user.wait_for_text("rx: ready to receive c");
    user.type_keys(&format!("\x1dsend --protocol xmodem-1k {local}/a\r"));
    user.wait_for_text_within("end-of-3", UPLOAD_TIMEOUT);
    fs::rename(directories.local.join("a"), directories.local.join("d")).unwrap();
    user.type_keys("rb; echo end-''of-4\r");
    user.wait_for_text("rb waiting to receive");
    user.type_keys(&format!("\x1dsend --protocol ymodem {local}/d\r"));
    user.wait_for_text_within("Sent d: 20,480 bytes", UPLOAD_TIMEOUT);
    user.wait_for_text("end-of-4");
    assert_shell_works(user);
    for path in [
        directories.local.join("b"),
        directories.remote.join("c"),
        directories.local.join("d"),
        directories.remote.join("d"),
    ] {
        assert!(fs::read(&path).unwrap() == content, "{path:?}");
    }
}

#[test]
#[ignore = "needs root or a user namespace, and lrzsz"]
fn files_are_transferred_by_ymodem_and_xmodem_through_plumb_serve() {
    in_new_network(|| {
        let directories = Directories::new();
        let _server = ServeProcess::start(&["--exec", "env", "PS1=ready:", "/bin/sh"]);
        let mut user = directories.log_in(&[SERVER, PORT]);
        transfer_by_blocks(&directories, &mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and inetutils"]
fn files_are_transferred_by_ymodem_and_xmodem_through_the_server_of_inetutils() {
    in_new_network(|| {
        let directories = Directories::new();
        let server = Server::Inetutils.start();
        let mut user = directories.log_in(&[SERVER, &server.port().to_string()]);
        user.wait_for_shell();
        user.type_keys("\r");
        transfer_by_blocks(&directories, &mut user);
        close(&mut user);
    });
}

/// Length of the uploaded files: a multiple of the block length, so that XMODEM adds no padding.
const UPLOAD_LEN: usize = 64 * 1024;

/// Maximum time of an upload, of 512 short blocks on a busy machine.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Uploads files by XMODEM with long blocks, YMODEM and ZMODEM to the server of busybox.
fn upload_to_busybox(content: Vec<u8>) {
    in_new_network(move || {
        let directories = Directories::new();
        let server = Server::Busybox.start();
        let mut user = directories.log_in(&[SERVER, &server.port().to_string()]);
        user.wait_for_shell();
        user.type_keys("\r");
        directories.enter_directory(&mut user);
        let local = directories.local.display();
        for (name, program, prompt, send) in [
            ("x", "rx -c x", "rx: ready to receive x", "\x1dsend --protocol xmodem-1k"),
            ("y", "rb", "rb waiting to receive", "\x1dsend --protocol ymodem"),
            ("z", "rz", "The remote host waits for files", "send"),
        ] {
            fs::write(directories.local.join(name), &content).unwrap();
            user.type_keys(&format!("{program}; echo end-''of-{name}\r"));
            user.wait_for_text(prompt);
            user.type_keys(&format!("{send} {local}/{name}\r"));
            user.wait_for_text_within(&format!("Sent {name}: 65,536 bytes"), UPLOAD_TIMEOUT);
            user.wait_for_text(&format!("end-of-{name}"));
            directories.assert_same(&[name]);
        }
        assert_shell_works(&mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn random_bytes_are_uploaded_through_the_server_of_busybox() {
    let mut state = 1_u32;
    let byte = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    upload_to_busybox((0..UPLOAD_LEN).map(byte).collect());
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn zeros_are_uploaded_through_the_server_of_busybox() {
    upload_to_busybox(vec![0; UPLOAD_LEN]);
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn bytes_that_telnet_doubles_are_uploaded_through_the_server_of_busybox() {
    upload_to_busybox([[0xff; UPLOAD_LEN / 2], [b'\r'; UPLOAD_LEN / 2]].concat());
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn lines_of_text_are_uploaded_through_the_server_of_busybox() {
    let mut text = b"The quick brown fox jumps over the lazy dog\r\n".repeat(UPLOAD_LEN / 45 + 1);
    text.truncate(UPLOAD_LEN);
    upload_to_busybox(text);
}
