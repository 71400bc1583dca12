//! A table of a paper, with ours beside it.

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// What the paper computed.
    pub predicted: Option<f64>,
    /// What the paper measured.
    pub measured: Option<f64>,
    /// What came out of our run.
    pub ours: f64,
    /// Digits behind the point that the paper gives.
    pub digits: usize,
}

impl Row {
    /// Returns how far ours lies from what the paper computed, as a share of it.
    #[must_use]
    pub fn from_predicted(&self) -> Option<f64> {
        share(self.ours, self.predicted)
    }

    /// Returns how far ours lies from what the paper measured, as a share of it.
    #[must_use]
    pub fn from_measured(&self) -> Option<f64> {
        share(self.ours, self.measured)
    }
}

/// Returns nothing where the paper has a zero: there is no share of it.
fn share(ours: f64, paper: Option<f64>) -> Option<f64> {
    paper.filter(|paper| *paper != 0.0).map(|paper| ours / paper - 1.0)
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its number in the paper, or ours.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// Its figures.
    pub rows: Vec<Row>,
    /// Why ours differ.
    pub why: &'static str,
}
