//! An FTP server that does something oddly: for each way in which servers differ from what a user
//! may expect, one quirk.

mod data;
mod wire;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::set_socket_oobinline;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use wire::{Certificate, Wire};

/// What one server does oddly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quirk {
    /// A command is answered so, and not obeyed; an empty text is no answer.
    On(&'static str, &'static str),
    /// The same, the first time only.
    Once(&'static str, &'static str),
    /// The greeting; `421` ends the session.
    Greeting(&'static str),
    /// The greeting of the first session only.
    FirstGreeting(&'static str),
    /// The answer to EPSV or PASV, with %P or %H,%L for its port.
    Passive(&'static str, &'static str),
    /// Nobody listens at the port that is told for EPSV or PASV.
    NobodyAt(&'static str),
    /// What is said when data begins; nothing if empty.
    Begins(&'static str),
    /// What is said when data has ended; nothing if empty.
    Ends(&'static str),
    /// The last reply comes before the data.
    EndsBeforeData,
    /// Both replies of a transfer come in one segment.
    BothAtOnce,
    /// Replies come a byte at a time.
    Bytewise,
    /// The lines of replies end with LF alone.
    LineFeeds,
    /// REST is agreed to, and forgotten.
    ForgetsRest,
    /// The first transfer does not go on behind so many bytes.
    Cut(usize, Cut),
    /// No transfer goes on behind so many bytes.
    CutBeyond(usize, Cut),
    /// A file goes out in pieces of so many bytes, so many milliseconds before each.
    Paced(usize, i64),
    /// There are no paths: only what is in the folder has a name.
    NoPaths,
    /// SIZE is refused in TYPE A.
    SizeOfImages,
    /// What FEAT tells.
    Features(&'static str),
    /// What LIST sends.
    Listing(&'static str),
    /// What LIST sends with `-a`; it stands before the listing without.
    Hidden(&'static str),
    /// What LIST sends of this directory.
    ListingOf(&'static str, &'static str),
    /// LIST takes its argument for a pattern: `d[1]` lists `d1`.
    Globs,
    /// What MLSD sends.
    Facts(&'static str),
    /// There is TLS, by AUTH.
    Tls,
    /// There is TLS from the first byte on.
    ImplicitTls,
    /// TLS on data ends without saying so.
    NoFarewell,
    /// Data must resume a session.
    MustResume,
    /// PBSZ and PROT are only known behind the login.
    ProtectsLater,
    /// EPSV and PASV want PRET first.
    WantsPret,
    /// A 255 is one byte of a name, and never doubled.
    NoTelnet,
    /// The data of a command is this text, again and again, until the client closes.
    Endless(&'static str, &'static str),
    /// One session at a time: another one is told 421, and a session that has said 421 stays open
    /// until the client closes it.
    OneSession,
}

/// Returns whether the client has closed its end of this connection.
fn has_closed(stream: &TcpStream) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
}

/// How a transfer ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection is closed, and the reply says that all is well.
    Closed,
    /// It is closed, and the reply says so (426).
    Told,
    /// It is reset, and the reply says that all is well.
    Reset,
    /// Nothing more comes.
    Stalled,
    /// The control connection goes with it.
    WithControl,
    /// The disk is full (552).
    DiskFull,
}

/// A server that runs until the test has ended.
pub(crate) struct Odd {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

/// What the sessions of a server have in common.
struct Shared {
    quirks: &'static [Quirk],
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Which quirks have had their one time.
    used: Mutex<Vec<Quirk>>,
    /// The commands that came, in their order.
    heard: Mutex<Vec<String>>,
    certificate: Option<Certificate>,
}

impl Odd {
    /// Starts a server with files.
    pub(crate) fn start(quirks: &'static [Quirk], files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_tls = quirks.iter().any(|quirk| matches!(quirk, Quirk::Tls | Quirk::ImplicitTls));
        let files = files.iter().map(|(name, file)| ((*name).to_owned(), file.clone()));
        let shared = Arc::new(Shared {
            quirks,
            files: Mutex::new(files.collect()),
            used: Mutex::default(),
            heard: Mutex::default(),
            certificate: is_tls.then(Certificate::new),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            let mut callers: Vec<TcpStream> = Vec::new();
            for caller in listener.incoming() {
                let (Ok(caller), shared) = (caller, Arc::clone(&served)) else { return };
                // The order of the client's calls decides, not how soon a session's thread runs.
                let is_alone = callers.iter().all(has_closed);
                if shared.has(Quirk::OneSession) {
                    callers.push(caller.try_clone().unwrap());
                }
                // However a session ends, the next caller is welcome.
                thread::spawn(move || {
                    let session = Session::new(caller, Arc::clone(&shared));
                    _ = session.and_then(|session| session.run(is_alone));
                });
            }
        });
        Self { port, shared }
    }

    /// Returns a file of the server's.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.files.lock().unwrap().get(name).cloned()
    }

    /// Returns the verbs of the commands that came.
    pub(crate) fn heard(&self) -> Vec<String> {
        let heard = self.shared.heard.lock().unwrap();
        let verb = |line: &String| line.split(' ').next().unwrap().to_ascii_uppercase();
        heard.iter().map(verb).collect()
    }

    /// Returns whether a command came, as it is.
    pub(crate) fn has_heard(&self, line: &str) -> bool {
        self.shared.heard.lock().unwrap().iter().any(|heard| heard == line)
    }
}

impl Shared {
    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Returns whether this is the first time of a quirk.
    fn is_first(&self, quirk: Quirk) -> bool {
        let mut used = self.used.lock().unwrap();
        let is_first = !used.contains(&quirk);
        used.push(quirk);
        is_first
    }
}

/// One session.
struct Session {
    shared: Arc<Shared>,
    control: Wire,
    peer: SocketAddr,
    door: Option<TcpListener>,
    active: Option<SocketAddr>,
    offset: usize,
    is_image: bool,
    is_logged_in: bool,
    is_protected: bool,
    is_announced: bool,
    folder: String,
}

impl Session {
    fn new(caller: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        set_socket_oobinline(&caller, true)?;
        caller.set_nodelay(true)?;
        let peer = caller.peer_addr()?;
        let mut control = Wire::Clear(caller);
        if shared.has(Quirk::ImplicitTls) {
            control = control.in_tls(shared.certificate.as_ref())?;
        }
        Ok(Self {
            shared,
            control,
            peer,
            door: None,
            active: None,
            offset: 0,
            is_image: false,
            is_logged_in: false,
            is_protected: false,
            is_announced: false,
            folder: String::new(),
        })
    }

    fn run(mut self, is_alone: bool) -> io::Result<()> {
        let mut greeting = "220 odd";
        for quirk in self.shared.quirks {
            match quirk {
                Quirk::Greeting(text) => greeting = text,
                Quirk::FirstGreeting(text) if self.shared.is_first(*quirk) => greeting = text,
                _ => {}
            }
        }
        if !is_alone && self.shared.has(Quirk::OneSession) {
            self.shared.heard.lock().unwrap().push("a second session".to_owned());
            greeting = "421 one session at a time";
        }
        self.say(greeting)?;
        if greeting.starts_with(['4', '5']) {
            return Ok(());
        }
        while let Some(line) = self.control.line(self.shared.has(Quirk::NoTelnet))? {
            let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let verb = verb.to_ascii_uppercase();
            self.shared.heard.lock().unwrap().push(line.clone());
            match self.oddly(&verb) {
                Some(text) => {
                    self.say(text)?;
                    if text.starts_with("421") {
                        while self.shared.has(Quirk::OneSession)
                            && self.control.line(false)?.is_some()
                        {}
                        return Ok(());
                    }
                }
                None if verb == "QUIT" => return self.say("221 bye"),
                None => self.obey(&verb, argument)?,
            }
        }
        Ok(())
    }

    /// Returns what is said to a command instead of obeying it.
    fn oddly(&self, verb: &str) -> Option<&'static str> {
        self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::On(known, text) if *known == verb => Some(*text),
            Quirk::Once(known, text) if *known == verb && self.shared.is_first(*quirk) => {
                Some(*text)
            }
            _ => None,
        })
    }

    /// Says a reply, whose lines have LF between them.
    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let end = if self.shared.has(Quirk::LineFeeds) { "\n" } else { "\r\n" };
        let text = format!("{}{end}", text.replace('\n', end));
        if !self.shared.has(Quirk::Bytewise) {
            return self.control.write_all(text.as_bytes());
        }
        for byte in text.as_bytes() {
            self.control.write_all(&[*byte])?;
        }
        Ok(())
    }

    fn obey(&mut self, verb: &str, argument: &str) -> io::Result<()> {
        match verb {
            "USER" => self.say("331 and the password"),
            "PASS" | "ACCT" => {
                self.is_logged_in = true;
                self.say("230 in")
            }
            "FEAT" => self.tell_features(),
            "TYPE" => {
                self.is_image = argument.starts_with('I');
                self.say("200 so be it")
            }
            "OPTS" | "MODE" | "STRU" | "NOOP" | "ALLO" => self.say("200 so be it"),
            "PRET" => {
                self.is_announced = true;
                self.say("200 expected")
            }
            "AUTH" if self.shared.has(Quirk::Tls) => {
                self.say("234 begin")?;
                let clear = std::mem::replace(&mut self.control, Wire::Gone);
                self.control = clear.in_tls(self.shared.certificate.as_ref())?;
                Ok(())
            }
            "PBSZ" | "PROT" if !self.is_logged_in && self.shared.has(Quirk::ProtectsLater) => {
                self.say("503 log in first")
            }
            "PBSZ" => self.say("200 PBSZ=0"),
            "PROT" => {
                self.is_protected = argument == "P";
                self.say("200 so be it")
            }
            "CWD" => {
                let path = self.path_of(argument);
                let is_there =
                    self.shared.files.lock().unwrap().keys().any(|name| {
                        name.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'))
                    });
                let is_own = matches!(argument, "." | "/");
                if !is_there && !is_own || self.is_too_far(argument) {
                    return self.say("550 no such folder");
                }
                self.folder = if is_own { String::new() } else { path };
                self.say("250 there")
            }
            "PWD" => {
                let folder = format!("257 \"/{}\"", self.folder);
                self.say(&folder)
            }
            "EPSV" | "PASV" => self.passive(verb),
            "EPRT" | "PORT" => self.port(argument),
            "REST" => {
                let is_forgotten = self.shared.has(Quirk::ForgetsRest);
                self.offset = if is_forgotten { 0 } else { argument.parse().unwrap_or(0) };
                self.say("350 go on")
            }
            _ => self.obey_about_files(verb, argument),
        }
    }

    fn tell_features(&mut self) -> io::Result<()> {
        let told = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Features(text) => Some(*text),
            _ => None,
        });
        let told = told.unwrap_or(" SIZE\n MDTM\n REST STREAM\n UTF8");
        self.say(&format!("211-these\n{told}\n211 end"))
    }

    /// Returns whether a name is more than this server can follow.
    fn is_too_far(&self, name: &str) -> bool {
        self.shared.has(Quirk::NoPaths) && name.len() > 1 && name.contains('/')
    }

    fn path_of(&self, name: &str) -> String {
        match name.strip_prefix('/') {
            Some(absolute) => absolute.to_owned(),
            None if self.folder.is_empty() => name.to_owned(),
            None => format!("{}/{name}", self.folder),
        }
    }

    fn passive(&mut self, verb: &str) -> io::Result<()> {
        if self.shared.has(Quirk::WantsPret) && !self.is_announced {
            return self.say("500 You need to use a client supporting PRET");
        }
        let door = TcpListener::bind("127.0.0.1:0")?;
        let port = door.local_addr()?.port();
        self.door = Some(door);
        if self
            .shared
            .quirks
            .iter()
            .any(|quirk| matches!(quirk, Quirk::NobodyAt(it) if *it == verb))
        {
            self.door = None;
        }
        let odd = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Passive(known, text) if *known == verb => Some(*text),
            _ => None,
        });
        let text = odd.unwrap_or(match verb {
            "EPSV" => "229 Entering Extended Passive Mode (|||%P|)",
            _ => "227 Entering Passive Mode (127,0,0,1,%H,%L)",
        });
        let [high, low] = port.to_be_bytes();
        let text = text.replace("%P", &port.to_string());
        let text = text.replace("%H", &high.to_string()).replace("%L", &low.to_string());
        self.say(&text)
    }

    fn port(&mut self, argument: &str) -> io::Result<()> {
        let number = |text: &str| text.parse::<u16>().ok();
        let port = match argument.strip_prefix("|1|") {
            Some(rest) => rest.split('|').nth(1).and_then(number),
            None => {
                let numbers: Vec<_> = argument.split(',').filter_map(number).collect();
                numbers.get(4).zip(numbers.get(5)).map(|(high, low)| high * 256 + low)
            }
        };
        let Some(port) = port else { return self.say("501 what?") };
        self.active = Some(SocketAddr::new(self.peer.ip(), port));
        self.door = None;
        self.say("200 I shall call")
    }
}
