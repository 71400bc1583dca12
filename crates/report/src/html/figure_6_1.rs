//! Figure 6-1 of TM-233, redrawn: time per packet against packet size, at 9600 bit/s.
//!
//! The 1982 lines are computed from the costs of table 6-1. A packet with n data bytes is n + 47
//! bytes on the line, and each of them 10 bits (TM-233 6.2.1).

use super::line_chart::{Line, LineChart, LineStyle};

const OVERHEAD_BYTES: f64 = 47.0;
const BITS_PER_BYTE: f64 = 10.0;
const LINE_RATE: f64 = 9_600.0;
/// Fixed part of the other protocol overhead of a packet (OOF in table 6-1), s.
const OOF: f64 = 0.0100;
/// Variable part of the other protocol overhead (OOV in table 6-1), s per data byte.
const OOV: f64 = 154e-6;
/// Printing of a character (PCO in table 6-1), s.
const PCO: f64 = 692e-6;
/// Carriage returns, one in 82 bytes (CRO), s per data byte.
const CRO: f64 = 392e-6;
/// Interrupt-level code (INT in table 6-1), s per byte on the line.
const INT: f64 = 231e-6;

/// Curves of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// CR: a carriage return after every eighty printable characters.
    CarriageReturns,
    /// PC: printable characters only.
    PrintableCharacters,
    /// OP: nothing is printed; other protocol overhead.
    OtherProtocol,
    /// SL: time on the serial line.
    SerialLine,
    /// INT: interrupt-level code that receives the packet.
    Interrupt,
}

impl Curve {
    /// All curves, from the top of the figure.
    pub const ALL: [Self; 5] = [
        Self::CarriageReturns,
        Self::PrintableCharacters,
        Self::OtherProtocol,
        Self::SerialLine,
        Self::Interrupt,
    ];

    /// Returns the label of the curve in the figure.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::CarriageReturns => "CR",
            Self::PrintableCharacters => "PC",
            Self::OtherProtocol => "OP",
            Self::SerialLine => "SL",
            Self::Interrupt => "INT",
        }
    }

    /// Returns the time in s that a packet with `data_bytes` data bytes took in 1982.
    #[must_use]
    pub fn seconds_1982(self, data_bytes: u32) -> f64 {
        let data = f64::from(data_bytes);
        let on_line = data + OVERHEAD_BYTES;
        match self {
            Self::Interrupt => on_line * INT,
            Self::SerialLine => on_line * BITS_PER_BYTE / LINE_RATE,
            Self::OtherProtocol => Self::SerialLine.seconds_1982(data_bytes) + OOF + data * OOV,
            Self::PrintableCharacters => Self::OtherProtocol.seconds_1982(data_bytes) + data * PCO,
            Self::CarriageReturns => {
                Self::PrintableCharacters.seconds_1982(data_bytes) + data * CRO
            }
        }
    }

    const fn hue(self) -> usize {
        match self {
            Self::CarriageReturns => 0,
            Self::PrintableCharacters => 1,
            Self::OtherProtocol => 2,
            Self::SerialLine => 3,
            Self::Interrupt => 4,
        }
    }
}

/// Returns the size in bits on the line of a packet with `data_bytes` data bytes.
#[must_use]
pub fn packet_bits(data_bytes: u32) -> f64 {
    (f64::from(data_bytes) + OVERHEAD_BYTES) * BITS_PER_BYTE
}

/// Returns the figure with the 1982 curves and `our_points`, pairs of packet size in bits and
/// seconds.
#[must_use]
pub fn figure_6_1(our_points: &[(Curve, Vec<(f64, f64)>)]) -> LineChart {
    let printed = Curve::ALL.into_iter().map(|transfer| Line {
        name: format!("{} 1982", transfer.text()),
        points: (0..=500)
            .step_by(100)
            .map(|data| (packet_bits(data), transfer.seconds_1982(data)))
            .collect(),
        hue: transfer.hue(),
        style: LineStyle::Dashed,
    });
    let measured = our_points.iter().map(|(transfer, points)| Line {
        name: format!("{} ours", transfer.text()),
        points: points.clone(),
        hue: transfer.hue(),
        style: LineStyle::Solid,
    });
    LineChart {
        title: "What a packet costs, by its size (figure 6-1 of TM-233)".to_owned(),
        x_label: "packet size on the line (bits)".to_owned(),
        y_label: "time for one packet (s)".to_owned(),
        lines: printed.chain(measured).collect(),
        note:
            "Line at 9,600 bit/s. CR: a carriage return after every 80 characters; PC: printable \
               characters only; OP: nothing printed; SL: on the serial line; INT: interrupt level. \
               Dashed: 1982, computed from table 6-1. Solid: ours, with the costs of table 6-1 as \
               input."
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_1982_lines_end_at_the_values_of_table_6_1() {
        let at = |transfer: Curve| format!("{:.3}", transfer.seconds_1982(500));
        // SL is 0.5698 s; then OOF + 500 OOV = 0.087, PCO = 0.346, CRO = 0.196; INT is 0.1264.
        let ends = Curve::ALL.map(at);
        assert_eq!(ends, ["1.199", "1.003", "0.657", "0.570", "0.126"]);
    }

    #[test]
    fn an_empty_packet_is_470_bits() {
        assert_eq!(packet_bits(0), 470.0);
    }

    #[test]
    fn our_values_are_solid_lines_beside_dashed_ones_of_the_same_color() {
        let chart = figure_6_1(&[(Curve::SerialLine, vec![(470.0, 0.049)])]);
        let our_line = chart.lines.last().unwrap();
        assert_eq!((chart.lines.len(), our_line.style, our_line.hue), (6, LineStyle::Solid, 3));
    }
}
