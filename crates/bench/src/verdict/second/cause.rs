//! The causes of the second generator, and the waiting times that each of them can lengthen.

use super::super::user_wait::UserWait;

/// Kind of an injected cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Fault {
    /// The name server does not receive the first query, and the client repeats it.
    LostQuery,
    /// The server looks up the client's name before its greeting, and its name server is slow.
    ReverseLookup,
    /// The server queries the client's host for the user (RFC 1413), and a firewall rejects the
    /// query after a delay.
    IdentLookup,
    /// The profile of the login shell sleeps.
    SlowProfile,
    /// A program writes a few bytes at a time, with pauses.
    ChattyOutput,
    /// Other programs compete for the server's processor, and the server has a lower priority.
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
    /// Returns the waiting times that the cause can lengthen.
    pub(in super::super) const fn acts_on(self) -> &'static [UserWait] {
        use UserWait::{Answer, Echo, EchoUnderLoad, Login, Screenful, Transfer};
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

    /// Returns whether the cause affects only some packets, times or replies, so that a mean is
    /// more meaningful than a median.
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
