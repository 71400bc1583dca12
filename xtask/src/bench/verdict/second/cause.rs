//! The causes of the second generator, and what each of them can make longer.

use super::super::truth::Whole;

/// What is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Fault {
    /// The name server does not get the first question, and the client asks again.
    LostQuery,
    /// The server looks up the name of the client before it greets, and its name server is slow.
    ReverseLookup,
    /// The server asks the client's host for its user (RFC 1413), and a firewall rejects that late.
    IdentLookup,
    /// The profile of the login shell sleeps.
    SlowProfile,
    /// A program that writes a few bytes at a time, with pauses.
    ChattyOutput,
    /// Other programs of the server's processor, and a server of lower priority than theirs.
    BusyLoops,
    SlowReplies,
    DiskPauses,
    PeriodicSync,
    Satellite,
    RouteFlap,
    WifiPauses,
    RadioWake,
    Outages,
    LossToServer,
    LossToClient,
    LossOfLarge,
    AlternatingRate,
    EarlyDetection,
    SmallPolicer,
    LargeShaper,
    SaturatedUplink,
    BusyDownlink,
    ClientWindow,
    ServerWindow,
    ClampedSegments,
    BlockedData,
    PlainTftp,
}

impl Fault {
    /// Returns what can take longer because of it.
    pub(in super::super) const fn acts_on(self) -> &'static [Whole] {
        use Whole::{Answer, Echo, EchoUnderLoad, Login, Screenful, Transfer};
        match self {
            Self::LostQuery | Self::ReverseLookup | Self::IdentLookup | Self::SlowProfile => {
                &[Login]
            }
            Self::DiskPauses
            | Self::PeriodicSync
            | Self::AlternatingRate
            | Self::EarlyDetection
            | Self::SmallPolicer
            | Self::LargeShaper
            | Self::ClientWindow
            | Self::ServerWindow
            | Self::BlockedData
            | Self::PlainTftp => &[Transfer],
            Self::SlowReplies => &[Login, Transfer],
            Self::RadioWake => &[Login, Answer, Transfer],
            Self::ChattyOutput | Self::ClampedSegments => {
                &[EchoUnderLoad, Answer, Screenful, Transfer]
            }
            Self::BusyLoops | Self::BusyDownlink => {
                &[Echo, EchoUnderLoad, Answer, Screenful, Transfer]
            }
            Self::Satellite
            | Self::RouteFlap
            | Self::WifiPauses
            | Self::Outages
            | Self::LossToServer
            | Self::LossToClient
            | Self::LossOfLarge
            | Self::SaturatedUplink => &[Login, Echo, EchoUnderLoad, Answer, Screenful, Transfer],
        }
    }

    /// Returns whether it acts on some packets, times or replies only, so that a mean says more than
    /// a median.
    pub(in super::super) const fn is_random(self) -> bool {
        matches!(
            self,
            Self::BusyLoops
                | Self::DiskPauses
                | Self::RouteFlap
                | Self::WifiPauses
                | Self::Outages
                | Self::LossToServer
                | Self::LossToClient
                | Self::LossOfLarge
                | Self::AlternatingRate
                | Self::EarlyDetection
                | Self::SmallPolicer
                | Self::BusyDownlink
        )
    }
}
