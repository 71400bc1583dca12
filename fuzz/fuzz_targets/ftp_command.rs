//! Input: arbitrary bytes as the input of an FTP server's control connection. Checked: split or
//! whole, they cause the same replies, no command contains a line end, and replies stay within
//! their limit.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use protocols::ftp::server::{
    Account, FileError, LoginAnswer, Outcome, Rights, Server, ServerEvent, ServerSettings,
};
use protocols::ftp::{Command, Reply, ReplyReader, VirtualPath};
use std::net::{Ipv4Addr, SocketAddr};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    for line in input.split(|&byte| byte == b'\n') {
        _ = Command::parse(line);
    }
    let cut = input.first().map_or(1, |&byte| usize::from(byte % 32) + 1);
    assert_eq!(replies(input, input.len().max(1)), replies(input, cut));
});

/// Returns the server's replies. Refusals of Telnet options may be interleaved anywhere with them.
/// The server accepts every login and performs every request, except that opening a file fails.
fn replies(input: &[u8], cut: usize) -> Vec<Reply> {
    let mut bench = Bench::default();
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let settings = ServerSettings { accepts_mail: true, ..ServerSettings::default() };
    let mut server = Server::new(settings, address(21), address(40_000), &bench.cx());
    let mut reply_bytes = Vec::new();
    for mut piece in input.chunks(cut) {
        loop {
            let before = piece.len();
            server.receive(&mut piece, &mut bench.cx());
            while let Some(event) = server.event() {
                answer(&mut server, event, &mut bench);
            }
            reply_bytes.extend_from_slice(server.output());
            server.sent(server.output().len());
            if piece.is_empty() || piece.len() == before {
                break;
            }
        }
    }
    let mut reader = ReplyReader::default();
    let mut rest = &reply_bytes[..];
    let mut replies = Vec::new();
    while let Ok(Some(reply)) = reader.next(&mut rest, &mut bench.cx()) {
        replies.push(reply);
    }
    replies
}

fn answer(server: &mut Server, event: ServerEvent, bench: &mut Bench) {
    let cx = &mut bench.cx();
    match event {
        ServerEvent::Authenticate(_) => {
            let account = Account { rights: Rights::ALL, home: VirtualPath::root() };
            server.login(LoginAnswer::Accepted(account), cx);
        }
        ServerEvent::Listen(_) => server.on_listening(None, cx),
        ServerEvent::Open(transfer) => server.on_opened(transfer.id, Err(FileError::NotFound), cx),
        ServerEvent::Perform(_) => server.on_performed(Ok(Outcome::Done), cx),
        _ => {}
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 6] = [
        b"USER ann\r\nPASS x\r\nPWD\r\nMKD a\"b\r\nRNFR a\r\nRNTO b\r\nFEAT\r\n",
        b"USER a\nPASS\nPORT 127,0,0,1,100,1\nEPRT |1|127.0.0.1|30000|\nEPSV ALL\nPASV\n",
        b"USER a\nPASS\nTYPE L 36\nSTRU P\nMODE Z\nRETR x\nLIST -la *.c\nMLSD\nABOR\n",
        b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0NOOP\r\n\xff\xf4\xff\xf2ABOR\r\n\xf2STAT\r\n",
        b"USER a\nPASS\nMFF Modify=20200101000000;UNIX.mode=600; x\nXCRC \"a b\" 1 2\nCOMB a b c\n",
        b"USER a\nPASS\nMAIL ann\nhello\n.\nSITE CHMOD 600 x\nOPTS MLST size;type;\nSTAT x\n",
    ];
    texts.map(<[u8]>::to_vec).into()
}
