//! Tests of the answers to every kind of segment in every state, as a table.

use super::*;
use std::fmt::Write as _;
use std::string::String;

const STATES: [&str; 12] = [
    "CLOSED",
    "LISTEN",
    "SYN-SENT",
    "SYN-RECEIVED passive",
    "SYN-RECEIVED active",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
];

/// Returns a connection in `state`, the peer's next sequence number, and the highest sequence
/// number sent by this end.
fn in_state(state: &str) -> (Script, u32, u32) {
    let open = || Script::established(PLAIN);
    match state {
        "CLOSED" => (Script::new(), 1, 1),
        "LISTEN" => (Script::listening(PLAIN), 0, 1),
        "SYN-SENT" => (Script::syn_sent(PLAIN), 0, 1),
        "SYN-RECEIVED passive" => (Script::syn_received(PLAIN), 1, 1),
        "SYN-RECEIVED active" => {
            let mut script = Script::syn_sent(PLAIN);
            script.peer(Flags::SYN, 0, 0, b"");
            (script, 1, 1)
        }
        "ESTABLISHED" => (open(), 1, 1),
        "FIN-WAIT-1" | "FIN-WAIT-2" | "CLOSING" | "TIME-WAIT" => {
            let mut script = open();
            script.close();
            if state != "FIN-WAIT-1" && state != "CLOSING" {
                script.peer(Flags::ACK, 1, 2, b"");
            }
            if state == "CLOSING" || state == "TIME-WAIT" {
                let acked = if state == "CLOSING" { 1 } else { 2 };
                script.peer(FIN_ACK, 1, acked, b"");
                return (script, 2, 2);
            }
            (script, 1, 2)
        }
        _ => {
            let mut script = open();
            script.peer(FIN_ACK, 1, 1, b"");
            if state == "LAST-ACK" {
                script.close();
                return (script, 2, 2);
            }
            (script, 2, 1)
        }
    }
}

/// A kind of segment: name, flags, sequence number, acknowledgment number, and data. The sequence
/// number is relative to the next expected one, and the acknowledgment number is relative to the
/// highest sequence number sent.
type Kind = (&'static str, Flags, i32, i32, &'static [u8]);

const FAR: i32 = 1_000_000;
const KINDS: [Kind; 15] = [
    ("SYN, other number", Flags::SYN, -FAR, 0, b""),
    ("SYN in window", Flags::SYN, 5, 0, b""),
    ("SYN,ACK", SYN_ACK, 0, 0, b""),
    ("ACK of all", Flags::ACK, 0, 0, b""),
    ("ACK of too much", Flags::ACK, 0, 1, b""),
    ("ACK far too old", Flags::ACK, 0, -FAR, b""),
    ("ACK out of window", Flags::ACK, FAR, 0, b""),
    ("RST at the edge", Flags::RST, 0, 0, b""),
    ("RST,ACK of all", RST_ACK, 0, 0, b""),
    ("RST in window", Flags::RST, 5, 0, b""),
    ("RST out of window", Flags::RST, FAR, 0, b""),
    ("FIN,ACK", FIN_ACK, 0, 0, b""),
    ("data", Flags::ACK, 0, 0, b"abc"),
    ("data early", Flags::ACK, 5, 0, b"abc"),
    ("old duplicate", Flags::ACK, -3, 0, b"abc"),
];

#[test]
fn every_state_answers_every_kind_of_segment_as_the_table_says() {
    let mut table = String::new();
    for state in STATES {
        for (name, flags, seq, ack, data) in KINDS {
            let (mut script, next, sent) = in_state(state);
            let seq = next.wrapping_add_signed(seq);
            let ack = sent.wrapping_add_signed(ack);
            // If an acknowledgment is delayed, it belongs to the answer too.
            let mut answers = script.peer(flags, seq, ack, data);
            answers.extend(script.wait_millis(50));
            let new_state = script.state().map_or("-".into(), |state| std::format!("{state}"));
            let mut answers = texts(&answers);
            // The numbers of a new connection, and of a reset that copies them from the segment,
            // are not relative.
            answers.iter_mut().for_each(|text| {
                let words = text.split(' ').map(|word| {
                    let is_absolute = word.parse::<u32>().is_ok_and(|number| number > 10_000_000);
                    if is_absolute { "*" } else { word }
                });
                *text = words.collect::<Vec<_>>().join(" ");
            });
            let answers = answers.join(" ");
            writeln!(table, "{state:<21}| {name:<18}| {new_state:<13}| {answers}").unwrap();
        }
    }
    let table: Vec<_> = table.lines().map(str::trim_end).collect();
    // All initial sequence numbers must result in the same table.
    insta::with_settings!({ prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(table.join("\n"));
    });
}
