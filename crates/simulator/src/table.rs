//! A table of a paper with our figures beside it, and where each of our figures comes from.

/// Where our figure of a row comes from.
///
/// A row is never marked as an output if its agreement with the paper follows from what the scenario
/// gives, so that the outputs alone say how good a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A figure of the scenario or of the paper, or a sum, product, quotient or random sample of
    /// such figures. Agreement with the paper follows by construction.
    Input,
    /// Depends directly on a parameter that was chosen so that figures of the paper are met.
    Fit,
    /// Computed by the run; no parameter was chosen with the paper's figure in view.
    Output,
}

impl Origin {
    /// All origins, in the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::Input, Self::Fit, Self::Output];

    /// Returns the name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Fit => "fit",
            Self::Output => "output",
        }
    }
}

/// The values that a statement of a paper permits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// A number.
    Exactly(f64),
    /// "About 10", "nearly twice", "a third".
    About(f64),
    /// "30 to 35".
    Between(f64, f64),
    /// "At least 50 %".
    AtLeast(f64),
    /// "More than half".
    MoreThan(f64),
    /// "Up to a factor of three".
    AtMost(f64),
}

/// A figure of a paper. Figures are constants of the program; a scenario cannot change them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What the paper states.
    pub extent: Extent,
    /// Whether the figure is not printed in the paper but computed here from figures that are.
    pub is_derived: bool,
}

impl Figure {
    /// Returns a figure that the paper prints.
    #[must_use]
    pub const fn new(extent: Extent) -> Self {
        Self { extent, is_derived: false }
    }

    /// Returns a figure that is computed here from figures of the paper.
    #[must_use]
    pub const fn derived(value: f64) -> Self {
        Self { extent: Extent::Exactly(value), is_derived: true }
    }

    /// Returns the least and the greatest value that agree; `None` where there is no limit.
    #[must_use]
    pub const fn bounds(&self) -> (Option<f64>, Option<f64>) {
        match self.extent {
            Extent::Exactly(value) | Extent::About(value) => (Some(value), Some(value)),
            Extent::Between(low, high) => (Some(low), Some(high)),
            Extent::AtLeast(low) | Extent::MoreThan(low) => (Some(low), None),
            Extent::AtMost(high) => (None, Some(high)),
        }
    }

    /// Returns whether the paper permits `ours`.
    #[must_use]
    pub fn permits(&self, ours: f64) -> bool {
        match self.extent {
            Extent::Exactly(value) | Extent::About(value) => ours == value,
            Extent::Between(low, high) => (low..=high).contains(&ours),
            Extent::AtLeast(low) => ours >= low,
            Extent::MoreThan(low) => ours > low,
            Extent::AtMost(high) => ours <= high,
        }
    }

    /// Returns how far `ours` lies beyond the nearest value that agrees, as a share of that value.
    ///
    /// Zero where `ours` agrees; `None` where that value is zero, of which there is no share.
    #[must_use]
    pub fn difference(&self, ours: f64) -> Option<f64> {
        let (low, high) = self.bounds();
        let beyond = low.filter(|low| ours < *low).or_else(|| high.filter(|high| ours > *high));
        match beyond {
            Some(limit) => (limit != 0.0).then(|| ours / limit - 1.0),
            None if low == Some(0.0) && high == Some(0.0) => None,
            None => Some(0.0),
        }
    }
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self::new(Extent::Exactly(value))
    }
}

impl From<Extent> for Figure {
    fn from(extent: Extent) -> Self {
        Self::new(extent)
    }
}

/// One figure of ours, with those of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// Where our figure comes from.
    pub origin: Origin,
    /// What the paper computed or expected.
    pub predicted: Option<Figure>,
    /// What the paper measured.
    pub measured: Option<Figure>,
    /// Our figure.
    pub ours: f64,
    /// Digits behind the point that the paper gives.
    pub digits: usize,
}

impl Row {
    /// Returns a row without a figure of the paper.
    #[must_use]
    pub fn new(what: impl Into<String>, origin: Origin, ours: f64, digits: usize) -> Self {
        Self { what: what.into(), origin, predicted: None, measured: None, ours, digits }
    }

