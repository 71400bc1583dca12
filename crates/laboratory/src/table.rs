//! Tables that compare a paper's values with those of the model, including the origin of each model
//! value.

/// Origin of the model's value in a row.
///
/// Only outputs measure the quality of a model. If the agreement with the paper follows from the
/// scenario, the row is never an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A value of the scenario or of the paper, or a sum, product, quotient or random sample of
    /// such values. Agreement with the paper follows by construction.
    Input,
    /// A value that depends directly on a parameter that was chosen to match values of the paper.
    Fit,
    /// A value computed by the run; no parameter was chosen to match the paper's value.
    Output,
}

impl Origin {
    /// All origins, in the order of the row counts in [`Census::rows`].
    pub(crate) const ALL: [Self; 3] = [Self::Input, Self::Fit, Self::Output];

    /// Returns the name of the origin in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Fit => "fit",
            Self::Output => "output",
        }
    }
}

/// The range of values that agree with a statement of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// An exact number.
    Exactly(f64),
    /// An approximate number, as in "about 10", "nearly twice" or "a third".
    About(f64),
    /// A range, as in "30 to 35".
    Between(f64, f64),
    /// A minimum, as in "at least 50 %".
    AtLeast(f64),
    /// An exclusive lower limit, as in "more than half".
    MoreThan(f64),
    /// A maximum, as in "up to a factor of three".
    AtMost(f64),
}

/// A value of a paper. Such values are constants of the program; a scenario cannot change them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Statement of the paper.
    pub extent: Extent,
    /// Whether the value is computed here from printed values of the paper; otherwise the paper
    /// prints it.
    pub is_derived: bool,
}

impl Figure {
    /// Creates a value that the paper prints.
    #[must_use]
    pub(crate) const fn new(extent: Extent) -> Self {
        Self { extent, is_derived: false }
    }

    /// Creates a value that is computed here from printed values of the paper.
    #[must_use]
    pub(crate) const fn derived(value: f64) -> Self {
        Self { extent: Extent::Exactly(value), is_derived: true }
    }

    /// Returns the minimum and the maximum of the values that agree with the paper; `None` means no
    /// limit.
    #[must_use]
    pub(crate) const fn bounds(&self) -> (Option<f64>, Option<f64>) {
        match self.extent {
            Extent::Exactly(value) | Extent::About(value) => (Some(value), Some(value)),
            Extent::Between(low, high) => (Some(low), Some(high)),
            Extent::AtLeast(low) | Extent::MoreThan(low) => (Some(low), None),
            Extent::AtMost(high) => (None, Some(high)),
        }
    }

    /// Returns whether the computed value `ours` agrees with the paper.
    #[must_use]
    pub(crate) fn permits(&self, ours: f64) -> bool {
        match self.extent {
            Extent::Exactly(value) | Extent::About(value) => ours == value,
            Extent::Between(low, high) => (low..=high).contains(&ours),
            Extent::AtLeast(low) => ours >= low,
            Extent::MoreThan(low) => ours > low,
            Extent::AtMost(high) => ours <= high,
        }
    }

    /// Returns the relative difference of the computed value `ours` from the nearest value that
    /// agrees with the paper.
    ///
    /// Zero if `ours` agrees; `None` if the nearest value is zero.
    #[must_use]
    pub(crate) fn difference(&self, ours: f64) -> Option<f64> {
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

/// One value of the model, with the values of the paper for the same quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the quantity.
    pub what: String,
    /// Origin of the model's value.
    pub origin: Origin,
    /// Value that the paper computed or expected.
    pub predicted: Option<Figure>,
    /// Value that the paper measured.
    pub measured: Option<Figure>,
    /// Value of the model.
    pub ours: f64,
    /// Number of decimals that the paper prints.
    pub digits: usize,
}

impl Row {
    /// Creates a row without a value of the paper.
    #[must_use]
    pub(crate) fn new(what: impl Into<String>, origin: Origin, ours: f64, digits: usize) -> Self {
        Self { what: what.into(), origin, predicted: None, measured: None, ours, digits }
    }

