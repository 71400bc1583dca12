//! The scoring rule: the causes that a sentence names.
//!
//! A [`Class`] is a component together with a mechanism. A sentence names a class if it contains a
//! term of the component and a term of the mechanism, and its main clause (the text before the
//! first colon or semicolon) contains none of the terms that contradict the class. If several
//! classes match, only the classes count whose component is named first: a sentence that begins
//! with the cause may mention other components in its advice. Terms are standard ones of the field;
//! the comparison ignores case.
//!
//! [`SECOND_TABLE`] has further classes for causes that only the second generator injects. These
//! classes apply only to cases of the second generator, so that they do not change the scores of
//! the first generator's cases.
//!
//! The rule is fixed before the verdict is changed, and is independent of the verdict's wording:
//! `docs/benchmarks/verdict.md` lists it, and a test compares the list with [`TABLE`].

use super::generator::Generator;
use regex::{Regex, RegexBuilder};
use std::sync::OnceLock;

/// A component and the mechanism by which it makes a user wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    Resolver,
    ConnectionSetup,
    ServerGreeting,
    ServerLogin,
    ServerProcessing,
    ServerLastReply,
    ServerReader,
    LocalProcessor,
    PathDelay,
    PathRate,
    PathQueue,
    ShortQueue,
    PathLoss,
    PathReordering,
    RateLimiter,
    PathMtu,
    HalfDuplex,
    Nagle,
    LocalWindow,
    ServerWindow,
    SendBuffer,
    SmallSegments,
    LockStep,
    SlowStart,
    Terminal,
    Tls,
    CrossTraffic,
    VariableDelay,
    Outage,
    TftpOptions,
}

/// The terms of one class, each a regular expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) class: Class,
    /// Name in tables.
    pub(super) name: &'static str,
    pub(super) component: &'static str,
    pub(super) mechanism: &'static str,
    /// Terms that contradict the class if they are in the main clause; may be empty.
    pub(super) contradiction: &'static str,
}

const fn terms(
    class: Class,
    name: &'static str,
    component: &'static str,
    mechanism: &'static str,
    contradiction: &'static str,
) -> Terms {
    Terms { class, name, component, mechanism, contradiction }
}

/// The remote host, its programs and its TCP.
const SERVER: &str = "server|remote (host|side|end|program|system|application)|far (host|side|end|program|application)|peer";
/// The host that runs `plumb measure`.
const LOCAL: &str =
    "this (side|host|machine|computer|end)|local|own (processor|software|cpu)|client";
/// Names of packet loss.
const LOSS: &str = r"loss(es)?|lost|drop(s|ped|ping)?|retransmi\w+|sent again";
const REORDERING: &str = r"reorder\w*|out[- ]of[- ]order|overtak\w+|disorder";
const MTU: &str = r"mtu|black ?holes?|hole in|(large|long|big|full-size\w*) (packets|segments)|(packets|segments) (larger|longer|bigger|above)|size limit|fragment\w*";
const HALF_DUPLEX: &str = r"half[- ]duplex|one direction at a time|turn-?around";
const NAGLE: &str = r"nagle\w*|tcp_nodelay|delayed ack\w*|delayed acknowledg\w+";
const LIMITER: &str = r"rate[- ]limit\w*|token bucket|shap(er|ing)|polic(er|ing)|throttl\w+";

