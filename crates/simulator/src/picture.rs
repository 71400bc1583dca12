//! A figure of a paper, drawn from our own points.

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The number of the table behind it.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How it is drawn.
    pub drawing: Drawing,
}

/// How a picture is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawing {
    /// Points over two axes, each line with a letter of its own.
    Plot {
        /// What goes to the right, with its unit.
        across: &'static str,
        /// What goes up, with its unit.
        up: &'static str,
        /// The lines.
        lines: Vec<Line>,
    },
    /// How many there are of each kind.
    Bars(Vec<Bar>),
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The letter of its points.
    pub mark: char,
    /// To the right, and up.
    pub points: Vec<(f64, f64)>,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// What is counted.
    pub what: String,
    /// How many there are.
    pub count: u32,
}
