//! Tests of system users, who log in through PAM. The users and passwords exist only in the mount
//! namespace of the tested server.

use super::login_harness::poll_until_timeout;
use super::{ControlConnection, Server, TestDirectories};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use test_support::is_root_of_the_machine;

/// Hash of "secret" in the format of `/etc/shadow`.
const SHADOW: &str = "$6$plumbline$d8txxFMrFvEP2Y8KIM6niSLN92YvFGnLc6feDyJIngHpZfORIZSvC58uRMyagWwdRKcV1X/Yo8cOTH1TA2V2H/";

/// Starts a server whose system users are ann with a shell, bob without one, and old with an
/// expired account. Its PAM rules log the start and end of each session.
fn with_system_users(directories: &TestDirectories) -> Server {
    with_service(directories, "plumb", "", &[])
}

/// Like [`with_system_users`], for the PAM service `service`, with `more_rules` appended.
fn with_service(
    directories: &TestDirectories,
    service: &str,
    more_rules: &str,
    words: &[&str],
) -> Server {
    let etc = directories.local_path("etc");
    fs::create_dir(&etc).unwrap();
    let homes = directories.remote_path("");
    let homes = homes.to_str().unwrap();
    let passwd = format!(
        "root:x:0:0::/root:/bin/sh\nann:x:61001:61001::{homes}ann:/bin/sh\n\
         bob:x:61002:61002::{homes}bob:/usr/sbin/nologin\nsuper:x:0:0::{homes}:/bin/sh\n\
         old:x:61003:61003::{homes}old:/bin/sh\n"
    );
    let shadow: String = ["root", "ann", "bob", "super"]
        .map(|name| format!("{name}:{SHADOW}:19000::::::\n"))
        .concat();
    // The account has been expired since 2 January 1970.
    let shadow = format!("{shadow}old:{SHADOW}:19000:::::1:\n");
    let log_path = etc.join("told").display().to_string();
    let script = etc.join("script").display().to_string();
    let pam = format!(
        "auth required pam_unix.so\naccount required pam_unix.so\n\
         session required pam_exec.so /bin/sh {script}\n{more_rules}"
    );
    let log_command = format!("echo $PAM_TYPE $PAM_USER $PAM_RHOST $PAM_SERVICE >> {log_path}\n");
    for (name, text) in [
        ("passwd", passwd.as_str()),
        ("shadow", &shadow),
        ("group", "root:x:0:\nann:x:61001:\nshared:x:61009:ann\n"),
        ("shells", "/bin/sh\n"),
        ("rules", &pam),
        ("script", &log_command),
    ] {
        fs::write(etc.join(name), text).unwrap();
    }
    let etc = etc.display();
    let script = format!(
        "set -e; for name in passwd shadow group shells; do mount --bind {etc}/$name /etc/$name; done; \
         mount -t tmpfs none /etc/pam.d; cp {etc}/rules /etc/pam.d/{service}; exec \"$@\""
    );
    let before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, "sh"];
    let options = ["--ftp-system-users", "--ftp-listen", "127.0.0.1:0"];
    Server::start_by(directories, &before, &[&options, words].concat())
}

/// Waits until PAM has logged `count` session starts and ends, and returns them.
fn wait_for_session_log(directories: &TestDirectories, count: usize) -> Vec<String> {
    poll_until_timeout(|| {
        let log_text = fs::read_to_string(directories.local_path("etc/told")).unwrap_or_default();
        (log_text.lines().count() >= count).then(|| log_text.lines().map(str::to_owned).collect())
    })
}

/// Creates a home directory for ann. Returns `false` if the test does not run as root of the
/// machine.
fn home_of_ann(directories: &TestDirectories) -> bool {
    let is_root = is_root_of_the_machine();
    if is_root {
        fs::create_dir(directories.remote_path("ann")).unwrap();
        chown(directories.remote_path("ann"), Some(61001), Some(61001)).unwrap();
    }
    is_root
}

