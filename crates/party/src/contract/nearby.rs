//! The promises of every archive about searches by place.

use heartline_runtime::Random;

use super::archive::{ArchiveContract, discovered};
use crate::room::archive::{Archived, Discovered, SearchArea};
use crate::value::session::{Details, Status};

/// More sessions than any run creates.
const ALL: usize = 100_000;

/// Metres of one degree along a meridian, on a ball as large as the earth.
const DEGREE_METRES: f64 = 6_371_000.0 * std::f64::consts::PI / 180.0;

impl ArchiveContract<'_> {
    /// Proves that sessions in an area are found, everywhere on the earth.
    pub async fn prove_nearby(&self) {
        self.sessions_in_an_area_are_found_the_nearest_first().await;
        self.hidden_and_ended_sessions_are_not_found().await;
        self.areas_cross_the_date_line_and_the_poles().await;
    }

    fn at(&self, latitude: f64, longitude: f64) -> Archived {
        let (latitude, longitude) = (Some(latitude), Some(longitude));
        let details = Details { discoverable: true, latitude, longitude, ..Details::default() };
        self.session(1, details)
    }

    /// The ones of these sessions that are in an area, with their distances.
    async fn nearby(&self, area: SearchArea, ours: &[&Archived]) -> Vec<Discovered> {
        let mut found = self.archive.nearby(area, ALL).await.expect("the archive works");
        found.retain(|found| ours.iter().any(|our| our.session_id == found.session_id));
        found
    }

    async fn sessions_in_an_area_are_found_the_nearest_first(&self) {
        // A random place, so that many runs on one engine do not affect each other.
        let (latitude, longitude) = (
            Random::system().draw_within(-60.0..60.0),
            Random::system().draw_within(-170.0..170.0),
        );
        let north = |metres: f64| self.at(latitude + metres / DEGREE_METRES, longitude);
        let [middle, near, far, away] = [0.0, 300.0, 499.0, 501.0].map(north);
        let east_degrees = 400.0 / DEGREE_METRES / f64::to_radians(latitude).cos();
        let east = self.at(latitude, longitude + east_degrees);
        // In the corner of the square around the area, but not in the area itself.
        let corner = self.at(latitude + 400.0 / DEGREE_METRES, longitude + east_degrees);
        let all = [&far, &away, &near, &corner, &middle, &east];
        self.put(&all).await;
        let area = SearchArea { latitude, longitude, radius_metres: 500.0 };
        let found = self.nearby(area, &all).await;
        let expected = [(&middle, 0.0), (&near, 300.0), (&east, 400.0), (&far, 499.0)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, (session, metres)) in found.iter().zip(expected) {
            let distance = found.distance_metres.expect("a search by place has distances");
            assert!((distance - metres).abs() < 0.5, "{distance} where {metres} was expected");
            assert_eq!(*found, discovered(session, Some(distance)));
        }
        let few = self.archive.nearby(area, 2).await.expect("the archive works");
        assert_eq!(few, found[..2], "the limit holds");
        let point = SearchArea { radius_metres: 0.0, ..area };
        assert_eq!(self.nearby(point, &all).await.len(), 1);
    }

    async fn hidden_and_ended_sessions_are_not_found(&self) {
        let (latitude, longitude) = (
            Random::system().draw_within(-60.0..60.0),
            Random::system().draw_within(-170.0..170.0),
        );
        let open = self.at(latitude, longitude);
        let ended = Archived { status: Status::Ended, ..self.at(latitude, longitude) };
        let mut hidden = self.at(latitude, longitude);
        hidden.details.discoverable = false;
        let mut nowhere = self.at(latitude, longitude);
        (nowhere.details.latitude, nowhere.details.longitude) = (None, None);
        let all = [&open, &ended, &hidden, &nowhere];
        self.put(&all).await;
        let area = SearchArea { latitude, longitude, radius_metres: 500.0 };
        let found = self.nearby(area, &all).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].session_id, open.session_id);
        let mut moved = self.at(latitude + 1.0, longitude);
        moved.session_id.clone_from(&open.session_id);
        moved.stored.revision.version = 2;
        self.put(&[&moved]).await;
        assert_eq!(self.nearby(area, &all).await, [], "it is elsewhere now");
    }

    async fn areas_cross_the_date_line_and_the_poles(&self) {
        let latitude = Random::system().draw_within(-60.0..60.0);
        let (west, east) = (self.at(latitude, 179.9999), self.at(latitude, -179.9999));
        let (pole, beyond) = (self.at(89.9999, 10.0), self.at(89.9999, -170.0));
        let all = [&west, &east, &pole, &beyond];
        self.put(&all).await;
        for longitude in [179.9999, -179.9999, 180.0, -180.0] {
            let area = SearchArea { latitude, longitude, radius_metres: 100.0 };
            assert_eq!(self.nearby(area, &all).await.len(), 2, "around {longitude}");
        }
        let area = SearchArea { latitude: 89.9999, longitude: 10.0, radius_metres: 100.0 };
        let found = self.nearby(area, &all).await;
        assert_eq!(found.len(), 2, "over the pole it is near: {found:?}");
        let whole = SearchArea { latitude: 0.0, longitude: 0.0, radius_metres: 30_000_000.0 };
        assert_eq!(self.nearby(whole, &all).await.len(), 4, "an area may be the whole earth");
    }
}
