//! Options that the FTP commands have in common.

use crate::address_families::AddressFamilyOptions;
use crate::files::hosts::HostSettings;
use crate::files::representation::{
    RequestedType, parse_mode, parse_requested_type, parse_structure, parse_word_format,
};
use crate::heading;
use crate::record_options::RecordOptions;
use anyhow::Result;
use carrier::Route;
use os::beneath::Existing;
use protocols::ftp::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};
use std::convert::Infallible;
use std::path::PathBuf;
use transfer::ftp::FtpError;
use transfer::ftp::{FtpOptions, check};
use transfer::url::{Login, Url, UrlScheme, UrlType};

/// Options of the connection to the server.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::files) struct ConnectionOptions {
    /// Route to the server, as for login
    #[arg(long, value_name = "kernel|tun:name|tap:name|packet:interface",
          default_value = "kernel", help_heading = heading::CONNECTION)]
    pub(in crate::files) via: Route,
    #[command(flatten)]
    pub(in crate::files) family: AddressFamilyOptions,
    /// Give up after this many seconds without an answer or data from the server
    #[arg(long, alias = "connect-timeout", value_name = "seconds", default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(1..=86_400),
          help_heading = heading::CONNECTION)]
    pub(in crate::files) timeout: u32,
    /// Number of tries if a failure is transient; if given, also for insufficient storage on the
    /// server (452) [default: 4]
    #[arg(long, alias = "retry", value_name = "count",
          value_parser = clap::value_parser!(u32).range(1..=1000),
          help_heading = heading::CONNECTION)]
    pub(in crate::files) tries: Option<u32>,
    /// User name, if the URL has none [default: that of ~/.netrc, or anonymous]. Without a password
    /// here, it comes from PLUMB_FTP_PASSWORD, from ~/.netrc, or from a prompt. All users of this
    /// machine can see a password in the arguments while the command runs
    #[arg(short, long, value_name = "name[:password]", help_heading = heading::CONNECTION,
          value_parser = |text: &str| Ok::<_, Infallible>(Login::from_argument(text)))]
    pub(in crate::files) user: Option<Login>,
    /// Let the server open the data connections (active mode)
    #[arg(long, help_heading = heading::CONNECTION)]
    pub(in crate::files) active: bool,
    /// Trust the certificate authorities in this file (PEM) instead of the first certificate seen
    #[arg(long, value_name = "file", help_heading = heading::TLS)]
    pub(in crate::files) ca: Option<PathBuf>,
    /// Accept any certificate of the server, and save none
    #[arg(short = 'k', long, conflicts_with = "ca", help_heading = heading::TLS)]
    pub(in crate::files) insecure: bool,
    #[command(flatten)]
    pub(in crate::files) record_options: RecordOptions,
    /// Print the result as JSON
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(in crate::files) json: bool,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = heading::OUTPUT)]
    pub(in crate::files) quiet: bool,
    /// Print the commands (>) and the server's replies (<), and how the time of a transfer was spent
    #[arg(short, long, help_heading = heading::OUTPUT)]
    pub(in crate::files) verbose: bool,
}

/// Options of FTP transfers.
#[derive(Debug, clap::Args)]
pub(in crate::files) struct TransferArguments {
    /// Resume partial files, and skip complete files. An upload is resumed only if the remote file
    /// is the beginning of the local file, as compared by HASH, or else by size, time and last
    /// bytes
    #[arg(short, long = "continue", help_heading = heading::TRANSFER)]
    pub(in crate::files) continues: bool,
    /// Transfer whole directories; links on the server are skipped
    #[arg(short, long, help_heading = heading::TRANSFER)]
    pub(in crate::files) recursive: bool,
    /// Number of files transferred in parallel, each over its own session [default: 1]
    #[arg(short, long, value_name = "count", value_parser = clap::value_parser!(u32).range(1..=64),
          help_heading = heading::TRANSFER)]
    pub(in crate::files) jobs: Option<u32>,
    /// Skip existing files without an error
    #[arg(long, conflicts_with_all = ["force", "continues"], help_heading = heading::TRANSFER)]
    pub(in crate::files) no_clobber: bool,
    /// Create the missing directories of the destination
    #[arg(long, visible_alias = "ftp-create-dirs", help_heading = heading::TRANSFER)]
    pub(in crate::files) create_dirs: bool,
    /// Preserve modification times, which is the default
    #[arg(short = 'p', long = "preserve", overrides_with = "no_keep_time",
          help_heading = heading::TRANSFER)]
    _preserve: bool,
    /// Do not preserve modification times
    #[arg(long, help_heading = heading::TRANSFER)]
    pub(in crate::files) no_keep_time: bool,
    /// Data type: I (as stored on the host: octets, or the type in config.toml), A (text), E
    /// (EBCDIC), or L with the number of bits of a word, such as L36 (L8 means octets on any host).
    /// A and E may be followed by N, T or C. auto queries the server's system type and selects L36
    /// for a 36-bit system [default: I]
    #[arg(long = "type", value_name = "I|A|E|Lbits|auto", value_parser = parse_requested_type,
          help_heading = heading::REPRESENTATION)]
    pub(in crate::files) data_type: Option<RequestedType>,
    /// Transmission mode: S (stream), B (block), C (compressed) or Z (deflate) [default: S]
    #[arg(long, value_name = "S|B|C|Z", value_parser = parse_mode,
          help_heading = heading::REPRESENTATION)]
    pub(in crate::files) mode: Option<Mode>,
    /// File structure: F (bytes), R (records) or P (pages of words; the default type is then L36)
    /// [default: F]
    #[arg(long, value_name = "F|R|P", value_parser = parse_structure,
          help_heading = heading::REPRESENTATION)]
    pub(in crate::files) stru: Option<Structure>,
    /// Local file format for remote words that are not octets; c36, a36, u36 and text are for words
    /// of 36 bits [default: that in config.toml, or h36]
    #[arg(long, value_name = "h36|data8|oct|c36|a36|u36|text", value_parser = parse_word_format,
          help_heading = heading::REPRESENTATION)]
    pub(in crate::files) store: Option<WordFormat>,
}