/// Classes of the causes that the first case generator (`super::generate`) injects.
pub(super) const TABLE: [Terms; 26] = [
    terms(
        Class::Resolver,
        "name resolution: late answer",
        r"name ?servers?|resolv\w+|(name )?resolution|dns|(name|host) lookup|lookup of (the|a) (host )?name",
        r"cost\w*|late\w*|slow\w*|delay\w*|wait\w*|takes?|took|answer\w*|time-?outs?|lookup",
        "password|authenticat|first question",
    ),
    terms(
        Class::ConnectionSetup,
        "connection set-up: lost SYN",
        r"syn|first packet|connection (request|attempt|set-?up|establishment)|connect\w*|handshake",
        LOSS,
        "tls|nagle",
    ),
    terms(
        Class::ServerGreeting,
        "server: late greeting or prompt",
        SERVER,
        r"greet\w*|banner|first (question|prompt|reply|message|output|words)|login prompt|(to|before) (the|its) prompt|accept\w*|negotiat\w*|after (the )?connect\w*|welcome|silent",
        "loss|lost|queue|window|nagle",
    ),
    terms(
        Class::ServerLogin,
        "server: slow login",
        "server|remote host|far (host|side)|login|authentication|password|logging in",
        r"password\w*|authenticat\w*|login|logging in|pam|credential\w*",
        "loss|lost|queue|window|nagle|name ?server|first question|greet|banner|login prompt|limits this login",
    ),
    terms(
        Class::ServerProcessing,
        "server: slow processing or storage",
        SERVER,
        r"answer\w*|respon\w+|process(ing|or|es)?|comput\w*|busy|load\w*|late|slow\w*|stall\w*|paus\w*|application|program|disk|storage|first byte|delay\w*|cpu",
        "nagle|window|buffer|loss|lost|password|greet|banner|first question|acknowledg|last reply|final reply|confirm|login|name ?server",
    ),
    terms(
        Class::ServerLastReply,
        "server: late last reply",
        "server|remote host|far (host|side)|reply|confirmation|226",
        r"(last|final|closing|completion|end-of-transfer) (reply|response)|226|confirm\w*|reply after the (last|final) byte",
        "loss|lost|queue|window",
    ),
    terms(
        Class::ServerReader,
        "server: program reads slowly (zero window)",
        SERVER,
        r"(zero|closed|shut|full)( receive)? (window|buffer)|window (is |was )?(closed|shut|zero|full)|stops? reading|reads? (too )?slow\w*|slow read\w*|disk|storage",
        "loss|lost|nagle",
    ),
    terms(
        Class::LocalProcessor,
        "local host: processor",
        LOCAL,
        r"processor|cpu|schedul\w*|run[- ]queue|busy|load\w*|starv\w*|software|preempt\w*|wait\w* to run",
        "receive|window|buffer|tls|terminal",
    ),
    terms(
        Class::PathDelay,
        "path: round-trip time",
        r"round[- ]trips?|rtt|distance|propagation|(network|path|link)'?s? (delay|latency)|(delay|latency) of the (network|path|link)",
        r"round[- ]trips?|rtt|distance|propagation|delay|latency|far away|km of fibre",
        "loss|lost|queu|bufferbloat|nagle|reorder|retransmi|window|buffer",
    ),
    terms(
        Class::PathRate,
        "path: rate of the slowest link",
        "line|link|bottleneck|path|network|capacity|bandwidth",
        r"[kmg]?bits?/s|bandwidth|capacity|(data|line|link|transmission|bit) rate|(slow|slowest|faster) (link|line)|serializ\w+|throughput",
        "limiter|shap|polic|token|queue|loss|lost|half[- ]duplex|reorder|header|mtu|black ?hole|round[- ]trip",
    ),
    terms(
        Class::PathQueue,
        "path: queue (bufferbloat)",
        r"queu\w+|bufferbloat|buffers? (in front|at|of) (of )?(the )?(bottleneck|router|link|modem|slowest)|bottleneck buffer",
        r"queu\w+|bufferbloat|standing|excess\w* buffer\w*|under load|beside|deep",
        "run[- ]queue|receive buffer|send buffer|short queue|drop|overflow",
    ),
    terms(
        Class::ShortQueue,
        "path: queue too short",
        r"queue\w*|(bottleneck|router|link) buffers?",
        r"(too )?(short|small|shallow)|overflow\w*|drops?|tail[- ]drop",
        "run[- ]queue|receive buffer|send buffer",
    ),
    terms(
        Class::PathLoss,
        "path: loss",
        LOSS,
        LOSS,
        r"first packet|\bsyn\b|connection (request|attempt)|black ?hole|mtu|reorder|no (packet )?loss|without loss|limiter|polic",
    ),
    terms(Class::PathReordering, "path: reordering", REORDERING, REORDERING, ""),
    terms(Class::RateLimiter, "path: rate limiter (token bucket)", LIMITER, LIMITER, ""),
    terms(Class::PathMtu, "path: size limit (MTU black hole)", MTU, MTU, "loss|header"),
    terms(Class::HalfDuplex, "path: half duplex", HALF_DUPLEX, HALF_DUPLEX, ""),
    terms(Class::Nagle, "TCP: Nagle and delayed ACK", NAGLE, NAGLE, ""),
    terms(
        Class::LocalWindow,
        "local host: small receive window",
        r"this (side|host|machine|computer|end)|local|client|receiv\w+",
        r"window|receive buffer|receiver's buffer|socket buffer|rcvbuf",
        "far|server|remote|peer|send|congestion|zero|closed",
    ),
    terms(
        Class::ServerWindow,
        "server: small receive window",
        "server|remote|far|peer|receiver",
        r"window|receive buffer|rcvbuf",
        "this (side|host|machine)|local|send|congestion|zero|closed|shut|(reads?|reading) (too )?slow|stops? reading",
    ),
    terms(
        Class::SendBuffer,
        "server: small send buffer",
        r"server|remote|far|peer|send\w*",
        r"send(er's|ing)? (socket )?buffer|sndbuf",
        "receive (buffer|window)|queue",
    ),
    terms(
        Class::SmallSegments,
        "sender: small segments",
        r"packets?|segments?|mss|headers?",
        r"(small|short|tiny) (packets?|segments?)|headers?|mss|maximum segment size|bytes each",
        "loss|lost|mtu|vanish|hole|queue|window",
    ),
    terms(
        Class::LockStep,
        "TFTP: one block per round trip",
        r"tftp|blocks?|lock-?step|windowsize",
        r"lock-?step|(one|each|a single|every) block|block (at a time|per round)|stop-and-wait|windowsize",
        "loss|lost",
    ),
    terms(
        Class::SlowStart,
        "TCP: slow start",
        "slow start|congestion window|initial window",
        "slow start|congestion window|initial window",
        "loss",
    ),
    terms(
        Class::Terminal,
        "local host: terminal",
        "terminal|painting",
        "terminal|painting",
        "terminal server",
    ),
    terms(Class::Tls, "TLS", "tls|certificate|cipher", "tls|certificate|cipher", ""),
];

