//! The hashes by which two copies of a session are compared.
//!
//! **State hash**, version 1: the item uuids sorted by UTF-16 code units and joined by `,`, then
//! `|`, then the current item's uuid or `null`; FNV-1a of 32 bits over the UTF-16 code units of
//! that text, each xored whole; eight hex digits. The hash does not depend on order, mirroring or
//! content, and stays unchanged because existing clients compute it.
//!
//! **Order hash**: the [content hashes](content_hash) of the items in the order of the queue,
//! joined by `,`, then `|`, then the content hash of the current item or `null`; FNV-1a of 64 bits
//! over the UTF-16 code units of that text; sixteen hex digits. The hash depends on everything
//! that a member can see.
//!
//! **Content hash** of an item: FNV-1a of 64 bits over the UTF-16 code units of its
//! [canonical JSON](crate::value::canonical), holding the fields of the schema that are not null
//! (so without `__typename`); sixteen hex digits. The prime of 64 bits is 2^40 + 0x1b3, so that a
//! browser multiplies two halves of 32 bits and needs no big integers: `low * 0x1b3`, and `high *
//! 0x1b3 + low * 256 + carry`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::item::Item;

/// The start value of FNV-1a of 64 bits.
const FNV_64_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

macro_rules! hex_hash {
    ($(#[$doc:meta])* $name:ident, $number:ty, $digits:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!("{:0", $digits, "x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <$number>::from_str_radix(text, 16).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

hex_hash!(
    /// The hash of the set of items and of the current one; eight hex digits.
    StateHash, u32, "8"
);
hex_hash!(
    /// The hash of the items in order with their content; sixteen hex digits.
    OrderHash, u64, "16"
);
hex_hash!(
    /// The hash of the content of one item; sixteen hex digits.
    ContentHash, u64, "16"
);

/// The state hash of a queue.
pub fn state_hash(queue: &[Item], current: Option<&Item>) -> StateHash {
    let uuids = queue.iter().map(Item::uuid).collect();
    let current = current.map(Item::uuid).filter(|uuid| !uuid.is_empty());
    StateHash(state_hash_of_uuids(uuids, current))
}

/// The order hash of a queue.
pub fn order_hash(queue: &[Item], current: Option<&Item>) -> OrderHash {
    // The text is not built in memory, because a long queue is hashed with every edit.
    let mut hash = FNV_64_BASIS;
    for (index, item) in queue.iter().enumerate() {
        if index > 0 {
            hash = fnv_1a_64_step(hash, u16::from(b','));
        }
        hash = fnv_1a_64_hex(hash, item.content_hash());
    }
    hash = fnv_1a_64_step(hash, u16::from(b'|'));
    OrderHash(match current {
        Some(item) => fnv_1a_64_hex(hash, item.content_hash()),
        None => "null".encode_utf16().fold(hash, fnv_1a_64_step),
    })
}

/// Continues a hash with the sixteen hex digits of a content hash.
fn fnv_1a_64_hex(hash: u64, content: ContentHash) -> u64 {
    let digits = (0..16).rev().map(|digit| (content.0 >> (4 * digit) & 0xf) as usize);
    digits.fold(hash, |hash, digit| fnv_1a_64_step(hash, u16::from(b"0123456789abcdef"[digit])))
}

/// The content hash of an item's canonical JSON.
pub fn content_hash(canonical_json: &str) -> ContentHash {
    ContentHash(fnv_1a_64(canonical_json))
}

fn state_hash_of_uuids(mut uuids: Vec<&str>, current: Option<&str>) -> u32 {
    // ASCII text has the same order by bytes as by code units, and bytes are faster.
    if uuids.iter().all(|uuid| uuid.is_ascii()) {
        uuids.sort_unstable();
    } else {
        uuids.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
    }
    fnv_1a_32(&format!("{}|{}", uuids.join(","), current.unwrap_or("null")))
}

fn fnv_1a_32(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0x811c_9dc5, |hash: u32, unit| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193))
}

fn fnv_1a_64(text: &str) -> u64 {
    text.encode_utf16().fold(FNV_64_BASIS, fnv_1a_64_step)
}

fn fnv_1a_64_step(hash: u64, unit: u16) -> u64 {
    (hash ^ u64::from(unit)).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-222222222222";

    #[test]
    fn the_state_hash_has_the_values_that_existing_clients_compute() {
        let vectors: [(&[&str], Option<&str>, &str); 9] = [
            (&[], None, "995eb8de"),
            (&["a"], None, "063c64dd"),
            (&["b", "a"], None, "5bffd8ef"),
            (&["a", "b"], Some("a"), "5c186dfd"),
            (&["a", "b"], Some("b"), "59186944"),
            (&[ONE], None, "5071dffc"),
            (&[], Some(ONE), "c634a481"),
            (&[TWO, ONE], None, "a1b23e22"),
            (&[ONE, TWO], Some(TWO), "ba2eaffb"),
        ];
        for (uuids, current, expected) in vectors {
            let hash = StateHash(state_hash_of_uuids(uuids.to_vec(), current));
            assert_eq!(hash.to_string(), expected, "{uuids:?} {current:?}");
        }
    }

    #[test]
    fn fnv_has_its_published_values() {
        assert_eq!(fnv_1a_32(""), 0x811c_9dc5);
        assert_eq!(fnv_1a_32("a"), 0xe40c_292c);
        assert_eq!(fnv_1a_32("foobar"), 0xbf9c_f968);
        assert_eq!(fnv_1a_64(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a_64("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a_64("foobar"), 0x8594_4171_f739_67e8);
    }

    /// The expected values were computed in JavaScript, from the definitions above.
    #[test]
    fn the_content_and_order_hashes_are_those_that_a_browser_computes() {
        let item = |number: u32, mirrored: Option<bool>| -> Item {
            let json = serde_json::json!({
                "uuid": format!("{number:08x}-0000-4000-8000-000000000000"),
                "climb": {
                    "uuid": format!("climb{number}"),
                    "setter_username": "setter",
                    "name": format!("Cl\u{ed}mb \u{1f600} {number}"),
                    "description": "a\n\"b\"\u{1}",
                    "frames": "p1r12",
                    "angle": 40,
                    "ascensionist_count": 3,
                    "difficulty": "6a/V3",
                    "quality_average": "2.5",
                    "stars": 3.0,
                    "difficulty_error": "0.1",
                    "litUpHoldsMap": {
                        "12": { "state": "HAND", "size": 1e21 },
                        "2": [null, 0.1, -0.0, 1e-7],
                    },
                    "mirrored": mirrored,
                },
                "addedBy": null,
                "suggested": true,
            });
            serde_json::from_value(json).unwrap()
        };
        let queue = [item(1, Some(true)), item(2, None)];
        assert_eq!(queue[0].content_hash().to_string(), "006fe51a1a919880");
        assert_eq!(queue[1].content_hash().to_string(), "9754846f80ef13e7");
        assert_eq!(order_hash(&queue, Some(&queue[0])).to_string(), "bd126ccd427cd4bb");
        assert_eq!(order_hash(&[], None).to_string(), "d7b63251b9f519be");
    }

    #[test]
    fn a_hash_survives_its_text_form() {
        let hash = OrderHash(0x0012_3456_789a_bcde);
        assert_eq!(hash.to_string(), "00123456789abcde");
        assert_eq!(hash.to_string().parse::<OrderHash>().unwrap(), hash);
    }

    #[test]
    fn text_beyond_ascii_is_sorted_and_hashed_by_code_units() {
        let (emoji, tilde) = ("\u{1f600}", "\u{ff5e}");
        assert_eq!(
            state_hash_of_uuids(vec![tilde, emoji], None),
            fnv_1a_32(&format!("{emoji},{tilde}|null")),
        );
    }
}
