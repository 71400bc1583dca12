//! Contrast of texts and lines of the HTML reports, in the light, the dark and the printed palette.
//!
//! WCAG 2.2 §1.4.3 requires 4.5:1 for texts. Areas have a text beside them, and are not tested.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

const STYLE: &str = include_str!("../src/html/style.css");
const MIN_CONTRAST: f64 = 4.5;

type Palette = BTreeMap<String, [f64; 3]>;

/// Adds the colors that are defined after `start`, up to the end of the rule.
fn add_colors(palette: &mut Palette, start: &str) {
    let (_, rest) = STYLE.split_once(start).unwrap();
    let (_, rest) = rest.split_once(":root {").unwrap();
    let (rule, _) = rest.split_once('}').unwrap();
    for (name, value) in rule.split(';').filter_map(|line| line.split_once(':')) {
        let digits = value.trim().strip_prefix('#').unwrap();
        let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap(), 16).unwrap();
        let color = [0, 2, 4].map(|at| f64::from(part(at)) / 255.0);
        palette.insert(name.trim().trim_start_matches("--").to_owned(), color);
    }
}

/// Returns the palettes with their names.
fn palettes() -> [(&'static str, Palette); 3] {
    let mut light = Palette::new();
    add_colors(&mut light, "");
    // Classes with fixed colors.
    light.insert("on-light".to_owned(), [f64::from(0x14) / 255.0, 0.09, 0.106]);
    light.insert("on-dark".to_owned(), [1.0; 3]);
    let mut dark = light.clone();
    add_colors(&mut dark, "(prefers-color-scheme: dark)");
    let mut print = light.clone();
    add_colors(&mut print, "@media print");
    [("light", light), ("dark", dark), ("print", print)]
}

/// Returns the relative luminance.
fn luminance(color: [f64; 3]) -> f64 {
    let linear = |value: f64| {
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    let [red, green, blue] = color.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let [one, other] = [one, other].map(luminance);
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn texts_and_lines_have_a_sufficient_contrast_in_every_palette() {
    let on_paper = ["ink", "soft", "h0", "h1", "h2", "h3", "h4"].map(|name| (name, "paper"));
    // Labels of bars, as `svg.rs` chooses them.
    let on_light = ["l0", "l5", "g0", "g1", "g2", "g3"].map(|name| ("on-light", name));
    let on_dark = ["l1", "l4"].map(|name| ("on-dark", name));
    for (palette, colors) in palettes() {
        for (text, ground) in on_paper.iter().chain(&on_light).chain(&on_dark) {
            let contrast = contrast(colors[*text], colors[*ground]);
            assert!(contrast >= MIN_CONTRAST, "{palette}: {text} on {ground}: {contrast:.2}");
        }
    }
}

#[test]
fn the_band_of_a_chart_leaves_its_texts_readable() {
    let (_, rule) = STYLE.split_once(".band { fill: var(--h2); opacity: ").unwrap();
    let opacity: f64 = rule.split_once(';').unwrap().0.parse().unwrap();
    for (palette, colors) in palettes() {
        let [band, paper] = ["h2", "paper"].map(|name| colors[name]);
        let mixed = [0, 1, 2].map(|at: usize| {
            let [band, paper] = [band, paper].map(|color| *color.get(at).unwrap());
            band * opacity + paper * (1.0 - opacity)
        });
        for text in ["ink", "soft"] {
            let contrast = contrast(colors[text], mixed);
            assert!(contrast >= MIN_CONTRAST, "{palette}: {text}: {contrast:.2}");
        }
    }
}
