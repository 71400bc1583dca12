//! Administration of a server: rights per directory, limits, virtual hosts, word formats, and
//! validation of the configuration.

use super::ftp_desk::{Desk, Line, Server, pattern};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::process::Output;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Returns `count` words of 36 bits, densely packed: text only, or any bits.
fn words(count: usize, is_text: bool) -> Vec<u8> {
    let word = |at: usize| -> u64 {
        let chance = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 28;
        match is_text {
            true => {
                (0..5).fold(0, |word, at| word << 7 | (0x20 + (chance >> (7 * at)) % 0x5F)) << 1
            }
            false => chance,
        }
    };
    let bits = (0..count).flat_map(|at| (0..36).rev().map(move |bit| word(at) >> bit & 1 == 1));
    let bits: Vec<bool> = bits.collect();
    let octet = |bits: &[bool]| {
        let filled = bits.iter().copied().chain(std::iter::repeat(false)).take(8);
        filled.fold(0_u8, |octet, bit| octet << 1 | u8::from(bit))
    };
    bits.chunks(8).map(octet).collect()
}

fn with_word_formats(desk: &Desk) -> Server {
    let mut lines = "rights = \"writable\"\n[ftp.word-formats]\n".to_owned();
    for format in ["h36", "data8", "c36", "a36", "u36", "oct", "text"] {
        fs::create_dir(desk.there(format)).unwrap();
        lines += &format!("\"/{format}\" = \"{format}\"\n");
    }
    Server::configured(desk, &lines, &[])
}

#[test]
fn words_come_back_from_a_folder_of_each_format_and_from_any_place() {
    let desk = Desk::new();
    let server = with_word_formats(&desk);
    let mut line = Line::logged_in(&server);
    line.says("TYPE L 36");
    for format in ["h36", "data8", "c36", "a36", "u36", "oct", "text"] {
        for count in [1, 2, 20_001] {
            let sent = words(count, format == "text");
            assert_eq!(line.stores(&format!("STOR {format}/file"), &sent), 226, "{format}");
            assert!(line.retrieves(&format!("RETR {format}/file")).unwrap() == sent, "{format}");
            let size = format!("213 {}\r\n", sent.len());
            assert_eq!(line.asks(&format!("SIZE {format}/file")), size, "{format}");
        }
        let sent = words(20_001, format == "text");
        assert_eq!(line.says("REST 12345"), 350);
        let rest = line.retrieves(&format!("RETR {format}/file")).unwrap();
        assert!(rest == sent[12_345..], "{format}");
        line.says("REST 900000");
        assert_eq!(line.retrieves(&format!("RETR {format}/file")), Err(554), "{format}");
    }
    line.says("REST 9");
    assert_eq!(line.stores("STOR c36/file", &[0; 9]), 504);
}

#[test]
fn while_words_before_a_place_are_passed_over_others_are_served() {
    let desk = Desk::new();
    let server = with_word_formats(&desk);
    // A sparse file takes no disk space and a long time to read.
    let file = fs::File::create(desk.there("c36/file")).unwrap();
    file.set_len(8_000_000_000).unwrap();
    let (mut busy, mut other) = (Line::logged_in(&server), Line::logged_in(&server));
    assert_eq!((busy.says("TYPE L 36"), busy.says("REST 7000000000")), (200, 350));
    let data = busy.passive();
    assert_eq!(busy.says("RETR c36/file"), 150);
    for _ in 0..3 {
        assert_eq!(other.says("NOOP"), 200);
    }
    data.set_nonblocking(true).unwrap();
    let nothing_yet = (&data).read(&mut [0]).unwrap_err().kind();
    assert_eq!(nothing_yet, std::io::ErrorKind::WouldBlock);
    assert_eq!((busy.says("ABOR"), other.says("NOOP")), (426, 200));
}

#[test]
fn words_that_would_be_others_are_refused_by_a_folder_of_text() {
    let desk = Desk::new();
    let server = with_word_formats(&desk);
    let mut line = Line::logged_in(&server);
    line.says("TYPE L 36");
    assert_eq!(line.stores("STOR text/file", &words(100, false)), 451);
    assert!(!desk.there("text/file").exists());
}

