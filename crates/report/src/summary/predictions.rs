//! Table of predictions and measured values.

use crate::table::Table;
use records::format::{UNKNOWN, count, duration, duration_or_unknown};
use records::prediction::Prediction;

/// Returns the predictions, in the order in which they were made.
pub(super) fn predictions(predictions: &[Prediction]) -> Table {
    let headers = ["bytes", "forecast", "measured"];
    let table = headers.into_iter().fold(Table::new().text("what"), Table::number);
    let mut table = table.text("error and expected range");
    for prediction in predictions {
        table.row([
            prediction.quantity.text().to_owned(),
            count(prediction.bytes),
            duration(prediction.predicted_ns),
            duration_or_unknown(prediction.measured_ns),
            error_text(prediction),
        ]);
    }
    table
}

/// Returns the error of a prediction, and its expected range.
fn error_text(prediction: &Prediction) -> String {
    let range = prediction.range_ns;
    let range = range.map(|[min, max]| format!("{} to {}", duration(min), duration(max)));
    let error_text = prediction.off_per_mille().map(|per_mille| {
        let size = per_mille.unsigned_abs();
        let word = if per_mille < 0 { "short" } else { "long" };
        match size {
            0 => "0.0 %".to_owned(),
            1..1_000 => format!("{}.{} % too {word}", size / 10, size % 10),
            _ => format!("{} % too {word}", count(size / 10)),
        }
    });
    let parts: Vec<String> = error_text.into_iter().chain(range).collect();
    if parts.is_empty() { UNKNOWN.to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::prediction::{Forecast, Quantity};

    #[test]
    fn each_forecast_is_printed_beside_its_measurement() {
        let forecast = |quantity, bytes, predicted_ns: u64| {
            let range_ns = Some([predicted_ns / 20 * 19, predicted_ns / 10 * 11]);
            Forecast { quantity, bytes, predicted_ns, range_ns }
        };
        let echo = forecast(Quantity::EchoUnderLoad, 98_400, 310_000_000);
        let measured_predictions = [
            forecast(Quantity::Screenful, 1_968, 21_400_000).with_measured(20_500_000),
            Forecast { range_ns: None, ..echo }.with_measured(355_000_000),
            forecast(Quantity::Received, 16_777_216, 1_400_000_000).with_measured(1_400_000_000),
        ];
        let far = forecast(Quantity::Received, 10 << 30, 900_000_000_000).unmeasured();
        let all = [measured_predictions.as_slice(), &[far]].concat();
        insta::assert_snapshot!(predictions(&all).render(80), @r"
        what                            bytes  forecast  measured  error and expected
                                                                   range
        ---------------------  --------------  --------  --------  ---------------------
        a screenful                     1,968   21.4 ms   20.5 ms  4.3 % too long; 20.3
                                                                   ms to 23.5 ms
        an echo during output          98,400    310 ms    355 ms  12.6 % too short
        a file received            16,777,216    1.40 s    1.40 s  0.0 %; 1.33 s to 1.54
                                                                   s
        a file received        10,737,418,240     900 s         -  855 s to 990 s
        ");
    }
}
