//! System users through PAM, with users and passwords that only the test has.

use super::login_desk::within_the_limit;
use super::{Desk, Line, Server};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use test_support::is_root_of_the_machine;

/// Hash of "secret" in the format of `/etc/shadow`.
const SHADOW: &str = "$6$plumbline$d8txxFMrFvEP2Y8KIM6niSLN92YvFGnLc6feDyJIngHpZfORIZSvC58uRMyagWwdRKcV1X/Yo8cOTH1TA2V2H/";

/// Starts a server whose system users are ann with a shell, bob without one, and old with an
/// expired account. Its PAM rules log the start and end of each session.
fn with_system_users(desk: &Desk) -> Server {
    with_service(desk, "plumb", "", &[])
}

/// Like [`with_system_users`], for the PAM service `service`, with `more_rules` appended.
fn with_service(desk: &Desk, service: &str, more_rules: &str, words: &[&str]) -> Server {
    let etc = desk.here("etc");
    fs::create_dir(&etc).unwrap();
    let homes = desk.there("");
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
    let told = etc.join("told").display().to_string();
    let script = etc.join("script").display().to_string();
    let pam = format!(
        "auth required pam_unix.so\naccount required pam_unix.so\n\
         session required pam_exec.so /bin/sh {script}\n{more_rules}"
    );
    let tell = format!("echo $PAM_TYPE $PAM_USER $PAM_RHOST $PAM_SERVICE >> {told}\n");
    for (name, text) in [
        ("passwd", passwd.as_str()),
        ("shadow", &shadow),
        ("group", "root:x:0:\nann:x:61001:\nshared:x:61009:ann\n"),
        ("shells", "/bin/sh\n"),
        ("rules", &pam),
        ("script", &tell),
    ] {
        fs::write(etc.join(name), text).unwrap();
    }
    let etc = etc.display();
    let script = format!(
        "set -e; for name in passwd shadow group shells; do mount --bind {etc}/$name /etc/$name; done; \
         mount -t tmpfs none /etc/pam.d; cp {etc}/rules /etc/pam.d/{service}; exec \"$@\""
    );
    let before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, "sh"];
    let usual = ["--ftp-system-users", "--ftp-listen", "127.0.0.1:0"];
    Server::start_by(desk, &before, &[&usual, words].concat())
}

/// Waits until PAM has logged `count` session starts and ends, and returns them.
fn sessions(desk: &Desk, count: usize) -> Vec<String> {
    within_the_limit(|| {
        let told = fs::read_to_string(desk.here("etc/told")).unwrap_or_default();
        (told.lines().count() >= count).then(|| told.lines().map(str::to_owned).collect())
    })
}

/// Creates a home directory for ann; `false` if the test does not run as root of the machine.
fn home_of_ann(desk: &Desk) -> bool {
    let is_root = is_root_of_the_machine();
    if is_root {
        fs::create_dir(desk.there("ann")).unwrap();
        chown(desk.there("ann"), Some(61001), Some(61001)).unwrap();
    }
    is_root
}

#[test]
#[ignore = "needs unshare"]
fn a_session_of_pam_is_open_for_as_long_as_its_user_is_here() {
    let desk = Desk::new();
    if !home_of_ann(&desk) {
        return;
    }
    let mut server = with_system_users(&desk);
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS wrong")), (331, 530));
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    assert_eq!(sessions(&desk, 1), ["open_session ann 127.0.0.1 plumb"]);
    assert_eq!(line.stores("STOR file", b"hers"), 226);
    assert_eq!(fs::metadata(desk.there("ann/file")).unwrap().uid(), 61001);
    assert_eq!(sessions(&desk, 1).len(), 1);
    assert_eq!(line.says("QUIT"), 221);
    assert_eq!(sessions(&desk, 2)[1], "close_session ann 127.0.0.1 plumb");
    // The PAM session also ends when the connection breaks or the server is killed.
    let mut broken = Line::to(&server);
    assert_eq!((broken.says("USER ann"), broken.says("PASS secret")), (331, 230));
    drop(broken);
    assert_eq!(sessions(&desk, 4)[3], "close_session ann 127.0.0.1 plumb");
    let mut last = Line::to(&server);
    assert_eq!((last.says("USER ann"), last.says("PASS secret")), (331, 230));
    server.program.child().kill().unwrap();
    assert_eq!(sessions(&desk, 6)[5], "close_session ann 127.0.0.1 plumb");
}

#[test]
#[ignore = "needs unshare"]
fn who_may_not_come_has_no_session() {
    let desk = Desk::new();
    if !home_of_ann(&desk) {
        return;
    }
    let server = with_system_users(&desk);
    for (name, password) in
        [("ann", "Secret"), ("old", "secret"), ("bob", "secret"), ("root", "secret")]
    {
        let mut line = Line::to(&server);
        line.says(&format!("USER {name}"));
        assert_eq!(line.asks(&format!("PASS {password}")), "530 Login incorrect\r\n", "{name}");
    }
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    assert_eq!(sessions(&desk, 1), ["open_session ann 127.0.0.1 plumb"]);
}

