//! What can be counted, recorded, charged and done: closed lists, each name with its text.

/// Declares a closed list whose members know their own text and can be walked in order.
macro_rules! closed_list {
    ($(#[$list:meta])* $name:ident { $($(#[$member:meta])* $variant:ident $text:literal,)+ }) => {
        $(#[$list])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$member])* $variant,)+ }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// How many members there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the text that people read.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

closed_list! {
    /// Who is charged for CPU time.
    Account {
        /// Waiting, and everything that is not ours.
        Outside "outside",
        /// Interrupt level of 1982; today the system calls that move bytes.
        Interrupt "interrupt or system call",
        /// LLP, SLIP.
        Link "link",
        /// IP, ICMP, UDP.
        Internet "internet",
        /// TCP, per segment.
        TcpFixed "TCP, fixed",
        /// TCP, per data byte: checksum and copy.
        TcpByte "TCP, per byte",
        /// TLS: keys, and what is enciphered and deciphered.
        Encryption "encryption",
        /// Telnet.
        Telnet "Telnet",
        /// The terminal: the grid and what paints it.
        Terminal "terminal",
        /// Files: reading, writing, and converting between their form and the wire's.
        Files "files",
        /// FTP, and what carries and serves sessions: all of ours that is no layer of the network.
        Application "application",
    }
}

closed_list! {
    /// What a layer did, in units that have a price on a simulated machine.
    Work {
        /// A byte taken from or given to the line at interrupt level.
        LineByte "line bytes",
        /// A segment received or sent: headers, queues, scheduling.
        Segment "segments",
        /// A byte of data checksummed by TCP.
        SegmentByte "segment bytes",
        /// A byte of data looked at by Telnet.
        TelnetByte "Telnet bytes",
        /// A byte given to the terminal.
        TerminalByte "terminal bytes",
        /// A new line, which moves the whole screen up.
        NewLine "new lines",
        /// A change of control from one step of a station to another.
        Switch "changes of control",
        /// A byte moved between a file and the connection that carries it.
        FileByte "file bytes",
    }
}

impl Work {
    /// Returns who is charged for it.
    #[must_use]
    pub const fn account(self) -> Account {
        match self {
            Self::LineByte => Account::Interrupt,
            // TM-233 counts it with what a packet costs, whatever its length.
            Self::Segment | Self::Switch => Account::TcpFixed,
            Self::SegmentByte => Account::TcpByte,
            Self::TelnetByte => Account::Telnet,
            Self::TerminalByte | Self::NewLine => Account::Terminal,
            Self::FileByte => Account::Application,
        }
    }
}

closed_list! {
    /// A quantity whose values are kept as a distribution.
    Quantity {
        /// Time from sending a segment to its acknowledgment, ns.
        RoundTrip "round trip",
        /// Retransmission timeout in force when it expired, ns.
        RetransmissionTimeout "retransmission timeout",
        /// Data bytes in a segment received.
        SegmentBytesIn "data bytes in a segment received",
        /// Data bytes in a segment sent.
        SegmentBytesOut "data bytes in a segment sent",
        /// Time from the request to send to its acknowledgment, ns.
        LlpAckWait "wait for the link's acknowledgment",
    }
}

closed_list! {
    /// What is counted.
    Counter {
        // Waits and what they are for.
        /// Returns from a wait.
        Wakeups "wakeups",
        /// What was asked for and has been done: keys, commands.
        Transactions "transactions",
        // Packet buffers.
        /// No packet buffer was free.
        PacketsRefused "packet buffers refused",
        // Several stations on one interface.
        /// Datagrams and errors that were handed to the next station, because none here wanted them.
        StraysOut "strays handed over",
        /// Datagrams and errors that another station has handed over.
        StraysIn "strays taken",
        /// Datagrams and errors that a full queue between two stations turned away.
        StraysDropped "strays dropped",
        // Link: LLP, SLIP.
        /// Packets that came whole from the line.
        LinkPacketsIn "link packets in",
        /// Packets put on the line whole.
        LinkPacketsOut "link packets out",
        /// Packets that a full output queue turned away.
        LinkPacketsDropped "link packets dropped before sending",
        /// Packets that were longer than a buffer.
        LinkPacketsTooLong "link packets too long",
        /// Packets whose local header was not one we know.
        LinkHeadersUnknown "link headers unknown",
        /// Bytes that came when none was expected.
        LinkBytesUnexpected "link bytes unexpected",
        /// Escapes sent.
        LinkEscapesOut "link escapes out",
        /// Escapes received.
        LinkEscapesIn "link escapes in",
        /// Escapes whose second byte is not in the protocol.
        LinkEscapesWrong "link escapes wrong",
        /// Requests to send, sent.
        LlpRequestsOut "LLP REQs sent",
        /// Requests to send, received.
        LlpRequestsIn "LLP REQs received",
        /// Requests received in the middle of a packet, which drop it.
        LlpRequestsInPacket "LLP REQs inside a packet",
        /// Requests left unanswered because no packet buffer was free or the used queue was full.
        LlpRequestsRefused "LLP REQs refused",
        /// Acknowledgments sent.
        LlpAcksOut "LLP ACKs sent",
        /// Acknowledgments received.
        LlpAcksIn "LLP ACKs received",
        /// Acknowledgments that answered nothing.
        LlpAcksStray "LLP ACKs stray",
        /// Waits for an acknowledgment that ran out.
        LlpAckTimeouts "LLP ACK timeouts",
        /// Packets given up after the last try.
        LlpPacketsGivenUp "LLP packets given up",
        /// Packets that stopped in the middle for too long.
        LlpPacketTimeouts "LLP packet timeouts",
        /// Address requests sent.
        LlpAddressRequestsOut "LLP address requests sent",
        /// Address requests answered.
        LlpAddressRequestsIn "LLP address requests answered",
        /// Address requests whose answer did not come in time.
        LlpAddressTimeouts "LLP address timeouts",
        /// Packets from the line that a full used queue turned away.
        LinkPacketsRefused "link packets refused at the used queue",
        /// Frames that are cut short or come from a group.
        EthernetFrameErrors "Ethernet frames in error",
        /// Frames for another interface or group.
        EthernetFramesForOthers "Ethernet frames for others",
        /// Frames of a VLAN.
        EthernetFramesOfVlans "Ethernet frames of VLANs",
        /// Frames of a type that is not here, or with a length in its place.
        EthernetTypesUnknown "Ethernet types unknown",
        /// Segments sent with compressed headers.
        VjCompressedOut "segments sent with compressed headers",
        /// Segments sent whole to fill a slot of the other end.
        VjUncompressedOut "segments sent whole for header compression",
        /// Segments whose compressed headers were made whole.
        VjCompressedIn "segments received with compressed headers",
        /// Segments received whole that filled a slot.
        VjUncompressedIn "segments received whole for header compression",
        /// Compressed headers that are cut short or about an empty slot.
        VjErrorsIn "compressed headers in error",
        /// Segments with compressed headers dropped because something before was lost.
        VjTossed "compressed headers tossed after a loss",
        /// PPP frames whose check sequence is wrong.
        PppCheckErrors "PPP frames with a wrong check sequence",
        /// PPP frames too short or given up by their sender.
        PppFramesShort "PPP frames cut short",
        /// PPP frames of a protocol that is not here or not open.
        PppProtocolsUnknown "PPP protocols unknown",
        /// PPP control packets that are cut short, lie about a length or answer nothing.
        PppControlErrors "PPP control packets in error",
        /// PPP control packets that found no place in the queue to the line.
        PppControlDropped "PPP control packets dropped before sending",
        /// PPP control packets whose answer did not come in time.
        PppTimeouts "PPP timeouts",
        /// PPP echo requests that nobody answered.
        PppEchoesLost "PPP echoes unanswered",
        /// Signs that a PPP line leads back to ourselves.
        PppLoopbacks "PPP packets of our own",
        /// PPP authentications that failed, of either side.
        PppAuthenticationsFailed "PPP authentications failed",
        // Internet.
        /// Datagrams from the link.
        IpDatagramsIn "IP datagrams in",
        /// Datagrams to the link.
        IpDatagramsOut "IP datagrams out",
        /// Datagrams for a higher layer.
        IpDatagramsDelivered "IP datagrams delivered",
        /// Headers that are cut short, lie about a length or are no IPv4.
        IpHeaderErrors "IP header errors",
        /// Headers whose checksum is wrong.
        IpChecksumErrors "IP header checksum errors",
        /// Datagrams that are not for us.
        IpAddressErrors "IP datagrams for others",
        /// Datagrams with a source that no host may have.
        IpSourceErrors "IP sources impossible",
        /// Headers with options, which are skipped.
        IpOptionsSkipped "IP headers with options",
        /// Fragments, which are dropped.
        IpFragmentsDropped "IP fragments dropped",
        /// Datagrams for a protocol that is not here.
        IpProtocolsUnknown "IP protocols unknown",
        /// Datagrams whose time to live ran out.
        IpTimeExceeded "IP datagrams with no time to live",
        /// Datagrams dropped because the queue to the link was full.
        IpOutputDropped "IP datagrams dropped at output",
        /// Fragments from the link.
        IpFragmentsIn "IP fragments in",
        /// Fragments that came twice.
        IpFragmentsDuplicate "IP fragments that came twice",
        /// Datagrams made whole of their fragments.
        IpReassembled "IP datagrams reassembled",
        /// Datagrams dropped because their fragments contradict each other or the protocol.
        IpReassemblyErrors "IP datagrams with fragments in error",
        /// Datagrams whose fragments did not all come in time.
        IpReassemblyTimeouts "IP datagrams not reassembled in time",
        /// Unfinished datagrams that made room for later ones.
        IpReassemblyEvicted "IP datagrams evicted unfinished",
        /// Fragments sent.
        IpFragmentsOut "IP fragments out",
        /// Path MTUs that an error has lowered.
        IpPathMtusLowered "IP path MTUs lowered",
        /// Datagrams of an application's protocol that a full queue turned away.
        IpRawQueueFull "IP datagrams dropped at the application's queue",
        /// ICMP messages in.
        IcmpIn "ICMP messages in",
        /// ICMP messages that are damaged or cut short.
        IcmpErrors "ICMP messages in error",
        /// Echo requests answered.
        IcmpEchoesAnswered "ICMP echoes answered",
        /// ICMP errors sent.
        IcmpErrorsOut "ICMP errors sent",
        /// ICMP errors not sent, because of what caused them or because of the rate limit.
        IcmpErrorsSuppressed "ICMP errors suppressed",
        /// ICMP errors given to a transport.
        IcmpErrorsDelivered "ICMP errors delivered",
        /// ICMP messages of a kind that asks nothing of us, or that answer nothing we asked.
        IcmpIgnored "ICMP messages ignored",
        /// News of ICMP that a full queue turned away.
        IcmpEventsDropped "ICMP events dropped",
        // Neighbors: ARP, Neighbor Discovery and address configuration.
        /// Neighbors that found no place in the cache.
        NeighborEntriesRefused "neighbors refused",
        /// Neighbors that were forgotten for others.
        NeighborsForgotten "neighbors forgotten",
        /// Neighbors that did not answer.
        NeighborsUnreachable "neighbors unreachable",
        /// Answers that nobody asked for.
        NeighborsUnasked "neighbor answers unasked for",
        /// Claims of an address that another neighbor has.
        NeighborOverwritesRefused "neighbor overwrites refused",
        /// Packets that waited for a neighbor and were dropped for lack of room.
        NeighborPacketsDropped "packets dropped before a neighbor answered",
        /// Questions for a neighbor's address.
        NeighborSolicitationsOut "neighbor solicitations sent",
        /// Questions that a full queue turned away.
        NeighborSolicitationsDropped "neighbor solicitations dropped",
        /// Answers to questions for our address that a full queue turned away.
        NeighborAnswersDropped "neighbor answers dropped",
        /// News of neighbors or of addresses that a full queue turned away.
        NeighborEventsDropped "neighbor events dropped",
        /// ARP packets in.
        ArpIn "ARP packets in",
        /// ARP packets out.
        ArpOut "ARP packets out",
        /// ARP packets that are cut short, lie about a length or make no sense.
        ArpErrors "ARP packets in error",
        /// ARP packets from somebody who uses our address, or wants to.
        ArpConflicts "ARP address conflicts",
        /// Messages of Neighbor Discovery in.
        NdIn "ND messages in",
        /// Messages of Neighbor Discovery out.
        NdOut "ND messages out",
        /// Messages of Neighbor Discovery that are cut short, were forwarded or make no sense.
        NdErrors "ND messages in error",
        /// Options of Neighbor Discovery whose length is wrong.
        NdOptionErrors "ND options wrong",
        /// Messages of Neighbor Discovery that are not believed or concern nobody here.
        NdIgnored "ND messages ignored",
        /// Addresses of ours that somebody else has.
        NdDuplicates "ND duplicate addresses",
        /// Routers, prefixes, addresses or servers over the limit.
        NdEntriesRefused "ND entries refused",
        // UDP.
        /// Datagrams delivered.
        UdpIn "UDP datagrams in",
        /// Datagrams sent.
        UdpOut "UDP datagrams out",
        /// Packets that brought several datagrams of one size.
        UdpSuperIn "UDP super-datagrams in",
        /// Packets that a device cuts into several datagrams of one size.
        UdpSuperOut "UDP super-datagrams out",
        /// Datagrams for a port where nobody listens.
        UdpNoPort "UDP datagrams for no port",
        /// Datagrams that are damaged or cut short.
        UdpErrors "UDP datagrams in error",
        /// Datagrams that a full receive queue turned away.
        UdpQueueFull "UDP datagrams dropped at the queue",
        /// Binds turned away because of a limit.
        UdpBindsRefused "UDP binds refused",
        // TCP.
        /// Segments received.
        TcpSegmentsIn "TCP segments in",
        /// Segments sent.
        TcpSegmentsOut "TCP segments out",
        /// Segments that are cut short or whose header lies.
        TcpHeaderErrors "TCP header errors",
        /// Segments whose checksum is wrong.
        TcpChecksumErrors "TCP checksum errors",
        /// Options whose length is wrong.
        TcpOptionErrors "TCP options wrong",
        /// Active opens.
        TcpActiveOpens "TCP active opens",
        /// Passive opens that a SYN made into a connection.
        TcpPassiveOpens "TCP passive opens",
        /// Opens turned away because of a limit.
        TcpOpensRefused "TCP opens refused",
        /// Connections that were reset by either side.
        TcpResets "TCP connections reset",
        /// Resets sent.
        TcpResetsOut "TCP resets sent",
        /// Resets not sent because too many were owed.
        TcpResetsSuppressed "TCP resets suppressed",
        /// Resets that were in the window but not at its edge, or outside it.
        TcpResetsIgnored "TCP resets ignored",
        /// Challenge acknowledgments sent.
        TcpChallengeAcks "TCP challenge ACKs",
        /// Challenge acknowledgments not sent because of the limit.
        TcpChallengeAcksSuppressed "TCP challenge ACKs suppressed",
        /// Segments retransmitted.
        TcpRetransmissions "TCP segments retransmitted",
        /// Retransmission timeouts.
        TcpTimeouts "TCP retransmission timeouts",
        /// Fast retransmits.
        TcpFastRetransmits "TCP fast retransmits",
        /// Probes of the tail of a flight.
        TcpTailProbes "TCP tail probes",
        /// Reductions of the window that were mistakes and were undone.
        TcpRecoveriesUndone "TCP recoveries undone",
        /// Acknowledgments that report something received twice.
        TcpDuplicateReports "TCP reports of duplicates",
        /// Segments that were overtaken and arrived after all.
        TcpReordered "TCP deliveries out of order",
        /// Blocks that cannot be true, or are too many.
        TcpBlocksRefused "TCP SACK blocks refused",
        /// Peers that have dropped what they had said to have.
        TcpReneged "TCP SACK blocks taken back",
        /// Segments with a mark of congestion.
        TcpMarksIn "TCP segments marked",
        /// Reductions of the window because of a mark.
        TcpMarkReductions "TCP reductions by mark",
        /// Connections given up because nothing was acknowledged for too long.
        TcpGivenUp "TCP connections given up",
        /// Duplicate acknowledgments received.
        TcpDuplicateAcks "TCP duplicate ACKs in",
        /// Acknowledgments of what was never sent.
        TcpAcksUnsent "TCP ACKs of what was not sent",
        /// Acknowledgments too old to be believed.
        TcpAcksTooOld "TCP ACKs too old",
        /// Segments outside the window.
        TcpOutsideWindow "TCP segments outside the window",
        /// Segments dropped by the test of their timestamp.
        TcpPawsDropped "TCP segments with an old timestamp",
        /// Segments that came out of order and were kept.
        TcpOutOfOrder "TCP segments out of order",
        /// Segments out of order that found no room.
        TcpOutOfOrderDropped "TCP segments out of order dropped",
        /// Bytes received twice.
        TcpDuplicateBytes "TCP bytes received twice",
        /// Probes of a closed window.
        TcpWindowProbes "TCP window probes",
        /// Acknowledgments without data.
        TcpPureAcksOut "TCP ACKs without data sent",
        /// Acknowledgments that rode on data.
        TcpPiggybackedAcks "TCP ACKs that rode on data",
        /// Delayed acknowledgments that ran into their time limit.
        TcpDelayedAckTimeouts "TCP delayed ACK timeouts",
        /// Segments with urgent data received.
        TcpUrgentIn "TCP urgent segments in",
        /// Segments with urgent data sent.
        TcpUrgentOut "TCP urgent segments out",
        /// Data that arrived after the user had closed, which resets.
        TcpDataAfterClose "TCP data after close",
        /// Keep-alive probes.
        TcpKeepAlives "TCP keep-alive probes",
        /// SYNs answered by a cookie because too many connections were half open.
        TcpSynCookiesOut "TCP SYN cookies sent",
        /// Connections opened by a cookie that came back.
        TcpSynCookiesIn "TCP SYN cookies accepted",
        /// Acknowledgments that looked like a cookie and were none of ours.
        TcpSynCookiesWrong "TCP SYN cookies wrong",
        /// Connections in TIME-WAIT that a new one took the place of.
        TcpTimeWaitsReused "TCP TIME-WAITs reused",
        /// Connections that gave way because the table was full.
        TcpReaped "TCP connections reaped",
        /// SYNs whose data was taken at once.
        TcpFastOpensIn "TCP fast opens in",
        /// SYNs sent with data.
        TcpFastOpensOut "TCP fast opens sent",
        /// SYNs with a cookie that was wrong, or that found too many others.
        TcpFastOpensRefused "TCP fast opens refused",
        /// ICMP errors about something in flight.
        TcpIcmpErrors "TCP ICMP errors believed",
        /// ICMP errors that fit nothing in flight.
        TcpIcmpErrorsIgnored "TCP ICMP errors ignored",
        /// Times that segments of more than the base length vanished without a word.
        TcpBlackHoles "TCP black holes",
        /// Segments that were longer than others, to see whether they arrive.
        TcpPathProbes "TCP path MTU probes",
        /// Times that a window has grown with what its application takes.
        TcpReceiveWindowsGrown "TCP receive windows grown",
        /// Times that a send buffer has grown with the congestion window.
        TcpSendBuffersGrown "TCP send buffers grown",
        /// Times that a buffer did not grow, because all together have grown enough.
        TcpGrowthRefused "TCP buffer growths refused",
        // Telnet.
        /// Commands received.
        TelnetCommandsIn "Telnet commands in",
        /// Commands sent.
        TelnetCommandsOut "Telnet commands out",
        /// Option negotiations received.
        TelnetNegotiationsIn "Telnet negotiations in",
        /// Option negotiations sent.
        TelnetNegotiationsOut "Telnet negotiations out",
        /// Options refused.
        TelnetOptionsRefused "Telnet options refused",
        /// Subnegotiations that were longer than the limit.
        TelnetSubnegotiationsTooLong "Telnet subnegotiations too long",
        /// Subnegotiations that make no sense.
        TelnetSubnegotiationsWrong "Telnet subnegotiations wrong",
        /// Bytes thrown away between urgent notice and data mark.
        TelnetBytesDiscarded "Telnet bytes discarded by Synch",
        /// Bytes of output turned away because the queue was full.
        TelnetOutputRefused "Telnet bytes of output refused",
        /// Commands whose code means nothing, and ends of subnegotiations that never began.
        TelnetCommandsUnknown "Telnet commands unknown",
        /// Variables of the user's environment that were not asked for, or cannot be what they say.
        TelnetVariablesRefused "Telnet variables refused",
        /// Compressed streams that are broken or expand beyond measure.
        TelnetCompressedRefused "Telnet compressed streams refused",
        /// What came in clear after we had said that TLS follows.
        TelnetItemsBeforeTls "Telnet items ignored before TLS",
        /// Records of the inspector that nobody took in time.
        TelnetRecordsDropped "Telnet inspection records dropped",
        /// Bytes of the login program's own text dropped because its display took nothing.
        DisplayBytesDropped "display bytes dropped",
        // Console server.
        /// Bytes of a line's output that somebody was too slow to read.
        ConsoleBytesSkipped "console bytes skipped for slow readers",
        /// Bytes typed by somebody who may not write now.
        ConsoleBytesRefused "console bytes refused to who watches",
        // DHCP.
        /// Messages in.
        DhcpIn "DHCP messages in",
        /// Messages out.
        DhcpOut "DHCP messages out",
        /// Messages that are cut short or make no sense.
        DhcpErrors "DHCP messages in error",
        /// Messages that are for others, or answer nothing that we asked.
        DhcpIgnored "DHCP messages ignored",
        /// Messages retransmitted.
        DhcpRetransmissions "DHCP messages retransmitted",
        /// Addresses declined because somebody else has them.
        DhcpDeclines "DHCP addresses declined",
        // FTP.
        /// Commands that a server has read.
        FtpCommandsIn "FTP commands in",
        /// Commands that are unknown or whose argument is wrong.
        FtpCommandsWrong "FTP commands wrong",
        /// Commands thrown away because they stood behind AUTH in the clear.
        FtpCommandsDropped "FTP commands dropped at the queue",
        /// Command or reply lines that were too long.
        FtpLinesTooLong "FTP lines too long",
        /// Names that a command cannot carry or that lead out of their directory.
        FtpNamesRefused "FTP names refused",
        /// Telnet options refused on a control connection.
        FtpOptionsRefused "FTP Telnet options refused",
        /// Bytes thrown away because they came before TLS did.
        FtpBytesBeforeTls "FTP bytes dropped before TLS",
        /// Replies that a user has read.
        FtpRepliesIn "FTP replies in",
        /// Replies that are malformed, too long or answer nothing.
        FtpRepliesWrong "FTP replies wrong",
        /// Logins refused.
        FtpLoginsRefused "FTP logins refused",
        /// Commands refused for lack of a login or of the right.
        FtpRightsRefused "FTP commands without the right",
        /// Data ports that are not the user's own, or are privileged.
        FtpBouncesRefused "FTP data ports of others refused",
        /// Data connections that came from somebody else.
        FtpDataPeersRefused "FTP data connections of others refused",
        /// Transfers that are complete.
        FtpTransfersComplete "FTP transfers complete",
        /// Transfers that failed or were aborted.
        FtpTransfersFailed "FTP transfers failed",
        /// Deadlines that ran out: a login, an idle session, a reply, a data connection.
        FtpTimeouts "FTP timeouts",
        /// Lines of a listing that no dialect explains.
        FtpListingLinesUnknown "FTP listing lines unknown",
        // TFTP.
        /// Blocks in that were new.
        TftpBlocksIn "TFTP blocks in",
        /// Blocks out, the repeated ones too.
        TftpBlocksOut "TFTP blocks out",
        /// Blocks sent again.
        TftpRetransmissions "TFTP blocks retransmitted",
        /// Timers of a transfer that ran out.
        TftpTimeouts "TFTP timeouts",
        /// Blocks and acknowledgments that were repeated, late or ahead of one that is missing.
        TftpIgnored "TFTP packets ignored",
        /// Packets that are cut short, make no sense or are of another transfer.
        TftpErrors "TFTP packets in error",
        // Terminal.
        /// Control sequences that are not known.
        TerminalSequencesUnknown "terminal sequences unknown",
        /// Reports that the host asked for and got.
        TerminalReports "terminal reports",
        /// Reports not given because earlier ones still wait to be sent.
        TerminalReportsRefused "terminal reports refused",
        /// Bytes that found the Heath-19's input FIFO full.
        TerminalInputOverruns "terminal input overruns",
        /// Typed characters that a line discipline had no place for, in its set or in its line.
        TerminalLineBytesDropped "terminal line bytes dropped",
        /// Keys whose echo was predicted.
        PredictionsMade "predictions made",
        /// Predictions that were on the screen in the moment of the key.
        PredictionsShown "predictions shown at once",
        /// Predictions that the echo confirmed.
        PredictionsConfirmed "predictions confirmed",
        /// Predictions whose echo was another one, or never came.
        PredictionsWrong "predictions wrong",
        /// Keys not predicted because too many wait for their echo.
        PredictionsRefused "predictions refused",
    }
}
