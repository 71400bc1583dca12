//! Tests that files in every representation are restored unchanged, with input split at any
//! position.

use super::*;
use crate::ftp::representation::ByteSize;
use proptest::prelude::*;
use std::vec;

fn encode_file(representation: &Representation, file: &[u8], cut: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(representation, None).unwrap();
    let mut wire = Vec::new();
    for piece in file.chunks(cut) {
        encoder.encode(piece, &mut wire).unwrap();
    }
    encoder.finish(&mut wire).unwrap();
    wire
}

/// Returns the decoded file and its restart markers.
fn decode_file(
    representation: &Representation,
    wire: &[u8],
    cut: usize,
) -> Result<(Vec<u8>, Vec<Vec<u8>>), DataError> {
    let mut decoder = Decoder::new(representation).unwrap();
    let mut file = Vec::new();
    let mut out = Vec::new();
    let mut markers = Vec::new();
    for mut piece in wire.chunks(cut) {
        loop {
            let result = decoder.decode(&mut piece, &mut out)?;
            file.append(&mut out);
            match result {
                Decoded::NeedsInput => break,
                Decoded::OutputFull | Decoded::EndOfFile => {}
                Decoded::Marker(marker) => markers.push(marker),
            }
        }
    }
    decoder.finish(&mut out)?;
    file.append(&mut out);
    Ok((file, markers))
}

fn representation_of(data_type: Type, mode: Mode, structure: Structure) -> Representation {
    Representation { data_type, mode, structure, word_format: WordFormat::Packed }
}

const MODES: [Mode; 4] = [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate];
const TYPES: [Type; 5] = [
    Type::Ascii(Format::NonPrint),
    Type::Ascii(Format::Telnet),
    Type::Ebcdic(Format::NonPrint),
    Type::Image,
    Type::Local(ByteSize::OCTET),
];

/// Generates bytes in which repetitions and specially treated bytes are likely.
fn any_file(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![b'\r', b'\n', 0, b' ', 0x40, 255, 1, 2, 3])
            .prop_flat_map(|byte| (1..90_usize).prop_map(move |count| vec![byte; count])),
        prop::sample::select(vec![b'\r', b'\n', 0, b' ', 255]).prop_map(|byte| vec![byte]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..max).prop_map(|pieces| pieces.concat())
}

// req RFC1123:4.1.2.13-MUST-4
#[test]
fn lines_of_ascii_end_with_cr_lf_on_the_wire() {
    let ascii = Representation::default();
    assert_eq!(encode_file(&ascii, b"a\nb\r\nc\r\0\n", 2), b"a\r\nb\r\r\nc\r\0\0\r\n");
    assert_eq!(decode_file(&ascii, b"a\r\nb\nc\rd\r\0e\r", 1).unwrap().0, b"a\nb\nc\rd\re\r");
}

#[test]
fn an_upload_with_cr_lf_line_ends_sends_them_unchanged() {
    let text = b"a\r\nb\nc\r\r\n\rd\r\n";
    for cut in 1..9 {
        let mut encoder = Encoder::new(&Representation::default(), None).unwrap();
        let mut wire = Vec::new();
        encoder.keep_cr_lf();
        for piece in text.chunks(cut) {
            encoder.encode(piece, &mut wire).unwrap();
        }
        encoder.finish(&mut wire).unwrap();
        assert_eq!(wire, b"a\r\nb\r\nc\r\r\n\rd\r\n", "{cut}");
    }
}

// req RFC1123:4.1.2.2-MUST-1, RFC1123:4.1.2.2-MUST-2
#[test]
fn telnet_format_is_the_same_as_non_print() {
    let representation_of =
        |format| representation_of(Type::Ascii(format), Mode::Stream, Structure::File);
    let text = b"a\x0cb\n\x0bc\r\n";
    assert_eq!(
        encode_file(&representation_of(Format::Telnet), text, 3),
        encode_file(&representation_of(Format::NonPrint), text, 9)
    );
}

// req RFC1123:4.1.2.13-MUST-6
#[test]
fn records_are_lines_of_the_file() {
    let stream = representation_of(Type::default(), Mode::Stream, Structure::Record);
    assert_eq!(encode_file(&stream, b"ab\n\n\xff", 2), b"ab\xff\x01\xff\x01\xff\xff\xff\x02");
    assert_eq!(decode_file(&stream, b"ab\xff\x01c\xff\x03", 1).unwrap().0, b"ab\nc\n");
    let block = representation_of(Type::default(), Mode::Block, Structure::Record);
    assert_eq!(encode_file(&block, b"ab\n\nc", 9), b"\x80\0\x02ab\x80\0\0\0\0\x01c\x40\0\0");
    let decode_file = decode_file(&block, b"\x80\0\x02ab\xc0\0\x01c", 2).unwrap().0;
    assert_eq!(decode_file, b"ab\nc\n");
}

