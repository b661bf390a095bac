//! Distances between places, and the bounding rectangle of an area.

use heartline_party::SearchArea;

/// The mean radius of the earth.
pub(crate) const EARTH_METRES: f64 = 6_371_000.0;

/// How much larger a rectangle is than its area, against rounding: a tenth of a millimetre.
const SLACK_DEGREES: f64 = 1e-9;

/// A rectangle of latitudes and longitudes. Where `west` is above `east`, it lies across the date
/// line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rectangle {
    pub(crate) south: f64,
    pub(crate) north: f64,
    pub(crate) west: f64,
    pub(crate) east: f64,
}

impl Rectangle {
    /// The smallest rectangle around an area.
    pub(crate) fn around(area: &SearchArea) -> Self {
        let angle = (area.radius_metres / EARTH_METRES).clamp(0.0, std::f64::consts::PI);
        let reach = angle.to_degrees() + SLACK_DEGREES;
        let (south, north) = (area.latitude - reach, area.latitude + reach);
        if south <= -90.0 || north >= 90.0 {
            // The area contains a pole, and with it every longitude.
            return Self { south, north, west: -180.0, east: 180.0 };
        }
        // Where the area is widest it touches a meridian.
        let ratio = angle.sin() / area.latitude.to_radians().cos();
        let width = ratio.clamp(-1.0, 1.0).asin().to_degrees() + SLACK_DEGREES;
        let west = wrapped(area.longitude - width);
        let east = wrapped(area.longitude + width);
        Self { south, north, west, east }
    }

    /// Whether a longitude is in it.
    pub(crate) fn holds_longitude(&self, longitude: f64) -> bool {
        if self.west <= self.east {
            (self.west..=self.east).contains(&longitude)
        } else {
            longitude >= self.west || longitude <= self.east
        }
    }
}

/// The same longitude between the two sides of the date line.
fn wrapped(longitude: f64) -> f64 {
    if (-180.0..=180.0).contains(&longitude) {
        longitude
    } else {
        (longitude + 180.0).rem_euclid(360.0) - 180.0
    }
}

/// How far a place is from the middle of an area, along the ground (haversine).
pub(crate) fn distance_metres(area: &SearchArea, latitude: f64, longitude: f64) -> f64 {
    let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
    let cosines = area.latitude.to_radians().cos() * latitude.to_radians().cos();
    let chord = half(latitude - area.latitude) + cosines * half(longitude - area.longitude);
    2.0 * EARTH_METRES * chord.clamp(0.0, 1.0).sqrt().asin()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_distances_are_right() {
        let area = SearchArea { latitude: 52.5200, longitude: 13.4050, radius_metres: 0.0 };
        let paris = distance_metres(&area, 48.8566, 2.3522);
        assert!((paris - 877_460.0).abs() < 500.0, "{paris}");
        let opposite = distance_metres(&area, -52.5200, 13.4050 - 180.0);
        assert!((opposite - std::f64::consts::PI * EARTH_METRES).abs() < 1.0, "{opposite}");
        assert_eq!(distance_metres(&area, area.latitude, area.longitude), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_in_the_circle_is_in_its_rectangle(
            latitude in -90.0..=90.0_f64,
            longitude in -180.0..=180.0_f64,
            exponent in 0.0..7.5_f64,
            (angle, part) in (0.0..std::f64::consts::TAU, 0.0..1.0_f64),
        ) {
            let area = SearchArea { latitude, longitude, radius_metres: 10_f64.powf(exponent) };
            let reach = area.radius_metres / EARTH_METRES * part;
            let (sine, cosine) = latitude.to_radians().sin_cos();
            let there = (sine * reach.cos() + cosine * reach.sin() * angle.cos()).asin();
            let turn = f64::atan2(
                angle.sin() * reach.sin() * cosine,
                reach.cos() - sine * there.sin(),
            );
            let (there, turned) =
                (there.to_degrees(), wrapped(longitude + turn.to_degrees()));
            let rectangle = Rectangle::around(&area);
            // At a distance as small as rounding a place may be on either side.
            if distance_metres(&area, there, turned) < area.radius_metres {
                prop_assert!((rectangle.south..=rectangle.north).contains(&there));
                prop_assert!(rectangle.holds_longitude(turned), "{turned} in {rectangle:?}");
            }
        }
    }
}
