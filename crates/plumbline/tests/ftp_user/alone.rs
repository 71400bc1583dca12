//! Tests without servers of other projects: with plumb's own server, and with one that misbehaves
//! during a transfer.

use crate::login_desk::{Person, within_the_limit};
use crate::odd_ftp::{Cut, Odd, Quirk};
use os::process::Program;
use os::pty::Pty;
use os::tty::WindowSize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A working directory with a subdirectory `there` for a server.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plumb-alone-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("there")).unwrap();
        Self(path)
    }

    pub(crate) fn plumb(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.current_dir(&self.0).env("HOME", &self.0).env("XDG_STATE_HOME", &self.0);
        command.env("XDG_CONFIG_HOME", self.0.join("config")).env("TERM", "xterm");
        command
    }

    pub(crate) fn done(&self, words: &[&str]) {
        let (code, _, said) = self.ran(words);
        assert_eq!(code, Some(0), "{words:?}: {said}");
    }

    /// Runs plumb, and returns its exit code, standard output and standard error.
    pub(crate) fn ran(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Runs the interactive client with `lines` as input, and returns its standard output and
    /// standard error.
    pub(crate) fn types(&self, url: &str, lines: &str) -> (String, String) {
        let mut command = self.plumb();
        command.args(["ftp", url]).stdin(Stdio::piped());
        let mut shell = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }

    /// Starts plumb's server with `lines` in its table `[ftp]`, and returns it with its URL.
    pub(crate) fn serve(&self, lines: &str) -> (Program, String) {
        let configuration = self.0.join("serve.toml");
        fs::write(&configuration, format!("[ftp]\nrights = \"writable\"\n{lines}")).unwrap();
        let mut command = self.plumb();
        command.args(["serve", "--ftp", "--ftp-listen", "127.0.0.1:0", "--root"]);
        command.arg(self.0.join("there")).arg("--config").arg(configuration);
        command.stderr(Stdio::piped());
        let mut server = Program::start(&mut command).unwrap();
        let mut lines = BufReader::new(server.child().stderr.take().unwrap()).lines();
        let place = lines.find_map(|line| {
            let line = line.unwrap();
            let place = line.split("serving FTP at ").nth(1)?;
            Some(place.split(", ").next().unwrap().to_owned())
        });
        // Drains the server's further log lines.
        std::thread::spawn(move || lines.for_each(drop));
        (server, format!("ftp://{}", place.unwrap()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that is left behind does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn words_of_36_bits_come_and_go_in_every_format() {
    let place = Place::new("words");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("text"), "HELLO, WORLD\nTHIS IS TEXT OF 36 BITS.\n").unwrap();
    let there = format!("{url}/words");
    place.done(&["put", "--type", "L 36", "--store", "text", "text", &there]);
    place.done(&["get", "--type", "L36", "--store", "h36", &there, "h36"]);
    for format in ["h36", "c36", "a36", "u36", "data8", "oct", "text"] {
        let (here, again) = (format!("w.{format}"), format!("{url}/again.{format}"));
        place.done(&["get", "--type", "L36", "--store", format, &there, &here]);
        place.done(&["put", "--store", format, &here, &again]);
        let back = format!("back.{format}");
        place.done(&["get", "--store", "h36", &again, &back]);
        assert_eq!(place.read(&back), place.read("h36"), "{format}");
    }
    assert_eq!(place.read("w.text"), place.read("text"));
    assert_eq!(place.read("w.data8").len() / 8, place.read("w.c36").len() / 5);
}

#[test]
fn words_of_other_sizes_come_as_they_went() {
    let place = Place::new("sizes");
    let (_server, url) = place.serve("");
    let bytes: Vec<u8> = (0..7200_u32).map(|at| u8::try_from(at * 7 % 256).unwrap()).collect();
    fs::write(place.0.join("bits"), &bytes).unwrap();
    for size in ["L8", "L16", "L32", "L64", "L 9", "L1"] {
        let (there, back) = (format!("{url}/of-{}", size.replace(' ', "")), format!("b{size}"));
        place.done(&["put", "--type", size, "--store", "h36", "bits", &there]);
        place.done(&["get", "--type", size, "--store", "h36", &there, &back]);
        assert!(place.read(&back) == bytes, "{size}");
    }
}

#[test]
fn a_mail_lies_in_the_mailbox_and_who_has_none_gets_none() {
    let place = Place::new("mail");
    fs::create_dir_all(place.0.join("spool/ann")).unwrap();
    let spool = place.0.join("spool").display().to_string();
    let lines = format!("mail-spool = \"{spool}\"\nmail-from-anonymous = true\n");
    let (_server, url) = place.serve(&lines);
    fs::write(place.0.join("letter"), "dear ann\n.\nbye\n").unwrap();
    place.done(&["mail", "letter", &format!("{url}/ann")]);
    let mails = fs::read_dir(place.0.join("spool/ann/new")).unwrap();
    let texts = mails.map(|mail| fs::read_to_string(mail.unwrap().path()).unwrap());
    let texts: Vec<_> = texts.collect();
    assert!(
        matches!(texts.as_slice(), [text] if text.ends_with("dear ann\n.\nbye\n")),
        "{texts:?}"
    );
    let output = place.plumb().args(["mail", "letter", &format!("{url}/bob")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("cannot mail to 'bob': the server said 550"), "{said}");
}

const STALLS: &[Quirk] = &[Quirk::Cut(30_000, Cut::Stalled)];

#[test]
fn an_interrupt_ends_the_transfer_and_not_the_shell() {
    let place = Place::new("shell");
    let file = vec![7; 100_000];
    let odd = Odd::start(STALLS, &[("file", file.clone())]);
    let mut command = place.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", odd.port)]);
    let mut person = Person::running(command);
    person.sees("plumb ftp>");
    person.types("get file\r");
    within_the_limit(|| odd.heard().iter().any(|verb| verb == "RETR").then_some(()));
    person.types("\x03");
    person.sees("interrupted");
    person.types("get file whole\r");
    person.sees("downloaded '/file': 100,000 bytes");
    assert!(place.read("whole") == file);
    person.types("quit\r");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn the_shell_ends_when_it_is_told_to_at_its_prompt() {
    let place = Place::new("told");
    let odd = Odd::start(&[], &[("file", vec![7; 9])]);
    let mut command = place.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", odd.port)]);
    let mut person = Person::running(command);
    person.sees("plumb ftp>");
    person.is_sent(rustix::process::Signal::TERM);
    assert_eq!(person.leaves().code(), Some(3));
    person.has_a_sane_terminal();
}

#[test]
fn progress_fits_a_terminal_of_40_columns() {
    let place = Place::new("narrow");
    let odd = Odd::start(&[], &[("file", vec![7; 100_000])]);
    let mut command = place.plumb();
    let url = format!("ftp://127.0.0.1:{}/file", odd.port);
    command.args(["get", "--limit-rate", "60K", &url]);
    let pty = Pty::open(WindowSize { rows: 24, columns: 40 }).unwrap().start(command).unwrap();
    let (mut shown, mut room) = (Vec::new(), [0; 4096]);
    within_the_limit(|| match pty.read(&mut room).unwrap() {
        Some(0) => Some(()),
        Some(count) => {
            shown.extend_from_slice(&room[..count]);
            None
        }
        None => None,
    });
    let text = String::from_utf8_lossy(&shown).into_owned();
    let bars: Vec<_> = text.split(['\r', '\n', '\x1b']).filter(|part| part.contains('%')).collect();
    assert!(!bars.is_empty(), "{text:?}");
    let widths = bars.iter().map(|bar| bar.trim_start_matches("[2K").trim_end().chars().count());
    assert!(widths.max().unwrap() <= 40, "{bars:?}");
}

#[test]
fn a_pipe_of_that_name_is_written_and_not_replaced() {
    let place = Place::new("pipe");
    let odd = Odd::start(&[], &[("file", vec![7; 300_000])]);
    let pipe = place.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    place.done(&["get", "-f", &format!("ftp://127.0.0.1:{}/file", odd.port), "pipe"]);
    assert!(reader.join().unwrap() == vec![7; 300_000]);
    assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
}

#[test]
fn where_nobody_listens_it_is_said_at_once_and_not_tried_again() {
    let place = Place::new("nobody");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = place.plumb().args(["get", &format!("ftp://{free}/file")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("refuses") && !said.contains("attempt"), "{said}");
}

#[test]
fn names_with_line_ends_are_left_out_and_whoever_lists_or_mirrors_them_is_told() {
    let place = Place::new("line-ends");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("there/d")).unwrap();
    for name in ["d/plain", "d/a\nb", "d/a\rb", "d/bell\x07"] {
        fs::write(place.0.join("there").join(name), name).unwrap();
    }
    let run = |words: &[&str]| {
        let output = place.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (code, shown, said) = run(&["ls", &format!("{url}/d/")]);
    assert_eq!((code, shown.as_str()), (Some(0), "bell?\nplain\n"));
    assert!(said.contains("skipped 2 names of 'd/' on the server"), "{said}");
    // A local file with such a name may have a counterpart on the server, so it is not deleted.
    fs::create_dir(place.0.join("copy")).unwrap();
    for name in ["copy/a\nb", "copy/old"] {
        fs::write(place.0.join(name), "x").unwrap();
    }
    let from = format!("{url}/d");
    let (code, _, said) = run(&["mirror", "--delete", &from, "copy"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("2 names of 'd' on") && said.contains("1 name in the local"), "{said}");
    assert!(said.contains("skipped 'bell\\x07': it is not a valid local name"), "{said}");
    assert!(said.ends_with("plumb: 4 names were skipped, see above\n"), "{said}");
    assert_eq!(place.read("copy/plain"), b"d/plain");
    assert!(place.0.join("copy/a\nb").exists() && !place.0.join("copy/old").exists());
    let (code, _, said) = run(&["mirror", "copy", &format!("{url}/back")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("plumb: 1 name was skipped, see above\n"), "{said}");
    assert_eq!(place.read("there/back/plain"), b"d/plain");
    assert!(!place.0.join("there/back/a\nb").exists());
}

/// Starts plumb and waits until the server has started the transfer (150).
fn begun(place: &Place, words: &[&str]) -> (Program, std::sync::mpsc::Receiver<String>) {
    let mut command = place.plumb();
    command.args(words).arg("--verbose").stdin(Stdio::null()).stderr(Stdio::piped());
    let mut program = Program::start(&mut command).unwrap();
    let mut lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("plumb: < 150")));
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| _ = sender.send(line.unwrap())));
    (program, said)
}

/// Sends SIGINT, and returns the exit code and the messages printed afterwards.
fn interrupted(
    (mut program, said): (Program, std::sync::mpsc::Receiver<String>),
) -> (Option<i32>, Vec<String>) {
    program.signal(rustix::process::Signal::INT).unwrap();
    let ended = within_the_limit(|| program.has_ended().unwrap());
    let said = said.iter().filter(|line| !line.starts_with("plumb: <")).collect();
    (ended.code(), said)
}

/// Waits until a file that plumb writes below this directory, under any name, has `len` bytes.
fn grows(place: &Place, program: &Program, len: u64) {
    let folder = format!("/proc/{}/fd", program.id());
    let is_here = |path: &Path| {
        // Excludes libraries, which are open during startup, and plumb's own state directory.
        let real = fs::read_link(path).unwrap_or_default();
        real.starts_with(&place.0) && !real.starts_with(place.0.join("plumb"))
    };
    within_the_limit(|| {
        let files = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        let mut files =
            files.filter(|path| is_here(path)).filter_map(|path| fs::metadata(path).ok());
        files.any(|about| about.is_file() && about.len() >= len).then_some(())
    });
}

#[test]
fn an_interrupted_upload_leaves_the_old_file_whoever_waits_for_whom() {
    let place = Place::new("interrupted");
    fs::write(place.0.join("up"), vec![7; 30_000_000]).unwrap();
    // Once the client's own rate limit causes the waits, and once a slow server does.
    for (limit, lines) in [("500K", ""), ("900M", "bytes-per-second-max = 500000\n")] {
        let (_server, url) = place.serve(lines);
        fs::write(place.0.join("there/up"), "old").unwrap();
        let put = begun(&place, &["put", "--limit-rate", limit, "up", &format!("{url}/up")]);
        let (code, said) = interrupted(put);
        assert_eq!((code, said), (Some(3), vec!["plumb: interrupted".to_owned()]));
        assert_eq!(place.read("there/up"), b"old", "{limit}");
    }
}

#[test]
fn an_interrupted_download_says_what_it_keeps_and_goes_on_with_it() {
    let place = Place::new("kept");
    let (_server, url) = place.serve("");
    let file: Vec<u8> = (0..30_000_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    fs::write(place.0.join("there/file"), &file).unwrap();
    let from = format!("{url}/file");
    let get = begun(&place, &["get", "--limit-rate", "2M", &from]);
    grows(&place, &get.0, 100_000);
    let (code, said) = interrupted(get);
    assert_eq!((code, said.len()), (Some(3), 2), "{said:?}");
    assert!(said[0].contains(" bytes of 'file' in 'file.part'"), "{said:?}");
    assert_eq!(said[1], "plumb: interrupted");
    let kept = place.read("file.part").len();
    let output = place.plumb().args(["get", "--continue", &from]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(place.read("file") == file && !place.0.join("file.part").exists(), "{told}");
    let rest = records::figures::count(u64::try_from(file.len() - kept + 4096).unwrap());
    assert!(told.contains(&format!("downloaded 'file': {rest} bytes")), "{told}");
}

#[test]
fn an_interrupted_mirror_is_said_once_and_the_next_one_goes_on() {
    let place = Place::new("mirror-again");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("there/d")).unwrap();
    let file = vec![7; 20_000_000];
    for name in ["a", "b"] {
        fs::write(place.0.join("there/d").join(name), &file).unwrap();
    }
    let from = format!("{url}/d");
    let mut command = place.plumb();
    command.args(["mirror", "--limit-rate", "2M", &from, "here"]).stderr(Stdio::piped());
    let mut mirror = Program::start(&mut command).unwrap();
    grows(&place, &mirror, 100_000);
    mirror.signal(rustix::process::Signal::INT).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut mirror.child().stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said.matches("interrupted").count(), 1, "{said}");
    assert!(place.0.join("here/a.part").exists(), "{said}");
    let output = place.plumb().args(["mirror", "--delete", &from, "here"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("mirrored 2 files") && !told.contains("40,000,000"), "{told}");
    assert!(place.read("here/a") == file && place.read("here/b") == file);
    assert!(!place.0.join("here/a.part").exists());
}

#[test]
fn who_has_seen_enough_of_a_file_needs_no_sentence() {
    let place = Place::new("enough");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/file"), vec![b'\n'; 10_000_000]).unwrap();
    let mut command = place.plumb();
    command.args(["cat", &format!("{url}/file")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut cat = Program::start(&mut command).unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(&mut cat.child().stdout.take().unwrap(), &mut byte).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut cat.child().stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn names_in_other_letters_are_told_as_they_are_and_odd_ones_are_listed_and_removed() {
    let place = Place::new("letters");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("there/d")).unwrap();
    for name in ["d/grün", "d/-dash", "d/c:colon", "d/back\\slash"] {
        fs::write(place.0.join("there").join(name), "x").unwrap();
    }
    let run = |words: &[&str]| {
        let output = place.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (_, shown, _) = run(&["ls", &format!("{url}/d")]);
    assert_eq!(shown, "-dash\nback\\slash\nc:colon\ngrün\n");
    let (code, _, said) = run(&["get", "-r", &format!("{url}/d")]);
    assert_eq!(code, Some(1));
    assert!(said.contains("skipped 3 names that are not valid local names"), "{said}");
    assert_eq!(place.read("d/grün"), b"x");
    let (_, _, said) = run(&["get", &format!("{url}/d/grün")]);
    assert!(said.contains("downloaded 'd/grün': 1 bytes"), "{said}");
    assert_eq!(run(&["rm", "-r", &format!("{url}/d")]).0, Some(0));
    assert!(!place.0.join("there/d").exists());
    let (code, _, said) = run(&["ls", &format!("{url}/no*")]);
    assert_eq!((code, said.as_str()), (Some(1), "plumb: nothing on the server matches 'no*'\n"));
}

#[test]
fn the_shell_says_what_is_wrong_with_a_command_that_it_knows() {
    let place = Place::new("arity");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("there/d")).unwrap();
    let (_, said) = place.types(&url, "get\nfrobnicate\nmkdir d\nget no*\ngte a\nquit\n");
    let said: Vec<_> = said.lines().collect();
    let usage = "plumb: wrong arguments for 'get', usage: get [-cf] NAME [LOCAL]";
    assert_eq!(said[0], usage, "{said:?}");
    assert_eq!(said[1], "plumb: unknown command: 'help' lists all");
    assert_eq!(said[4], "plumb: unknown command 'gte': did you mean 'get'?");
    assert!(said[2].contains("cannot create the directory '/d': the server said 550"), "{said:?}");
    assert_eq!(said[3], "plumb: nothing on the server matches 'no*'");
}
