//! Option that turns records off.

use crate::heading;

/// Option of the commands that turns records off.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct RecordOptions {
    /// Do not record the transfers for 'plumb stats'
    #[arg(long, env = "PLUMB_NO_RECORD", hide_env = true, help_heading = heading::RECORDS,
          value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_record: bool,
}
