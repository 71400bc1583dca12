//! Input: arbitrary bytes as the replies of an FTP server. Checked: split or whole, the bytes parse
//! to the same replies. A client does not panic, connects only to its server, and displays no
//! control characters.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use protocols::ftp::user::{Features, ListKind, Task, TlsUse, User, UserEvent, UserSettings};
use protocols::ftp::{
    Name, Reply, ReplyError, ReplyReader, Secret, parse_eprt, parse_epsv_reply, parse_lprt,
    parse_pasv_reply, parse_port,
};
use std::net::{Ipv4Addr, SocketAddr};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let cut = input.first().map_or(1, |&byte| usize::from(byte % 32) + 1);
    let whole = parse_replies(input, input.len().max(1));
    assert_eq!(whole, parse_replies(input, cut));
    for reply in whole.unwrap_or_default() {
        assert!(!reply.to_string().chars().any(char::is_control));
        _ = (reply.quoted_name(), reply.number(), reply.timestamp(), reply.entry(), reply.marker());
        _ = (reply.size_in_parentheses(), Features::from_reply(&reply).has("MLST"));
        let text = reply.text();
        _ = (parse_pasv_reply(text), parse_epsv_reply(text), parse_port(text));
        _ = (parse_eprt(text), parse_lprt(text));
    }
    for tls in [TlsUse::Never, TlsUse::IfOffered] {
        session(input, cut, tls);
    }
});

fn parse_replies(input: &[u8], cut: usize) -> Result<Vec<Reply>, ReplyError> {
    let mut bench = Bench::default();
    let mut reader = ReplyReader::default();
    let mut replies = vec![];
    for mut piece in input.chunks(cut) {
        while let Some(reply) = reader.next(&mut piece, &mut bench.cx())? {
            replies.push(reply);
        }
    }
    Ok(replies)
}

fn session(input: &[u8], cut: usize, tls: TlsUse) {
    let mut bench = Bench::default();
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let name = Name::new("ann").expect("a name");
    let settings = UserSettings::new(name.clone(), Secret::new("x").expect("a secret"));
    let settings = UserSettings { tls, may_listen: true, ..settings };
    let mut user = User::new(settings, address(40_000), address(21), &bench.cx());
    for _ in 0..3 {
        for kind in [ListKind::Long, ListKind::Facts] {
            user.run(Task::List(kind, None), &mut bench.cx());
        }
        user.run(Task::Rename { from: name.clone(), to: name.clone() }, &mut bench.cx());
    }
    for piece in input.chunks(cut) {
        user.receive(piece, &mut bench.cx());
        while let Some(event) = user.event() {
            let cx = &mut bench.cx();
            match event {
                UserEvent::StartTls => user.tls_started(true, cx),
                UserEvent::ConnectData(to) => {
                    assert_eq!(to.ip(), Ipv4Addr::LOCALHOST);
                    if piece.len().is_multiple_of(3) {
                        user.data_failed(cx);
                    } else {
                        user.data_connected(to, cx);
                    }
                }
                UserEvent::ListenData(_) => user.on_listening(Some(address(5000)), cx),
                UserEvent::StartData(id, _) => user.data_ended(id, 1, Ok(()), cx),
                _ => {}
            }
        }
        if piece.len().is_multiple_of(7) {
            user.abort(&mut bench.cx());
            bench.advance_to(user.deadline());
            user.timeout(&mut bench.cx());
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let login = b"220 x\r\n331 x\r\n230 x\r\n211-F\r\n UTF8\r\n211 E\r\n200 x\r\n";
    let texts: [&[u8]; 4] = [
        b"229 (|||5000|)\r\n150 x (12 bytes)\r\n226 x\r\n229 (|||5000|)\r\n550 x\r\n350 x\r\n250 x\r\n",
        b"500 x\r\n227 (127,0,0,1,100,1)\r\n125 x\r\n426 x\r\n226 x\r\n257 \"/a\"\"b\"\r\n",
        b"200-a\r\n200-b\r\n226 c\r\n\r\n200\r\n213 20200101000000\r\n110 MARK 1 = 2\r\n",
        b"250-x\r\n type=file;size=1; /a\r\n250 x\r\n421 x\r\n\xff\xfd\x18",
    ];
    texts.iter().map(|text| [b"\x07", &login[..], text].concat()).collect()
}
