//! A faulty FTP server. Each [`Quirk`] is one way in which a server differs from a client's
//! expectations.

mod control_stream;
mod data;

use control_stream::{Certificate, ControlStream};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::set_socket_oobinline;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A deviation from the usual behavior of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quirk {
    /// A command is answered with this text and not executed; an empty text means no answer.
    ReplyTo(&'static str, &'static str),
    /// Like `ReplyTo`, but only for the first command with this name.
    FirstReplyTo(&'static str, &'static str),
    /// Text of the greeting; `421` ends the session.
    Greeting(&'static str),
    /// Text of the greeting of the first session only.
    FirstGreeting(&'static str),
    /// Text of the reply to EPSV or PASV. `%P` stands for the port, and `%H,%L` for its high and
    /// low byte.
    Passive(&'static str, &'static str),
    /// EPSV or PASV announces a port on which nothing listens.
    ClosedPort(&'static str),
    /// Reply at the start of a transfer; no reply if empty.
    StartReply(&'static str),
    /// Reply at the end of a transfer; no reply if empty.
    EndReply(&'static str),
    /// The final reply is sent before the data.
    FinalReplyBeforeData,
    /// Both replies of a transfer are sent in one segment.
    RepliesInOneSegment,
    /// Replies are sent one byte at a time.
    Bytewise,
    /// Lines of replies end with LF only.
    LineFeeds,
    /// REST is accepted and ignored.
    IgnoresRest,
    /// The first transfer stops after this many bytes.
    Cut(usize, Cut),
    /// Every transfer stops after this many bytes.
    CutBeyond(usize, Cut),
    /// A file is sent in pieces of this many bytes, with a pause of this many milliseconds before
    /// each.
    Paced(usize, i64),
    /// Paths are not supported: only names in the current directory exist.
    NoPaths,
    /// SIZE is refused in TYPE A.
    SizeOfImages,
    /// Reply to FEAT.
    Features(&'static str),
    /// Output of LIST.
    Listing(&'static str),
    /// Lines that `LIST -a` sends before the output of LIST.
    Hidden(&'static str),
    /// Output of LIST for this directory.
    ListingOf(&'static str, &'static str),
    /// LIST treats its argument as a pattern: `d[1]` lists `d1`.
    Globs,
    /// Output of MLSD.
    Facts(&'static str),
    /// The server supports AUTH TLS.
    Tls,
    /// The server uses implicit TLS.
    ImplicitTls,
    /// TLS data connections end without close_notify.
    NoCloseNotify,
    /// Data connections must resume a TLS session.
    RequiresTlsResumption,
    /// PBSZ and PROT are accepted only after the login.
    ProtectionAfterLogin,
    /// EPSV and PASV require PRET first.
    RequiresPret,
    /// A byte 255 in a name is sent once, not doubled as Telnet requires.
    NoTelnet,
    /// The data of a command is this text, repeated until the client closes.
    Endless(&'static str, &'static str),
    /// Only one session at a time; a second session gets 421. A session that got 421 stays open
    /// until the client closes it.
    OneSession,
}

/// Returns whether the client has closed its end of this connection.
fn has_closed(stream: &TcpStream) -> bool {
    let mut poll_fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut poll_fds, Some(&now)).unwrap() > 0
}

/// Way in which a transfer ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The data connection is closed, and the reply reports success.
    Closed,
    /// The data connection is closed, and the reply reports an aborted transfer (426).
    ReportedAborted,
    /// The data connection is reset, and the reply reports success.
    Reset,
    /// The server sends nothing more.
    Stalled,
    /// The data connection is closed and the control connection is reset.
    WithControl,
    /// The data connection is closed, and the reply reports a full disk (552).
    DiskFull,
}

/// A server that runs until the test has ended.
pub(crate) struct FaultyFtpServer {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

/// State shared by the sessions of a server.
struct Shared {
    quirks: &'static [Quirk],
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Quirks that apply only once and have been used.
    used_quirks: Mutex<Vec<Quirk>>,
    /// Received commands, in order.
    received: Mutex<Vec<String>>,
    certificate: Option<Certificate>,
}

impl FaultyFtpServer {
    /// Starts a server with files.
    pub(crate) fn start(quirks: &'static [Quirk], files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_tls = quirks.iter().any(|quirk| matches!(quirk, Quirk::Tls | Quirk::ImplicitTls));
        let files = files.iter().map(|(name, file)| ((*name).to_owned(), file.clone()));
        let shared = Arc::new(Shared {
            quirks,
            files: Mutex::new(files.collect()),
            used_quirks: Mutex::default(),
            received: Mutex::default(),
            certificate: is_tls.then(Certificate::new),
        });
        let server_shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut control_connections: Vec<TcpStream> = Vec::new();
            for client in listener.incoming() {
                let (Ok(client), shared) = (client, Arc::clone(&server_shared)) else { return };
                // Evaluated before the thread of the session starts, so that the result depends on
                // the order of the client's connections and not on thread scheduling.
                let is_only_session = control_connections.iter().all(has_closed);
                if shared.has(Quirk::OneSession) {
                    control_connections.push(client.try_clone().unwrap());
                }
                // An error that ends a session does not affect later ones.
                thread::spawn(move || {
                    let session = Session::new(client, Arc::clone(&shared));
                    _ = session.and_then(|session| session.run(is_only_session));
                });
            }
        });
        Self { port, shared }
    }

    /// Returns the contents of a file on the server.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.files.lock().unwrap().get(name).cloned()
    }

    /// Returns the verbs of the received commands.
    pub(crate) fn received(&self) -> Vec<String> {
        let received = self.shared.received.lock().unwrap();
        let verb = |line: &String| line.split(' ').next().unwrap().to_ascii_uppercase();
        received.iter().map(verb).collect()
    }

    /// Returns whether this exact command line was received.
    pub(crate) fn has_received(&self, line: &str) -> bool {
        self.shared.received.lock().unwrap().iter().any(|received| received == line)
    }
}

impl Shared {
    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Returns whether a quirk is used for the first time, and marks it as used.
    fn is_first(&self, quirk: Quirk) -> bool {
        let mut used_quirks = self.used_quirks.lock().unwrap();
        let is_first = !used_quirks.contains(&quirk);
        used_quirks.push(quirk);
        is_first
    }
}

struct Session {
    shared: Arc<Shared>,
    control: ControlStream,
    peer: SocketAddr,
    passive_listener: Option<TcpListener>,
    active: Option<SocketAddr>,
    offset: usize,
    is_image: bool,
    is_logged_in: bool,
    is_protected: bool,
    is_announced: bool,
    directory: String,
}

impl Session {
    fn new(client: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        set_socket_oobinline(&client, true)?;
        client.set_nodelay(true)?;
        let peer = client.peer_addr()?;
        let mut control = ControlStream::Clear(client);
        if shared.has(Quirk::ImplicitTls) {
            control = control.in_tls(shared.certificate.as_ref())?;
        }
        Ok(Self {
            shared,
            control,
            peer,
            passive_listener: None,
            active: None,
            offset: 0,
            is_image: false,
            is_logged_in: false,
            is_protected: false,
            is_announced: false,
            directory: String::new(),
        })
    }

    fn run(mut self, is_only_session: bool) -> io::Result<()> {
        let mut greeting = "220 odd";
        for quirk in self.shared.quirks {
            match quirk {
                Quirk::Greeting(text) => greeting = text,
                Quirk::FirstGreeting(text) if self.shared.is_first(*quirk) => greeting = text,
                _ => {}
            }
        }
        if !is_only_session && self.shared.has(Quirk::OneSession) {
            self.shared.received.lock().unwrap().push("a second session".to_owned());
            greeting = "421 one session at a time";
        }
        self.send_reply(greeting)?;
        if greeting.starts_with(['4', '5']) {
            return Ok(());
        }
        while let Some(line) = self.control.line(self.shared.has(Quirk::NoTelnet))? {
            let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let verb = verb.to_ascii_uppercase();
            self.shared.received.lock().unwrap().push(line.clone());
            match self.replacement_reply(&verb) {
                Some(text) => {
                    self.send_reply(text)?;
                    if text.starts_with("421") {
                        while self.shared.has(Quirk::OneSession)
                            && self.control.line(false)?.is_some()
                        {}
                        return Ok(());
                    }
                }
                None if verb == "QUIT" => return self.send_reply("221 bye"),
                None => self.execute(&verb, argument)?,
            }
        }
        Ok(())
    }

    /// Returns the reply that replaces the execution of a command.
    fn replacement_reply(&self, verb: &str) -> Option<&'static str> {
        self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::ReplyTo(known, text) if *known == verb => Some(*text),
            Quirk::FirstReplyTo(known, text) if *known == verb && self.shared.is_first(*quirk) => {
                Some(*text)
            }
            _ => None,
        })
    }

    /// Sends a reply. In `text`, `\n` separates the lines of the reply.
    fn send_reply(&mut self, text: &str) -> io::Result<()> {
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

    fn execute(&mut self, verb: &str, argument: &str) -> io::Result<()> {
        match verb {
            "USER" => self.send_reply("331 and the password"),
            "PASS" | "ACCT" => {
                self.is_logged_in = true;
                self.send_reply("230 in")
            }
            "FEAT" => self.send_features(),
            "TYPE" => {
                self.is_image = argument.starts_with('I');
                self.send_reply("200 so be it")
            }
            "OPTS" | "MODE" | "STRU" | "NOOP" | "ALLO" => self.send_reply("200 so be it"),
            "PRET" => {
                self.is_announced = true;
                self.send_reply("200 expected")
            }
            "AUTH" if self.shared.has(Quirk::Tls) => {
                self.send_reply("234 begin")?;
                let clear = std::mem::replace(&mut self.control, ControlStream::Gone);
                self.control = clear.in_tls(self.shared.certificate.as_ref())?;
                Ok(())
            }
            "PBSZ" | "PROT"
                if !self.is_logged_in && self.shared.has(Quirk::ProtectionAfterLogin) =>
            {
                self.send_reply("503 log in first")
            }
            "PBSZ" => self.send_reply("200 PBSZ=0"),
            "PROT" => {
                self.is_protected = argument == "P";
                self.send_reply("200 so be it")
            }
            "CWD" => {
                let path = self.path_of(argument);
                let is_existing_directory =
                    self.shared.files.lock().unwrap().keys().any(|name| {
                        name.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'))
                    });
                let is_root_or_current = matches!(argument, "." | "/");
                if !is_existing_directory && !is_root_or_current
                    || self.is_unsupported_path(argument)
                {
                    return self.send_reply("550 no such folder");
                }
                self.directory = if is_root_or_current { String::new() } else { path };
                self.send_reply("250 there")
            }
            "PWD" => {
                let directory = format!("257 \"/{}\"", self.directory);
                self.send_reply(&directory)
            }
            "EPSV" | "PASV" => self.passive(verb),
            "EPRT" | "PORT" => self.port(argument),
            "REST" => {
                let is_forgotten = self.shared.has(Quirk::IgnoresRest);
                self.offset = if is_forgotten { 0 } else { argument.parse().unwrap_or(0) };
                self.send_reply("350 go on")
            }
            _ => self.execute_file_command(verb, argument),
        }
    }

    fn send_features(&mut self) -> io::Result<()> {
        let features = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Features(text) => Some(*text),
            _ => None,
        });
        let features = features.unwrap_or(" SIZE\n MDTM\n REST STREAM\n UTF8");
        self.send_reply(&format!("211-these\n{features}\n211 end"))
    }

    /// Returns whether the server does not support the name because it is a path.
    fn is_unsupported_path(&self, name: &str) -> bool {
        self.shared.has(Quirk::NoPaths) && name.len() > 1 && name.contains('/')
    }

    fn path_of(&self, name: &str) -> String {
        match name.strip_prefix('/') {
            Some(absolute) => absolute.to_owned(),
            None if self.directory.is_empty() => name.to_owned(),
            None => format!("{}/{name}", self.directory),
        }
    }

    fn passive(&mut self, verb: &str) -> io::Result<()> {
        if self.shared.has(Quirk::RequiresPret) && !self.is_announced {
            return self.send_reply("500 You need to use a client supporting PRET");
        }
        let passive_listener = TcpListener::bind("127.0.0.1:0")?;
        let port = passive_listener.local_addr()?.port();
        self.passive_listener = Some(passive_listener);
        if self
            .shared
            .quirks
            .iter()
            .any(|quirk| matches!(quirk, Quirk::ClosedPort(it) if *it == verb))
        {
            self.passive_listener = None;
        }
        let server = self.shared.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Passive(known, text) if *known == verb => Some(*text),
            _ => None,
        });
        let text = server.unwrap_or(match verb {
            "EPSV" => "229 Entering Extended Passive Mode (|||%P|)",
            _ => "227 Entering Passive Mode (127,0,0,1,%H,%L)",
        });
        let [high, low] = port.to_be_bytes();
        let text = text.replace("%P", &port.to_string());
        let text = text.replace("%H", &high.to_string()).replace("%L", &low.to_string());
        self.send_reply(&text)
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
        let Some(port) = port else { return self.send_reply("501 what?") };
        self.active = Some(SocketAddr::new(self.peer.ip(), port));
        self.passive_listener = None;
        self.send_reply("200 I shall call")
    }
}
