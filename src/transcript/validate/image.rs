//! The size of an image in pixels, from the head of its base64 text.

use std::iter;

/// Bytes that are looked through for the size. JPEG images keep a preview and colour tables before it.
const MOST_HEAD_BYTES: usize = 256 * 1024;

/// Width and height of a PNG, GIF, JPEG or WebP image; `None` where the text is none of them.
pub(in crate::transcript) fn pixels(base64: &str) -> Option<(u32, u32)> {
    let mut head = decoded(base64);
    let first: Vec<u8> = head.by_ref().take(30).collect();
    match first.as_slice() {
        [0x89, b'P', b'N', b'G', _, _, _, _, _, _, _, _, b'I', b'H', b'D', b'R', w @ .., _, _, _, _, _, _]
            if w.len() == 8 =>
        {
            Some((be(w.get(..4)?), be(w.get(4..)?)))
        }
        [b'G', b'I', b'F', b'8', _, _, w0, w1, h0, h1, ..] => Some((le(&[*w0, *w1]), le(&[*h0, *h1]))),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', b'V', b'P', b'8', rest @ ..] => webp(rest),
        [0xff, 0xd8, ..] => jpeg(first.iter().copied().skip(2).chain(head)),
        _ => None,
    }
}

fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
}

fn le(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
}

/// The three forms of WebP; `rest` begins at byte 15, the fourth letter of the first chunk's name.
fn webp(rest: &[u8]) -> Option<(u32, u32)> {
    match rest {
        [b' ', _, _, _, _, _, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1] => {
            Some((le(&[*w0, *w1]) & 0x3fff, le(&[*h0, *h1]) & 0x3fff))
        }
        [b'L', _, _, _, _, 0x2f, bits @ ..] => {
            let bits = le(bits.get(..4)?);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        [b'X', _, _, _, _, _, _, _, _, size @ ..] => Some((le(size.get(..3)?) + 1, le(size.get(3..6)?) + 1)),
        _ => None,
    }
}

/// Segment by segment to the frame header, which holds the size.
fn jpeg(mut bytes: impl Iterator<Item = u8>) -> Option<(u32, u32)> {
    loop {
        let marker = loop {
            if bytes.next()? == 0xff {
                let marker = bytes.by_ref().find(|byte| *byte != 0xff)?;
                if marker != 0 {
                    break marker;
                }
            }
        };
        match marker {
            // Start of scan, end of image: the size would have come before.
            0xd9 | 0xda => return None,
            // Markers without a segment.
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let length = (u32::from(bytes.next()?) << 8) | u32::from(bytes.next()?);
        // Frame headers, but for the three neighbours that are tables.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let frame: Vec<u8> = bytes.take(5).collect();
            return Some((be(frame.get(3..5)?), be(frame.get(1..3)?)));
        }
        let rest = usize::try_from(length).ok()?.checked_sub(2)?;
        if rest > 0 {
            bytes.nth(rest - 1)?;
        }
    }
}

/// The first bytes of a base64 text, up to its padding or what is no base64.
fn decoded(base64: &str) -> impl Iterator<Item = u8> {
    let mut sextets = base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).map_while(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bits, mut held) = (0u32, 0u32);
    iter::from_fn(move || {
        while held < 8 {
            bits = ((bits << 6) | u32::from(sextets.next()?)) & 0xffff;
            held += 6;
        }
        held -= 8;
        u8::try_from((bits >> held) & 0xff).ok()
    })
    .take(MOST_HEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::pixels;

    #[test]
    fn the_size_is_read_from_the_head_of_each_format() {
        let heads = [
            ("png", "iVBORw0KGgoAAAANSUhEUgAAASwAAADICAYAAAAAAAAA"),
            ("gif", "R0lGODlhLAHIAPcAAA=="),
            (
                "jpeg, behind two segments and a fill byte",
                "/9j/4AAQSkZJRgABAQAAAQABAAD/2wATAAAAAAAAAAAAAAAAAAAAAAD//8IAEQgAyAEsAwAAAAAAAAAAAA==",
            ),
            ("webp, lossy", "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASosAcgANCU="),
            ("webp, lossless", "UklGRiQAAABXRUJQVlA4TBgAAAAvK8ExAAAAAAAAAAAA"),
            ("webp, extended", "UklGRiQAAABXRUJQVlA4WAoAAAAQAAAAKwEAxwAAAAAAAA=="),
        ];
        for (format, base64) in heads {
            assert_eq!(pixels(base64), Some((300, 200)), "{format}");
        }
    }

    #[test]
    fn what_is_cut_or_no_image_has_no_size() {
        let whole = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAAA";
        for end in 0..=whole.len() {
            assert_eq!(pixels(whole.split_at(end).0), None, "{end} characters of a JPEG");
        }
        for text in ["", "=", "iVBORw0KGgo=", "UklGRiQAAABXRUJQ", "a text — no base64", "/9j/wgAA", "/9j/2gAA"] {
            assert_eq!(pixels(text), None, "{text}");
        }
    }
}
