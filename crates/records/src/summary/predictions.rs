//! Table of predictions and measured values.

use crate::figures::{UNKNOWN, count, duration, duration_or_unknown};
use crate::prediction::Prediction;
use crate::table::Table;

/// Returns the predictions, in the order in which they were made.
pub(super) fn predictions(predictions: &[Prediction]) -> Table {
    let headers = ["bytes", "foretold", "measured"];
    let table = headers.into_iter().fold(Table::new().text("what"), Table::number);
    let mut table = table.text("off, and expected range");
    for one in predictions {
        table.row([
            one.what.text().to_owned(),
            count(one.bytes),
            duration(one.foretold_ns),
            duration_or_unknown(one.measured_ns),
            off(one),
        ]);
    }
    table
}

/// Returns the error of a prediction, and its expected range.
fn off(prediction: &Prediction) -> String {
    let range = prediction.range_ns;
    let range = range.map(|[least, most]| format!("{} to {}", duration(least), duration(most)));
    let off = prediction.off_per_mille().map(|per_mille| {
        let size = per_mille.unsigned_abs();
        let word = if per_mille < 0 { "short" } else { "long" };
        match size {
            0 => "0.0 %".to_owned(),
            1..1_000 => format!("{}.{} % too {word}", size / 10, size % 10),
            _ => format!("{} % too {word}", count(size / 10)),
        }
    });
    let parts: Vec<String> = off.into_iter().chain(range).collect();
    if parts.is_empty() { UNKNOWN.to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::{Forecast, What};

    #[test]
    fn each_forecast_stands_beside_what_was_measured() {
        let told = |what, bytes, foretold_ns: u64| {
            let range_ns = Some([foretold_ns / 20 * 19, foretold_ns / 10 * 11]);
            Forecast { what, bytes, foretold_ns, range_ns }
        };
        let echo = told(What::EchoUnderLoad, 98_400, 310_000_000);
        let seen = [
            told(What::Screenful, 1_968, 21_400_000).beside(20_500_000),
            Forecast { range_ns: None, ..echo }.beside(355_000_000),
            told(What::Received, 16_777_216, 1_400_000_000).beside(1_400_000_000),
        ];
        let far = told(What::Received, 10 << 30, 900_000_000_000).unmeasured();
        let all = [seen.as_slice(), &[far]].concat();
        insta::assert_snapshot!(predictions(&all).render(80), @r"
        what                                bytes  foretold  measured  off, and expected
                                                                       range
        -------------------------  --------------  --------  --------  -----------------
        a screenful                         1,968   21.4 ms   20.5 ms  4.3 % too long;
                                                                       20.3 ms to 23.5
                                                                       ms
        an echo beside other data          98,400    310 ms    355 ms  12.6 % too short
        a file received                16,777,216    1.40 s    1.40 s  0.0 %; 1.33 s to
                                                                       1.54 s
        a file received            10,737,418,240     900 s         -  855 s to 990 s
        ");
    }
}
