//! F4: bytes in base64 and in data URLs (RFC 2397), as clients write them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::PictureError;

/// Padding or none; bits behind the last byte are nobody's business.
const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a text means to be a data URL.
pub(super) fn is_data_url(text: &str) -> bool {
    text.trim_start().get(..5).is_some_and(|it| it.eq_ignore_ascii_case("data:"))
}

/// The bytes of a data URL with a picture in base64.
pub(super) fn data_url(url: &str) -> Result<Vec<u8>, PictureError> {
    let url = url.trim_start().get(5..).unwrap_or_default();
    let (header, data) = url.split_once(',').ok_or(PictureError::DataUrl("has no comma before its data"))?;
    let (media_type, parameters) = header.split_once(';').unwrap_or((header, ""));
    let media_type = media_type.trim().to_ascii_lowercase();
    if media_type.strip_prefix("image/").is_none_or(str::is_empty) {
        return Err(PictureError::DataUrl("is of no picture"));
    }
    let encoding = parameters.rsplit(';').next().unwrap_or_default();
    if !encoding.trim().eq_ignore_ascii_case("base64") {
        return Err(PictureError::DataUrl("does not end its header in ;base64"));
    }
    match base64(data.as_bytes(), PictureError::DataUrl)? {
        bytes if bytes.is_empty() => Err(PictureError::DataUrl("holds no bytes")),
        bytes => Ok(bytes),
    }
}

/// The bytes that a text encodes: by either alphabet, with white space anywhere, with or without padding, and with characters as a URL
/// escapes them.
pub(super) fn base64(text: &[u8], error: fn(&'static str) -> PictureError) -> Result<Vec<u8>, PictureError> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        let byte = match byte {
            b'%' => unescaped(rest.next(), rest.next()).ok_or(error("has a % that escapes nothing"))?,
            byte => byte,
        };
        match byte {
            b'-' => plain.push(b'+'),
            b'_' => plain.push(b'/'),
            byte if byte.is_ascii_whitespace() => {}
            byte => plain.push(byte),
        }
    }
    TOLERANT.decode(plain).map_err(|_| error("can't be decoded"))
}

fn unescaped(high: Option<&u8>, low: Option<&u8>) -> Option<u8> {
    let digit = |it: &u8| char::from(*it).to_digit(16);
    Some((digit(high?)? * 16 + digit(low?)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<&[u8], &str>) {
        assert!(is_data_url(url), "{url}");
        let found = data_url(url);
        match expected {
            Ok(bytes) => assert_eq!(found.expect("bytes"), bytes, "{url}"),
            Err(part) => {
                let error = found.expect_err("no bytes");
                assert!(error.code() == "image_data_url" && error.to_string().contains(part), "{url}: {error}");
            }
        }
    }

    /// `fb ff fe 00` is `+//+AA==`: it has both characters in which the alphabets differ, and padding.
    const BYTES: &[u8] = b"\xfb\xff\xfe\x00";

    #[test]
    fn a_data_url_is_read_in_every_legal_form() {
        check("data:image/png;base64,+//+AA==", Ok(BYTES));
        check("DATA:Image/PNG;BASE64,+//+AA==", Ok(BYTES));
        check(" data:image/png; charset=utf-8 ; base64,+//+AA==", Ok(BYTES));
        check("data:image/png;charset=utf-8;base64,+//+AA==", Ok(BYTES));
        check("data:image/png;name=a.png;charset=utf-8;base64,+//+AA==", Ok(BYTES));
        check("data:image/svg+xml;base64,+//+AA==", Ok(BYTES));
        check("data:image/png;base64,+//+\r\n AA==\n", Ok(BYTES));
        check("data:image/png;base64,%2B//%2bAA%3D%3d", Ok(BYTES));
        check("data:image/png;base64,+//+%0AAA==", Ok(BYTES));
        check("data:image/png;base64,-__-AA==", Ok(BYTES));
        check("data:image/png;base64,%2D%5F/+AA", Ok(BYTES));
        check("data:image/png;base64,+//+AA", Ok(BYTES));
        check("data:image/png;base64,+//+AA=", Ok(BYTES));
    }

    #[test]
    fn what_is_no_picture_in_base64_says_why() {
        check("data:image/png;base64", Err("no comma"));
        check("data:", Err("no comma"));
        check("data:image/png,+//+AA==", Err(";base64"));
        check("data:image/png;charset=utf-8,+//+AA==", Err(";base64"));
        check("data:image/png;base64;charset=utf-8,+//+AA==", Err(";base64"));
        check("data:text/plain;base64,+//+AA==", Err("no picture"));
        check("data:application/octet-stream;base64,+//+AA==", Err("no picture"));
        check("data:image/;base64,+//+AA==", Err("no picture"));
        check("data:;base64,+//+AA==", Err("no picture"));
        check("data:,+//+AA==", Err("no picture"));
        check("data:image/png;base64,", Err("no bytes"));
        check("data:image/png;base64,\n", Err("no bytes"));
        check("data:image/png;base64,====", Err("decoded"));
        check("data:image/png;base64,+//+A", Err("decoded"));
        check("data:image/png;base64,+//!AA==", Err("decoded"));
        check("data:image/png;base64,AA==AA==", Err("decoded"));
        check("data:image/png;base64,AA%2", Err("%"));
        check("data:image/png;base64,AA%zz", Err("%"));
        check("data:image/png;base64,AA\u{e9}A", Err("decoded"));
    }

    #[test]
    fn only_data_urls_are_taken_for_them() {
        for text in ["", "data", "http://a/data:", "iVBORw0KGgo", "d\u{e4}ta:x"] {
            assert!(!is_data_url(text), "{text}");
        }
    }
}