#[test]
fn compressed_mode_sends_runs_as_counts() {
    let image = representation_of(Type::Image, Mode::Compressed, Structure::File);
    let file = [&b"ab"[..], &[0; 5], b"xxxx", b"c"].concat();
    assert_eq!(encode_file(&image, &file, 99), b"\x02ab\xc5\x84x\x01c\0\x40\x80\0");
    // Other implementations send the end-of-file descriptor before the last string, or alone after
    // it.
    for wire in [&b"\x02ab\0\x40\x01c"[..], b"\x03abc\0\x40"] {
        assert_eq!(decode_file(&image, wire, 1).unwrap().0, b"abc");
    }
}

#[test]
fn restart_markers_have_their_position_and_are_not_data() {
    for mode in [Mode::Block, Mode::Compressed] {
        let image = representation_of(Type::Image, mode, Structure::File);
        let mut encoder = Encoder::new(&image, None).unwrap();
        let mut wire = Vec::new();
        encoder.encode(b"abc", &mut wire).unwrap();
        assert!(encoder.put_marker(3, &mut wire));
        encoder.encode(b"def", &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        for cut in 1..9 {
            let expected = (b"abcdef".to_vec(), vec![b"3".to_vec()]);
            assert_eq!(decode_file(&image, &wire, cut), Ok(expected));
        }
    }
    let mut stream = Encoder::new(&Representation::IMAGE, None).unwrap();
    assert!(!stream.put_marker(3, &mut Vec::new()));
}

#[test]
fn a_file_without_its_end_mark_is_rejected() {
    for (mode, structure) in [
        (Mode::Block, Structure::File),
        (Mode::Compressed, Structure::File),
        (Mode::Deflate, Structure::File),
        (Mode::Stream, Structure::Record),
    ] {
        let representation = representation_of(Type::Image, mode, structure);
        let wire = encode_file(&representation, b"one\ntwo\nthree\n", 99);
        for len in 0..wire.len() {
            let decoded = decode_file(&representation, &wire[..len], 99);
            // In compressed mode the empty string after the last descriptor carries no information.
            if mode != Mode::Compressed || len < wire.len() - 2 {
                assert_eq!(decoded, Err(DataError::Truncated), "{mode} {len}");
            }
        }
        let extended_wire = [&wire[..], b"x"].concat();
        assert_eq!(
            decode_file(&representation, &extended_wire, 99),
            Err(DataError::Malformed),
            "{mode}"
        );
    }
}

#[test]
fn pages_with_holes_are_filled_and_a_hole_without_limit_is_refused() {
    let representation = Representation {
        word_format: WordFormat::Oct,
        ..representation_of(Type::Local(ByteSize::WORD36), Mode::Stream, Structure::Page)
    };
    let packed = |words: &[u64]| {
        let mut packer = Packer::new(ByteSize::WORD36);
        let mut wire = Vec::new();
        words.iter().for_each(|word| packer.put(*word, &mut wire));
        packer.finish(&mut wire);
        wire
    };
    // A descriptor page is skipped, and so is the fifth word of a header.
    let wire = packed(&[4, 0, 1, 2, 7, 5, 1, 1, 3, 9, 6, 4, 2, 0, 0]);
    let file = decode_file(&representation, &wire, 5).unwrap().0;
    assert_eq!(file.len(), 513 * 13);
    assert!(file.ends_with(b"000000000000\n000000000006\n"));
    let page_beyond_limit = packed(&[4, 1 << 30, 1, 1, 6]);
    assert_eq!(decode_file(&representation, &page_beyond_limit, 5), Err(DataError::Malformed));
    assert_eq!(decode_file(&representation, &wire[..20], 5), Err(DataError::Truncated));
}

#[test]
fn an_impossible_transfer_is_refused_before_it_begins() {
    let local = |bits| Type::Local(ByteSize::new(bits).unwrap());
    let small_pages = representation_of(local(8), Mode::Stream, Structure::Page);
    let records_of_words = representation_of(local(36), Mode::Stream, Structure::Record);
    let wrong_format = Representation {
        word_format: WordFormat::C36,
        ..representation_of(local(32), Mode::Stream, Structure::File)
    };
    for representation in [small_pages, records_of_words, wrong_format] {
        assert!(Encoder::new(&representation, None).is_err());
        assert!(Decoder::new(&representation).is_err());
    }
}

proptest! {
    // req RFC1123:4.1.2.13-MUST-5, RFC1123:4.1.2.13-MUST-7
    #[test]
    fn any_file_round_trips_in_every_type_mode_and_structure(
        file in any_file(12), one in 1..200_usize, other in 1..200_usize
    ) {
        for data_type in TYPES {
            for mode in MODES {
                for structure in [Structure::File, Structure::Record] {
                    let representation = representation_of(data_type, mode, structure);
                    let wire = encode_file(&representation, &file, one);
                    let decoded_file = decode_file(&representation, &wire, other);
                    prop_assert_eq!(decoded_file.as_ref(), Ok(&(file.clone(), vec![])), "{:?}", representation);
                    if representation.passes_through() {
                        prop_assert_eq!(&wire, &file);
                    }
                }
            }
        }
    }

    #[test]
    fn any_words_round_trip_in_every_byte_size_and_mode(
        bits in 8..=64_u8, words in prop::collection::vec(any::<u64>(), 0..1200), cut in 1..200_usize
    ) {
        let size = ByteSize::new(bits).unwrap();
        let octets = words.iter().flat_map(|word| (word >> (64 - bits)).to_le_bytes());
        let file: Vec<u8> = octets.collect();
        for mode in MODES {
            for structure in [Structure::File, Structure::Page] {
                let representation = Representation {
                    word_format: WordFormat::Data8,
                    ..representation_of(Type::Local(size), mode, structure)
                };
                if check_supported(&representation).is_err() {
                    continue;
                }
                let wire = encode_file(&representation, &file, cut);
                prop_assert_eq!(decode_file(&representation, &wire, cut), Ok((file.clone(), vec![])));
            }
        }
    }

    #[test]
    fn any_bytes_are_decoded_the_same_at_any_split(wire in any_file(8), cut in 1..60_usize) {
        for data_type in TYPES {
            for mode in MODES {
                for structure in [Structure::File, Structure::Record] {
                    let representation = representation_of(data_type, mode, structure);
                    let unsplit_result = decode_file(&representation, &wire, wire.len().max(1));
                    let pieces = decode_file(&representation, &wire, cut);
                    prop_assert_eq!(unsplit_result, pieces);
                }
            }
        }
    }
}

#[test]
fn a_megabyte_from_a_kilobyte_is_returned_in_pieces() {
    let image = representation_of(Type::Image, Mode::Deflate, Structure::File);
    let wire = encode_file(&image, &vec![0; 8 << 20], 1 << 20);
    assert!(wire.len() < 16_384);
    let mut decoder = Decoder::new(&image).unwrap();
    let mut out = Vec::new();
    let mut total = 0;
    let mut rest = &wire[..];
    while decoder.decode(&mut rest, &mut out).unwrap() == Decoded::OutputFull {
        assert!(out.len() < 2 * OUTPUT_BYTES);
        total += out.len();
        out.clear();
    }
    assert_eq!((total + out.len(), decoder.finish(&mut out)), (8 << 20, Ok(())));
}

/// Encodes and decodes `file`, and returns the counts of the encoder and of the decoder.
fn counts_of_both_ends(representation: &Representation, file: &[u8], marks: u64) -> [Counts; 2] {
    let mut encoder = Encoder::new(representation, None).unwrap();
    let mut decoder = Decoder::new(representation).unwrap();
    let mut wire = Vec::new();
    let mut out = Vec::new();
    encoder.encode(file, &mut wire).unwrap();
    for mark in 0..marks {
        encoder.put_marker(mark, &mut wire);
    }
    encoder.finish(&mut wire).unwrap();
    let mut rest = &wire[..];
    while let Decoded::OutputFull | Decoded::Marker(_) =
        decoder.decode(&mut rest, &mut out).unwrap()
    {}
    [encoder.counts(), decoder.counts()]
}

#[test]
fn both_ends_count_the_same_line_ends_records_and_markers() {
    let text = representation_of(Type::Ascii(Format::NonPrint), Mode::Stream, Structure::File);
    let lines = Counts { line_ends: Some(3), ..Counts::default() };
    // A CR that does not end a line is not counted.
    assert_eq!(counts_of_both_ends(&text, b"a\nb\n\rc\nd", 0), [lines; 2]);
    let records = representation_of(Type::Image, Mode::Stream, Structure::Record);
    let two_records = Counts { records: Some(2), ..Counts::default() };
    assert_eq!(counts_of_both_ends(&records, b"a\nb\n", 0), [two_records; 2]);
    for mode in [Mode::Block, Mode::Compressed] {
        let with_markers = representation_of(Type::Image, mode, Structure::File);
        let three_markers = Counts { markers: Some(3), ..Counts::default() };
        assert_eq!(counts_of_both_ends(&with_markers, b"a\nb\n", 3), [three_markers; 2]);
    }
}

#[test]
fn a_file_without_conversion_has_no_counts() {
    let image = representation_of(Type::Image, Mode::Stream, Structure::File);
    assert_eq!(counts_of_both_ends(&image, b"a\r\nb\n", 1), [Counts::default(); 2]);
}

#[test]
fn a_line_end_split_between_two_calls_is_counted_once() {
    let text = representation_of(Type::Ascii(Format::NonPrint), Mode::Stream, Structure::File);
    let mut decoder = Decoder::new(&text).unwrap();
    for piece in [&b"a\r"[..], b"\nb\r", b"c\r\n"] {
        let mut rest = piece;
        decoder.decode(&mut rest, &mut Vec::new()).unwrap();
    }
    assert_eq!(decoder.counts().line_ends, Some(2));
}

#[test]
fn only_blocks_that_the_sender_marks_count_as_suspect() {
    let representation = Representation { mode: Mode::Block, ..Representation::IMAGE };
    let mut decoder = Decoder::new(&representation).unwrap();
    let mut out = Vec::new();
    let mut wire = &[0, 0, 1, b'a', 32, 0, 1, b'b', 0, 0, 1, b'c', 64, 0, 0][..];
    decoder.decode(&mut wire, &mut out).unwrap();
    assert_eq!((out.as_slice(), decoder.suspect_blocks()), (&b"abc"[..], 1));
}

#[test]
fn more_than_the_padding_of_an_octet_after_the_last_word_is_an_error() {
    let data_type = Type::Local(ByteSize::new(16).unwrap());
    let word_format = WordFormat::Data8;
    let representation = Representation { data_type, word_format, ..Representation::IMAGE };
    assert_eq!(decode_file(&representation, b"ab", 2).unwrap().0, b"ba\0\0\0\0\0\0");
    assert_eq!(decode_file(&representation, b"abc", 3), Err(DataError::Truncated));
}

#[test]
fn a_file_with_more_pages_than_a_word_can_number_is_not_sent() {
    let size = ByteSize::new(16).unwrap();
    // One bit numbers two pages of 512 words.
    let encode = |pages: usize| {
        let mut content = ContentOut::Pages {
            words: FromStore::new(WordFormat::Packed, size),
            pager: Pager::default(),
            packer: Packer::new(size),
            bits: 1,
        };
        content.put(&vec![0; pages * 1024], &mut Vec::new())
    };
    assert_eq!([1, 2].map(encode), [Ok(()), Err(DataError::Malformed)]);
}

#[test]
fn blocks_beyond_the_output_limit_are_decoded_later() {
    let representation = representation_of(Type::Image, Mode::Block, Structure::File);
    let wire = encode_file(&representation, &vec![7; 3 * OUTPUT_BYTES], OUTPUT_BYTES);
    let mut decoder = Decoder::new(&representation).unwrap();
    let mut out = Vec::new();
    let mut rest = &wire[..];
    assert_eq!(decoder.decode(&mut rest, &mut out), Ok(Decoded::OutputFull));
    assert!(!rest.is_empty() && out.len() < 3 * OUTPUT_BYTES);
}

#[test]
fn a_received_text_with_carriage_control_is_converted_to_lines() {
    let format = Format::CarriageControl;
    let representation = representation_of(Type::Ascii(format), Mode::Stream, Structure::File);
    let file = decode_file(&representation, b" one\r\n0two\r\n", 3).unwrap().0;
    assert_eq!(file, b"one\n\ntwo\n");
    let representation = representation_of(Type::Ebcdic(format), Mode::Stream, Structure::File);
    let mut wire = Vec::new();
    text::to_ebcdic(b" one\n0two\n", &mut wire);
    assert_eq!(decode_file(&representation, &wire, 3).unwrap().0, b"one\n\ntwo\n");
}
