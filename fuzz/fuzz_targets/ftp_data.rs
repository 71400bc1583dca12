//! Input: arbitrary bytes on a data connection, in every type, structure, mode and word format.
//! Checked: split or whole, they decode to the same result. Any file survives encoding and decoding
//! if the representation is lossless.
#![no_main]

use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use protocols::ftp::data::{DataError, Decoded, Decoder, Encoder, check_supported};
use protocols::ftp::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let [choice, bits, cut, bytes @ ..] = input else { return };
    let Some(representation) = representation(*choice, *bits) else { return };
    let cut = usize::from(*cut) + 1;
    assert_eq!(decode_file(&representation, bytes, bytes.len().max(1)), decode_file(&representation, bytes, cut));
    let mut encoder = Encoder::new(&representation, None).expect("the combination is supported");
    let mut wire = Vec::new();
    let is_encoded = bytes.chunks(cut).all(|piece| encoder.encode(piece, &mut wire).is_ok());
    if !is_encoded || encoder.finish(&mut wire).is_err() {
        return;
    }
    let file = decode_file(&representation, &wire, cut).expect("encoded data can be decoded");
    let Representation { data_type, word_format, .. } = representation;
    let is_octets = matches!(
        data_type,
        Type::Image
            | Type::Local(ByteSize::OCTET)
            | Type::Ascii(Format::NonPrint)
            | Type::Ebcdic(Format::NonPrint)
    );
    let is_words = matches!(word_format, WordFormat::C36 | WordFormat::A36);
    if is_octets || (is_words && matches!(data_type, Type::Local(_))) {
        assert_eq!(file, bytes);
    }
});

fn representation(choice: u8, bits: u8) -> Option<Representation> {
    let size = ByteSize::new(bits & 63)?;
    let types = [
        Type::Ascii(Format::NonPrint),
        Type::Ascii(Format::CarriageControl),
        Type::Ebcdic(Format::NonPrint),
        Type::Ebcdic(Format::CarriageControl),
        Type::Image,
        Type::Local(size),
        Type::Local(ByteSize::WORD36),
        Type::Local(ByteSize::OCTET),
    ];
    let modes = [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate];
    let structures = [Structure::File, Structure::Record, Structure::Page];
    let representation = Representation {
        data_type: types[usize::from(choice & 7)],
        mode: modes[usize::from(choice >> 3 & 3)],
        structure: structures[usize::from(choice >> 5) % 3],
        word_format: WordFormat::ALL[usize::from(bits >> 5) % 7].0,
    };
    check_supported(&representation).ok().map(|()| representation)
}

fn decode_file(
    representation: &Representation,
    wire: &[u8],
    cut: usize,
) -> Result<Vec<u8>, DataError> {
    let mut decoder = Decoder::new(representation).expect("the combination is supported");
    let mut file = Vec::new();
    let mut out = Vec::new();
    for mut piece in wire.chunks(cut) {
        while decoder.decode(&mut piece, &mut out)? != Decoded::NeedsInput {
            file.append(&mut out);
        }
    }
    decoder.finish(&mut out)?;
    file.append(&mut out);
    Ok(file)
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 5] = [
        b"a\r\nb\r\0c\n\xff\x01\xff\xff\xff\x02",
        b"\x80\0\x02ab\x10\0\x013\x40\0\x01c",
        b"\x02ab\xc5\x84x\0\x10\x013\x01c\0\x40\x80\0",
        b"\x78\x9c\xcb\xc9\x4f\xcf\xcc\xb3\x52\x00\x00\x0b\x3c\x02\x8a",
        b"123456701234\n000000000001\n",
    ];
    let choices = (0..=255).step_by(3);
    choices
        .zip(texts.iter().cycle())
        .map(|(choice, text)| [&[choice, 36, 4], *text].concat())
        .collect()
}