#[test]
#[ignore = "needs unshare"]
fn a_pam_session_is_open_as_long_as_the_ftp_session() {
    let directories = TestDirectories::new();
    if !home_of_ann(&directories) {
        return;
    }
    let mut server = with_system_users(&directories);
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS wrong")), (331, 530));
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    assert_eq!(wait_for_session_log(&directories, 1), ["open_session ann 127.0.0.1 plumb"]);
    assert_eq!(line.store("STOR file", b"hers"), 226);
    assert_eq!(fs::metadata(directories.remote_path("ann/file")).unwrap().uid(), 61001);
    assert_eq!(wait_for_session_log(&directories, 1).len(), 1);
    assert_eq!(line.send("QUIT"), 221);
    assert_eq!(wait_for_session_log(&directories, 2)[1], "close_session ann 127.0.0.1 plumb");
    // The PAM session also ends when the connection breaks or the server is killed.
    let mut broken = ControlConnection::connect(&server);
    assert_eq!((broken.send("USER ann"), broken.send("PASS secret")), (331, 230));
    drop(broken);
    assert_eq!(wait_for_session_log(&directories, 4)[3], "close_session ann 127.0.0.1 plumb");
    let mut last = ControlConnection::connect(&server);
    assert_eq!((last.send("USER ann"), last.send("PASS secret")), (331, 230));
    server.program.child().kill().unwrap();
    assert_eq!(wait_for_session_log(&directories, 6)[5], "close_session ann 127.0.0.1 plumb");
}

#[test]
#[ignore = "needs unshare"]
fn a_denied_user_gets_no_session() {
    let directories = TestDirectories::new();
    if !home_of_ann(&directories) {
        return;
    }
    let server = with_system_users(&directories);
    for (name, password) in
        [("ann", "Secret"), ("old", "secret"), ("bob", "secret"), ("root", "secret")]
    {
        let mut line = ControlConnection::connect(&server);
        line.send(&format!("USER {name}"));
        assert_eq!(
            line.send_and_read(&format!("PASS {password}")),
            "530 Login incorrect\r\n",
            "{name}"
        );
    }
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    assert_eq!(wait_for_session_log(&directories, 1), ["open_session ann 127.0.0.1 plumb"]);
}

#[test]
#[ignore = "needs unshare"]
fn the_configured_pam_service_applies_and_a_failed_session_denies_the_login() {
    let directories = TestDirectories::new();
    if !home_of_ann(&directories) {
        return;
    }
    let file = directories.local_path("serve.toml");
    fs::write(&file, "[ftp]\npam-service = \"files\"\n").unwrap();
    let words = ["--config", file.to_str().unwrap()];
    // The rules require the user to be in a list; an unlisted user cannot log in.
    let list = directories.local_path("list");
    fs::write(&list, "ann\n").unwrap();
    let rule = format!(
        "session required pam_listfile.so item=user sense=allow onerr=fail file={}\n",
        list.display()
    );
    let server = with_service(&directories, "files", &rule, &words);
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    assert_eq!(wait_for_session_log(&directories, 1), ["open_session ann 127.0.0.1 files"]);
    drop(line);
    wait_for_session_log(&directories, 2);
    fs::write(&list, "nobody\n").unwrap();
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 530));
    server.wait_for_log("PAM cannot open a session");
}

#[test]
#[ignore = "needs unshare"]
fn a_system_user_gets_the_home_directory_with_its_own_rights() {
    if !is_root_of_the_machine() {
        return;
    }
    let directories = TestDirectories::new();
    for directory in ["ann", "ann/shared", "ann/roots"] {
        fs::create_dir(directories.remote_path(directory)).unwrap();
    }
    chown(directories.remote_path("ann"), Some(61001), Some(61001)).unwrap();
    chown(directories.remote_path("ann/shared"), Some(0), Some(61009)).unwrap();
    fs::set_permissions(directories.remote_path("ann/shared"), PermissionsExt::from_mode(0o770))
        .unwrap();
    fs::write(directories.remote_path("ann/private"), "root's").unwrap();
    fs::set_permissions(directories.remote_path("ann/private"), PermissionsExt::from_mode(0o600))
        .unwrap();
    let server = with_system_users(&directories);
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS Secret")), (331, 530));
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    assert_eq!(line.send_and_read("PWD"), "257 \"/\" is the current directory\r\n");
    assert_eq!((line.send("RETR private"), line.send("HASH private")), (550, 550));
    assert_eq!((line.store("STOR roots/file", b"x"), line.send("MKD roots/a")), (550, 550));
    assert_eq!((line.send("DELE roots"), line.send("SITE CHMOD 666 private")), (550, 550));
    assert_eq!(line.store("STOR file", b"hers"), 226);
    assert_eq!(line.store("APPE file", b", whole"), 226);
    // ann may write to this directory only as a member of her supplementary group.
    assert_eq!(line.store("STOR shared/file", b"shared"), 226);
    assert_eq!(line.retrieve("RETR file").unwrap(), b"hers, whole");
    for name in ["ann/file", "ann/shared/file"] {
        let status = fs::metadata(directories.remote_path(name)).unwrap();
        assert_eq!((status.uid(), status.gid()), (61001, 61001), "{name}");
    }
    assert_eq!(fs::read(directories.remote_path("ann/private")).unwrap(), b"root's");
}