impl TransferArguments {
    /// Returns the number of files transferred in parallel.
    pub(super) fn jobs(&self) -> u32 {
        self.jobs.unwrap_or(1)
    }

    /// Returns the options of a transfer from or to the host of `url`.
    ///
    /// # Errors
    ///
    /// Returns an error if the representation is not supported or the configuration is invalid.
    pub(super) fn to_options(&self, url: &Url, existing: Existing) -> Result<FtpOptions> {
        let host = HostSettings::of(&url.target.host)?;
        let requested = self.requested_type(url, &host);
        let data_type = match requested {
            RequestedType::This(data_type) => data_type,
            RequestedType::Auto => Type::Image,
        };
        let representation = Representation {
            data_type,
            mode: self.mode.unwrap_or_default(),
            structure: self.stru.unwrap_or_default(),
            word_format: self.store.or(host.store).unwrap_or_default(),
        };
        check(&representation).or_else(|error| {
            // `auto` may select TYPE L 36, so options that are valid only with TYPE L 36 are
            // accepted.
            let words = Type::Local(ByteSize::WORD36);
            let word_representation = Representation { data_type: words, ..representation };
            let is_valid_with_words =
                requested == RequestedType::Auto && check(&word_representation).is_ok();
            if is_valid_with_words { Ok(()) } else { Err(error) }
        })?;
        Ok(FtpOptions {
            representation,
            existing,
            skips_existing: self.no_clobber,
            continues: self.continues,
            segments: 1,
            keeps_time: !self.no_keep_time,
            asks_system: requested == RequestedType::Auto,
        })
    }

    /// Returns the requested type: the type in the arguments, else in the URL, else the type
    /// implied by the other options. TYPE I becomes the image type of the host.
    fn requested_type(&self, url: &Url, host: &HostSettings) -> RequestedType {
        let UrlScheme::Ftp(_, kind) = url.scheme else { return RequestedType::This(Type::Image) };
        let of_url = match kind {
            Some(UrlType::Text) => Some(Type::Ascii(Format::NonPrint)),
            Some(UrlType::Image) => Some(Type::Image),
            Some(UrlType::Directory) | None => None,
        };
        // Pages and word formats are for 36-bit hosts.
        let needs_words = self.stru == Some(Structure::Page) || self.store.is_some();
        let word_type = needs_words.then_some(Type::Local(ByteSize::WORD36));
        let requested = self.data_type.or(of_url.or(word_type).map(RequestedType::This));
        match requested.unwrap_or(RequestedType::This(Type::Image)) {
            RequestedType::This(Type::Image) => host.image(),
            other => other,
        }
    }
}

/// Returns the default options of a transfer from or to the host of `url`.
///
/// # Errors
///
/// Returns an error if the configuration is invalid.
pub(super) fn host_transfer_options(url: &Url, existing: Existing) -> Result<FtpOptions, FtpError> {
    let host = HostSettings::of(&url.target.host);
    let host = host.map_err(|error| FtpError::InvalidRequest(format!("{error:#}")))?;
    let image = host.image();
    let word_format = host.store.unwrap_or_default();
    let mut representation = Representation { word_format, ..Representation::IMAGE };
    if let RequestedType::This(data_type) = image {
        representation.data_type = data_type;
    }
    let asks_system = image == RequestedType::Auto;
    Ok(FtpOptions {
        representation,
        existing,
        skips_existing: false,
        continues: false,
        segments: 1,
        keeps_time: true,
        asks_system,
    })
}
