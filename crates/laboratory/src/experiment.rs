//! Results of an experiment, as tables and pictures.

use crate::picture::Picture;
use crate::table::Table;

/// Results of an experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub scenario: &'static str,
    /// Prefix of the column headings for the paper's figures: the year of the paper, or a label for
    /// a paper without a date.
    pub source: &'static str,
    /// Description of the experiment and its assumptions.
    pub introduction: &'static str,
    /// The tables, in the order of the paper.
    pub tables: Vec<Table>,
    /// Pictures of the paper, each drawn before the table with the same number.
    pub pictures: Vec<Picture>,
}