/// Classes of the causes that only the second case generator (`super::second`) injects.
pub(super) const SECOND_TABLE: [Terms; 4] = [
    terms(
        Class::CrossTraffic,
        "path: competing traffic",
        r"path|network|line|link|bottleneck|uplink|downlink|traffic|flows?|congest(ion|ed)",
        r"(cross|other|competing|concurrent|background)[- ](traffic|flows?|transfers?|hosts?)|congest(ion|ed)|shared|contention|saturat\w+|utili[sz]\w+",
        "congestion (window|control)|local|this (side|host|machine)",
    ),
    terms(
        Class::VariableDelay,
        "path: variable delay",
        r"path|network|line|link|route|radio|wi-?fi|wireless|jitter|delays?|latency|round[- ]trips?|rtt",
        r"jitter|var(y|ies|ied|ying|iable|iation|iance)|fluctuat\w*|alternat\w*|chang(es|ing) route|route (changes?|flap\w*)|spikes?|unstable|irregular\w*|wak(es?|ing)[- ]up|paus(es?|ing)|power[- ]sav\w+",
        "loss|lost|server|remote|far|peer",
    ),
    terms(
        Class::Outage,
        "path: outage",
        r"path|network|line|link|route|outages?|interrupt\w*",
        r"outages?|interrupt\w*|(is|was|went|goes) down|no packets?|unreachable|silen(t|ce)|dead time|blackout",
        "server|remote|far|peer|nagle|window",
    ),
    terms(
        Class::TftpOptions,
        "TFTP: small blocks, no options",
        r"tftp|blocks?|blksize|options?",
        r"512|(small|short) blocks?|block ?sizes?|blksize|(no|without|refus\w+|reject\w+|ignor\w+|support\w*|negotiat\w+) (the )?(tftp )?options?|option negotiation",
        "loss|lost",
    ),
];

/// Phrases in which a term of a component means something else. They are removed before the
/// comparison.
const IGNORED_PHRASES: &str = r"(of )?the way to the prompt|limits this (login|transfer)|^\W*(slow: )?(the |an? |each )?(login|echo|transfer|download|upload|screenful)(es|s)? (takes?|took|needs?|waits?) [0-9.,]+ ?\w+";
/// Phrases that state that nothing is wrong.
const NOTHING_WRONG: &str =
    r"^\W*(nothing stands out|ok\b|no (delay|cause|limit|bottleneck|problem)|healthy|as fast as)";
/// Phrases that leave the choice between causes open.
const HEDGE: &str = r"\b(possibl[ey]|perhaps|maybe|may be|might be|either|cannot be (told|determined|distinguished)|or the (far|server|remote|local|sender|receiver|network|path))\b";
/// Phrases that state that the cause is unknown.
const UNKNOWN: &str = r"\b(unknown|not known|cannot (say|tell)|undetermined|no verdict)\b";