#[test]
fn files_of_words_are_put_and_got_whatever_lies_in_the_folder() {
    let desk = Desk::new();
    let server = with_word_formats(&desk);
    let sent = words(3_000, false);
    fs::write(desk.here("up"), &sent).unwrap();
    for format in ["h36", "data8", "c36", "a36", "u36", "oct"] {
        let url = server.url("127.0.0.1", &format!("{format}/file"));
        let how = ["--type", "L36", "--store", "h36", "--no-record"];
        desk.runs(PLUMB, &[&["put"], &how[..], &["up", &url]].concat(), "");
        desk.runs(PLUMB, &[&["get"], &how[..], &[&url, "--output", format]].concat(), "");
        assert!(fs::read(desk.here(format)).unwrap() == sent, "{format}");
    }
}

const FOLDERS: &str = "rights = \"read-only\"\n[ftp.folders]\n\"/in\" = \"drop-box\"\n\
    \"/safe\" = \"no-delete\"\n\"/shut\" = []\n\"/add\" = [\"append\"]\n\"/free\" = \"writable\"\n\
    \"/keep\" = [\"rename\", \"read\", \"write\", \"overwrite\"]\n";

// attack row 84
#[test]
fn rights_are_those_of_the_nearest_folder_and_a_refusal_says_which_is_missing() {
    let desk = Desk::new();
    for folder in ["in", "safe", "shut", "add", "free", "keep"] {
        fs::create_dir(desk.there(folder)).unwrap();
        fs::write(desk.there(folder).join("old"), b"old").unwrap();
    }
    fs::write(desk.there("file"), b"file").unwrap();
    let server = Server::configured(&desk, FOLDERS, &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    for (command, missing) in [
        ("STOR new", "write new files"),
        ("DELE file", "delete"),
        ("NLST in", "list"),
        ("RETR in/old", "read"),
        ("SIZE in/old", "list"),
        ("MKD in/folder", "make directories"),
        ("STOR in/old", "overwrite"),
        ("STOR safe/old", "overwrite"),
        ("DELE safe/old", "delete"),
        ("RMD free/folder", "No such file"),
        ("CWD shut", "list"),
        ("MLST shut/old", "list"),
        ("STOR add/new", "write new files"),
        ("APPE add/new", "write new files"),
        ("HASH in/old", "read"),
        ("SITE CHMOD 600 in/old", "change modes and times"),
        ("COMB in/old in/old", "overwrite"),
        ("COMB safe/all in/old", "read"),
        ("RNFR in/old", "rename"),
        ("RNFR safe/old", "rename"),
        ("RNFR free", "rename"),
        ("RMD in", "delete"),
    ] {
        let reply = line.asks(command);
        assert!(reply.starts_with("550 ") && reply.contains(missing), "{command}: {reply}");
    }
    assert_eq!(line.stores("STOR in/new", b"new"), 226);
    assert_eq!(line.stores("STOU in", b"new"), 226);
    assert_eq!(line.stores("STOR safe/new", b"new"), 226);
    assert_eq!(line.stores("APPE add/old", b"er"), 226);
    assert_eq!((line.says("REST 5"), line.stores("STOR add/old", b"!")), (350, 226));
    assert_eq!((line.says("RNFR free/old"), line.says("RNTO in/moved")), (350, 550));
    assert_eq!((line.says("RNFR keep/old"), line.says("RNTO free/old")), (350, 550));
    assert_eq!((line.says("RNFR keep/old"), line.says("RNTO free/new")), (350, 550));
    assert_eq!((line.says("RNFR keep/old"), line.says("RNTO keep/name")), (350, 250));
    assert_eq!(
        (line.says("CWD in"), line.says("CDUP"), line.says("DELE free/old")),
        (250, 250, 250)
    );
    assert_eq!(fs::read(desk.there("add/old")).unwrap(), b"older!");
    assert_eq!(fs::read(desk.there("in/old")).unwrap(), b"old");
    let facts = |line: &mut Line, name: &str| {
        let reply = line.asks(&format!("MLST {name}"));
        reply.to_lowercase().split("perm=").nth(1).unwrap().split(';').next().unwrap().to_owned()
    };
    assert_eq!(facts(&mut line, "file"), "r");
    assert_eq!(facts(&mut line, "safe/old"), "ar");
    assert_eq!(facts(&mut line, "free"), "celmp");
}

#[test]
fn who_may_only_overwrite_overwrites_and_who_may_only_append_goes_on() {
    let desk = Desk::new();
    fs::write(desk.there("old"), b"old").unwrap();
    let server = Server::configured(&desk, "rights = [\"overwrite\"]\n", &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    assert_eq!((line.stores("STOR old", b"newer"), line.stores("STOR new", b"new")), (226, 550));
    assert!(line.asks("RETR old").contains("no right to read"));
    assert_eq!(fs::read(desk.there("old")).unwrap(), b"newer");
    let desk = Desk::new();
    fs::write(desk.there("old"), b"old").unwrap();
    let server = Server::configured(&desk, "rights = [\"append\"]\n", &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    assert_eq!(line.stores("STOR old", b"no"), 550);
    assert_eq!((line.says("REST 3"), line.stores("STOR old", b"er")), (350, 226));
    assert_eq!(fs::read(desk.there("old")).unwrap(), b"older");
}

#[test]
fn of_two_who_append_at_once_the_second_is_told_and_nothing_is_lost() {
    let desk = Desk::new();
    fs::write(desk.there("empty"), b"").unwrap();
    fs::write(desk.there("old"), b"old").unwrap();
    let server = Server::configured(&desk, "rights = \"writable\"\n", &[]);
    let (mut one, mut other) = (Line::logged_in(&server), Line::logged_in(&server));
    for (name, whole, second) in [("old", "olderr", 450), ("empty", "err", 450), ("no", "err", 550)]
    {
        let mut ways = [one.passive(), other.passive()];
        let append = format!("APPE {name}");
        assert_eq!((one.says(&append), other.says(&append)), (150, 150), "{name}");
        for way in &mut ways {
            way.write_all(b"er").unwrap();
        }
        let [first, last] = ways;
        drop(first);
        assert_eq!(one.hears(), 226, "{name}");
        drop(last);
        assert_eq!(other.hears(), second, "{name}");
        assert_eq!(one.stores(&append, b"r"), 226, "{name}");
        assert_eq!(fs::read_to_string(desk.there(name)).unwrap(), whole, "{name}");
    }
    server.says("the file changed during the upload");
}

#[test]
fn a_folder_goes_into_another_where_folders_are_made() {
    let desk = Desk::new();
    for folder in ["a", "to"] {
        fs::create_dir(desk.there(folder)).unwrap();
    }
    let lines = "rights = \"writable\"\n[ftp.folders]\n\"/to\" = [\"write\", \"rename\"]\n";
    let server = Server::configured(&desk, lines, &[]);
    let mut line = Line::logged_in(&server);
    assert_eq!(line.says("RNFR a"), 350);
    assert!(line.asks("RNTO to/a").contains("no right to make directories"));
    assert_eq!((line.says("RNFR a"), line.says("RNTO b")), (350, 250));
}

#[test]
fn a_name_of_our_choice_in_the_root_has_one_slash() {
    let desk = Desk::new();
    let server = Server::configured(&desk, "rights = \"writable\"\n", &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    assert_eq!(line.stores("STOU", b"new"), 226);
    // The upload leaves no other file after the next command.
    line.says("NOOP");
    let record = fs::read_dir(desk.there("")).unwrap().next().unwrap().unwrap();
    assert!(record.file_name().to_str().unwrap().starts_with("file."));
}

#[test]
fn a_user_of_the_file_has_rights_by_folder_too() {
    let desk = Desk::new();
    fs::create_dir(desk.there("in")).unwrap();
    let hash = desk.runs(PLUMB, &["serve", "--hash-password"], "secret\n");
    let users = desk.here("users.toml");
    let text = format!(
        "[ann]\npassword = \"{}\"\nroot = \"{}\"\nrights = [\"list\"]\n[ann.folders]\n\
         \"/in\" = [\"write\", \"delete\"]\n",
        hash.trim(),
        desk.there("").display()
    );
    fs::write(&users, text).unwrap();
    desk.runs("chmod", &["600", "users.toml"], "");
    let server = Server::configured(&desk, &format!("users = \"{}\"\n", users.display()), &[]);
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    assert_eq!((line.stores("STOR in/a", b"a"), line.stores("STOR a", b"a")), (226, 550));
    assert_eq!((line.says("DELE in/a"), line.says("MKD in/b")), (250, 550));
    assert!(line.retrieves("LIST").is_ok());
}

#[test]
fn a_reply_says_which_limit_it_was() {
    let desk = Desk::new();
    let lines = "rights = \"writable\"\nfile-max-bytes = 1000\nquota-bytes = 1500\n";
    fs::write(desk.there("file"), [7; 900]).unwrap();
    let server = Server::configured(&desk, lines, &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    let mut stores = |name: &str, len: usize| {
        let mut data = line.passive();
        assert_eq!(line.says(&format!("STOR {name}")), 150);
        _ = data.write_all(&pattern(len));
        drop(data);
        let mut reply = String::new();
        std::io::BufRead::read_line(&mut line.0, &mut reply).unwrap();
        reply
    };
    assert_eq!(stores("large", 1001), "552 File larger than this server takes\r\n");
    assert_eq!(stores("more", 700), "552 Quota used up, remove something first\r\n");
    line.says("REST 901");
    assert_eq!(line.asks("RETR file"), "554 REST is beyond the end of the file\r\n");
    line.says("REST 901");
    assert_eq!(line.asks("STOR file"), "554 REST is beyond the end of the file\r\n");
    assert_eq!(line.asks("ALLO 1001"), "504 File larger than this server takes\r\n");
    assert_eq!(line.asks("ALLO 700"), "504 Quota used up, remove something first\r\n");
    assert_eq!((line.says("ALLO 600"), line.says("ALLO 600 R 80")), (200, 200));
    line.says("TYPE L 36");
    assert_eq!((line.says("ALLO 133"), line.says("ALLO 134")), (200, 504));
}

// attack row 95
#[test]
fn a_text_is_read_for_its_size_only_up_to_a_bound() {
    let desk = Desk::new();
    fs::write(desk.there("short"), b"a\nb\n").unwrap();
    fs::write(desk.there("long"), vec![b'\n'; (8 << 20) + 1]).unwrap();
    let server = Server::configured(&desk, "", &[]);
    let mut line = Line::logged_in(&server);
    assert_eq!(line.asks("SIZE short"), "213 6\r\n");
    assert_eq!(line.says("SIZE long"), 550);
    line.says("TYPE I");
    assert_eq!(line.asks("SIZE long"), "213 8388609\r\n");
}

#[test]
fn size_is_the_size_of_the_file_in_every_mode() {
    let desk = Desk::new();
    fs::write(desk.there("short"), b"a line that deflates, a line that deflates\n").unwrap();
    // Larger than the largest text that the server reads to compute its size.
    fs::File::create(desk.there("long")).unwrap().set_len(60_000_000).unwrap();
    let server = Server::configured(&desk, "", &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    for mode in ["S", "B", "C", "Z"] {
        assert_eq!(line.says(&format!("MODE {mode}")), 200);
        assert_eq!(line.asks("SIZE short"), "213 43\r\n", "MODE {mode}");
        assert_eq!(line.asks("SIZE long"), "213 60000000\r\n", "MODE {mode}");
    }
}

// req RFC1123:4.1.2.7-MUST-1
#[test]
fn every_name_of_nlst_can_be_given_to_retr_from_where_it_was_asked_for() {
    let desk = Desk::new();
    fs::create_dir_all(desk.there("a/b c")).unwrap();
    for name in ["a/one", "a/b c/two", "a/b c/-x"] {
        fs::write(desk.there(name), name).unwrap();
    }
    let server = Server::configured(&desk, "", &[]);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    for (command, count) in [("NLST a/b c", 2), ("NLST a/b c/*", 2), ("NLST a/o*", 1)] {
        let names = String::from_utf8(line.retrieves(command).unwrap()).unwrap();
        assert_eq!(names.lines().count(), count, "{command}: {names}");
        for name in names.lines() {
            assert_eq!(line.retrieves(&format!("RETR {name}")).unwrap(), name.as_bytes());
        }
    }
}

const HOSTS: &str = "rights = \"writable\"\n[[ftp.host]]\nname = \"ftp.example.org\"\n\
    aliases = [\"example.org\"]\ngreeting = \"This is org\"\nrights = \"writable\"\nroot = \"ORG\"\n\
    certificate = \"HERE/org.pem\"\nkey = \"HERE/org.key\"\n";

fn with_hosts(desk: &Desk) -> Server {
    let org = desk.here("org");
    fs::create_dir(&org).unwrap();
    fs::write(org.join("whose"), b"org").unwrap();
    fs::write(desk.there("whose"), b"ours").unwrap();
    let made = rcgen::generate_simple_self_signed(["ftp.example.org".to_owned()]).unwrap();
    fs::write(desk.here("org.pem"), made.cert.pem()).unwrap();
    fs::write(desk.here("org.key"), made.signing_key.serialize_pem()).unwrap();
    let here = desk.here("").display().to_string();
    let lines = HOSTS.replace("ORG", org.to_str().unwrap()).replace("HERE/", &here);
    // ftplib does not resume TLS sessions.
    let lines = format!("requires-session-reuse = false\n{lines}");
    Server::configured(desk, &lines, &[])
}

#[test]
fn who_names_a_host_comes_to_its_files_until_rein() {
    let desk = Desk::new();
    let server = with_hosts(&desk);
    let mut line = Line::to(&server);
    let whose = |line: &mut Line| {
        assert_eq!((line.says("USER ftp"), line.says("PASS a@b")), (331, 230));
        line.says("TYPE I");
        line.retrieves("RETR whose").unwrap()
    };
    assert_eq!(line.asks("HOST www.example.org"), "504 No such host here\r\n");
    assert_eq!(line.asks("HOST Example.ORG"), "220 This is org\r\n");
    assert_eq!(whose(&mut line), b"org");
    assert_eq!(line.says("HOST localhost"), 503);
    assert_eq!(line.says("REIN"), 220);
    assert_eq!(whose(&mut line), b"ours");
    assert_eq!((line.says("REIN"), line.says("HOST 127.0.0.1")), (220, 220));
    assert_eq!(whose(&mut line), b"ours");
}

#[test]
fn users_of_a_host_that_has_gone_are_not_let_in_to_the_servers_own_files() {
    let desk = Desk::new();
    let mut server = with_hosts(&desk);
    let mut line = Line::to(&server);
    assert_eq!(line.says("HOST ftp.example.org"), 220);
    fs::write(desk.here("serve.toml"), "[ftp]\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.says("configuration reloaded");
    assert_eq!((line.says("USER ftp"), line.says("PASS a@b")), (331, 530));
    assert_eq!((line.says("REIN"), line.says("USER ftp"), line.says("PASS a@b")), (220, 331, 230));
}

#[test]
fn users_of_a_host_send_no_mail_to_the_servers_spool() {
    let desk = Desk::new();
    let (root, spool) = (desk.there("").display().to_string(), desk.here("spool"));
    fs::create_dir_all(spool.join("ann")).unwrap();
    let lines = format!(
        "mail-spool = \"{}\"\nmail-from-anonymous = true\n\
         [[ftp.host]]\nname = \"ftp.example.org\"\nroot = \"{root}\"\n",
        spool.display()
    );
    let server = Server::configured(&desk, &lines, &[]);
    let mut line = Line::to(&server);
    let logs_in = |line: &mut Line| (line.says("USER ftp"), line.says("PASS a@b"));
    assert_eq!((line.says("HOST ftp.example.org"), logs_in(&mut line)), (220, (331, 230)));
    assert!(line.asks("MAIL ann").contains("no right to send mail"));
    assert_eq!((line.says("REIN"), logs_in(&mut line)), (220, (331, 230)));
    assert_eq!((line.says("MAIL ann"), line.says("Lunch?\r\n.")), (350, 256));
}

const NAMED: &str = r#"
import ftplib, io, ssl, sys
port, certificate = int(sys.argv[1]), sys.argv[2]

def session(tls_name, before=None, after=None):
    context = ssl.create_default_context(cafile=certificate)
    if tls_name != "ftp.example.org":
        context = ssl._create_unverified_context()
    ftp = ftplib.FTP_TLS(context=context)
    ftp.connect("127.0.0.1", port, 20)
    if before:
        ftp.sendcmd("HOST " + before)
    ftp.host = tls_name or "127.0.0.1"
    ftp.auth()
    if after:
        ftp.sendcmd("HOST " + after)
    ftp.login()
    ftp.prot_p()
    got = io.BytesIO()
    ftp.host = tls_name or "127.0.0.1"
    ftp.retrbinary("RETR whose", got.write)
    ftp.quit()
    return got.getvalue()

def fails(*words, **more):
    try:
        session(*words, **more)
    except (ssl.SSLError, ftplib.error_perm, EOFError, ConnectionError) as error:
        return str(error)
    raise AssertionError(words)

assert session(None) == b"ours"
assert session("ftp.example.org") == b"org"
assert session("ftp.example.org", after="ftp.example.org") == b"org"
assert session("ftp.example.org", before="ftp.example.org") == b"org"
assert session(None, before="ftp.example.org") == b"org"
assert session(None, after="example.org") == b"org"
assert session("elsewhere.example") == b"ours"
assert "504" in fails("ftp.example.org", after="localhost")
fails("localhost", before="ftp.example.org")
fails("ftp.example.org", before="localhost")
fails("ftp.example.org", before="127.0.0.1")
print("all is well")
"#;

#[test]
#[ignore = "needs Python"]
fn host_and_tls_agree_whichever_comes_first() {
    let desk = Desk::new();
    let server = with_hosts(&desk);
    let words = ["-c", NAMED, &server.port.to_string(), "org.pem"];
    let said = desk.runs("python3", &words, "");
    assert!(said.contains("all is well"), "{said}");
}

fn check(desk: &Desk, text: &str) -> (bool, String) {
    let configuration = desk.here("serve.toml");
    fs::write(&configuration, text).unwrap();
    let words = ["serve", "--check", "--config", configuration.to_str().unwrap()];
    let Output { status, stdout, stderr } = desk.tries(PLUMB, &words, "");
    let said = [stdout, stderr].concat();
    (status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn a_configuration_is_looked_at_without_serving() {
    let desk = Desk::new();
    let root = desk.there("").display().to_string();
    let good = format!("[ftp]\nroot = \"{root}\"\n[tftp]\nroot = \"{root}\"\n");
    let (is_good, said) = check(&desk, &good);
    assert!(is_good && said.contains("configuration OK"), "{said}");
    let (is_good, said) = check(&desk, &format!("{good}[ftp.folders]\n\"/in\" = []\n"));
    assert!(is_good && said.contains("'/in', which is not a directory"), "{said}");
    for (text, why) in [
        (format!("[ftp]\nrot = \"{root}\"\n"), "did you mean 'root'?"),
        (
            "[ftp]\nroot = \"/no/such/folder\"\n".to_owned(),
            "cannot open root directory /no/such/folder",
        ),
        (
            "[tftp]\nroot = \"/no/such/folder\"\n".to_owned(),
            "cannot open root directory /no/such/folder",
        ),
        (
            format!("{good}[tls]\ncertificate = \"/no.pem\"\nkey = \"/no.key\"\n"),
            "cannot read certificate /no.pem",
        ),
        (format!("[ftp]\nroot = \"{root}\"\nrights = \"all\"\n"), "unknown rights 'all'"),
        ("[ftp]\nusers = \"/no/users\"\n".to_owned(), "cannot read user file /no/users"),
    ] {
        let (is_good, said) = check(&desk, &text);
        assert!(!is_good && said.contains(why), "{text}{said}");
    }
    assert!(!desk.0.join("state").exists());
}

#[test]
fn a_bad_file_that_is_read_again_changes_nothing_and_the_log_says_why() {
    let desk = Desk::new();
    let mut server = Server::configured(&desk, "rights = \"writable\"\n", &[]);
    let configuration = desk.here("serve.toml");
    let mut line = Line::logged_in(&server);
    fs::write(&configuration, "[ftp]\nrigths = \"read-only\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    let said = server.says("configuration not reloaded");
    assert!(said.contains("invalid configuration file"), "{said}");
    server.says("did you mean 'rights'?");
    fs::write(&configuration, "[ftp]\nmail-spool = \"/no/such/folder\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.says("cannot open mail spool /no/such/folder");
    assert_eq!((line.says("MKD a"), Line::logged_in(&server).says("MKD b")), (257, 257));
}