#[test]
#[ignore = "needs unshare"]
fn the_rules_are_those_of_the_service_that_is_named_and_a_session_that_fails_lets_nobody_in() {
    let desk = Desk::new();
    if !home_of_ann(&desk) {
        return;
    }
    let file = desk.here("serve.toml");
    fs::write(&file, "[ftp]\npam-service = \"files\"\n").unwrap();
    let words = ["--config", file.to_str().unwrap()];
    // The rules require the user to be in a list; an unlisted user cannot log in.
    let list = desk.here("list");
    fs::write(&list, "ann\n").unwrap();
    let rule = format!(
        "session required pam_listfile.so item=user sense=allow onerr=fail file={}\n",
        list.display()
    );
    let server = with_service(&desk, "files", &rule, &words);
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    assert_eq!(sessions(&desk, 1), ["open_session ann 127.0.0.1 files"]);
    drop(line);
    sessions(&desk, 2);
    fs::write(&list, "nobody\n").unwrap();
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 530));
    server.says("PAM cannot open a session");
}

#[test]
#[ignore = "needs unshare"]
fn a_user_of_the_machine_is_at_home_with_his_own_rights() {
    if !is_root_of_the_machine() {
        return;
    }
    let desk = Desk::new();
    for folder in ["ann", "ann/shared", "ann/roots"] {
        fs::create_dir(desk.there(folder)).unwrap();
    }
    chown(desk.there("ann"), Some(61001), Some(61001)).unwrap();
    chown(desk.there("ann/shared"), Some(0), Some(61009)).unwrap();
    fs::set_permissions(desk.there("ann/shared"), PermissionsExt::from_mode(0o770)).unwrap();
    fs::write(desk.there("ann/private"), "root's").unwrap();
    fs::set_permissions(desk.there("ann/private"), PermissionsExt::from_mode(0o600)).unwrap();
    let server = with_system_users(&desk);
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS Secret")), (331, 530));
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    assert_eq!(line.asks("PWD"), "257 \"/\" is the current directory\r\n");
    assert_eq!((line.says("RETR private"), line.says("HASH private")), (550, 550));
    assert_eq!((line.stores("STOR roots/file", b"x"), line.says("MKD roots/a")), (550, 550));
    assert_eq!((line.says("DELE roots"), line.says("SITE CHMOD 666 private")), (550, 550));
    assert_eq!(line.stores("STOR file", b"hers"), 226);
    assert_eq!(line.stores("APPE file", b", whole"), 226);
    // Requires a supplementary group of ann.
    assert_eq!(line.stores("STOR shared/file", b"shared"), 226);
    assert_eq!(line.retrieves("RETR file").unwrap(), b"hers, whole");
    for name in ["ann/file", "ann/shared/file"] {
        let status = fs::metadata(desk.there(name)).unwrap();
        assert_eq!((status.uid(), status.gid()), (61001, 61001), "{name}");
    }
    assert_eq!(fs::read(desk.there("ann/private")).unwrap(), b"root's");
}

#[test]
#[ignore = "needs unshare"]
fn who_has_no_shell_who_is_root_and_who_is_nobody_are_told_the_same() {
    if !is_root_of_the_machine() {
        return;
    }
    let desk = Desk::new();
    fs::create_dir(desk.there("ann")).unwrap();
    let server = with_system_users(&desk);
    let mut told = Vec::new();
    for name in ["bob", "root", "super", "nobody-here", "-froot"] {
        let mut line = Line::to(&server);
        assert_eq!(line.says(&format!("USER {name}")), 331);
        told.push(line.asks("PASS secret"));
    }
    assert!(told.iter().all(|reply| reply == "530 Login incorrect\r\n"), "{told:?}");
}

/// Returns the number of child processes of `server` that are asking PAM.
fn asking(server: &Server) -> usize {
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
fn a_module_that_hangs_delays_no_user_of_the_file_and_ends_with_its_session_and_the_server() {
    let desk = Desk::new();
    if !home_of_ann(&desk) {
        return;
    }
    // The module reads from a pipe that has no writer.
    let pipe = desk.here("pipe");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let rules = format!("auth required pam_exec.so /bin/cat {}\n", pipe.display());
    let users = desk.here("users.toml");
    let hash = desk.runs(env!("CARGO_BIN_EXE_plumb"), &["serve", "--hash-password"], "secret");
    let root = desk.there("");
    let text = format!("[kim]\npassword = \"{}\"\nroot = \"{}\"\n", hash.trim(), root.display());
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--ftp-users", users.to_str().unwrap()];
    let mut server = with_service(&desk, "plumb", &rules, &words);
    let wait = |count| within_the_limit(|| (asking(&server) == count).then_some(()));
    let mut waiting = Line::to(&server);
    assert_eq!(waiting.says("USER ann"), 331);
    waiting.0.get_mut().write_all(b"PASS secret\r\n").unwrap();
    wait(1);
    let mut kim = Line::to(&server);
    assert_eq!((kim.says("USER kim"), kim.says("PASS secret")), (331, 230));
    drop(waiting);
    wait(0);
    // A login that is waiting for PAM does not delay the end of the server.
    let mut last = Line::to(&server);
    assert_eq!(last.says("USER ann"), 331);
    last.0.get_mut().write_all(b"PASS secret\r\n").unwrap();
    wait(1);
    server.program.signal(rustix::process::Signal::TERM).unwrap();
    let ended = server.program.wait_for_end(protocols::time::Duration::from_secs(20)).unwrap();
    assert_eq!(ended.unwrap().code(), Some(0));
    // The programs that the modules started end too.
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    while rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).is_ok() {
        std::thread::yield_now();
    }
}