/// Interpretation of a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Classes whose component is named first.
    pub(super) classes: Vec<Class>,
    /// The sentence states that nothing is wrong.
    pub(super) denies_fault: bool,
    /// The sentence names a cause without deciding.
    pub(super) is_possible: bool,
    /// The sentence states that the cause is unknown.
    pub(super) is_unknown: bool,
}

impl Class {
    /// Returns the class's name in tables.
    pub(super) fn name(self) -> &'static str {
        let mut all = TABLE.iter().chain(&SECOND_TABLE);
        all.find(|terms| terms.class == self).map_or("?", |terms| terms.name)
    }

    /// Returns whether the class is in [`SECOND_TABLE`].
    pub(super) fn is_in_second_table(self) -> bool {
        SECOND_TABLE.iter().any(|terms| terms.class == self)
    }
}

struct CompiledTerms {
    class: Class,
    component: Regex,
    mechanism: Regex,
    contradiction: Option<Regex>,
}

struct Rule {
    classes: Vec<CompiledTerms>,
    second: Vec<CompiledTerms>,
    ignored_phrases: Regex,
    nothing: Regex,
    hedge: Regex,
    unknown: Regex,
}

/// Returns the compiled rule. A test checks that every expression compiles.
fn rule() -> &'static Rule {
    static RULE: OnceLock<Rule> = OnceLock::new();
    RULE.get_or_init(|| {
        let words = |terms: &str| compile(&format!(r"\b({terms})\b"));
        let compiled = |terms: &Terms| CompiledTerms {
            class: terms.class,
            component: words(terms.component),
            mechanism: words(terms.mechanism),
            // A contradiction may be a prefix of a word: "queu" covers queue and queueing.
            contradiction: (!terms.contradiction.is_empty())
                .then(|| compile(&format!(r"\b({})", terms.contradiction))),
        };
        Rule {
            classes: TABLE.iter().map(compiled).collect(),
            second: SECOND_TABLE.iter().map(compiled).collect(),
            ignored_phrases: compile(IGNORED_PHRASES),
            nothing: compile(NOTHING_WRONG),
            hedge: compile(HEDGE),
            unknown: compile(UNKNOWN),
        }
    })
}

