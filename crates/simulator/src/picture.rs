//! A figure of a paper, drawn from simulated points.

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Number of the table with the values of the figure.
    pub number: &'static str,
    /// Title of the figure.
    pub title: &'static str,
    /// Kind of drawing.
    pub drawing: Drawing,
}

/// Kind of drawing.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Lines of points over two axes; each line is drawn with its own letter.
    Plot {
        /// Quantity of the horizontal axis, with its unit.
        across: &'static str,
        /// Quantity of the vertical axis, with its unit.
        up: &'static str,
        /// The lines.
        lines: Vec<Line>,
    },
    /// One bar with a count for each kind of event.
    Bars(Vec<Bar>),
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name of the line.
    pub name: &'static str,
    /// Letter that marks its points.
    pub mark: char,
    /// Points (x, y).
    pub points: Vec<(f64, f64)>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Name of the counted kind.
    pub what: String,
    /// Count.
    pub count: u32,
}
