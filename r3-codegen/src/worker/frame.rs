//! Frames: a length (four bytes, little endian) and a postcard value. What passes between a program and its workers.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame. Archives hold modules of some ten MiB.
pub const MAX_FRAME: usize = 1 << 30;

/// A value as a frame.
pub fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let len = frame.len() - 4;
    if len > MAX_FRAME {
        return Err(io::Error::other(format!(
            "{len} bytes are more than the {MAX_FRAME} that pass between processes"
        )));
    }
    let mut frame = frame;
    if let Some(head) = frame.first_chunk_mut::<4>() {
        *head = u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    }
    Ok(frame)
}

/// The first whole frame in `bytes`: its value and the bytes it takes. `None` when more bytes are needed.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<Option<(T, usize)>> {
    let Some(head) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = length(*head)?;
    let Some(body) = bytes.get(4..4 + len) else {
        return Ok(None);
    };
    Ok(Some((value(body)?, 4 + len)))
}

/// Reads one frame. `None` at the end of the stream.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; 4];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let len = length(head)?;
    // Bytes are taken as they come: a length alone allocates nothing.
    let mut body = Vec::new();
    if from.by_ref().take(len as u64).read_to_end(&mut body)? != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    value(&body).map(Some)
}

/// Writes one frame.
pub fn write<T: Serialize>(to: &mut impl Write, value: &T) -> io::Result<()> {
    to.write_all(&encode(value)?)?;
    to.flush()
}

fn length(head: [u8; 4]) -> io::Result<usize> {
    let len = u32::from_le_bytes(head) as usize;
    if len > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {len} bytes: this is not the protocol of workers"),
        ));
    }
    Ok(len)
}

fn value<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} bytes too many in a frame", rest.len()),
        )),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Failure, FailureKind, Stage};
    use crate::worker::protocol::{Answer, Message};

    fn answer() -> Message {
        Message::Answer(Box::new(Answer {
            result: Err(Failure {
                stage: Stage::Passes,
                kind: FailureKind::Refused,
                message: "unknown pass".into(),
                log: String::new(),
            }),
            resident: 70 << 20,
            retire: false,
        }))
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = encode(&Message::Enter(Stage::Emit)).unwrap();
        bytes.extend(encode(&answer()).unwrap());
        for cut in 0..bytes.len() {
            let mut seen = Vec::new();
            let mut held = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                held.extend_from_slice(part);
                while let Some((message, used)) = decode::<Message>(&held).unwrap() {
                    held.drain(..used);
                    seen.push(message);
                }
            }
            assert_eq!(seen, [Message::Enter(Stage::Emit), answer()]);
            assert!(held.is_empty());
        }
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_an_error_and_between_frames_is_not() {
        let bytes = encode(&answer()).unwrap();
        assert!(read::<Message>(&mut &bytes[..0]).unwrap().is_none());
        assert_eq!(read::<Message>(&mut &bytes[..]).unwrap(), Some(answer()));
        for cut in 1..bytes.len() {
            assert!(read::<Message>(&mut &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_more_than_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            _ = decode::<Message>(&bytes);
            _ = read::<Message>(&mut &bytes[..]);
            // Behind a length that is right.
            let mut frame = (bytes.len() as u32).to_le_bytes().to_vec();
            frame.extend_from_slice(&bytes);
            _ = decode::<Message>(&frame);
        }
    }

    #[test]
    fn text_in_place_of_a_frame_is_refused() {
        assert!(decode::<Message>(b"LLVM ERROR: something").is_err());
        assert!(read::<Message>(&mut &b"LLVM ERROR: something"[..]).is_err());
    }
}