fn compile(pattern: &str) -> Regex {
    let built = RegexBuilder::new(pattern).case_insensitive(true).build();
    // The patterns are constants, and a test compiles all of them.
    built.unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// Returns the interpretation of `sentence` in a case of `generator`.
pub(super) fn read(sentence: &str, generator: Generator) -> Reading {
    let rule = rule();
    let second_classes = match generator {
        Generator::First => &[],
        Generator::Second => rule.second.as_slice(),
    };
    let sentence =
        rule.ignored_phrases.replace_all(&sentence.replace('\u{2019}', "'"), " ").into_owned();
    let main = sentence.split([':', ';']).next().unwrap_or_default();
    let positions = rule.classes.iter().chain(second_classes).filter_map(|terms| {
        let at = terms.component.find(&sentence)?.start();
        let is_contradicted =
            terms.contradiction.as_ref().is_some_and(|pattern| pattern.is_match(main));
        (terms.mechanism.is_match(&sentence) && !is_contradicted).then_some((at, terms.class))
    });
    let positions: Vec<(usize, Class)> = positions.collect();
    let first = positions.iter().map(|(at, _)| *at).min();
    let denies_fault = rule.nothing.is_match(&sentence);
    let classes = positions.iter().filter(|(at, _)| Some(*at) == first && !denies_fault);
    Reading {
        classes: classes.map(|(_, class)| *class).collect(),
        denies_fault,
        is_possible: rule.hedge.is_match(main),
        is_unknown: rule.unknown.is_match(main),
    }
}

/// Splits `text` into sentences, each ended by a full stop, white space, and a capital letter, a
/// digit or the end of the text.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let ends = rest.match_indices(['.', '!', '?']).map(|(at, _)| at + 1);
        let mut ends = ends.filter(|end| {
            let after = rest.get(*end..).unwrap_or_default();
            let next = after.trim_start().chars().next();
            let starts_sentence = |next: char| next.is_uppercase() || next.is_ascii_digit();
            next.is_none_or(|next| after.starts_with(char::is_whitespace) && starts_sentence(next))
        });
        let end = ends.next().unwrap_or(rest.len());
        let (sentence, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        parts.push(sentence.trim());
        rest = after.trim_start();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a sentence with the classes of the first case generator only.
    fn read(sentence: &str) -> Reading {
        super::read(sentence, Generator::First)
    }

    /// Sentences that name a class of [`SECOND_TABLE`].
    const SECOND_CORRECT_SENTENCES: [(Class, &[&str]); 4] = [
        (
            Class::CrossTraffic,
            &[
                "Other traffic fills the queue of the uplink: 0.8 s of each echo.",
                "The link is shared with competing traffic, which takes 48 % of its rate.",
            ],
        ),
        (
            Class::VariableDelay,
            &[
                "The delay of the network varies between 12 and 240 ms.",
                "Jitter of the path costs 80 ms of an echo.",
            ],
        ),
        (Class::Outage, &["An outage of the path of 2.1 s costs 2.4 s of the transfer."]),
        (
            Class::TftpOptions,
            &[
                "The TFTP server refuses options: 512 bytes in each round trip.",
                "Blocks of 512 bytes cost 2.1 s of the transfer: the server has no blksize.",
            ],
        ),
    ];

    #[test]
    fn a_further_class_is_read_only_in_cases_of_the_second_generator() {
        for (class, sentences) in SECOND_CORRECT_SENTENCES {
            for sentence in sentences {
                let classes = super::read(sentence, Generator::Second).classes;
                assert!(classes.contains(&class), "{sentence}: {classes:?}");
                assert!(!read(sentence).classes.contains(&class), "{sentence}");
            }
        }
    }

    #[test]
    fn sentences_of_the_first_classes_name_no_further_class() {
        for (class, sentences) in CORRECT_SENTENCES {
            for sentence in sentences {
                let classes = super::read(sentence, Generator::Second).classes;
                assert!(
                    !classes.iter().any(|class| class.is_in_second_table()),
                    "{class:?}: {sentence}: {classes:?}"
                );
            }
        }
    }

    /// Sentences in three styles of wording, and the one class that each names.
    const CORRECT_SENTENCES: [(Class, &[&str]); 26] = [
        (
            Class::Resolver,
            &[
                "The name server costs 1.21 s of the 1.22 s of the way to the prompt (99 %): ask a nearer name server.",
                "DNS resolution took 1.2 s of the 1.3 s before the login prompt.",
                "Login took 2.1 s, of which the resolver answered after 2.0 s.",
            ],
        ),
        (
            Class::ConnectionSetup,
            &[
                "A lost first packet costs 1.02 s of the 1.10 s of the way to the prompt: it was sent again when a timer had run out.",
                "The connection request (SYN) was lost and retransmitted after 1.0 s.",
            ],
        ),
        (
            Class::ServerGreeting,
            &[
                "The far side's first question costs 1.00 s of the 1.20 s of the way to the prompt: there it is often the lookup of this side's name.",
                "The server sent its greeting 2.0 s after the connection was established: look for reverse DNS.",
            ],
        ),
        (
            Class::ServerLogin,
            &[
                "The login itself costs 1.50 s of the 1.53 s of the way to the prompt (98 %): look there at how passwords are checked.",
                "The server took 1.5 s to check the password.",
            ],
        ),
        (
            Class::ServerProcessing,
            &[
                "The far host costs 121 ms of the 121 ms of an echo: it answers a key so long after the round trip of the network.",
                "The server's application responds 120 ms after each request; the round-trip time is 4 ms.",
                "The remote host stalls: 3 of 50 echoes took 0.9 s.",
            ],
        ),
        (
            Class::ServerLastReply,
            &[
                "The server's final reply (226) costs 1.0 s of the 1.04 s of the transfer.",
                "The confirmation of the transfer came 1.0 s after the last byte.",
            ],
        ),
        (
            Class::ServerReader,
            &[
                "The far side's closed window costs 2.0 s of the 2.4 s of the transfer: its program stops reading for so long.",
                "The server reads slowly: its window was zero for 2.1 s of 2.4 s.",
            ],
        ),
        (
            Class::LocalProcessor,
            &[
                "This side's own software costs 60 ms of the 65 ms of an echo: look at the split by layer.",
                "The local processor is busy: plumb waited 55 ms of each echo in the run queue.",
            ],
        ),
        (
            Class::PathDelay,
            &[
                "The network's round trip costs 120 ms of the 121 ms of an echo (99 %): it is as long as 12,000 km of fibre.",
                "The round-trip time of the path, 120 ms, is 99 % of each echo.",
            ],
        ),
        (
            Class::PathRate,
            &[
                "The line costs 1.79 s of the 1.79 s of the transfer (> 99 %): the slowest link carries 80,450 bit/s of data.",
                "The path's bottleneck rate of 512 kbit/s takes 3.1 s of the 3.3 s of the transfer.",
            ],
        ),
        (
            Class::PathQueue,
            &[
                "The queue in front of the slowest link costs 900 ms of the 912 ms of an echo beside other data: an echo takes 12 ms where nothing else comes; a fair or shorter queue there (fq_codel), or a smaller window here, would keep it so.",
                "Bufferbloat: echoes under load wait 900 ms in the bottleneck's queue.",
            ],
        ),
        (
            Class::ShortQueue,
            &["The bottleneck buffer is too small: it drops packets at 38 % of the rate."],
        ),
        (
            Class::PathLoss,
            &[
                "Loss costs 2.10 s of the 2.30 s of the transfer (91 %): 14 of 812 segments were lost: look at the errors of the links, and at queues that are too short.",
                "A lost packet now and then costs 39.2 ms of the 161 ms of an echo.",
                "Waiting for retransmission timers costs 2.1 s of the 2.2 s of a screenful.",
                "The path loses 3 % of the packets: packet loss adds 2.1 s.",
            ],
        ),
        (
            Class::PathReordering,
            &[
                "Disorder on the way costs 90 ms of the 120 ms of an echo.",
                "The path reorders packets: 12 % arrived out of order.",
            ],
        ),
        (
            Class::RateLimiter,
            &[
                "A rate limiter on the way costs 3.89 s of the 4.04 s of the transfer (96 %): the first 37,648 bytes come at 16,794,603 bit/s, all others at 482,281 bit/s.",
                "A token bucket on the path limits the transfer to 480 kbit/s after the first 38 kB.",
            ],
        ),
        (
            Class::PathMtu,
            &[
                "A hole in the way for long packets costs 3.53 s of the 3.57 s of a screenful: packets with 1,448 bytes of data vanish.",
                "Path MTU black hole: segments above 848 bytes never arrive, and no ICMP reports it.",
            ],
        ),
        (
            Class::HalfDuplex,
            &[
                "A way that carries one direction at a time costs 60 ms of the 90 ms of an echo.",
                "The link is half duplex: keys wait for the turnaround.",
            ],
        ),
        (
            Class::Nagle,
            &[
                "The far side's Nagle algorithm costs 40 ms of the 44 ms of a short answer: set TCP_NODELAY there.",
                "Nagle's algorithm on the server waits for a delayed ACK of the client: 44 ms of 46 ms.",
            ],
        ),
        (
            Class::LocalWindow,
            &[
                "This side's small window costs 1.2 s of the 1.4 s of the transfer.",
                "The local receive buffer of 4 KiB limits the transfer to one window per round trip.",
            ],
        ),
        (
            Class::ServerWindow,
            &[
                "The far side's small window costs 1.2 s of the 1.4 s of the transfer: a larger receive buffer there would help.",
                "The server's receive window of 8 KiB is full for 90 % of the upload.",
            ],
        ),
        (
            Class::SendBuffer,
            &[
                "The server's send buffer of 8 KiB limits the transfer to one buffer per round trip.",
            ],
        ),
        (
            Class::SmallSegments,
            &[
                "A header for each small packet costs 0.8 s of the 2.1 s of the transfer.",
                "Small segments (MSS 88 bytes) spend 37 % of the link on headers.",
            ],
        ),
        (
            Class::LockStep,
            &["TFTP sends one block per round trip: 46 blocks take 46 round trips of 120 ms."],
        ),
        (Class::SlowStart, &["Slow start takes 5 round trips of the transfer."]),
        (Class::Terminal, &["Painting on this side's terminal costs 300 ms of a screenful."]),
        (Class::Tls, &["TLS takes 80 ms of the connection."]),
    ];

    #[test]
    fn a_right_sentence_of_each_class_is_read_as_that_class() {
        for (class, sentences) in CORRECT_SENTENCES {
            for sentence in sentences {
                let classes = read(sentence).classes;
                assert!(classes.contains(&class), "{sentence}: {classes:?}");
                let is_receiver =
                    |class: &Class| matches!(class, Class::LocalWindow | Class::ServerWindow);
                assert!(
                    classes.len() == 1 || classes.iter().all(is_receiver) || is_storage(&classes),
                    "{sentence}: {classes:?}"
                );
            }
        }
    }

    /// Returns whether the sentence names slow storage or a slow program of the server; sentences
    /// about a server that reads slowly may name either.
    fn is_storage(classes: &[Class]) -> bool {
        classes.iter().all(|class| matches!(class, Class::ServerReader | Class::ServerProcessing))
    }

    #[test]
    fn a_sentence_of_one_class_is_not_read_as_another_component() {
        let wrong = [
            // A server stall described as loss, and loss described as a slow server.
            (
                Class::ServerProcessing,
                "A lost packet now and then costs 73.4 ms of the 115 ms of an echo.",
            ),
            (Class::PathLoss, "The far host costs 121 ms of an echo: it answers late."),
            (Class::LocalProcessor, "The far host costs 65 ms of an echo: look there at the load."),
            (
                Class::LocalWindow,
                "The line costs 1.79 s of 1.79 s: nothing but a faster line helps.",
            ),
            (
                Class::SendBuffer,
                "The far side's small window costs 1 s of the transfer: a larger receive buffer helps.",
            ),
            (
                Class::PathReordering,
                "Loss costs 1.0 s of the transfer: look at the errors of the links.",
            ),
            (
                Class::ServerLastReply,
                "The far host costs 1.0 s of the transfer: look at the program.",
            ),
            (
                Class::ServerGreeting,
                "The login itself costs 2.00 s: look at how passwords are checked.",
            ),
            (
                Class::Resolver,
                "The far side's first question costs 1.0 s: often the lookup of this side's name.",
            ),
            (Class::PathQueue, "The line costs 900 ms of an echo: at 80,450 bit/s."),
            (Class::RateLimiter, "The line costs 3.9 s of the transfer: at 80,450 bit/s."),
            (
                Class::ServerProcessing,
                "The far side's Nagle algorithm costs 3.89 s of the 4.21 s of the transfer.",
            ),
            (Class::PathMtu, "Loss costs 3.5 s of the 3.6 s of a screenful."),
            (Class::HalfDuplex, "Loss limits this login: 4 of 337 segments had to be sent again."),
        ];
        for (class, sentence) in wrong {
            let classes = read(sentence).classes;
            assert!(!classes.contains(&class), "{sentence}: {classes:?}");
        }
    }

    #[test]
    fn a_sentence_without_a_cause_names_none() {
        let nothing = [
            "Nothing stands out.",
            "OK: echo 74 µs (p99 245 µs).",
            "No delay a user would notice: the server answers in 74 µs.",
        ];
        for sentence in nothing {
            let reading = read(sentence);
            assert!(reading.denies_fault && reading.classes.is_empty(), "{sentence}: {reading:?}");
        }
        let sentence = "13 bytes take 717 µs, 145 kbit/s; what of it is fixed is not decided.";
        assert_eq!(read(sentence).classes, []);
    }

    #[test]
    fn a_sentence_that_does_not_decide_is_marked() {
        let possible = [
            "Possible causes: packet loss, busy server.",
            "A small window (this side's, or the far side's send buffer) costs 1 s of the transfer.",
            "Either the server stalls or packets are lost.",
        ];
        for sentence in possible {
            assert!(read(sentence).is_possible, "{sentence}");
        }
        assert!(read("The cause is unknown: no reply came.").is_unknown);
        assert!(
            !read("Loss costs 2.1 s of the transfer: look at the link or the far host.")
                .is_possible
        );
    }

    #[test]
    fn sentences_end_at_a_full_stop_before_a_capital_letter() {
        let text = "The far host costs 1.2 s of 1.3 s (92 %): look there. Loss costs 0.1 s of it. ";
        let expected =
            ["The far host costs 1.2 s of 1.3 s (92 %): look there.", "Loss costs 0.1 s of it."];
        assert_eq!(sentences(text), expected);
        let text = "A faster one helps. 1,024 bytes take 59.8 ms.";
        assert_eq!(sentences(text), ["A faster one helps.", "1,024 bytes take 59.8 ms."]);
        assert_eq!(sentences("one without an end"), ["one without an end"]);
        assert!(sentences("").is_empty());
    }
}
