use proptest::prelude::*;

use super::*;

const LIMITS: ReaderLimits = ReaderLimits { message_bytes: 1000, fragments: 4 };

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Incoming>, FrameError> {
    let mut reader = FrameReader::new(LIMITS);
    reader.feed(bytes);
    let mut all = Vec::new();
    while let Some(incoming) = reader.next()? {
        all.push(incoming);
    }
    Ok(all)
}

#[test]
fn a_message_in_fragments_with_a_ping_between_is_whole() {
    let bytes =
        [frame(0x01, b"hea"), frame(0x89, b"p"), frame(0x00, b"rt"), frame(0x80, b"line")].concat();
    let ping = Incoming::Ping(Bytes::from_static(b"p"));
    assert_eq!(read(&bytes), Ok(vec![ping, Incoming::Text("heartline".to_owned())]));
}

#[test]
fn each_violation_has_its_close_code() {
    let huge = [&[0x81, 0x80 | 127][..], &(1_u64 << 62).to_be_bytes()].concat();
    let highest_bit = [&[0x81, 0x80 | 127][..], &(1_u64 << 63).to_be_bytes()].concat();
    let many = std::iter::once(frame(0x01, b"")).chain((0..4).map(|_| frame(0x00, b"")));
    for (bytes, code) in [
        (vec![0x81, 0x01, b'x'], 1002),
        (frame(0xc1, b"x"), 1002),
        (frame(0x83, b"x"), 1002),
        (frame(0x8b, b"x"), 1002),
        (frame(0x89, &[0; 126]), 1002),
        (frame(0x09, b"x"), 1002),
        (frame(0x80, b"x"), 1002),
        ([frame(0x01, b"x"), frame(0x81, b"y")].concat(), 1002),
        (frame(0x88, &[3]), 1002),
        (frame(0x88, &1005_u16.to_be_bytes()), 1002),
        (frame(0x88, &5000_u16.to_be_bytes()), 1002),
        (many.collect::<Vec<_>>().concat(), 1002),
        (highest_bit, 1002),
        (frame(0x81, &[0xff, 0xfe]), 1007),
        ([frame(0x01, &[0xc3]), frame(0x80, &[0x28])].concat(), 1007),
        (frame(0x88, &[0x03, 0xe8, 0xff]), 1007),
        (frame(0x81, &[b'x'; 1001]), 1009),
        ([frame(0x01, &[b'x'; 600]), frame(0x80, &[b'x'; 600])].concat(), 1009),
        (huge, 1009),
    ] {
        assert_eq!(read(&bytes).map_err(FrameError::close_code), Err(code), "{bytes:?}");
    }
}

#[test]
fn an_oversized_frame_is_refused_by_its_header_alone() {
    let mut reader = FrameReader::new(LIMITS);
    reader.feed(&[0x81, 0x80 | 126, 0xff, 0xff]);
    assert_eq!(reader.next(), Err(FrameError::TooLarge));
}

#[test]
fn no_buffer_is_held_once_all_is_read() {
    let mut reader = FrameReader::new(LIMITS);
    reader.feed(&frame(0x81, b"hello"));
    assert!(matches!(reader.next(), Ok(Some(Incoming::Text(_)))));
    assert_eq!(reader.next(), Ok(None));
    assert_eq!((reader.buffered(), reader.pending.capacity()), (0, 0));
}

proptest! {
    #[test]
    fn the_sizes_of_reads_do_not_matter(
        texts in prop::collection::vec("\\PC{0,40}", 1..6),
        cuts in prop::collection::vec(1_usize..9, 1..200),
    ) {
        let bytes: Vec<u8> = texts.iter().flat_map(|text| frame(0x81, text.as_bytes())).collect();
        let mut reader = FrameReader::new(LIMITS);
        let (mut read, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            reader.feed(now);
            rest = later;
            while let Some(incoming) = reader.next().unwrap() {
                read.push(incoming);
            }
        }
        let expected: Vec<Incoming> = texts.into_iter().map(Incoming::Text).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn no_bytes_cause_a_panic_or_a_buffer_over_the_limit(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let mut reader = FrameReader::new(LIMITS);
        for chunk in bytes.chunks(64) {
            reader.feed(chunk);
            loop {
                match reader.next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
            prop_assert!(reader.buffered() <= 2 * LIMITS.message_bytes + 14);
        }
    }
}
