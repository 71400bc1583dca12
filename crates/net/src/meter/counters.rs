//! The lists of counters, quantities, accounts and kinds of work. Each list member has a text that
//! is displayed for it.

/// Declares an enum whose variants have a displayed text and can be listed in order.
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

            /// Returns the text displayed for this member.
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
        /// Time in which the program waits, or other programs run.
        Outside "outside",
        /// System calls that transfer bytes; in the simulation of TM-233, the interrupt level.
        Interrupt "interrupt or system call",
        /// The link protocols: LLP, SLIP.
        Link "link",
        /// The protocols IP, ICMP and UDP.
        Internet "internet",
        /// TCP: the cost per segment, independent of its length.
        TcpFixed "TCP, fixed",
        /// TCP: the cost per data byte, for checksum and copy.
        TcpByte "TCP, per byte",
        /// TLS: keys, encryption and decryption.
        Encryption "encryption",
        /// The Telnet protocol.
        Telnet "Telnet",
        /// The terminal: the grid and its rendering.
        Terminal "terminal",
        /// Files: reading, writing, and converting between the local format and the format of the
        /// protocol.
        Files "files",
        /// FTP, session handling, and all other work of this program that no other account
        /// contains.
        Application "application",
    }
}

closed_list! {
    /// Kinds of work, counted in units that have a fixed cost on a simulated machine.
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
        /// A line feed on the terminal, which scrolls the screen.
        NewLine "new lines",
        /// A switch from one step of a station to another.
        Switch "changes of control",
        /// A byte transferred between a file and a connection.
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
        /// Time from sending a segment to its acknowledgment, in ns.
        RoundTrip "round trip",
        /// Retransmission timeout that expired, in ns.
        RetransmissionTimeout "retransmission timeout",
        /// Data bytes in a segment received.
        SegmentBytesIn "data bytes in a segment received",
        /// Data bytes in a segment sent.
        SegmentBytesOut "data bytes in a segment sent",
        /// Time from an LLP request to send (REQ) to its acknowledgment, in ns.
        LlpAckWait "wait for the link's acknowledgment",
    }
}

