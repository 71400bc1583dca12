//! A figure of a paper, drawn from simulated data.

/// One figure of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Number of the table that contains the values of the figure.
    pub number: &'static str,
    /// Title of the figure.
    pub title: &'static str,
    /// Type and data of the drawing.
    pub drawing: Drawing,
}

/// Type and data of the drawing.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Lines of points with two axes; each line has its own letter as a mark.
    Plot {
        /// Quantity of the horizontal axis, with its unit.
        x_label: &'static str,
        /// Quantity of the vertical axis, with its unit.
        y_label: &'static str,
        /// The lines of the plot.
        lines: Vec<Line>,
    },
    /// A bar chart of counts.
    Bars(Vec<Bar>),
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name of the line.
    pub name: &'static str,
    /// Letter that marks the points of the line.
    pub mark: char,
    /// Points as (x, y).
    pub points: Vec<(f64, f64)>,
}

/// One bar of a bar chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Label of the bar.
    pub what: String,
    /// Count that the bar displays.
    pub count: u32,
}