    /// Returns a row whose figure was given to the model.
    #[must_use]
    pub fn input(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Input, ours, digits)
    }

    /// Returns a row that depends on a fitted parameter.
    #[must_use]
    pub fn fit(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Fit, ours, digits)
    }

    /// Returns a row that the run computed.
    #[must_use]
    pub fn output(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Output, ours, digits)
    }

    /// Returns the row with what the paper computed or expected.
    #[must_use]
    pub fn predicted(self, figure: impl Into<Figure>) -> Self {
        Self { predicted: Some(figure.into()), ..self }
    }

    /// Returns the row with what the paper measured.
    #[must_use]
    pub fn measured(self, figure: impl Into<Figure>) -> Self {
        Self { measured: Some(figure.into()), ..self }
    }

    /// Returns the row with what the paper measured, if it did.
    #[must_use]
    pub fn measured_if(self, figure: Option<f64>) -> Self {
        Self { measured: figure.map(Figure::from), ..self }
    }

    /// Returns the row with what the paper computed or expected, if it did.
    #[must_use]
    pub fn predicted_if(self, figure: Option<f64>) -> Self {
        Self { predicted: figure.map(Figure::from), ..self }
    }

    /// Returns how far our figure lies from what the paper computed, as a share of it.
    ///
    /// `None` for an input: its difference says nothing about the model.
    #[must_use]
    pub fn from_predicted(&self) -> Option<f64> {
        self.difference_from(self.predicted)
    }

    /// Returns how far our figure lies from what the paper measured, as a share of it.
    ///
    /// `None` for an input: its difference says nothing about the model.
    #[must_use]
    pub fn from_measured(&self) -> Option<f64> {
        self.difference_from(self.measured)
    }

    fn difference_from(&self, figure: Option<Figure>) -> Option<f64> {
        figure.filter(|_| self.origin != Origin::Input)?.difference(self.ours)
    }
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

/// How many rows of an experiment were given to the model, and how far its outputs are off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Census {
    /// Rows by [`Origin::ALL`].
    pub rows: [usize; 3],
    /// Outputs that stand beside a figure of the paper.
    pub compared: usize,
    /// The median of their differences without sign, as a share of the paper's figure.
    pub median_difference: Option<f64>,
}

impl Census {
    /// Counts the rows of `tables`. What the paper measured takes precedence over what it predicted.
    #[must_use]
    pub fn of(tables: &[Table]) -> Self {
        let rows = || tables.iter().flat_map(|table| &table.rows);
        let count = |origin| rows().filter(|row| row.origin == origin).count();
        let outputs = rows().filter(|row| row.origin == Origin::Output);
        let mut differences: Vec<f64> = outputs
            .filter_map(|row| row.from_measured().or_else(|| row.from_predicted()))
            .map(f64::abs)
            .collect();
        differences.sort_by(f64::total_cmp);
        Self {
            rows: Origin::ALL.map(count),
            compared: differences.len(),
            median_difference: differences.get(differences.len() / 2).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_no_difference_and_an_output_has_one() {
        let row = |origin| Row::new("echo", origin, 3.0, 1).measured(2.0).predicted(1.5);
        assert_eq!(row(Origin::Input).from_measured(), None);
        assert_eq!(row(Origin::Input).from_predicted(), None);
        for origin in [Origin::Fit, Origin::Output] {
            assert_eq!(row(origin).from_measured(), Some(0.5));
            assert_eq!(row(origin).from_predicted(), Some(1.0));
        }
    }

    #[test]
    fn a_figure_agrees_with_every_value_that_the_paper_permits() {
        let difference = |extent, ours| Figure::new(extent).difference(ours);
        assert_eq!(difference(Extent::Between(80.0, 90.0), 85.0), Some(0.0));
        assert_eq!(difference(Extent::Between(80.0, 90.0), 40.0), Some(-0.5));
        assert_eq!(difference(Extent::Between(80.0, 90.0), 180.0), Some(1.0));
        assert_eq!(difference(Extent::AtLeast(50.0), 63.0), Some(0.0));
        assert_eq!(difference(Extent::MoreThan(50.0), 25.0), Some(-0.5));
        assert!(!Figure::new(Extent::MoreThan(50.0)).permits(50.0));
        assert!(Figure::new(Extent::AtLeast(50.0)).permits(50.0));
        assert_eq!(difference(Extent::AtMost(3.0), 2.9), Some(0.0));
        assert_eq!(difference(Extent::AtMost(3.0), 6.0), Some(1.0));
        assert_eq!(difference(Extent::About(2.0), 3.0), Some(0.5));
        assert_eq!(difference(Extent::Exactly(0.0), 0.0), None);
        assert_eq!(difference(Extent::Exactly(0.0), 0.1), None);
    }

    #[test]
    fn a_census_counts_rows_by_origin_and_takes_its_median_from_outputs_alone() {
        let rows = vec![
            Row::input("a", 9.0, 0).measured(1.0),
            Row::fit("b", 9.0, 0).measured(1.0),
            Row::output("c", 1.1, 0).measured(1.0).predicted(100.0),
            Row::output("d", 1.2, 0).predicted(1.0),
            Row::output("e", 0.5, 0).measured(1.0),
            Row::output("f", 7.0, 0),
        ];
        let table = Table { number: "1", title: "", unit: "", rows, why: "" };
        let census = Census::of(&[table]);
        assert_eq!((census.rows, census.compared), ([1, 1, 4], 3));
        assert!((census.median_difference.unwrap() - 0.2).abs() < 1e-9, "{census:?}");
    }
}