#[test]
#[ignore = "needs unshare"]
fn a_user_without_a_shell_root_and_an_unknown_user_get_the_same_reply() {
    if !is_root_of_the_machine() {
        return;
    }
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("ann")).unwrap();
    let server = with_system_users(&directories);
    let mut replies = Vec::new();
    for name in ["bob", "root", "super", "nobody-here", "-froot"] {
        let mut line = ControlConnection::connect(&server);
        assert_eq!(line.send(&format!("USER {name}")), 331);
        replies.push(line.send_and_read("PASS secret"));
    }
    assert!(replies.iter().all(|reply| reply == "530 Login incorrect\r\n"), "{replies:?}");
}

/// Returns the number of child processes of `server` that check a system user with PAM.
fn count_pam_processes(server: &Server) -> usize {
    let children = format!("/proc/{0}/task", server.program.id());
    let tasks = fs::read_dir(children).unwrap().flatten();
    let children: String =
        tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect();
    let is_asking = |child: &&str| {
        let words = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        words.contains("--prove-system-user")
    };
    children.split_whitespace().filter(is_asking).count()
}

// attack row 125
#[test]
#[ignore = "needs unshare"]
fn a_hanging_pam_module_delays_no_configured_user_and_ends_with_its_session() {
    let directories = TestDirectories::new();
    if !home_of_ann(&directories) {
        return;
    }
    // The module reads from a pipe that has no writer.
    let pipe = directories.local_path("pipe");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let rules = format!("auth required pam_exec.so /bin/cat {}\n", pipe.display());
    let users = directories.local_path("users.toml");
    let hash = directories.run_client_ok(
        env!("CARGO_BIN_EXE_plumb"),
        &["serve", "--hash-password"],
        "secret",
    );
    let root = directories.remote_path("");
    let text = format!("[kim]\npassword = \"{}\"\nroot = \"{}\"\n", hash.trim(), root.display());
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--ftp-users", users.to_str().unwrap()];
    let mut server = with_service(&directories, "plumb", &rules, &words);
    let wait = |count| poll_until_timeout(|| (count_pam_processes(&server) == count).then_some(()));
    let mut waiting = ControlConnection::connect(&server);
    assert_eq!(waiting.send("USER ann"), 331);
    waiting.0.get_mut().write_all(b"PASS secret\r\n").unwrap();
    wait(1);
    let mut kim = ControlConnection::connect(&server);
    assert_eq!((kim.send("USER kim"), kim.send("PASS secret")), (331, 230));
    drop(waiting);
    wait(0);
    // A login that is waiting for PAM does not delay the end of the server.
    let mut last = ControlConnection::connect(&server);
    assert_eq!(last.send("USER ann"), 331);
    last.0.get_mut().write_all(b"PASS secret\r\n").unwrap();
    wait(1);
    server.program.signal(rustix::process::Signal::TERM).unwrap();
    let status = server.program.wait_for_end(net::time::Duration::from_secs(20)).unwrap();
    assert_eq!(status.unwrap().code(), Some(0));
    // The programs that the modules started end too.
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    while rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_without_root_says_that_system_users_need_root() {
    if !is_root_of_the_machine() {
        return;
    }
    let directories = TestDirectories::new();
    let configuration = directories.local_path("serve.toml");
    fs::write(&configuration, "[ftp]\nsystem-users = true\n").unwrap();
    for path in [directories.0.as_path(), &directories.local_path("")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let configuration = configuration.to_str().unwrap();
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let check = std::process::Command::new(plumb)
        .args(["serve", "--check", "--check-as", "nobody", "--config", configuration])
        .args(["--ftp", "--ftp-listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    let messages = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success() && messages.contains("system users need root"), "{messages}");
    let before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let words = ["--config", configuration, "--ftp-listen", "127.0.0.1:0", "--no-record"];
    let server = Server::start_by(&directories, &before, &words);
    server.wait_for_log("system users need root: the server does not run as root");
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER daemon"), line.send("PASS secret")), (331, 530));
    server.wait_for_log("refused: system users need root, and the server does not run as root");
}