    /// Creates a row whose value is an input of the model.
    #[must_use]
    pub(crate) fn input(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Input, ours, digits)
    }

    /// Creates a row whose value depends on a fitted parameter.
    #[must_use]
    pub(crate) fn fit(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Fit, ours, digits)
    }

    /// Creates a row whose value the run has computed.
    #[must_use]
    pub(crate) fn output(what: impl Into<String>, ours: f64, digits: usize) -> Self {
        Self::new(what, Origin::Output, ours, digits)
    }

    /// Adds the value that the paper computed or expected.
    #[must_use]
    pub(crate) fn predicted(self, figure: impl Into<Figure>) -> Self {
        Self { predicted: Some(figure.into()), ..self }
    }

    /// Adds the value that the paper measured.
    #[must_use]
    pub(crate) fn measured(self, figure: impl Into<Figure>) -> Self {
        Self { measured: Some(figure.into()), ..self }
    }

    /// Adds the value that the paper measured, if there is one.
    #[must_use]
    pub(crate) fn measured_if(self, figure: Option<f64>) -> Self {
        Self { measured: figure.map(Figure::from), ..self }
    }

    /// Adds the value that the paper computed or expected, if there is one.
    #[must_use]
    pub(crate) fn predicted_if(self, figure: Option<f64>) -> Self {
        Self { predicted: figure.map(Figure::from), ..self }
    }

    /// Returns the relative difference of the model's value from the paper's prediction.
    ///
    /// Returns `None` for an input, because its difference does not measure the model.
    #[must_use]
    pub(crate) fn difference_from_predicted(&self) -> Option<f64> {
        self.difference_from(self.predicted)
    }

    /// Returns the relative difference of the model's value from the paper's measurement.
    ///
    /// Returns `None` for an input, because its difference does not measure the model.
    #[must_use]
    pub(crate) fn difference_from_measured(&self) -> Option<f64> {
        self.difference_from(self.measured)
    }

    fn difference_from(&self, figure: Option<Figure>) -> Option<f64> {
        figure.filter(|_| self.origin != Origin::Input)?.difference(self.ours)
    }
}

/// A table that compares values of the model with those of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Number of the table in the paper, or an identifier assigned here.
    pub number: &'static str,
    /// Title.
    pub title: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Rows of the table.
    pub rows: Vec<Row>,
    /// Explanation of the differences between model and paper.
    pub why: &'static str,
}

/// Numbers of rows by origin, and the deviation of the outputs from the papers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Census {
    /// Number of rows for each of [`Origin::ALL`].
    pub rows: [usize; 3],
    /// Number of outputs that are compared with a value of the paper.
    pub compared: usize,
    /// Median of the absolute relative differences of these outputs.
    pub median_difference: Option<f64>,
}

impl Census {
    /// Counts the rows of `tables`. If the paper has both a measurement and a prediction, the
    /// difference is computed from the measurement.
    #[must_use]
    pub(crate) fn of(tables: &[Table]) -> Self {
        let rows = || tables.iter().flat_map(|table| &table.rows);
        let count = |origin| rows().filter(|row| row.origin == origin).count();
        let outputs = rows().filter(|row| row.origin == Origin::Output);
        let mut differences: Vec<f64> = outputs
            .filter_map(|row| {
                row.difference_from_measured().or_else(|| row.difference_from_predicted())
            })
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
        assert_eq!(row(Origin::Input).difference_from_measured(), None);
        assert_eq!(row(Origin::Input).difference_from_predicted(), None);
        for origin in [Origin::Fit, Origin::Output] {
            assert_eq!(row(origin).difference_from_measured(), Some(0.5));
            assert_eq!(row(origin).difference_from_predicted(), Some(1.0));
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