closed_list! {
    /// Event counters.
    Counter {
        // Waits and their results.
        /// Returns from a wait for events.
        Wakeups "wakeups",
        /// Completed transactions, such as keystrokes or commands.
        Transactions "transactions",
        // Packet buffers.
        /// Requests for a packet buffer while none was free.
        PacketsRefused "packet requests refused, no free buffer",
        // Several stations on one interface.
        /// Datagrams and errors handed over to the next station, because they match no connection
        /// or port of this one.
        MisdeliveredOut "packets handed over to another station",
        /// Datagrams and errors received from another station.
        MisdeliveredIn "packets taken over from another station",
        /// Datagrams and errors for another station that were dropped because the queue to it was
        /// full.
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
        /// Bytes received outside a packet.
        LinkBytesUnexpected "link bytes unexpected",
        /// Bytes sent as an escape sequence.
        LinkEscapesOut "link escapes out",
        /// Bytes received as an escape sequence.
        LinkEscapesIn "link escapes in",
        /// Escape sequences whose second byte the protocol does not define.
        LinkEscapesWrong "link escapes invalid",
        /// Requests to send (REQ) sent.
        LlpRequestsOut "LLP REQs sent",
        /// Requests to send (REQ) received.
        LlpRequestsIn "LLP REQs received",
        /// Requests to send (REQ) received in the middle of a packet; the incomplete packet is
        /// dropped.
        LlpRequestsInPacket "LLP REQs inside a packet",
        /// Requests left unanswered because no packet buffer was free or the used queue was full.
        LlpRequestsRefused "LLP REQs left unanswered, no free buffer",
        /// LLP acknowledgments sent.
        LlpAcksOut "LLP ACKs sent",
        /// LLP acknowledgments received.
        LlpAcksIn "LLP ACKs received",
        /// LLP acknowledgments received when none was outstanding.
        LlpAcksUnexpected "LLP ACKs unexpected",
        /// Timeouts while waiting for an acknowledgment.
        LlpAckTimeouts "LLP ACK timeouts",
        /// Packets dropped after the last retry.
        LlpPacketsGivenUp "LLP packets given up",
        /// Incomplete packets dropped because no further byte arrived in time.
        LlpPacketTimeouts "LLP packet timeouts",
        /// Address requests sent.
        LlpAddressRequestsOut "LLP address requests sent",
        /// Address requests answered.
        LlpAddressRequestsIn "LLP address requests answered",
        /// Address requests that timed out.
        LlpAddressTimeouts "LLP address timeouts",
        /// Received packets dropped because the used queue, which passes packets to the host, was
        /// full.
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
        /// Segments sent with full headers to fill a slot of the peer's decompressor.
        VjUncompressedOut "segments sent whole for header compression",
        /// Segments whose compressed headers were decompressed.
        VjCompressedIn "segments received with compressed headers",
        /// Segments received with full headers that filled a slot of the decompressor.
        VjUncompressedIn "segments received whole for header compression",
        /// Compressed headers that are truncated or refer to an empty slot.
        VjErrorsIn "compressed headers in error",
        /// Segments with compressed headers dropped because an earlier segment was lost.
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
        /// Received PPP packets which indicate that the line is looped back to this host.
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
        /// Datagrams whose destination is another host.
        IpAddressErrors "IP datagrams for other hosts",
        /// Datagrams with an invalid source address, such as a broadcast address.
        IpSourceErrors "IP source addresses invalid",
        /// Headers with IP options; the options are ignored.
        IpOptionsSkipped "IP headers with options",
        /// Fragments dropped.
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
        /// Incomplete datagrams evicted to reassemble later ones.
        IpReassemblyEvicted "IP datagrams evicted before reassembly",
        /// Fragments sent.
        IpFragmentsOut "IP fragments out",
        /// Path MTUs lowered by an ICMP error.
        IpPathMtusLowered "IP path MTUs lowered",
        /// Datagrams for an application that implements its own IP protocol, dropped because the
        /// queue was full.
        IpRawQueueFull "IP datagrams dropped at the application's queue",
        /// ICMP messages received.
        IcmpIn "ICMP messages in",
        /// ICMP messages that are damaged or truncated.
        IcmpErrors "ICMP messages in error",
        /// Echo requests answered.
        IcmpEchoesAnswered "ICMP echoes answered",
        /// ICMP errors sent.
        IcmpErrorsOut "ICMP errors sent",
        /// ICMP errors not sent because of the rate limit, or because the packet that caused them
        /// must not be answered.
        IcmpErrorsSuppressed "ICMP errors suppressed",
        /// ICMP errors delivered to a transport.
        IcmpErrorsDelivered "ICMP errors delivered",
        /// ICMP messages of a type that needs no action, or that match no request.
        IcmpIgnored "ICMP messages ignored",
        /// ICMP events dropped at a full queue.
        IcmpEventsDropped "ICMP events dropped",
        // Neighbors: ARP, Neighbor Discovery and address configuration.
        /// Neighbors not added because the cache was full.
        NeighborEntriesRefused "neighbors not added, full cache",
        /// Neighbors evicted from a full cache.
        NeighborsForgotten "neighbors evicted from the cache",
        /// Neighbors that did not answer.
        NeighborsUnreachable "neighbors unreachable",
        /// Unsolicited answers of neighbors.
        NeighborsUnasked "neighbor answers unsolicited",
        /// Ignored ARP or ND packets that claim the address of another neighbor.
        NeighborOverwritesRefused "claims of another neighbor's address refused",
        /// Packets dropped because the queue for an unresolved neighbor was full.
        NeighborPacketsDropped "packets dropped before a neighbor answered",
        /// Requests for a neighbor's address sent.
        NeighborSolicitationsOut "neighbor solicitations sent",
        /// Requests for a neighbor's address dropped at a full queue.
        NeighborSolicitationsDropped "neighbor solicitations dropped",
        /// Answers to requests for a local address dropped at a full queue.
        NeighborAnswersDropped "neighbor answers dropped",
        /// Neighbor or address events dropped at a full queue.
        NeighborEventsDropped "neighbor events dropped",
        /// ARP packets received.
        ArpIn "ARP packets in",
        /// ARP packets sent.
        ArpOut "ARP packets out",
        /// ARP packets that are truncated, have a wrong length or are invalid.
        ArpErrors "ARP packets in error",
        /// ARP packets from another host that uses or probes a local address.
        ArpConflicts "ARP address conflicts",
        /// Neighbor Discovery messages received.
        NdIn "ND messages in",
        /// Neighbor Discovery messages sent.
        NdOut "ND messages out",
        /// Neighbor Discovery messages that are truncated or invalid, or that a router has
        /// forwarded.
        NdErrors "ND messages in error",
        /// Neighbor Discovery options with a wrong length.
        NdOptionErrors "ND options with a wrong length",
        /// Neighbor Discovery messages that are not trusted, or that concern no neighbor or address
        /// of this host.
        NdIgnored "ND messages ignored",
        /// Local addresses that another host already uses.
        NdDuplicates "ND duplicate addresses",
        /// Routers, prefixes, addresses or servers ignored because their limit was reached.
        NdEntriesRefused "ND entries over the limit",
        // UDP.
        /// Datagrams delivered.
        UdpIn "UDP datagrams in",
        /// Datagrams sent.
        UdpOut "UDP datagrams out",
        /// Packets received that contained several datagrams of one size.
        UdpSuperIn "UDP super-datagrams in",
        /// Packets that a device cuts into several datagrams of one size.
        UdpSuperOut "UDP super-datagrams out",
        /// Datagrams for a port without a socket.
        UdpNoPort "UDP datagrams for a port without a socket",
        /// Datagrams that are damaged or truncated.
        UdpErrors "UDP datagrams in error",
        /// Datagrams dropped at a full receive queue.
        UdpQueueFull "UDP datagrams dropped, full receive queue",
        /// Sockets not bound because a limit was reached.
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
        /// Connections not opened because a limit was reached.
        TcpOpensRefused "TCP opens over the limit",
        /// Connections reset by either side.
        TcpResets "TCP connections reset",
        /// Resets sent.
        TcpResetsOut "TCP resets sent",
        /// Resets not sent because too many were queued.
        TcpResetsSuppressed "TCP resets suppressed",
        /// Resets ignored because they were outside the window, did not have exactly the next
        /// expected sequence number (RFC 5961), or arrived in TIME-WAIT.
        TcpResetsIgnored "TCP resets ignored",
        /// Challenge acknowledgments sent.
        TcpChallengeAcks "TCP challenge ACKs",
        /// Challenge acknowledgments not sent because of the rate limit.
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
        /// Acknowledgments which report that a segment arrived twice (D-SACK).
        TcpDuplicateReports "TCP ACKs that report a duplicate segment",
        /// Segments delivered out of order.
        TcpReordered "TCP deliveries out of order",
        /// SACK blocks ignored because they are impossible or too many.
        TcpBlocksRefused "TCP SACK blocks invalid or too many",
        /// Peers that dropped data they had selectively acknowledged (reneging).
        TcpReneged "TCP SACK data dropped by the peer",
        /// Segments with a congestion mark (ECN).
        TcpMarksIn "TCP segments with an ECN mark",
        /// Reductions of the congestion window because of an ECN mark.
        TcpMarkReductions "TCP window reductions by an ECN mark",
        /// Connections closed because no data was acknowledged in time.
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
        /// Probes sent to a closed window.
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
        /// Segments with data received after the application had closed. Each causes a reset.
        TcpDataAfterClose "TCP data after close",
        /// Keep-alive probes.
        TcpKeepAlives "TCP keep-alive probes",
        /// SYNs answered with a SYN cookie because too many connections were half open.
        TcpSynCookiesOut "TCP SYN cookies sent",
        /// Connections established by a valid SYN cookie.
        TcpSynCookiesIn "TCP SYN cookies accepted",
        /// Acknowledgments with an invalid SYN cookie.
        TcpSynCookiesWrong "TCP SYN cookies invalid",
        /// Connections in TIME-WAIT replaced by a new one.
        TcpTimeWaitsReused "TCP TIME-WAITs reused",
        /// Connections evicted because the table was full.
        TcpReaped "TCP connections evicted, full table",
        /// SYNs with data that was accepted immediately (TCP Fast Open).
        TcpFastOpensIn "TCP fast opens in",
        /// SYNs sent with data.
        TcpFastOpensOut "TCP fast opens sent",
        /// Fast open requests refused: the cookie is wrong, or too many fast opens are pending.
        TcpFastOpensRefused "TCP fast opens refused",
        /// ICMP errors that match data in flight.
        TcpIcmpErrors "ICMP errors accepted by TCP",
        /// ICMP errors that match no data in flight.
        TcpIcmpErrorsIgnored "ICMP errors ignored by TCP",
        /// Detected black holes: long segments were lost without an ICMP error.
        TcpBlackHoles "TCP black holes",
        /// Segments sent to probe a larger path MTU.
        TcpPathProbes "TCP path MTU probes",
        /// Increases of a receive window to match the rate at which the application reads.
        TcpReceiveWindowsGrown "TCP receive windows grown",
        /// Increases of a send buffer to match the congestion window.
        TcpSendBuffersGrown "TCP send buffers grown",
        /// Buffers not increased because the limit for all buffers was reached.
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
        /// Bytes discarded between the urgent notification and the data mark (Synch).
        TelnetBytesDiscarded "Telnet bytes discarded by Synch",
        /// Output bytes rejected by a full queue.
        TelnetOutputRefused "Telnet output bytes rejected, full queue",
        /// Commands with an undefined code, and SE without a preceding SB.
        TelnetCommandsUnknown "Telnet commands unknown",
        /// Environment variables that were not requested or have an invalid value.
        TelnetVariablesRefused "Telnet environment variables rejected",
        /// Compressed streams that are invalid or expand beyond the limit.
        TelnetCompressedRefused "Telnet compressed streams rejected",
        /// Data and commands ignored because they arrived in plaintext after the peer had announced
        /// TLS.
        TelnetItemsBeforeTls "Telnet data and commands ignored before TLS",
        /// Inspection records dropped because they were not read in time.
        TelnetRecordsDropped "Telnet inspection records dropped",
        /// Bytes of the login program's own messages that were dropped because the display accepted
        /// no output.
        DisplayBytesDropped "display bytes dropped",
        // Console server.
        /// Serial line output skipped for a user that reads too slowly, in bytes.
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
        /// Commands discarded because they followed the AUTH command in plaintext.
        FtpCommandsDropped "FTP commands dropped before TLS",
        /// Command or reply lines that were too long.
        FtpLinesTooLong "FTP lines too long",
        /// File names that an FTP command cannot contain or that lead outside the directory.
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
        /// Commands refused because the user is not logged in or has no permission.
        FtpRightsRefused "FTP commands without the required permission",
        /// Data addresses refused because the host is not the client's or the port is privileged.
        FtpBouncesRefused "FTP data addresses refused, another host or privileged port",
        /// Data connections refused because they come from another host.
        FtpDataPeersRefused "FTP data connections refused, another host",
        /// Completed transfers.
        FtpTransfersComplete "FTP transfers complete",
        /// Failed or aborted transfers.
        FtpTransfersFailed "FTP transfers failed",
        /// Timeouts of a login, an idle session, a reply or a data connection.
        FtpTimeouts "FTP timeouts",
        // TFTP.
        /// New blocks received.
        TftpBlocksIn "TFTP blocks in",
        /// Blocks sent, including retransmissions.
        TftpBlocksOut "TFTP blocks out",
        /// Retransmitted blocks.
        TftpRetransmissions "TFTP blocks retransmitted",
        /// Expired timers of a transfer.
        TftpTimeouts "TFTP timeouts",
        /// Blocks and acknowledgments that were duplicate, late, or received before a missing one.
        TftpIgnored "TFTP packets ignored",
        /// Packets that are truncated, invalid or of another transfer.
        TftpErrors "TFTP packets in error",
        /// Requests of a server that are malformed, or for mail or an unknown mode.
        TftpRequestsInvalid "TFTP requests refused, invalid",
        /// Requests refused because the address is not allowed, or because of the limits of transfers.
        TftpAdmissionsRefused "TFTP requests refused, address or number of transfers",
        /// Requests for a file that does not exist.
        TftpFilesMissing "TFTP requests refused, file not found",
        /// Requests for a file outside the root, or without the permission to read or replace it.
        TftpAccessRefused "TFTP requests refused, no permission",
        /// Requests for an upload to a server without uploads.
        TftpUploadsRefused "TFTP requests refused, uploads disabled",
        /// Uploads of a file that exists and may not be replaced.
        TftpReplacementsRefused "TFTP requests refused, file exists",
        /// Uploads that exceed the free space or the maximum size.
        TftpSpaceRefused "TFTP requests refused, not enough space",
        /// Requests whose file cannot be opened for another reason.
        TftpOpensFailed "TFTP requests refused, file system error",
        // XMODEM, YMODEM and ZMODEM.
        /// Blocks and frames received without error.
        ModemFramesIn "XMODEM/YMODEM/ZMODEM frames in",
        /// Blocks and frames sent, including repeated ones.
        ModemFramesOut "XMODEM/YMODEM/ZMODEM frames out",
        /// Blocks and frames that were damaged or malformed.
        ModemErrors "XMODEM/YMODEM/ZMODEM errors",
        /// Blocks and frames that are valid, but not expected in the state of the transfer.
        ModemIgnored "XMODEM/YMODEM/ZMODEM frames ignored",
        /// Returns to an earlier position of the file.
        ModemRetransmissions "XMODEM/YMODEM/ZMODEM retransmissions",
        /// Expired timers of a transfer.
        ModemTimeouts "XMODEM/YMODEM/ZMODEM timeouts",
        // Terminal.
        /// Unknown control sequences.
        TerminalSequencesUnknown "terminal sequences unknown",
        /// Reports sent at the host's request.
        TerminalReports "terminal reports",
        /// Reports not sent because earlier reports were still queued.
        TerminalReportsRefused "terminal reports not sent, earlier ones queued",
        /// Bytes lost because the input FIFO of the Heath-19 was full.
        TerminalInputOverruns "terminal input overruns",
        /// Typed characters dropped by a line discipline: not in its character set, or beyond the
        /// maximum length of a line.
        TerminalLineBytesDropped "terminal line bytes dropped",
        /// Keys whose echo was predicted.
        PredictionsMade "predictions made",
        /// Predictions displayed as soon as the key was typed.
        PredictionsShown "predictions shown at once",
        /// Predictions confirmed by the echo.
        PredictionsConfirmed "predictions confirmed",
        /// Predictions whose echo differed or never arrived.
        PredictionsWrong "predictions wrong",
        /// Keys not predicted because too many were waiting for their echo.
        PredictionsRefused "keys not predicted, too many without echo",
    }
}
