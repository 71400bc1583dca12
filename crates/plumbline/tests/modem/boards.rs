//! Bulletin boards that print text directly after a program, and scripts whose transfers fail.

use super::login_harness::poll_until_timeout;
use super::*;
use std::process::{Output, Stdio};

#[test]
#[ignore = "needs lrzsz"]
fn text_directly_after_a_download_is_displayed_completely() {
    let directories = Directories::new();
    fs::write(directories.remote.join("a"), &content()[..3000]).unwrap();
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &[]);
    for round in 0..10 {
        let text = format!("printf '\\r\\r\\n*** Ow''l {round} ***\\r\\n'");
        user.type_keys(&format!("stty raw -echo; sz -q a; stty sane; {text}\r"));
        user.wait_for_text(&format!("*** Owl {round} ***"));
    }
    assert_shell_works(&mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn text_directly_after_a_batch_by_ymodem_is_displayed_completely() {
    let directories = Directories::new();
    fs::write(directories.remote.join("a"), &content()[..3000]).unwrap();
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &[]);
    for round in 0..5 {
        let text = format!("printf '\\r\\r\\n*** Ow''l {round} ***\\r\\n'");
        user.type_keys(&format!("echo in-''{round}; stty raw -echo; sb -q a; stty sane; {text}\r"));
        user.wait_for_text(&format!("in-{round}"));
        user.type_keys("\x1dreceive --protocol ymodem\r");
        user.wait_for_text(&format!("*** Owl {round} ***"));
    }
    assert_shell_works(&mut user);
    close(&mut user);
}

/// Runs `plumb login` with a script.
fn run_script(
    directories: &Directories,
    shell: &RemoteShell,
    script: &str,
    options: &[&str],
) -> Output {
    let path = directories.local.join("script");
    fs::write(&path, script).unwrap();
    let mut command = plumb();
    command.arg(directories.download_option()).args(options).arg("--script").arg(path);
    command.arg(&shell.destination).stdin(Stdio::null()).output().unwrap()
}

#[test]
#[ignore = "needs lrzsz"]
fn a_script_fails_if_a_download_that_starts_by_itself_fails() {
    let directories = Directories::new();
    fs::write(directories.remote.join("a"), content()).unwrap();
    let shell = RemoteShell::over_tcp(Fault::None);
    let script = format!(
        r#"send "\r"
        expect /ready:/
        send "cd {}; sz a; echo end-''of-it\r"
        expect /end-of-it/
        "#,
        directories.remote.display()
    );
    let output = run_script(&directories, &shell, &script, &["--char", "--download-limit", "100K"]);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{messages}");
    assert!(messages.contains("script line 4: Download cancelled"), "{messages}");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_script_that_cannot_read_its_file_ends_the_receiver_of_the_remote_host() {
    for (program, protocol) in [("rz", ""), ("rx -c a", " by xmodem")] {
        let directories = Directories::new();
        let shell = RemoteShell::over_serial_line();
        let script = format!(
            r#"send "\r"
            expect /ready:/
            send "cd {}; echo in-''directory; {program}; echo \$? > status\r"
            expect /in-directory/
            expect /{}/
            send file "nosuch.bin"{protocol}
            "#,
            directories.remote.display(),
            if protocol.is_empty() { "waiting|rz" } else { "C$" },
        );
        let output = run_script(&directories, &shell, &script, &[]);
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{messages}");
        assert!(messages.contains("Cannot read nosuch.bin"), "{messages}");
        let status = directories.remote.join("status");
        poll_until_timeout(|| {
            fs::read_to_string(&status).is_ok_and(|text| !text.is_empty()).then_some(())
        });
    }
}
