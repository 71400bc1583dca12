//! The closed lists of counters, quantities, accounts and kinds of work, each member with its text.

/// Declares a closed list whose members know their own text and can be iterated in order.
macro_rules! closed_list {
    ($(#[$list:meta])* $name:ident { $($(#[$member:meta])* $variant:ident $text:literal,)+ }) => {
        $(#[$list])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$member])* $variant,)+ }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Number of members.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the text that is displayed.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

closed_list! {
    /// Accounts to which CPU time is charged.
    Account {
        /// Waiting, and everything outside this program.
        Outside "outside",
        /// The interrupt level of 1982; today the system calls that move bytes.
        Interrupt "interrupt or system call",
        /// LLP, SLIP.
        Link "link",
        /// IP, ICMP, UDP.
        Internet "internet",
        /// TCP, per segment.
        TcpFixed "TCP, fixed",
        /// TCP, per data byte: checksum and copy.
        TcpByte "TCP, per byte",
        /// TLS: keys, encryption and decryption.
        Encryption "encryption",
        /// Telnet.
        Telnet "Telnet",
        /// The terminal: the grid and its rendering.
        Terminal "terminal",
        /// Files: reading, writing, and converting between the file's form and the wire's.
        Files "files",
        /// FTP, and the connections and servers of sessions: the work of this program that belongs
        /// to no other account.
        Application "application",
    }
}

closed_list! {
    /// Kinds of work of a layer, in units that have a cost on a simulated machine.
    Work {
        /// A byte received from or sent to the line at interrupt level.
        LineByte "line bytes",
        /// A segment received or sent: headers, queues, scheduling.
        Segment "segments",
        /// A byte of data checksummed by TCP.
        SegmentByte "segment bytes",
        /// A byte of data processed by Telnet.
        TelnetByte "Telnet bytes",
        /// A byte written to the terminal.
        TerminalByte "terminal bytes",
        /// A new line, which scrolls the whole screen up.
        NewLine "new lines",
        /// A change of control from one step of a station to another.
        Switch "changes of control",
        /// A byte moved between a file and the connection that carries it.
        FileByte "file bytes",
    }
}

impl Work {
    /// Returns the account to which this kind of work is charged.
    #[must_use]
    pub const fn account(self) -> Account {
        match self {
            Self::LineByte => Account::Interrupt,
            // TM-233 counts these kinds of work as part of the cost per packet, independent of the
            // length.
            Self::Segment | Self::Switch => Account::TcpFixed,
            Self::SegmentByte => Account::TcpByte,
            Self::TelnetByte => Account::Telnet,
            Self::TerminalByte | Self::NewLine => Account::Terminal,
            Self::FileByte => Account::Application,
        }
    }
}

closed_list! {
    /// Quantities whose values are recorded as a distribution.
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
    /// Event counters.
    Counter {
        // Waits and their results.
        /// Returns from a wait.
        Wakeups "wakeups",
        /// Completed transactions: keys, commands.
        Transactions "transactions",
        // Packet buffers.
        /// No packet buffer was free.
        PacketsRefused "packet requests refused, no free buffer",
        // Several stations on one interface.
        /// Datagrams and errors handed over to the next station, because this one had no use for
        /// them.
        MisdeliveredOut "packets handed over to another station",
        /// Datagrams and errors received from another station.
        MisdeliveredIn "packets taken over from another station",
        /// Datagrams and errors dropped at a full queue between two stations.
        MisdeliveredDropped "packets for another station dropped, full queue",
        // Link: LLP, SLIP.
        /// Complete packets received from the line.
        LinkPacketsIn "link packets in",
        /// Complete packets sent to the line.
        LinkPacketsOut "link packets out",
        /// Packets dropped at a full output queue.
        LinkPacketsDropped "link packets dropped before sending",
        /// Packets longer than a buffer.
        LinkPacketsTooLong "link packets too long",
        /// Packets with an unknown local header.
        LinkHeadersUnknown "link headers unknown",
        /// Bytes received when none was expected.
        LinkBytesUnexpected "link bytes unexpected",
        /// Escapes sent.
        LinkEscapesOut "link escapes out",
        /// Escapes received.
        LinkEscapesIn "link escapes in",
        /// Escapes whose second byte is not defined by the protocol.
        LinkEscapesWrong "link escapes invalid",
        /// Requests to send (REQ) sent.
        LlpRequestsOut "LLP REQs sent",
        /// Requests to send (REQ) received.
        LlpRequestsIn "LLP REQs received",
        /// Requests received in the middle of a packet, which is dropped.
        LlpRequestsInPacket "LLP REQs inside a packet",
        /// Requests left unanswered because no packet buffer was free or the used queue was full.
        LlpRequestsRefused "LLP REQs left unanswered, no free buffer",
        /// Acknowledgments sent.
        LlpAcksOut "LLP ACKs sent",
        /// Acknowledgments received.
        LlpAcksIn "LLP ACKs received",
        /// Acknowledgments received when none was outstanding.
        LlpAcksUnexpected "LLP ACKs unexpected",
        /// Timeouts while waiting for an acknowledgment.
        LlpAckTimeouts "LLP ACK timeouts",
        /// Packets given up after the last retry.
        LlpPacketsGivenUp "LLP packets given up",
        /// Packets whose bytes stopped arriving in the middle for too long.
        LlpPacketTimeouts "LLP packet timeouts",
        /// Address requests sent.
        LlpAddressRequestsOut "LLP address requests sent",
        /// Address requests answered.
        LlpAddressRequestsIn "LLP address requests answered",
        /// Address requests that timed out.
        LlpAddressTimeouts "LLP address timeouts",
        /// Packets from the line dropped at a full used queue.
        LinkPacketsRefused "link packets dropped, full used queue",
        /// Frames that are truncated or have a group address as source.
        EthernetFrameErrors "Ethernet frames in error",
        /// Frames for another interface or group.
        EthernetFramesForOthers "Ethernet frames for other addresses",
        /// Frames with a VLAN tag.
        EthernetFramesOfVlans "Ethernet frames of VLANs",
        /// Frames of an unsupported type, or with a length instead of a type.
        EthernetTypesUnknown "Ethernet types unknown",
        /// Segments sent with compressed headers.
        VjCompressedOut "segments sent with compressed headers",
        /// Segments sent whole to fill a slot of the peer's decompressor.
        VjUncompressedOut "segments sent whole for header compression",
        /// Segments whose compressed headers were decompressed.
        VjCompressedIn "segments received with compressed headers",
        /// Segments received whole that filled a slot.
        VjUncompressedIn "segments received whole for header compression",
        /// Compressed headers that are truncated or refer to an empty slot.
        VjErrorsIn "compressed headers in error",
        /// Segments with compressed headers dropped after the loss of an earlier one.
        VjTossed "compressed headers dropped after a loss",
        /// PPP frames whose check sequence is wrong.
        PppCheckErrors "PPP frames with a wrong check sequence",
        /// PPP frames that are too short or were aborted by their sender.
        PppFramesShort "PPP frames cut short",
        /// PPP frames of a protocol that is unsupported or not open.
        PppProtocolsUnknown "PPP protocols unknown",
        /// PPP control packets that are truncated, have a wrong length or match no request.
        PppControlErrors "PPP control packets in error",
        /// PPP control packets dropped at a full queue to the line.
        PppControlDropped "PPP control packets dropped before sending",
        /// PPP control packets whose answer timed out.
        PppTimeouts "PPP timeouts",
        /// Unanswered PPP echo requests.
        PppEchoesLost "PPP echoes unanswered",
        /// Signs that a PPP line is looped back to this host.
        PppLoopbacks "PPP packets looped back",
        /// Failed PPP authentications, in either direction.
        PppAuthenticationsFailed "PPP authentications failed",
        // Internet.
        /// Datagrams received from the link.
        IpDatagramsIn "IP datagrams in",
        /// Datagrams sent to the link.
        IpDatagramsOut "IP datagrams out",
        /// Datagrams delivered to a higher layer.
        IpDatagramsDelivered "IP datagrams delivered",
        /// Headers that are truncated, have a wrong length or are not IPv4.
        IpHeaderErrors "IP header errors",
        /// Headers whose checksum is wrong.
        IpChecksumErrors "IP header checksum errors",
        /// Datagrams for other hosts.
        IpAddressErrors "IP datagrams for other hosts",
        /// Datagrams with a source address that no host may have.
        IpSourceErrors "IP source addresses invalid",
        /// Headers with options, which are skipped.
        IpOptionsSkipped "IP headers with options",
        /// Fragments, which are dropped.
        IpFragmentsDropped "IP fragments dropped",
        /// Datagrams for an unsupported protocol.
        IpProtocolsUnknown "IP protocols unknown",
        /// Datagrams whose time to live expired.
        IpTimeExceeded "IP datagrams with expired time to live",
        /// Datagrams dropped because the queue to the link was full.
        IpOutputDropped "IP datagrams dropped at output",
        /// Fragments from the link.
        IpFragmentsIn "IP fragments in",
        /// Duplicate fragments.
        IpFragmentsDuplicate "IP fragments received twice",
        /// Datagrams reassembled from fragments.
        IpReassembled "IP datagrams reassembled",
        /// Datagrams dropped because their fragments contradict each other or the protocol.
        IpReassemblyErrors "IP datagrams with fragments in error",
        /// Datagrams whose fragments did not all arrive in time.
        IpReassemblyTimeouts "IP datagrams not reassembled in time",
        /// Incomplete datagrams evicted for later datagrams.
        IpReassemblyEvicted "IP datagrams evicted before reassembly",
        /// Fragments sent.
        IpFragmentsOut "IP fragments out",
        /// Path MTUs lowered by an ICMP error.
        IpPathMtusLowered "IP path MTUs lowered",
        /// Datagrams of an application's protocol dropped at a full queue.
        IpRawQueueFull "IP datagrams dropped at the application's queue",
        /// ICMP messages received.
        IcmpIn "ICMP messages in",
        /// ICMP messages that are damaged or truncated.
        IcmpErrors "ICMP messages in error",
        /// Echo requests answered.
        IcmpEchoesAnswered "ICMP echoes answered",
        /// ICMP errors sent.
        IcmpErrorsOut "ICMP errors sent",
        /// ICMP errors not sent, because of the packet that caused them or because of the rate
        /// limit.
        IcmpErrorsSuppressed "ICMP errors suppressed",
        /// ICMP errors delivered to a transport.
        IcmpErrorsDelivered "ICMP errors delivered",
        /// ICMP messages of a type that needs no action, or that match no request.
        IcmpIgnored "ICMP messages ignored",
        /// ICMP events dropped at a full queue.
        IcmpEventsDropped "ICMP events dropped",
        // Neighbors: ARP, Neighbor Discovery and address configuration.
        /// Neighbors not added to a full cache.
        NeighborEntriesRefused "neighbors not added, full cache",
        /// Neighbors evicted for others.
        NeighborsForgotten "neighbors evicted from the cache",
        /// Neighbors that did not answer.
        NeighborsUnreachable "neighbors unreachable",
        /// Unsolicited answers.
        NeighborsUnasked "neighbor answers unsolicited",
        /// Claims of an address that belongs to another neighbor.
        NeighborOverwritesRefused "claims of another neighbor's address refused",
        /// Packets dropped for lack of space while waiting for a neighbor.
        NeighborPacketsDropped "packets dropped before a neighbor answered",
        /// Requests for a neighbor's address sent.
        NeighborSolicitationsOut "neighbor solicitations sent",
        /// Requests for a neighbor's address dropped at a full queue.
        NeighborSolicitationsDropped "neighbor solicitations dropped",
        /// Answers to requests for a local address dropped at a full queue.
        NeighborAnswersDropped "neighbor answers dropped",
        /// Neighbor or address events dropped at a full queue.
        NeighborEventsDropped "neighbor events dropped",
        /// ARP packets in.
        ArpIn "ARP packets in",
        /// ARP packets out.
        ArpOut "ARP packets out",
        /// ARP packets that are truncated, have a wrong length or are invalid.
        ArpErrors "ARP packets in error",
        /// ARP packets from another host that uses or probes a local address.
        ArpConflicts "ARP address conflicts",
        /// Messages of Neighbor Discovery in.
        NdIn "ND messages in",
        /// Messages of Neighbor Discovery out.
        NdOut "ND messages out",
        /// Messages of Neighbor Discovery that are truncated, were forwarded or are invalid.
        NdErrors "ND messages in error",
        /// Options of Neighbor Discovery whose length is wrong.
        NdOptionErrors "ND options with a wrong length",
        /// Messages of Neighbor Discovery that are not trusted or concern no neighbor or address of
        /// this host.
        NdIgnored "ND messages ignored",
        /// Local addresses that another host has.
        NdDuplicates "ND duplicate addresses",
        /// Routers, prefixes, addresses or servers over the limit.
        NdEntriesRefused "ND entries over the limit",
        // UDP.
        /// Datagrams delivered.
        UdpIn "UDP datagrams in",
        /// Datagrams sent.
        UdpOut "UDP datagrams out",
        /// Packets that brought several datagrams of one size.
        UdpSuperIn "UDP super-datagrams in",
        /// Packets that a device cuts into several datagrams of one size.
        UdpSuperOut "UDP super-datagrams out",
        /// Datagrams for a port without a socket.
        UdpNoPort "UDP datagrams for a port without a socket",
        /// Datagrams that are damaged or truncated.
        UdpErrors "UDP datagrams in error",
        /// Datagrams dropped at a full receive queue.
        UdpQueueFull "UDP datagrams dropped, full receive queue",
        /// Binds refused because of a limit.
        UdpBindsRefused "UDP binds over the limit",
        // TCP.
        /// Segments received.
        TcpSegmentsIn "TCP segments in",
        /// Segments sent.
        TcpSegmentsOut "TCP segments out",
        /// Segments that are truncated or have an invalid header.
        TcpHeaderErrors "TCP header errors",
        /// Segments whose checksum is wrong.
        TcpChecksumErrors "TCP checksum errors",
        /// Options whose length is wrong.
        TcpOptionErrors "TCP options with a wrong length",
        /// Active opens.
        TcpActiveOpens "TCP active opens",
        /// Passive opens: connections created by a SYN.
        TcpPassiveOpens "TCP passive opens",
        /// Opens refused because of a limit.
        TcpOpensRefused "TCP opens over the limit",
        /// Connections that were reset by either side.
        TcpResets "TCP connections reset",
        /// Resets sent.
        TcpResetsOut "TCP resets sent",
        /// Resets not sent because too many were queued.
        TcpResetsSuppressed "TCP resets suppressed",
        /// Resets in the window but not at its edge, or outside the window.
        TcpResetsIgnored "TCP resets ignored",
        /// Challenge acknowledgments sent.
        TcpChallengeAcks "TCP challenge ACKs",
        /// Challenge acknowledgments suppressed by the limit.
        TcpChallengeAcksSuppressed "TCP challenge ACKs suppressed",
        /// Segments retransmitted.
        TcpRetransmissions "TCP segments retransmitted",
        /// Retransmission timeouts.
        TcpTimeouts "TCP retransmission timeouts",
        /// Fast retransmits.
        TcpFastRetransmits "TCP fast retransmits",
        /// Tail loss probes.
        TcpTailProbes "TCP tail probes",
        /// Spurious reductions of the congestion window that were undone.
        TcpRecoveriesUndone "TCP recoveries undone",
        /// Acknowledgments that report a duplicate segment.
        TcpDuplicateReports "TCP ACKs that report a duplicate segment",
        /// Segments delivered out of order.
        TcpReordered "TCP deliveries out of order",
        /// SACK blocks that are impossible or too many.
        TcpBlocksRefused "TCP SACK blocks invalid or too many",
        /// Peers that dropped data they had selectively acknowledged (reneging).
        TcpReneged "TCP SACK data dropped by the peer",
        /// Segments with a congestion mark (ECN).
        TcpMarksIn "TCP segments with an ECN mark",
        /// Reductions of the congestion window because of a mark.
        TcpMarkReductions "TCP window reductions by an ECN mark",
        /// Connections given up because nothing was acknowledged for too long.
        TcpGivenUp "TCP connections timed out",
        /// Duplicate acknowledgments received.
        TcpDuplicateAcks "TCP duplicate ACKs in",
        /// Acknowledgments of data that was never sent.
        TcpAcksUnsent "TCP ACKs of unsent data",
        /// Acknowledgments too old to be accepted.
        TcpAcksTooOld "TCP ACKs too old",
        /// Segments outside the window.
        TcpOutsideWindow "TCP segments outside the window",
        /// Segments dropped by the timestamp check (PAWS).
        TcpPawsDropped "TCP segments with an old timestamp",
        /// Segments received out of order and queued.
        TcpOutOfOrder "TCP segments out of order",
        /// Segments received out of order and dropped for lack of buffer space.
        TcpOutOfOrderDropped "TCP out-of-order segments dropped",
        /// Bytes received twice.
        TcpDuplicateBytes "TCP bytes received twice",
        /// Probes of a closed window.
        TcpWindowProbes "TCP window probes",
        /// Acknowledgments without data.
        TcpPureAcksOut "TCP ACKs without data sent",
        /// Acknowledgments piggybacked on data.
        TcpPiggybackedAcks "TCP ACKs piggybacked on data",
        /// Delayed acknowledgments sent because their timer expired.
        TcpDelayedAckTimeouts "TCP delayed ACK timeouts",
        /// Segments with urgent data received.
        TcpUrgentIn "TCP urgent segments in",
        /// Segments with urgent data sent.
        TcpUrgentOut "TCP urgent segments out",
        /// Data received after the user had closed, which causes a reset.
        TcpDataAfterClose "TCP data after close",
        /// Keep-alive probes.
        TcpKeepAlives "TCP keep-alive probes",
        /// SYNs answered by a cookie because too many connections were half open.
        TcpSynCookiesOut "TCP SYN cookies sent",
        /// Connections opened by a returned cookie.
        TcpSynCookiesIn "TCP SYN cookies accepted",
        /// Acknowledgments that looked like a cookie but did not match.
        TcpSynCookiesWrong "TCP SYN cookies invalid",
        /// Connections in TIME-WAIT replaced by a new one.
        TcpTimeWaitsReused "TCP TIME-WAITs reused",
        /// Connections evicted because the table was full.
        TcpReaped "TCP connections evicted, full table",
        /// SYNs whose data was accepted immediately.
        TcpFastOpensIn "TCP fast opens in",
        /// SYNs sent with data.
        TcpFastOpensOut "TCP fast opens sent",
        /// SYNs with a wrong cookie, or beyond the limit of pending fast opens.
        TcpFastOpensRefused "TCP fast opens refused",
        /// ICMP errors about data in flight.
        TcpIcmpErrors "ICMP errors accepted by TCP",
        /// ICMP errors that match no data in flight.
        TcpIcmpErrorsIgnored "ICMP errors ignored by TCP",
        /// Black holes: segments longer than the base length were lost without an ICMP error.
        TcpBlackHoles "TCP black holes",
        /// Longer segments sent to probe the path MTU.
        TcpPathProbes "TCP path MTU probes",
        /// Receive windows grown with the rate at which the application reads.
        TcpReceiveWindowsGrown "TCP receive windows grown",
        /// Send buffers grown with the congestion window.
        TcpSendBuffersGrown "TCP send buffers grown",
        /// Buffers not grown because the total limit was reached.
        TcpGrowthRefused "TCP buffers not grown, total limit",
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
        TelnetOptionsRefused "Telnet options refused by the local end",
        /// Subnegotiations that were longer than the limit.
        TelnetSubnegotiationsTooLong "Telnet subnegotiations too long",
        /// Malformed subnegotiations.
        TelnetSubnegotiationsWrong "Telnet subnegotiations malformed",
        /// Bytes discarded between the urgent notification and the data mark.
        TelnetBytesDiscarded "Telnet bytes discarded by Synch",
        /// Output bytes rejected by a full queue.
        TelnetOutputRefused "Telnet output bytes rejected, full queue",
        /// Commands with an undefined code, and ends of subnegotiations that never began.
        TelnetCommandsUnknown "Telnet commands unknown",
        /// Environment variables that were not requested or have an invalid value.
        TelnetVariablesRefused "Telnet environment variables rejected",
        /// Compressed streams that are invalid or expand beyond the limit.
        TelnetCompressedRefused "Telnet compressed streams rejected",
        /// Data and commands received in plaintext after the announcement that TLS follows.
        TelnetItemsBeforeTls "Telnet data and commands ignored before TLS",
        /// Inspection records dropped because they were not taken in time.
        TelnetRecordsDropped "Telnet inspection records dropped",
        /// Bytes of the login program's own text dropped because its display accepted none.
        DisplayBytesDropped "display bytes dropped",
        // Console server.
        /// Bytes of a serial line's output skipped for a slow reader.
        ConsoleBytesSkipped "console bytes skipped for slow readers",
        /// Bytes typed by a user without write access.
        ConsoleBytesRefused "console bytes typed without write access",
        // DHCP.
        /// Messages received.
        DhcpIn "DHCP messages in",
        /// Messages sent.
        DhcpOut "DHCP messages out",
        /// Messages that are truncated or invalid.
        DhcpErrors "DHCP messages in error",
        /// Messages for other hosts, or that match no request.
        DhcpIgnored "DHCP messages ignored",
        /// Messages retransmitted.
        DhcpRetransmissions "DHCP messages retransmitted",
        /// Addresses declined because another host has them.
        DhcpDeclines "DHCP addresses declined",
        // FTP.
        /// Commands read by a server.
        FtpCommandsIn "FTP commands in",
        /// Commands that are unknown or have an invalid argument.
        FtpCommandsWrong "FTP commands invalid",
        /// Commands discarded because they followed AUTH in plaintext.
        FtpCommandsDropped "FTP commands dropped before TLS",
        /// Command or reply lines that were too long.
        FtpLinesTooLong "FTP lines too long",
        /// Names that a command cannot carry or that lead out of their directory.
        FtpNamesRefused "FTP names rejected",
        /// Telnet options refused on a control connection.
        FtpOptionsRefused "Telnet options refused on FTP connections",
        /// Bytes received before the TLS handshake and discarded.
        FtpBytesBeforeTls "FTP bytes dropped before TLS",
        /// Replies read by a client.
        FtpRepliesIn "FTP replies in",
        /// Replies that are malformed, too long or match no command.
        FtpRepliesWrong "FTP replies invalid",
        /// Logins refused.
        FtpLoginsRefused "FTP logins refused by the local server",
        /// Commands refused for lack of a login or of a permission.
        FtpRightsRefused "FTP commands without the required permission",
        /// Data ports that are on another host than the client's, or are privileged.
        FtpBouncesRefused "FTP data addresses refused, another host or privileged port",
        /// Data connections from another host.
        FtpDataPeersRefused "FTP data connections refused, another host",
        /// Completed transfers.
        FtpTransfersComplete "FTP transfers complete",
        /// Failed or aborted transfers.
        FtpTransfersFailed "FTP transfers failed",
        /// Timeouts: of a login, an idle session, a reply, a data connection.
        FtpTimeouts "FTP timeouts",
        /// Lines of a listing that match no known format.
        FtpListingLinesUnknown "FTP listing lines in an unknown format",
        // TFTP.
        /// New blocks received.
        TftpBlocksIn "TFTP blocks in",
        /// Blocks sent, including retransmissions.
        TftpBlocksOut "TFTP blocks out",
        /// Retransmitted blocks.
        TftpRetransmissions "TFTP blocks retransmitted",
        /// Expired timers of a transfer.
        TftpTimeouts "TFTP timeouts",
        /// Blocks and acknowledgments that were duplicate, late or ahead of a missing one.
        TftpIgnored "TFTP packets ignored",
        /// Packets that are truncated, invalid or of another transfer.
        TftpErrors "TFTP packets in error",
        // Terminal.
        /// Unknown control sequences.
        TerminalSequencesUnknown "terminal sequences unknown",
        /// Reports sent at the host's request.
        TerminalReports "terminal reports",
        /// Reports not sent because earlier reports were still queued.
        TerminalReportsRefused "terminal reports not sent, earlier ones queued",
        /// Bytes lost to a full input FIFO of the Heath-19.
        TerminalInputOverruns "terminal input overruns",
        /// Typed characters that a line discipline dropped: not in its character set, or beyond the
        /// maximum length of a line.
        TerminalLineBytesDropped "terminal line bytes dropped",
        /// Keys whose echo was predicted.
        PredictionsMade "predictions made",
        /// Predictions displayed at the moment of the keystroke.
        PredictionsShown "predictions shown at once",
        /// Predictions confirmed by the echo.
        PredictionsConfirmed "predictions confirmed",
        /// Predictions whose echo differed or never arrived.
        PredictionsWrong "predictions wrong",
        /// Keys not predicted because too many were waiting for their echo.
        PredictionsRefused "keys not predicted, too many without echo",
    }
}
