//! Distances between places, and the bounding rectangle of a circle.

use heartline_party::Circle;

/// The mean radius of the earth.
pub(crate) const EARTH_METRES: f64 = 6_371_000.0;

/// How much larger a rectangle is than its circle, against rounding: a tenth of a millimetre.
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
    /// The smallest rectangle around a circle.
    pub(crate) fn around(circle: &Circle) -> Self {
        let angle = (circle.radius_metres / EARTH_METRES).clamp(0.0, std::f64::consts::PI);
        let reach = angle.to_degrees() + SLACK_DEGREES;
        let (south, north) = (circle.latitude - reach, circle.latitude + reach);
        if south <= -90.0 || north >= 90.0 {
            // The circle contains a pole, and with it every longitude.
            return Self { south, north, west: -180.0, east: 180.0 };
        }
        // Where the circle is widest it touches a meridian.
        let ratio = angle.sin() / circle.latitude.to_radians().cos();
        let width = ratio.clamp(-1.0, 1.0).asin().to_degrees() + SLACK_DEGREES;
        let west = wrapped(circle.longitude - width);
        let east = wrapped(circle.longitude + width);
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

/// How far a place is from the middle of a circle, along the ground (haversine).
pub(crate) fn distance_metres(circle: &Circle, latitude: f64, longitude: f64) -> f64 {
    let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
    let cosines = circle.latitude.to_radians().cos() * latitude.to_radians().cos();
    let chord = half(latitude - circle.latitude) + cosines * half(longitude - circle.longitude);
    2.0 * EARTH_METRES * chord.clamp(0.0, 1.0).sqrt().asin()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_distances_are_right() {
        let circle = Circle { latitude: 52.5200, longitude: 13.4050, radius_metres: 0.0 };
        let paris = distance_metres(&circle, 48.8566, 2.3522);
        assert!((paris - 877_460.0).abs() < 500.0, "{paris}");
        let opposite = distance_metres(&circle, -52.5200, 13.4050 - 180.0);
        assert!((opposite - std::f64::consts::PI * EARTH_METRES).abs() < 1.0, "{opposite}");
        assert_eq!(distance_metres(&circle, circle.latitude, circle.longitude), 0.0);
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
            let circle = Circle { latitude, longitude, radius_metres: 10_f64.powf(exponent) };
            let reach = circle.radius_metres / EARTH_METRES * part;
            let (sine, cosine) = latitude.to_radians().sin_cos();
            let there = (sine * reach.cos() + cosine * reach.sin() * angle.cos()).asin();
            let turn = f64::atan2(
                angle.sin() * reach.sin() * cosine,
                reach.cos() - sine * there.sin(),
            );
            let (there, turned) =
                (there.to_degrees(), wrapped(longitude + turn.to_degrees()));
            let rectangle = Rectangle::around(&circle);
            // At a distance as small as rounding a place may be on either side.
            if distance_metres(&circle, there, turned) < circle.radius_metres {
                prop_assert!((rectangle.south..=rectangle.north).contains(&there));
                prop_assert!(rectangle.holds_longitude(turned), "{turned} in {rectangle:?}");
            }
        }
    }
}
